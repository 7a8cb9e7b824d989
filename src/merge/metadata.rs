//! Names, labels, annotations and owners (payload-and-apply §5.4, §5.5).

use super::rule::{ENTRIES, Elements, Extra, Field, Order, Rule, Shape, field, open};
use serde_json::{Map, Value, json};
use std::borrow::Cow;

/// The ClusterVersion that owns what the payload creates: deleting it lets the garbage collector take the platform.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    pub name: String,
    /// The live uid; an owner reference with a stale one would let the garbage collector take the object.
    pub uid: String,
}

const OWNERS: &Elements = &Elements::Keyed { key: "uid", rule: Rule::Exact, extra: Extra::Keep, order: Order::Live };

/// Labels and annotations key by key, owners by uid; everything else is the server's or belongs to others.
const METADATA: &Shape = &Shape {
    others: Rule::Never,
    ..open(&[field("labels", ENTRIES), field("annotations", ENTRIES), field("ownerReferences", Rule::List(OWNERS))])
};

/// Metadata inside a template: it has no server half, so that a name counts too.
pub(super) const TEMPLATE_METADATA: Rule = Rule::Map(&open(&[field("labels", ENTRIES), field("annotations", ENTRIES)]));

/// The top level of every object.
pub(super) const ROOT: &[Field] = &[
    field("apiVersion", Rule::Never),
    field("kind", Rule::Never),
    field("metadata", Rule::Map(METADATA)),
    field("status", Rule::Never),
];

/// What of the live metadata belongs to the one object that has it and not to a successor of the same name.
const BOUND: &[&str] = &[
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

/// The object as it is created: without status, and owned by `owner` (§5.5). References that the manifest declares to
/// kinds other than ClusterVersion are used as they are; else the only one is to `owner`, as its controller unless
/// `create_only`. References to a ClusterVersion in the manifest are dropped, since it cannot know the uid.
pub fn prepare(mut want: Value, owner: Option<&Owner>, create_only: bool) -> Value {
    let Some(object) = want.as_object_mut() else {
        return want;
    };
    object.remove("status");
    if !object.get("metadata").is_some_and(Value::is_object) {
        object.insert("metadata".into(), Value::Object(Map::new()));
    }
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else {
        return want;
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
    want
}

fn reference(owner: &Owner, create_only: bool) -> Value {
    let mut reference = json!({
        "apiVersion": "config.openshift.io/v1",
        "kind": "ClusterVersion",
        "name": owner.name,
        "uid": owner.uid,
    });
    if let (false, Some(map)) = (create_only, reference.as_object_mut()) {
        map.insert("controller".into(), Value::Bool(true));
    }
    reference
}

fn owners(object: &Value) -> impl Iterator<Item = &Value> {
    object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten()
}

/// An object has at most one controller, or the server refuses it. Where somebody else's reference already is that,
/// ours is an owner only.
pub(super) fn fit_owners<'a>(live: &Value, want: Cow<'a, Value>) -> Cow<'a, Value> {
    let uid = |reference: &Value| reference.get("uid").cloned();
    let ours: Vec<Option<Value>> = owners(&want).map(uid).collect();
    let controls = |reference: &Value| reference.get("controller").and_then(Value::as_bool) == Some(true);
    let taken = owners(live).any(|reference| controls(reference) && !ours.contains(&uid(reference)));
    if !taken || !owners(&want).any(controls) {
        return want;
    }
    let mut fitted = want.into_owned();
    let references = fitted.pointer_mut("/metadata/ownerReferences").and_then(Value::as_array_mut);
    for reference in references.into_iter().flatten().filter_map(Value::as_object_mut) {
        reference.remove("controller");
    }
    Cow::Owned(fitted)
}

/// `want` as the successor of `merged`, which is to be deleted: with its foreign labels, annotations and owners, and
/// nothing that was bound to it.
pub(super) fn successor(merged: &Value, want: &Value) -> Value {
    let mut object = want.clone();
    let mut metadata = merged.get("metadata").cloned().unwrap_or_default();
    if let (Some(object), Some(map)) = (object.as_object_mut(), metadata.as_object_mut()) {
        for key in BOUND {
            map.remove(*key);
        }
        object.insert("metadata".into(), metadata);
    }
    object
}
