//! The API server's audit log (`Options::audit`): who requested what, when, and with which result.

use std::{
    collections::BTreeMap,
    fs::File,
    io::{self, BufRead, BufReader},
    ops::Range,
    path::Path,
};

use jiff::{SignedDuration, Timestamp};
use serde::Deserialize;
use serde_json::Value;

/// The group of an impersonated user that stands for a pod: processes without a token of a pod are told apart by it.
pub fn pod_group(pod: &str) -> String {
    format!("{POD_GROUP}{pod}")
}

const POD_GROUP: &str = "lab:pod:";

/// One request that was answered, or a watch that has begun. Some requests are listed without an answer (see the audit
/// policy).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Request {
    /// When it arrived.
    pub at: Timestamp,
    /// Until it was answered, or a watch began.
    pub took: SignedDuration,
    /// Who sent it, or the impersonated user.
    pub user: String,
    /// Name of the pod whose token authenticated the request, or that its group names (`pod_group`); else empty.
    pub pod: String,
    /// `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
    pub verb: String,
    /// Path and query.
    pub uri: String,
    pub group: String,
    /// Plural name; empty for requests without a resource (`/version`).
    pub resource: String,
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// HTTP status of the answer; 0 while there is none, and for ever if the server was killed.
    pub code: u16,
    /// Whether it gave a lease back. Known of the leases of the daemons, whose content is logged.
    pub released: bool,
}

impl Request {
    /// Whether its verb changes objects.
    pub fn is_write(&self) -> bool {
        ["create", "update", "patch", "delete", "deletecollection"].contains(&self.verb.as_str())
    }

    /// What it did to the object: its verb, except that an apply creates or updates.
    pub fn effect(&self) -> &str {
        match (self.verb.as_str(), self.code) {
            ("patch", 201) => "create",
            ("patch", _) => "update",
            (verb, _) => verb,
        }
    }

    /// Whether it changed something successfully. What is only tried (`dryRun=All`), as the tools try the writes of the daemon, changes
    /// nothing.
    pub fn wrote(&self) -> bool {
        self.is_write() && (200..300).contains(&self.code) && !self.uri.contains("dryRun=All")
    }

    /// With the subresource, if any: `clusterversions/status`.
    pub fn resource_path(&self) -> String {
        let slash = if self.subresource.is_empty() { "" } else { "/" };
        format!("{}{slash}{}", self.resource, self.subresource)
    }

    /// `group/resource/subresource namespace/name`, or the path of a request without a resource.
    pub fn object(&self) -> String {
        if self.resource.is_empty() {
            return self.uri.clone();
        }
        format!("{}/{}/{} {}/{}", self.group, self.resource, self.subresource, self.namespace, self.name)
    }
}

/// All requests in the order of their arrival. A watch is listed once, when it began. A line that says something else than
/// is expected here is an error: whoever counts requests would take them for fewer.
pub fn everything(log: &Path) -> std::io::Result<Vec<Request>> {
    read(BufReader::new(File::open(log)?), |_| true)
}

/// One user's requests.
pub fn requests(log: &Path, user: &str) -> std::io::Result<Vec<Request>> {
    read(BufReader::new(File::open(log)?), |who| who == user)
}

fn read(mut log: impl BufRead, whose: impl Fn(&str) -> bool) -> io::Result<Vec<Request>> {
    let mut found = Vec::new();
    let mut unanswered = BTreeMap::new();
    let (mut line, mut number) = (Vec::new(), 0);
    loop {
        line.clear();
        log.read_until(b'\n', &mut line)?;
        // The last line may be half written.
        if line.last() != Some(&b'\n') {
            break;
        }
        number += 1;
        let unknown = |why: &str| {
            io::Error::other(format!("line {number} of the audit log: {why}: {}", String::from_utf8_lossy(&line)))
        };
        let event: Event = serde_json::from_slice(&line).map_err(|error| unknown(&error.to_string()))?;
        // A watch is complete only when it ends, so its beginning counts. For all others their end counts.
        let counts = if event.verb == "watch" { "ResponseStarted" } else { "ResponseComplete" };
        let (stage, id) = (event.stage.clone(), event.audit_id.clone());
        let request = event.request().ok_or_else(|| unknown("it does not say when the request arrived"))?;
        if !whose(&request.user) {
            continue;
        }
        if stage == counts {
            unanswered.remove(&id);
            found.push(request);
        } else if stage == "RequestReceived" {
            unanswered.insert(id, request);
        }
    }
    found.extend(unanswered.into_values());
    found.sort_by_key(|request| request.at);
    Ok(found)
}

/// Those that arrived within a time range.
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

/// The fields that are read of a line of the log.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Event {
    #[serde(rename = "auditID")]
    audit_id: String,
    stage: String,
    verb: String,
    #[serde(rename = "requestURI")]
    request_uri: String,
    user: User,
    impersonated_user: Option<User>,
    object_ref: ObjectRef,
    response_status: Code,
    /// The body, where it is logged.
    request_object: Value,
    request_received_timestamp: Option<Timestamp>,
    stage_timestamp: Option<Timestamp>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct User {
    username: String,
    groups: Vec<String>,
    extra: BTreeMap<String, Vec<String>>,
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

impl Event {
    fn request(mut self) -> Option<Request> {
        let mut pod = self.user.extra.remove("authentication.kubernetes.io/pod-name").unwrap_or_default();
        let groups = self.impersonated_user.iter().flat_map(|user| &user.groups);
        pod.extend(groups.filter_map(|group| group.strip_prefix(POD_GROUP)).map(str::to_owned));
        let at = self.request_received_timestamp?;
        Some(Request {
            at,
            took: self.stage_timestamp.map(|answered| answered.duration_since(at)).unwrap_or_default(),
            user: self.impersonated_user.unwrap_or(self.user).username,
            pod: pod.into_iter().next().unwrap_or_default(),
            verb: self.verb,
            uri: self.request_uri,
            group: self.object_ref.api_group,
            resource: self.object_ref.resource,
            subresource: self.object_ref.subresource,
            namespace: self.object_ref.namespace,
            name: self.object_ref.name,
            code: self.response_status.code,
            released: self.request_object.pointer("/spec/holderIdentity").is_some_and(|holder| holder == ""),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write;

    #[test]
    fn write_that_is_only_tried_changes_nothing() {
        let request = |query: &str| Request {
            verb: "update".to_owned(),
            code: 200,
            uri: format!("/apis/g/v1/things/a/status{query}"),
            ..Request::default()
        };
        assert!(request("?fieldManager=x").wrote() && !request("?dryRun=All&fieldManager=x").wrote());
    }

    fn line(stage: &str, verb: &str, rest: &str) -> String {
        format!(
            r#"{{"auditID":"{verb}","stage":"{stage}","verb":"{verb}","requestURI":"/u","requestReceivedTimestamp":"2026-01-01T00:00:0{}.5Z"{rest}}}"#,
            if verb == "get" { 1 } else { 2 }
        )
    }

    #[test]
    fn requests_are_in_order_of_arrival_and_watch_counts_once() {
        let mut log = String::new();
        let own = r#","user":{"username":"admin","extra":{"authentication.kubernetes.io/pod-name":["p"]}}"#;
        let acted = r#","user":{"username":"admin"},"impersonatedUser":{"username":"daemon"}"#;
        let object = r#","objectRef":{"resource":"deployments","namespace":"n","name":"d","apiGroup":"apps","subresource":"status"},"responseStatus":{"code":200}"#;
        for text in [
            line("RequestReceived", "update", acted),
            line("ResponseComplete", "update", &format!("{acted}{object}")),
            line("ResponseStarted", "watch", acted),
            line("ResponseComplete", "watch", acted),
            line("ResponseComplete", "get", own),
            line("RequestReceived", "patch", r#","user":{"username":"killed"}"#),
        ] {
            writeln!(log, "{text}").unwrap();
        }
        let whole = log.clone();
        write!(log, "{{\"stage\":\"Respon").unwrap();
        let all = read(log.as_bytes(), |_| true).unwrap();
        let seen: Vec<_> = all.iter().map(|r| (r.user.as_str(), r.verb.as_str(), r.pod.as_str())).collect();
        assert_eq!(
            seen,
            [("admin", "get", "p"), ("daemon", "update", ""), ("daemon", "watch", ""), ("killed", "patch", "")]
        );
        let daemon = read(log.as_bytes(), |who| who == "daemon").unwrap();
        assert_eq!(daemon, all[1..3]);
        assert_eq!(daemon[0].object(), "apps/deployments/status n/d");
        assert_eq!((daemon[0].resource_path().as_str(), daemon[0].wrote()), ("deployments/status", true));
        assert_eq!((all.iter().filter(|it| it.is_write()).count(), all[3].code, all[3].wrote()), (2, 0, false));
        // Elsewhere than at the end, whatever cannot be read is something that nobody may overlook.
        let bad = [r#"{"stage":"Respon"#, r#"{"stage":"ResponseComplete","verb":"get"}"#, r#"{"verb":["get"]}"#];
        for bad in bad {
            let error = read(format!("{whole}{bad}\n{whole}").as_bytes(), |_| true).unwrap_err().to_string();
            assert!(error.contains("line 7 of the audit log") && error.contains(bad), "{error}");
        }
    }
}
