//! What of an object leaves the cluster: only what is named here, so that nothing secret does by mistake.

use k8s_openapi::api::core::v1::{Event, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use regex::Regex;
use serde_json::{Value, json};
use std::borrow::Cow;
use std::sync::LazyLock;

/// Annotations that begin so are part of how nodes are configured; others can hold anything.
const ANNOTATIONS: [&str; 2] = ["machineconfiguration.openshift.io/", "release.openshift.io/"];

pub(super) fn metadata(metadata: &ObjectMeta) -> ObjectMeta {
    let known = |name: &str| ANNOTATIONS.iter().any(|prefix| name.starts_with(prefix));
    let annotations = metadata.annotations.iter().flatten().filter(|(name, _)| known(name));
    ObjectMeta {
        name: metadata.name.clone(),
        namespace: metadata.namespace.clone(),
        uid: metadata.uid.clone(),
        generation: metadata.generation,
        resource_version: metadata.resource_version.clone(),
        creation_timestamp: metadata.creation_timestamp.clone(),
        deletion_timestamp: metadata.deletion_timestamp.clone(),
        finalizers: metadata.finalizers.clone(),
        labels: metadata.labels.clone(),
        owner_references: metadata.owner_references.clone(),
        annotations: Some(annotations.map(|(name, value)| (name.clone(), value.clone())).collect()),
        ..ObjectMeta::default()
    }
}

pub(super) fn node(node: &Node) -> Value {
    let (spec, status) = (node.spec.clone().unwrap_or_default(), node.status.clone().unwrap_or_default());
    json!({
        "metadata": metadata(&node.metadata),
        "spec": {"unschedulable": spec.unschedulable, "taints": spec.taints},
        "status": {"conditions": status.conditions, "nodeInfo": status.node_info, "allocatable": status.allocatable},
    })
}

/// Without environment, arguments and commands.
pub(super) fn pod(pod: &Pod) -> Value {
    let spec = pod.spec.clone().unwrap_or_default();
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let containers: Vec<Value> = containers
        .map(|container| json!({"name": container.name, "image": container.image, "resources": container.resources}))
        .collect();
    json!({
        "metadata": metadata(&pod.metadata),
        "spec": {"nodeName": spec.node_name, "serviceAccountName": spec.service_account_name, "containers": containers},
        "status": pod.status,
    })
}

pub(super) fn event(event: &Event) -> Value {
    json!({
        "metadata": metadata(&event.metadata),
        "type": event.type_,
        "reason": event.reason,
        "message": event.message,
        "involvedObject": event.involved_object,
        "count": event.count,
        "firstTimestamp": event.first_timestamp,
        "lastTimestamp": event.last_timestamp,
        "eventTime": event.event_time,
        "reportingComponent": event.reporting_component,
    })
}

/// What stands for something secret.
const REPLACED: &str = "[removed]";

/// How secrets are named, in texts and as fields of JSON.
const NAMES: &str = "(?i:password|passwd|secret|token|api[-_]?key)";

/// A password in a URL, a token of HTTP, a JSON web token, a private key, a named secret.
static SECRETS: LazyLock<Option<Regex>> = LazyLock::new(|| {
    let named = format!(r"(?P<name>{NAMES}[\x22']?\s*[=:]\s*[\x22']?)[^\s\x22',;]+");
    let parts = [
        r"(?P<url>://)[^/@\s\x22\\]+@",
        r"(?P<scheme>(?i:bearer|basic)\s+)[A-Za-z0-9._~+/=-]{8,}",
        r"eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*",
        r"-----BEGIN [A-Z ]*PRIVATE KEY-----(?s:.*?)(?:-----END [A-Z ]*PRIVATE KEY-----|\z)",
        &named,
    ];
    Regex::new(&parts.join("|")).ok()
});

/// The text without what looks like a secret.
pub(super) fn text(text: &str) -> Cow<'_, str> {
    let Some(secrets) = SECRETS.as_ref() else { return Cow::Borrowed(REPLACED) };
    secrets.replace_all(text, |found: &regex::Captures<'_>| {
        let kept = |name: &str| found.name(name).map_or("", |part| part.as_str());
        let at = if found.name("url").is_some() { "@" } else { "" };
        format!("{}{}{}{REPLACED}{at}", kept("url"), kept("scheme"), kept("name"))
    })
}

/// The same for all texts of an object, also of one that is written as JSON in a text, as the progress record is: it can be
/// read afterwards.
pub(super) fn texts(value: &mut Value) {
    match value {
        Value::String(content) => match serde_json::from_str::<Value>(content) {
            Ok(mut inner @ (Value::Object(_) | Value::Array(_))) => {
                named(&mut inner);
                texts(&mut inner);
                *content = inner.to_string();
            }
            _ => *content = text(content).into_owned(),
        },
        Value::Array(items) => items.iter_mut().for_each(texts),
        Value::Object(fields) => fields.values_mut().for_each(texts),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

/// The name of a field that is secret.
static FIELDS: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(&format!("{NAMES}$")).ok());

/// Replaces texts in fields whose name says that they are secret. Our own objects have none; a text from elsewhere may.
fn named(value: &mut Value) {
    let secret = |name: &str| FIELDS.as_ref().is_none_or(|fields| fields.is_match(name));
    match value {
        Value::Object(fields) => fields.iter_mut().for_each(|(name, value)| match value {
            Value::String(content) if secret(name) => *content = REPLACED.to_owned(),
            value => named(value),
        }),
        Value::Array(items) => items.iter_mut().for_each(named),
        _ => {}
    }
}

#[cfg(test)]
mod tests;
