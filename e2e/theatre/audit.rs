//! What the API server's audit log says about the daemon, which has a user of its own.

use std::{collections::BTreeMap, fs, path::Path};

use jiff::Timestamp;
use serde_json::Value;

/// The user that the daemon acts as: its service account, with the rights its own manifests give it.
pub const DAEMON: &str = "system:serviceaccount:openshift-cluster-version:cluster-version-operator";

/// One request of the daemon.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    pub at: Timestamp,
    pub verb: String,
    /// With the subresource, if any: `clusterversions/status`.
    pub resource: String,
    pub namespace: String,
    pub name: String,
    /// HTTP status of the answer.
    pub code: u64,
}

impl Request {
    /// Whether it was to change something, and did.
    pub fn wrote(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str()) && self.code < 300
    }

    /// A write of the daemon's own bookkeeping: lease, status, progress record, and what it tells by events.
    pub fn is_bookkeeping(&self) -> bool {
        matches!(self.resource.as_str(), "leases" | "clusterversions/status" | "events")
            || self.name == "cluster-version-progress"
    }
}

/// All requests of the daemon that have been answered, in the order of their arrival.
pub fn requests(log: &Path) -> Vec<Request> {
    let text = fs::read_to_string(log).unwrap();
    // The last line may still be in the writing.
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut requests: Vec<Request> = events.filter_map(|event| request(&event)).collect();
    requests.sort_by_key(|request| request.at);
    requests
}

/// Writes that are no bookkeeping.
pub fn writes(log: &Path) -> Vec<Request> {
    requests(log).into_iter().filter(|request| request.wrote() && !request.is_bookkeeping()).collect()
}

fn request(event: &Value) -> Option<Request> {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned();
    if text("/impersonatedUser/username") != DAEMON || text("/stage") != "ResponseComplete" {
        // A watch is complete only when it ends, so its start counts.
        if text("/impersonatedUser/username") != DAEMON
            || text("/verb") != "watch"
            || text("/stage") != "ResponseStarted"
        {
            return None;
        }
    }
    let (resource, subresource) = (text("/objectRef/resource"), text("/objectRef/subresource"));
    let resource = if subresource.is_empty() { resource } else { format!("{resource}/{subresource}") };
    Some(Request {
        at: text("/requestReceivedTimestamp").parse().ok()?,
        verb: text("/verb"),
        resource,
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        code: event.pointer("/responseStatus/code").and_then(Value::as_u64)?,
    })
}

/// The API server's own count of requests that write, by verb and resource (`PUT deployments/status`), refused ones
/// left out.
pub async fn write_counts(client: &kube::Client) -> BTreeMap<String, u64> {
    let request = http::Request::get("/metrics").body(Vec::new()).unwrap();
    let text = client.request_text(request).await.unwrap();
    let mut counts = BTreeMap::new();
    for line in text.lines().filter(|line| line.starts_with("apiserver_request_total{")) {
        let (labels, value) = line.rsplit_once(' ').unwrap();
        let label = |name: &str| {
            let (_, rest) = labels.split_once(&format!("{name}=\"")).unwrap();
            rest.split_once('"').unwrap().0
        };
        let written =
            ["POST", "PUT", "PATCH", "APPLY", "DELETE"].contains(&label("verb")) && label("code").starts_with('2');
        if written {
            let slash = if label("subresource").is_empty() { "" } else { "/" };
            let key = format!("{} {}{slash}{}", label("verb"), label(",resource"), label("subresource"));
            *counts.entry(key).or_default() += value.parse::<f64>().unwrap() as u64;
        }
    }
    counts
}
