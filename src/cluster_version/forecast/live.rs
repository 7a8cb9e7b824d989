//! The objects that exist before the update, by manifest of the new release: read from a cluster by the caller, or derived
//! from the previous release.

use super::{Excluded, ExcludedBy, Prepare};
use crate::merge::initial;
use crate::object::definition::definitions;
use crate::object::manifest::{Manifest, ObjectId};
use crate::release::{Payload, Selection};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// The objects by the identity of their manifest.
pub(crate) type LiveObjects = HashMap<ObjectId, LiveObject>;

/// What is known of the object of one manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct LiveObject {
    /// As the cluster identifies it.
    pub id: ObjectId,
    pub state: LiveState,
    /// It was read from a cluster, and so has a status.
    pub has_status: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LiveState {
    Exists(Arc<Value>),
    Absent,
    /// The API server does not serve the kind.
    NotServed,
    /// The API server serves another version of the kind than the manifest names, so the object cannot be compared; with a
    /// message.
    OtherVersion(String),
    /// It could not be read; with the cause.
    Unreadable(String),
}

/// The objects as the manifests `before` leave them in a cluster that no other client writes to.
pub(crate) fn live_after_release(before: &[Arc<Manifest>], after: &Payload, prepared: Prepare<'_>) -> LiveObjects {
    let prepared = |(id, manifest): (_, &Manifest)| Some((id, Arc::new(initial(prepared(manifest).ok()?))));
    let existing: HashMap<&ObjectId, Arc<Value>> = left_by(before).into_iter().filter_map(prepared).collect();
    let object = |id: &ObjectId| LiveObject {
        id: id.clone(),
        state: existing.get(id).map_or(LiveState::Absent, |object| LiveState::Exists(object.clone())),
        has_status: false,
    };
    after.all_manifests().into_iter().map(|manifest| (manifest.id.clone(), object(&manifest.id))).collect()
}

/// Objects of the manifests `before` that are no longer managed after the update, because the new release does not contain
/// them or its filters exclude them. What capabilities and overrides exclude is reported as such.
pub(crate) fn dropped(before: &[Arc<Manifest>], after: &Selection, excluded: &[Excluded]) -> Vec<ObjectId> {
    let contained = contained(after, excluded);
    left_by(before).into_keys().filter(|id| !contained.contains(id)).cloned().collect()
}

/// Objects that a release manages, or leaves to the administrator who excludes them by capabilities and overrides.
pub(crate) fn contained<'a>(selection: &'a Selection, excluded: &'a [Excluded]) -> HashSet<&'a ObjectId> {
    let hidden = excluded.iter().filter(|excluded| excluded.by != ExcludedBy::Filter).map(|excluded| &excluded.object);
    selection.manifests.iter().map(|manifest| &manifest.id).chain(hidden).collect()
}

/// The objects that the manifests leave in a cluster, with the manifest that each comes from.
fn left_by(manifests: &[Arc<Manifest>]) -> BTreeMap<&ObjectId, &Manifest> {
    let mut left: BTreeMap<&ObjectId, &Manifest> = BTreeMap::new();
    for manifest in manifests {
        if manifest.delete() == Ok(true) {
            left.remove(&manifest.id);
        } else {
            left.insert(&manifest.id, manifest);
        }
    }
    left
}

/// The live objects that a ClusterVersion owns, as manifests with the annotations of the live objects, which come from the
/// release that runs. Stands in for that release where it is not given.
pub(crate) fn managed(live: &LiveObjects, manifests: &[Arc<Manifest>]) -> Vec<Arc<Manifest>> {
    let owned = |object: &Value| {
        let owners = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        owners.into_iter().any(|owner| owner.get("kind").and_then(Value::as_str) == Some("ClusterVersion"))
    };
    let as_manifest = |manifest: &Arc<Manifest>| match &live.get(&manifest.id)?.state {
        LiveState::Exists(object) if owned(object) => {
            Some(Arc::new(Manifest { annotations: annotations(object), ..Manifest::clone(manifest) }))
        }
        _ => None,
    };
    manifests.iter().filter_map(as_manifest).collect()
}

fn annotations(object: &Value) -> BTreeMap<String, String> {
    let all = object.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

/// `apiVersion` and kind of everything that the CustomResourceDefinitions of a release serve.
pub(super) fn kinds_defined(manifests: &[Arc<Manifest>]) -> HashSet<(String, String)> {
    let mut kinds = HashSet::new();
    for definition in definitions(manifests) {
        let kind = |version: &str| (format!("{}/{version}", definition.group), definition.kind.clone());
        kinds.extend(definition.served.iter().map(|version| kind(version)));
    }
    kinds
}
