//! Who takes no part, and which capabilities that is about (payload-and-apply §2).

use super::{Findings, Sight};
use crate::payload::{ApplyFilter, Manifest, ObjectId, Selection};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A manifest that takes no part, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct LeftOut {
    pub object: ObjectId,
    pub file: String,
    pub by: By,
    pub reason: String,
}

/// What leaves a manifest out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum By {
    /// Profile, feature set, feature gates, major version, excluded identifier.
    Filter,
    Capability,
    Override,
}

/// Those that a choice leaves out, in load order. `by` is what was chosen by.
pub fn left_out(selection: &Selection, by: &ApplyFilter) -> Vec<LeftOut> {
    let cause = |manifest: &Arc<Manifest>| {
        let loadable = selection.loadable.iter().any(|other| Arc::ptr_eq(manifest, other));
        let capable = by.capabilities.as_ref().is_none_or(|capabilities| capabilities.check(manifest).is_ok());
        match (loadable, capable) {
            (false, _) => By::Filter,
            (true, false) => By::Capability,
            (true, true) => By::Override,
        }
    };
    let told = |(manifest, reason): &(Arc<Manifest>, String)| LeftOut {
        object: manifest.id.clone(),
        file: manifest.file.to_string(),
        by: cause(manifest),
        reason: reason.clone(),
    };
    selection.left_out.iter().map(told).collect()
}

/// What a ClusterVersion owns of what was found, as manifests of the release it came from: their annotations are those of
/// the objects, which the daemon has put there. For what needs the release before where that is not at hand.
pub fn managed(found: &Findings, manifests: &[Arc<Manifest>]) -> Vec<Arc<Manifest>> {
    let owned = |live: &Value| {
        let owners = live.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
        owners.into_iter().any(|owner| owner.get("kind").and_then(Value::as_str) == Some("ClusterVersion"))
    };
    let as_manifest = |manifest: &Arc<Manifest>| match &found.get(&manifest.id)?.sight {
        Sight::There(live) if owned(live) => {
            Some(Arc::new(Manifest { annotations: annotations(live), ..Manifest::clone(manifest) }))
        }
        _ => None,
    };
    manifests.iter().filter_map(as_manifest).collect()
}

fn annotations(live: &Value) -> BTreeMap<String, String> {
    let all = live.pointer("/metadata/annotations").and_then(Value::as_object).into_iter().flatten();
    all.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}
