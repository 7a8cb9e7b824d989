//! Manifests that are excluded, and what excludes them.

use crate::object::manifest::{Manifest, ObjectId};
use crate::release::{ApplyFilter, Selection};
use serde::Serialize;
use std::sync::Arc;

/// A manifest that is excluded, and why.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Excluded {
    pub object: ObjectId,
    pub file: String,
    pub by: ExcludedBy,
    pub reason: String,
}

/// What excludes a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ExcludedBy {
    /// Profile, feature set, feature gates, major version, excluded identifier.
    Filter,
    Capability,
    Override,
}

/// The manifests that a selection excludes, in load order. `filter` is what made the selection.
pub(crate) fn excluded(selection: &Selection, filter: &ApplyFilter) -> Vec<Excluded> {
    let cause = |manifest: &Arc<Manifest>| {
        let loadable = selection.loadable.iter().any(|other| Arc::ptr_eq(manifest, other));
        let capable = filter.capabilities.as_ref().is_none_or(|capabilities| capabilities.check(manifest).is_ok());
        match (loadable, capable) {
            (false, _) => ExcludedBy::Filter,
            (true, false) => ExcludedBy::Capability,
            (true, true) => ExcludedBy::Override,
        }
    };
    let entry = |(manifest, reason): &(Arc<Manifest>, String)| Excluded {
        object: manifest.id.clone(),
        file: manifest.file.to_string(),
        by: cause(manifest),
        reason: reason.clone(),
    };
    selection.excluded.iter().map(entry).collect()
}
