//! What is there before the update, by manifest of the new release: read from a cluster by the caller, or taken from the
//! release before.

use super::{By, LeftOut, Prepare};
use crate::merge::initial;
use crate::payload::{DefinedKind, Manifest, ObjectId, Payload, Selection};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// What is known of the object of each manifest, by the manifest's identity.
pub type Findings = HashMap<ObjectId, Found>;

/// What is known of one manifest's object.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// As the cluster knows it.
    pub id: ObjectId,
    pub sight: Sight,
    /// It was read from a cluster, status included.
    pub reports_status: bool,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    There(Arc<Value>),
    Absent,
    /// The API server does not serve the kind.
    NotServed,
    /// It is there in a version that the API server serves, the manifest's it does not, and why that says nothing.
    Otherwise(String),
    /// It could not be read, and why.
    Unread(String),
}

/// Takes what the manifests `before` leave in a cluster nobody else writes to for what is there.
pub fn of_release(before: &[Arc<Manifest>], after: &Payload, prepared: Prepare<'_>) -> Findings {
    let prepared = |(id, manifest): (_, &Manifest)| Some((id, Arc::new(initial(prepared(manifest).ok()?))));
    let there: HashMap<&ObjectId, Arc<Value>> = left_by(before).into_iter().filter_map(prepared).collect();
    let found = |id: &ObjectId| Found {
        id: id.clone(),
        sight: there.get(id).map_or(Sight::Absent, |object| Sight::There(object.clone())),
        reports_status: false,
    };
    after.everything().into_iter().map(|manifest| (manifest.id.clone(), found(&manifest.id))).collect()
}

/// What the manifests `before` leave in a cluster and nobody looks after once the release is another: it names it no
/// more, or filters it out. What capabilities and overrides leave out is told as such.
pub fn dropped(before: &[Arc<Manifest>], after: &Selection, left_out: &[LeftOut]) -> Vec<ObjectId> {
    let hidden = left_out.iter().filter(|left_out| left_out.by != By::Filter).map(|left_out| &left_out.object);
    let kept: HashSet<&ObjectId> = after.manifests.iter().map(|manifest| &manifest.id).chain(hidden).collect();
    left_by(before).into_keys().filter(|id| !kept.contains(id)).cloned().collect()
}

/// What the manifests leave in a cluster, and which of them each object comes from.
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

/// What the CustomResourceDefinitions of a release define.
pub(super) fn definitions(manifests: &[Arc<Manifest>]) -> impl Iterator<Item = DefinedKind> {
    let brought = manifests.iter().filter(|m| m.id.kind == "CustomResourceDefinition" && m.delete() == Ok(false));
    brought.filter_map(|m| DefinedKind::of_manifest(m).ok())
}

/// `apiVersion` and kind of everything that the CustomResourceDefinitions of a release serve.
pub(super) fn kinds_brought(manifests: &[Arc<Manifest>]) -> HashSet<(String, String)> {
    let mut kinds = HashSet::new();
    for definition in definitions(manifests) {
        let kind = |version: &str| (format!("{}/{version}", definition.group), definition.kind.clone());
        kinds.extend(definition.served.iter().map(|version| kind(version)));
    }
    kinds
}
