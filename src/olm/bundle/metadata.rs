//! The files of metadata: annotations, dependencies, properties. Which of them a file is, is told by its key at the top.

use super::annotations::Annotations;
use super::finding::{Check, Finding};
use crate::object::yaml;
use serde_json::{Map, Value};
use std::sync::Arc;

/// A dependency or a property as it is written.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Declared {
    pub file: Arc<str>,
    pub line: usize,
    /// Such as `dependencies[0]`.
    pub place: String,
    pub kind: String,
    pub value: Value,
}

/// What the files of metadata say. The first file that has something of a key counts.
#[derive(Debug, Default)]
pub(super) struct MetadataFiles {
    pub annotations: Annotations,
    pub annotations_file: String,
    pub dependencies: Vec<Declared>,
    pub properties: Vec<Declared>,
}

impl MetadataFiles {
    /// Takes in a file. `.yaml`, `.yml` and `.json` are read, others are passed over.
    pub(super) fn add(&mut self, path: &str, bytes: &[u8], findings: &mut Vec<Finding>) {
        let documents = match yaml::documents(bytes) {
            Ok(documents) => documents,
            Err(error) => {
                let message = format!("the file cannot be read: {error}; correct it");
                return findings.push(Finding::error(Check::MetadataFile, (path, 0), "", message));
            }
        };
        for document in documents {
            let Value::Object(mut map) = document.value else { continue };
            let at = (path, document.line);
            if self.annotations.0.is_empty()
                && let Some(given) = map.remove("annotations")
            {
                self.add_annotations(at, given, findings);
            }
            if self.dependencies.is_empty() {
                self.dependencies = list(at, "dependencies", &mut map, findings);
            }
            if self.properties.is_empty() {
                self.properties = list(at, "properties", &mut map, findings);
            }
        }
    }

    fn add_annotations(&mut self, at: (&str, usize), given: Value, findings: &mut Vec<Finding>) {
        let Value::Object(given) = given else {
            let message = "it must be a mapping of names to texts".to_owned();
            return findings.push(Finding::error(Check::MetadataFile, at, "annotations", message));
        };
        self.annotations_file = at.0.to_owned();
        for (key, value) in given {
            match value {
                Value::String(value) => drop(self.annotations.0.insert(key, value)),
                Value::Null => {}
                Value::Bool(_) | Value::Number(_) => {
                    let message = format!("{value} is no text: put quotes around it");
                    findings.push(Finding::warning(Check::Annotation, at, &format!("annotations.{key}"), message));
                    self.annotations.0.insert(key, value.to_string());
                }
                Value::Array(_) | Value::Object(_) => {
                    let message = "it must be a text".to_owned();
                    findings.push(Finding::error(Check::MetadataFile, at, &format!("annotations.{key}"), message));
                }
            }
        }
    }
}

/// The entries of a list of `{type, value}` under a key of a file.
fn list(at: (&str, usize), key: &str, map: &mut Map<String, Value>, findings: &mut Vec<Finding>) -> Vec<Declared> {
    match map.remove(key) {
        None | Some(Value::Null) => Vec::new(),
        Some(Value::Array(entries)) => declared(at, key, entries, findings),
        Some(_) => {
            let message = "it must be a list of {type, value}".to_owned();
            findings.push(Finding::error(Check::MetadataFile, at, key, message));
            Vec::new()
        }
    }
}

/// What an entry without type or value lacks.
fn incomplete(entry: &Value) -> String {
    let keys =
        entry.as_object().into_iter().flat_map(Map::keys).filter(|key| !["type", "value"].contains(&key.as_str()));
    let beside: Vec<&str> = keys.map(String::as_str).collect();
    match entry.get("type").and_then(Value::as_str) {
        Some(_) if !beside.is_empty() => format!(
            "its value is empty, and {} beside it does not count: indent that below value, as `value: {{{}: …}}`",
            beside.join(", "),
            beside.join(": …, ")
        ),
        _ => "it needs a type, which is a text, and a value".to_owned(),
    }
}

/// Entries of a list, with their places. `- property: {type, value}`, as some guides write it, is taken for what it means.
pub(super) fn declared(
    at: (&str, usize),
    key: &str,
    entries: Vec<Value>,
    findings: &mut Vec<Finding>,
) -> Vec<Declared> {
    let file: Arc<str> = at.0.into();
    let mut found = Vec::new();
    for (number, mut entry) in entries.into_iter().enumerate() {
        let place = format!("{key}[{number}]");
        let inner = match key {
            "dependencies" => "dependency",
            _ => "property",
        };
        if entry.get("type").is_none()
            && let Some(nested) = entry.get_mut(inner).filter(|nested| nested.is_object())
        {
            let message =
                format!("type and value stand below the key {inner:?}: write them without it, as `- type: …`");
            findings.push(Finding::warning(Check::MetadataFile, at, &place, message));
            entry = nested.take();
        }
        let kind = entry.get("type").and_then(Value::as_str).unwrap_or_default().to_owned();
        match entry.get_mut("value").map(Value::take).filter(|value| !value.is_null()) {
            Some(value) if !kind.is_empty() => {
                found.push(Declared { file: file.clone(), line: at.1, place, kind, value });
            }
            _ => {
                findings.push(Finding::error(Check::MetadataFile, at, &place, incomplete(&entry)));
            }
        }
    }
    found
}
