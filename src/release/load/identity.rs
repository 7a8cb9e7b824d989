//! The identity of a manifest, and the fields of any manifest that must be text.

use crate::object::manifest::ObjectId;
use serde_json::{Map, Value};
use std::collections::BTreeMap;

pub(super) type Identity = (ObjectId, String, BTreeMap<String, String>);

/// Identity, apiVersion and annotations of an object. Without them it cannot be decided whether a manifest is included, so
/// they must be valid in excluded ones as well.
pub(super) fn identify(value: &Value) -> Result<Identity, String> {
    let object = value.as_object().ok_or("a manifest must be an object with kind and metadata.name")?;
    let empty = Map::new();
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => &empty,
        Some(metadata) => metadata.as_object().ok_or("metadata must be an object")?,
    };
    let kind = required(object, "kind", "kind")?;
    let api_version = required(object, "apiVersion", "apiVersion")?;
    let name = required(metadata, "name", "metadata.name")?;
    let namespace = text(metadata, "namespace", "metadata.namespace")?.unwrap_or_default();
    let annotations = texts(metadata, "annotations", "metadata.annotations")?;
    let group = match api_version.split_once('/') {
        None => "",
        Some((group, version)) if !group.is_empty() && !version.is_empty() && !version.contains('/') => group,
        Some(_) => return Err(format!("apiVersion {api_version:?} is neither VERSION nor GROUP/VERSION")),
    };
    Ok((ObjectId::new(group, kind, namespace, name), api_version.to_owned(), annotations))
}

/// Checks the fields that must be maps of text whatever the kind's type says.
pub(super) fn check_text_fields(value: &Value, id: &ObjectId) -> Result<(), String> {
    if let Some(metadata) = value.get("metadata").and_then(Value::as_object) {
        texts(metadata, "labels", "metadata.labels")?;
    }
    if let Some(object) = value.as_object()
        && id.group.is_empty()
        && id.kind == "ConfigMap"
    {
        texts(object, "data", "data")?;
    }
    Ok(())
}

fn text<'a>(object: &'a Map<String, Value>, key: &str, path: &str) -> Result<Option<&'a str>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{path} must be text, not {}; quote it", shown(other))),
    }
}

fn required<'a>(object: &'a Map<String, Value>, key: &str, path: &str) -> Result<&'a str, String> {
    text(object, key, path)?.filter(|t| !t.is_empty()).ok_or_else(|| format!("{path} is missing"))
}

/// A map whose values are all text; empty if it is missing. A null value is the empty text, as in Go's decoders.
fn texts(object: &Map<String, Value>, key: &str, path: &str) -> Result<BTreeMap<String, String>, String> {
    let map = match object.get(key) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(value) => value.as_object().ok_or_else(|| format!("{path} must be a map of text"))?,
    };
    map.iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            Value::Null => Ok((key.clone(), String::new())),
            other => Err(format!("{path}[{key:?}] must be text, not {}; quote it", shown(other))),
        })
        .collect()
}

/// A value in an error. Lists and maps are not printed, since expanded aliases may make them huge.
fn shown(value: &Value) -> String {
    match value {
        Value::Array(_) => "a list".to_owned(),
        Value::Object(_) => "a map".to_owned(),
        scalar => scalar.to_string(),
    }
}
