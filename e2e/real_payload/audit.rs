//! Counts a user's requests in the API server's audit log.

use jiff::Timestamp;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::ops::Range;
use std::path::Path;

/// One request.
#[derive(Clone, Debug)]
pub struct Request {
    pub at: Timestamp,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`.
    pub verb: String,
    /// `group/resource/subresource namespace/name`, or the path where it is about no resource.
    pub object: String,
    pub code: u16,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Event {
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    object_ref: Option<ObjectRef>,
    response_status: Code,
    request_received_timestamp: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Code {
    code: u16,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct ObjectRef {
    resource: String,
    namespace: String,
    name: String,
    api_group: String,
    subresource: String,
}

/// The user's requests in the order of the log, a watch once: when it began.
pub fn requests(log: &Path, user: &str) -> std::io::Result<Vec<Request>> {
    let mut found = Vec::new();
    for line in BufReader::new(File::open(log)?).lines() {
        // The last line may be half written.
        let Ok(event) = serde_json::from_str::<Event>(&line?) else { continue };
        let counts = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        if event.user.username != user || event.stage != counts {
            continue;
        }
        let Some(at) = event.request_received_timestamp else { continue };
        let object = match event.object_ref {
            Some(o) => format!("{}/{}/{} {}/{}", o.api_group, o.resource, o.subresource, o.namespace, o.name),
            None => event.request_uri,
        };
        found.push(Request { at, verb: event.verb, object, code: event.response_status.code });
    }
    Ok(found)
}

/// Those of a stretch of time.
pub fn within(requests: &[Request], time: Range<Timestamp>) -> Vec<Request> {
    requests.iter().filter(|r| time.contains(&r.at)).cloned().collect()
}

/// Number by verb.
pub fn by_verb(requests: &[Request]) -> BTreeMap<&str, usize> {
    let mut count = BTreeMap::new();
    for request in requests {
        *count.entry(request.verb.as_str()).or_default() += 1;
    }
    count
}

/// Writes to anything but what a daemon writes of itself: its status, lease, progress record and events.
pub fn writes(requests: &[Request]) -> Vec<&Request> {
    let own = [
        "config.openshift.io/clusterversions/status ",
        "coordination.k8s.io/leases/ ",
        "/configmaps/ openshift-cluster-version/cluster-version-progress",
        "/events/ ",
        "events.k8s.io/events/ ",
    ];
    let is_write = |r: &&Request| !matches!(r.verb.as_str(), "get" | "list" | "watch");
    requests.iter().filter(is_write).filter(|r| !own.iter().any(|prefix| r.object.starts_with(prefix))).collect()
}
