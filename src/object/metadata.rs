//! Metadata of an object that is kept as JSON. What is missing or of the wrong type counts as absent.

use serde_json::Value;

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get("metadata").and_then(|metadata| metadata.get(key)?.as_str()).unwrap_or_default()
}

pub(crate) fn name(object: &Value) -> &str {
    text(object, "name")
}

pub(crate) fn uid(object: &Value) -> &str {
    text(object, "uid")
}

/// It is being deleted, and finalizers or its grace period keep it for now.
pub(crate) fn is_terminating(object: &Value) -> bool {
    object.pointer("/metadata/deletionTimestamp").is_some()
}
