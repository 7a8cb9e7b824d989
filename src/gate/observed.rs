//! The fields of an object, desired or live, that gates read. Everything that keeps a part of an object for its gate keeps
//! this type, so a gate that reads one more field needs it only here.
//!
//! Any client may have written the object: a field of the wrong type counts as missing.

use crate::object::manifest::{Manifest, ObjectId};
use crate::object::null_is_default;
use serde::Deserialize;
use serde_json::Value;

/// All other fields, such as the schemas of definitions and the related objects of operators, are not decoded.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Observed {
    api_version: Value,
    kind: Value,
    #[serde(deserialize_with = "null_is_default")]
    metadata: Metadata,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) spec: Spec,
    #[serde(deserialize_with = "null_is_default")]
    pub(super) status: Status,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: Value,
    name: Value,
    generation: Value,
    deletion_timestamp: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spec {
    pub replicas: Value,
    pub update_strategy: Value,
    pub completions: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Status {
    observed_generation: Value,
    conditions: Value,
    versions: Value,
    pub replicas: Value,
    pub updated_replicas: Value,
    pub available_replicas: Value,
    pub desired_number_scheduled: Value,
    pub updated_number_scheduled: Value,
    pub number_available: Value,
    pub succeeded: Value,
    pub active: Value,
    pub failed: Value,
}

/// One entry of `status.conditions`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Condition<'a> {
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

impl Observed {
    pub(crate) fn of(object: &Value) -> Observed {
        Observed::deserialize(object).unwrap_or_default()
    }

    /// A workload that is not to have a single pod.
    pub(crate) fn is_scaled_to_zero(&self) -> bool {
        self.spec.replicas.as_i64() == Some(0)
    }

    /// Decodes only the fields of this type.
    pub(crate) fn read(json: &[u8]) -> serde_json::Result<Observed> {
        serde_json::from_slice(json)
    }

    /// The desired object of a manifest.
    pub(crate) fn of_manifest(manifest: &Manifest) -> serde_json::Result<Observed> {
        Observed::read(&manifest.raw.bytes())
    }

    pub(crate) fn group(&self) -> &str {
        text(&self.api_version).split_once('/').map_or("", |(group, _)| group)
    }

    pub(crate) fn kind(&self) -> &str {
        text(&self.kind)
    }

    pub(crate) fn name(&self) -> &str {
        text(&self.metadata.name)
    }

    pub(crate) fn id(&self) -> ObjectId {
        ObjectId::new(self.group(), self.kind(), text(&self.metadata.namespace), self.name())
    }

    pub(crate) fn is_deleting(&self) -> bool {
        !text(&self.metadata.deletion_timestamp).is_empty()
    }

    /// Whether the status belongs to the current spec. Objects without a generation are always current.
    pub(crate) fn is_current(&self) -> bool {
        number(&self.status.observed_generation) >= number(&self.metadata.generation)
    }

    /// The first condition of this type.
    pub(crate) fn condition(&self, type_: &str) -> Option<Condition<'_>> {
        let mut all = self.status.conditions.as_array()?.iter();
        all.find(|entry| field(entry, "type") == type_).map(|entry| Condition {
            status: field(entry, "status"),
            reason: field(entry, "reason"),
            message: field(entry, "message"),
        })
    }

    /// `status.versions` in order, as (name, version).
    pub(crate) fn versions(&self) -> Vec<(&str, &str)> {
        let list = self.status.versions.as_array().into_iter().flatten();
        list.map(|entry| (field(entry, "name"), field(entry, "version"))).collect()
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn field<'a>(entry: &'a Value, key: &str) -> &'a str {
    entry.get(key).map(text).unwrap_or_default()
}

pub(super) fn number(value: &Value) -> i64 {
    value.as_i64().unwrap_or(0)
}

impl Condition<'_> {
    /// Whether the condition exists and has this status.
    pub(crate) fn is(condition: Option<Condition<'_>>, status: &str) -> bool {
        condition.is_some_and(|condition| condition.status == status)
    }

    /// `reason: message`, or the one that is not empty.
    pub(crate) fn text(&self) -> String {
        match (self.reason, self.message) {
            ("", message) => message.to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}
