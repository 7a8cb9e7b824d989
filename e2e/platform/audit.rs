//! What the API server's audit log says: who wrote what, and when.

use std::fs;

use anyhow::Context;
use cvo::api;
use jiff::Timestamp;
use serde_json::Value;

use crate::harness::Cluster;

/// One request that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Write {
    pub at: Timestamp,
    /// `create`, `update`, `patch` or `delete`.
    pub verb: String,
    pub resource: String,
    /// Empty unless it went to a subresource.
    pub subresource: String,
    pub namespace: String,
    pub name: String,
    /// Name of the pod whose token was shown.
    pub pod: String,
}

/// The daemon's writes so far, in the order of the log (`Options::audit`).
pub fn writes_of_the_daemon(cluster: &Cluster) -> anyhow::Result<Vec<Write>> {
    let path = cluster.audit_log();
    let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let user = format!("system:serviceaccount:{}:{}", api::NAMESPACE, api::OWN_DEPLOYMENT);
    let events = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    Ok(events
        .filter(|event| event.pointer("/user/username") == Some(&Value::from(user.as_str())))
        .filter_map(write)
        .collect())
}

fn write(event: Value) -> Option<Write> {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    let done = event.pointer("/responseStatus/code").and_then(Value::as_u64).is_some_and(|code| code < 300);
    let verb = text("/verb");
    (done && ["create", "update", "patch", "delete"].contains(&verb.as_str())).then_some(())?;
    Some(Write {
        at: text("/requestReceivedTimestamp").parse().ok()?,
        verb,
        resource: text("/objectRef/resource"),
        subresource: text("/objectRef/subresource"),
        namespace: text("/objectRef/namespace"),
        name: text("/objectRef/name"),
        pod: text("/user/extra/authentication.kubernetes.io~1pod-name/0"),
    })
}
