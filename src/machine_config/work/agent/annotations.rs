//! The node's object: what the agent reads of it, and the annotations that it writes. Writes that follow each other are
//! joined into one.

use crate::machine_config::api::machine_config::{GROUP, annotation as key};
use crate::machine_config::drain::{Request, begun};
use crate::machine_config::node::{NodeFacts, NodeState, Target};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;

/// The node as the agent wants it to be seen: as the API server has it, with what is still to be written.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Seen {
    pub node: NodeFacts,
    pub asked: Option<Request>,
    pub answered: bool,
    pub single_node: bool,
    /// When the drain began that has been granted or is under way.
    pub drain_started: Option<Timestamp>,
    /// It was told that the node is being restarted.
    pub rebooting: bool,
}

/// Annotations that are still to be written, by their keys without the group; `None` removes one.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Pending(BTreeMap<&'static str, Option<String>>);

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(&format!("{GROUP}/{key}")).map(String::as_str)
}

/// The object with what is still to be written. An object that cannot be read is an error, which says why.
pub(super) fn seen(object: &Value, pending: &Pending) -> Result<Seen, String> {
    let mut node = Node::deserialize(object).map_err(|error| error.to_string())?;
    let annotations = node.metadata.annotations.get_or_insert_default();
    for (key, value) in &pending.0 {
        let key = format!("{GROUP}/{key}");
        match value {
            Some(value) => annotations.insert(key, value.clone()),
            None => annotations.remove(&key),
        };
    }
    let given = |key| annotation(&node, key).filter(|text| !text.is_empty());
    let text = given(key::DESIRED_DRAIN);
    // A request that cannot be understood was not written by this program.
    let asked = text.and_then(|text| Request::parse(text).ok());
    let answered =
        text == given(key::LAST_APPLIED_DRAIN) && given(key::DESIRED_DRAIN_ID) == given(key::LAST_APPLIED_DRAIN_ID);
    Ok(Seen {
        asked,
        answered,
        single_node: given(key::CONTROL_PLANE_TOPOLOGY) == Some("SingleReplica"),
        drain_started: begun(&node),
        rebooting: given(key::POST_CONFIG_ACTION).is_some(),
        node: NodeFacts::of(&node),
    })
}

impl Pending {
    fn set(&mut self, key: &'static str, value: impl Into<String>) {
        self.0.insert(key, Some(value.into()));
    }

    fn set_current(&mut self, record: Option<&Target>) {
        if let Some(record) = record {
            self.set(key::CURRENT_CONFIG, &record.config);
            self.0.insert(key::CURRENT_IMAGE, record.image.clone());
        }
    }

    pub(super) fn tell(&mut self, state: NodeState, reason: &str, record: Option<&Target>) {
        let state = match state {
            NodeState::Done => "Done",
            NodeState::Working | NodeState::Unknown => "Working",
            NodeState::Degraded => "Degraded",
            NodeState::Unreconcilable => "Unreconcilable",
        };
        self.set(key::STATE, state);
        self.set(key::REASON, reason);
        self.set_current(record);
    }

    pub(super) fn tell_done(&mut self, seen: &Seen, record: &Target) {
        self.tell(NodeState::Done, "", Some(record));
        if seen.node.desired.config.is_empty() {
            self.set(key::DESIRED_CONFIG, &record.config);
        }
        if seen.node.desired.image.is_none() {
            self.0.insert(key::DESIRED_IMAGE, None);
        }
        self.end_reboot(seen);
    }

    pub(super) fn ask(&mut self, request: &Request, id: String) {
        self.set(key::DESIRED_DRAIN, request.to_string());
        self.set(key::DESIRED_DRAIN_ID, id);
    }

    pub(super) fn begin_reboot(&mut self, now: Timestamp) {
        self.set(key::POST_CONFIG_ACTION, "Rebooting");
        self.set(key::REBOOT_STARTED, now.to_string());
    }

    /// The restart is over.
    pub(super) fn end_reboot(&mut self, seen: &Seen) {
        if seen.rebooting {
            self.set(key::POST_CONFIG_ACTION, "");
            self.0.insert(key::REBOOT_STARTED, None);
        }
    }

    /// Which folder the kubelet reads.
    pub(super) fn tell_kubelet(&mut self, folder: &str) {
        self.set(key::KUBELET_CONFIG_DIR, folder);
    }

    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// The patch that writes them; `None` if the object has them already.
    pub(super) fn patch(&self, object: &Value) -> Option<Value> {
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
        let mut patch = Map::new();
        for (key, value) in &self.0 {
            let key = format!("{GROUP}/{key}");
            let found = annotations.and_then(|annotations| annotations.get(&key)).and_then(Value::as_str);
            if found != value.as_deref() {
                patch.insert(key, value.clone().map_or(Value::Null, Value::String));
            }
        }
        (!patch.is_empty()).then(|| json!({"metadata": {"annotations": patch}}))
    }
}

#[cfg(test)]
mod tests;
