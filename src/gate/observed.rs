//! Reading an object that anybody may have written: what is missing or of the wrong type counts as absent.

use crate::payload::ObjectId;
use serde_json::Value;

/// A Kubernetes object, wanted or live.
#[derive(Clone, Copy, Debug)]
pub struct Observed<'a>(pub &'a Value);

/// One entry of `status.conditions`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Seen<'a> {
    /// `True`, `False` or `Unknown`.
    pub status: &'a str,
    pub reason: &'a str,
    pub message: &'a str,
}

impl<'a> Observed<'a> {
    /// The text at a JSON pointer, empty if there is none.
    pub fn text(&self, pointer: &str) -> &'a str {
        self.0.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
    }

    pub fn number(&self, pointer: &str) -> Option<i64> {
        self.0.pointer(pointer).and_then(Value::as_i64)
    }

    pub fn group(&self) -> &'a str {
        self.text("/apiVersion").split_once('/').map_or("", |(group, _)| group)
    }

    pub fn kind(&self) -> &'a str {
        self.text("/kind")
    }

    pub fn name(&self) -> &'a str {
        self.text("/metadata/name")
    }

    pub fn id(&self) -> ObjectId {
        ObjectId::new(self.group(), self.kind(), self.text("/metadata/namespace"), self.name())
    }

    pub fn is_deleting(&self) -> bool {
        !self.text("/metadata/deletionTimestamp").is_empty()
    }

    /// Whether the status answers the present spec. Kinds without generations always do.
    pub fn is_current(&self) -> bool {
        self.number("/status/observedGeneration").unwrap_or(0) >= self.number("/metadata/generation").unwrap_or(0)
    }

    /// The first condition of this type.
    pub fn condition(&self, type_: &str) -> Option<Seen<'a>> {
        let text = |entry: &'a Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let mut all = self.0.pointer("/status/conditions").and_then(Value::as_array)?.iter();
        all.find(|entry| text(entry, "type") == type_).map(|entry| Seen {
            status: text(entry, "status"),
            reason: text(entry, "reason"),
            message: text(entry, "message"),
        })
    }

    /// `status.versions` in order, as (name, version).
    pub fn versions(&self) -> Vec<(&'a str, &'a str)> {
        let text = |entry: &'a Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default();
        let list = self.0.pointer("/status/versions").and_then(Value::as_array);
        list.into_iter().flatten().map(|entry| (text(entry, "name"), text(entry, "version"))).collect()
    }
}

impl Seen<'_> {
    /// Whether the condition is there with this status.
    pub fn is(condition: Option<Seen<'_>>, status: &str) -> bool {
        condition.is_some_and(|seen| seen.status == status)
    }

    /// `reason: message`, or the one that is there.
    pub fn told(&self) -> String {
        match (self.reason, self.message) {
            ("", message) => message.to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }
}
