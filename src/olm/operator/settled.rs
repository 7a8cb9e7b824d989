//! What was found as it has to be, so that it is not compared again as long as nothing has changed.

use super::component::{Id, Known};
use serde_json::Value;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

#[derive(Debug, Default)]
pub(crate) struct Settled {
    /// By what objects are made for.
    entries: BTreeMap<String, Entry>,
    /// What all of them are made from, and among which objects none was missing and none was left over.
    whole: Option<(u64, Arc<Known>)>,
}

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
        let entry = self.entries.get_mut(what).filter(|entry| entry.from == from)?;
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
        self.entries.insert(what, Entry { from, objects, among: known.clone() });
    }

    /// Whether there was nothing to write at all where all was made from this.
    pub(super) fn is_whole(&self, from: u64, known: &Arc<Known>) -> bool {
        self.whole.as_ref().is_some_and(|(of, among)| *of == from && Arc::ptr_eq(among, known))
    }

    pub(super) fn settle_whole(&mut self, from: u64, known: &Arc<Known>) {
        self.whole = Some((from, known.clone()));
    }

    pub(super) fn retain(&mut self, is_kept: impl Fn(&str) -> bool) {
        self.entries.retain(|what, _| is_kept(what));
    }
}
