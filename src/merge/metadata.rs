//! Metadata: labels and annotations are merged key by key, owner references by uid.

use super::rule::{ENTRIES, Elements, Extra, Field, Order, Rule, Shape, field, open};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The owner of the objects that are applied. If it is deleted, the garbage collector removes them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    pub api_version: &'static str,
    pub kind: &'static str,
    /// The resource by which it is read.
    pub plural: &'static str,
    /// Then it is in the namespace of the objects that it owns.
    pub namespaced: bool,
    pub name: String,
    /// The live uid. With an owner reference to another uid the garbage collector would remove the object.
    pub uid: String,
    /// An object that has another controller gets this owner beside that one. Otherwise it is left alone.
    pub shares: bool,
}

const OWNERS: &Elements = &Elements::Keyed { key: "uid", rule: Rule::Exact, extra: Extra::Keep, order: Order::Live };

/// All other fields are set by the API server or other clients.
const METADATA: &Shape = &Shape {
    others: Rule::Never,
    ..open(&[field("labels", ENTRIES), field("annotations", ENTRIES), field("ownerReferences", Rule::List(OWNERS))])
};

/// Metadata in a template. The API server sets nothing in it, so other fields of the manifest, such as a name, are enforced.
pub(super) const TEMPLATE_METADATA: Rule = Rule::Map(&open(&[field("labels", ENTRIES), field("annotations", ENTRIES)]));

/// The top-level fields of every object.
pub(super) const ROOT: &[Field] = &[
    field("apiVersion", Rule::Never),
    field("kind", Rule::Never),
    field("metadata", Rule::Map(METADATA)),
    field("status", Rule::Never),
];

/// Metadata that must not be copied to a replacement of the object.
const NOT_COPIED: &[&str] = &[
    "creationTimestamp",
    "deletionGracePeriodSeconds",
    "deletionTimestamp",
    "finalizers",
    "generation",
    "managedFields",
    "resourceVersion",
    "selfLink",
    "uid",
];

/// The object without status and with owner references. Those of the manifest to other kinds than ClusterVersion are used
/// as they are. If there are none, the only reference is to `owner`, as controller unless `create_only`. References of the
/// manifest to a ClusterVersion are dropped, since a manifest cannot know the uid.
pub fn prepare(mut desired: Value, owner: Option<&Owner>, create_only: bool) -> Value {
    let Some(object) = desired.as_object_mut() else {
        return desired;
    };
    object.remove("status");
    if !object.get("metadata").is_some_and(Value::is_object) {
        object.insert("metadata".into(), Value::Object(Map::new()));
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return desired;
    };
    let declared = metadata.remove("ownerReferences");
    let mut owners: Vec<Value> = match declared {
        Some(Value::Array(list)) => list,
        _ => Vec::new(),
    };
    owners.retain(|reference| reference.get("kind").and_then(Value::as_str) != Some("ClusterVersion"));
    if let (true, Some(owner)) = (owners.is_empty(), owner) {
        owners.push(reference(owner, create_only));
    }
    if !owners.is_empty() {
        metadata.insert("ownerReferences".into(), Value::Array(owners));
    }
    desired
}

fn reference(owner: &Owner, create_only: bool) -> Value {
    let mut reference = json!({
        "apiVersion": owner.api_version,
        "kind": owner.kind,
        "name": owner.name,
        "uid": owner.uid,
    });
    if let (false, Some(map)) = (create_only, reference.as_object_mut()) {
        map.insert("controller".into(), Value::Bool(true));
    }
    reference
}

fn controls(reference: &Value) -> bool {
    reference.get("controller").and_then(Value::as_bool) == Some(true)
}

/// The owner reference to the controller of an object.
pub(super) fn controller(object: &Value) -> Option<&Value> {
    owners(object).find(|reference| controls(reference))
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// The API server refuses an object with two controllers. If another reference is the controller already, ours is only an
/// owner.
pub(super) fn fit_owners<'a>(live: &Value, desired: Cow<'a, Value>) -> Cow<'a, Value> {
    let uid = |reference: &Value| reference.get("uid").cloned();
    let ours: Vec<Option<Value>> = owners(&desired).map(uid).collect();
    let has_other = owners(live).any(|reference| controls(reference) && !ours.contains(&uid(reference)));
    if !has_other || !owners(&desired).any(controls) {
        return desired;
    }
    let mut fitted = desired.into_owned();
    let references = fitted.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for reference in references.into_iter().flatten().filter_map(Value::as_object_mut) {
        reference.remove("controller");
    }
    Cow::Owned(fitted)
}

/// The object that is created after `merged` was deleted: `desired` with the labels, annotations and owners of `merged`.
pub(super) fn replacement(merged: &Value, desired: &Value) -> Value {
    let mut object = desired.clone();
    let mut metadata = merged.get("metadata").cloned().unwrap_or_default();
    if let (Some(object), Some(map)) = (object.as_object_mut(), metadata.as_object_mut()) {
        for key in NOT_COPIED {
            map.remove(*key);
        }
        object.insert("metadata".into(), metadata);
    }
    object
}

/// The API group, which is empty for the core group.
pub(super) fn group(api_version: &str) -> &str {
    api_version.split_once('/').map_or("", |(group, _)| group)
}
