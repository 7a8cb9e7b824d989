//! Who of a loaded release takes part, by what the cluster filters by now. Nothing is read again for it: what the filters
//! left out is kept, so that a change of gates, capabilities or overrides takes effect at once.

use super::filter::{ApplyFilter, mentioned_gates, takes_part};
use super::hash;
use super::load::Payload;
use super::manifest::Manifest;
use std::collections::BTreeSet;
use std::sync::Arc;

/// The outcome of [`Payload::select`]. All in load order.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// Those that take part: what a pass applies, and the M of "N of M".
    pub manifests: Vec<Arc<Manifest>>,
    /// The others, and why.
    pub left_out: Vec<(Arc<Manifest>, String)>,
    /// What passes the load-time filters, whatever capabilities and overrides say.
    pub loadable: Vec<Arc<Manifest>>,
    /// `status.versionHash`: of `loadable` (§1.10).
    pub hash: String,
}

impl Payload {
    /// Every manifest of the release, in load order, whether or not it took part when the release was loaded.
    pub fn everything(&self) -> Vec<&Arc<Manifest>> {
        let mut all: Vec<_> = self.manifests.iter().chain(self.excluded.iter().map(|(m, _)| m)).collect();
        all.sort_by(|a, b| (a.origin, &a.file, a.index_in_file).cmp(&(b.origin, &b.file, b.index_in_file)));
        all
    }

    /// The feature gates that make a difference to this release.
    pub fn mentioned_gates(&self) -> BTreeSet<&str> {
        self.everything().into_iter().flat_map(|manifest| mentioned_gates(manifest)).collect()
    }

    /// Who takes part. The filter's major version is replaced by that of this release, as on load.
    pub fn select(&self, filter: &ApplyFilter) -> Selection {
        let mut filter = filter.clone();
        filter.load.major = Some(self.major);
        let mut selection = Selection::default();
        for manifest in self.everything() {
            if filter.load.check(manifest).is_ok() {
                selection.loadable.push(manifest.clone());
            }
            match takes_part(manifest, &filter) {
                Ok(()) => selection.manifests.push(manifest.clone()),
                Err(reason) => selection.left_out.push((manifest.clone(), reason)),
            }
        }
        selection.hash = hash::of(selection.loadable.iter().map(|m| m.raw.bytes()));
        selection
    }
}

#[cfg(test)]
mod tests;
