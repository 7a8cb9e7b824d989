//! What was found as it has to be, so that it is not compared again as long as nothing has changed.

use super::component::{Id, Known};
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

/// By what objects are made for.
#[derive(Debug, Default)]
pub(crate) struct Settled(BTreeMap<String, Entry>);

#[derive(Debug)]
struct Entry {
    /// What they are made from.
    from: u64,
    /// With their resourceVersions.
    objects: Vec<(Id, String)>,
    /// Among these they were found so last.
    among: Arc<Known>,
}

pub(super) fn fingerprint(from: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    from.hash(&mut hasher);
    hasher.finish()
}

fn version(known: &Known, id: &Id) -> Option<String> {
    known.get(id)?.pointer("/metadata/resourceVersion")?.as_str().map(str::to_owned)
}

impl Settled {
    /// The objects, if they are as they have to be.
    pub(super) fn ids(&mut self, what: &str, from: u64, known: &Arc<Known>) -> Option<Vec<Id>> {
        let entry = self.0.get_mut(what).filter(|entry| entry.from == from)?;
        let is_same = |(id, of): &(Id, String)| version(known, id).as_ref() == Some(of);
        if !Arc::ptr_eq(&entry.among, known) && !entry.objects.iter().all(is_same) {
            return None;
        }
        entry.among = known.clone();
        Some(entry.objects.iter().map(|(id, _)| id.clone()).collect())
    }

    /// None of them has to be written.
    pub(super) fn settle(&mut self, what: String, from: u64, objects: &[Value], known: &Arc<Known>) {
        let objects = objects.iter().filter_map(Id::of).filter_map(|id| Some((version(known, &id)?, id)));
        let objects = objects.map(|(version, id)| (id, version)).collect();
        self.0.insert(what, Entry { from, objects, among: known.clone() });
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.0.retain(|what, _| is_kept(what));
    }
}
