//! Selects the manifests of a loaded release that the cluster's current filters include. A payload keeps its excluded
//! manifests, so a change of gates, capabilities or overrides takes effect without loading the release again.

use super::filter::{ApplyFilter, check_inclusion, mentioned_gates};
use super::hash;
use super::load::Payload;
use crate::object::manifest::Manifest;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The result of [`Payload::select`]. All lists are in load order.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// The included manifests: what a rollout applies, and the M of "N of M".
    pub manifests: Vec<Arc<Manifest>>,
    /// The excluded manifests, and why.
    pub excluded: Vec<(Arc<Manifest>, String)>,
    /// What the load-time filters include, whatever capabilities and overrides say.
    pub loadable: Vec<Arc<Manifest>>,
    /// `status.versionHash`: the hash of `loadable`, since it identifies the release and not the cluster's choice of it.
    pub hash: String,
}

impl Payload {
    /// Every manifest of the release in load order, whether or not it was included when the release was loaded.
    pub(crate) fn all_manifests(&self) -> Vec<&Arc<Manifest>> {
        let mut all: Vec<_> = self.manifests.iter().chain(self.excluded.iter().map(|(m, _)| m)).collect();
        all.sort_by(|a, b| (a.origin, &a.file, a.index_in_file).cmp(&(b.origin, &b.file, b.index_in_file)));
        all
    }

    /// The feature gates that annotations of this release name.
    pub fn mentioned_gates(&self) -> BTreeSet<&str> {
        self.all_manifests().into_iter().flat_map(|manifest| mentioned_gates(manifest)).collect()
    }

    /// Applies the filter. As on load, its major version is replaced by that of this release.
    pub fn select(&self, filter: &ApplyFilter) -> Selection {
        let mut filter = filter.clone();
        filter.load.major = Some(self.major);
        let mut selection = Selection::default();
        for manifest in self.all_manifests() {
            if filter.load.check(manifest).is_ok() {
                selection.loadable.push(manifest.clone());
            }
            match check_inclusion(manifest, &filter) {
                Ok(()) => selection.manifests.push(manifest.clone()),
                Err(reason) => selection.excluded.push((manifest.clone(), reason)),
            }
        }
        selection.hash = hash::of(selection.loadable.iter().map(|m| m.raw.bytes()));
        selection
    }
}

#[cfg(test)]
mod tests;
