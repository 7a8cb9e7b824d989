//! Since when the daemon waits for each object. The clocks outlive rollout and process in the progress record, and belong to
//! one release: the wait for another one, and for the way back from it, begins anew.

use crate::object::manifest::ObjectId;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    /// Image of the release that they belong to.
    image: String,
    /// By the key of the object.
    times: BTreeMap<String, Timestamp>,
}

impl Clocks {
    /// As a process before has recorded them.
    pub(crate) fn recorded(image: &str, times: BTreeMap<String, Timestamp>) -> Clocks {
        Clocks { image: image.to_owned(), times }
    }

    /// A rollout of this release begins.
    pub(super) fn begin(&mut self, image: &str) {
        if self.image != image {
            *self = Clocks::recorded(image, BTreeMap::new());
        }
    }

    /// Those that are awaited have a clock from now on. The others lose theirs, so that they start afresh the next time, unless
    /// their turn has not come yet in this rollout: then the clock from before goes on.
    pub(super) fn observe(&mut self, awaited: &[ObjectId], is_ahead: impl Fn(&str) -> bool, now: Timestamp) {
        let awaited: BTreeSet<String> = awaited.iter().map(clock_of).collect();
        for key in &awaited {
            self.times.entry(key.clone()).or_insert(now);
        }
        self.times.retain(|key, _| awaited.contains(key) || is_ahead(key));
    }

    pub(super) fn of(&self, id: &ObjectId) -> Option<Timestamp> {
        self.of_key(&clock_of(id))
    }

    pub(super) fn of_key(&self, key: &str) -> Option<Timestamp> {
        self.times.get(key).copied()
    }

    /// By the key of the object.
    pub(crate) fn all(&self) -> &BTreeMap<String, Timestamp> {
        &self.times
    }
}

/// Key of the clock of an object.
pub(super) fn clock_of(id: &ObjectId) -> String {
    clock(&id.kind, &id.namespace, &id.name)
}

/// Key of a clock in the progress record.
pub(super) fn clock(kind: &str, namespace: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}

#[cfg(test)]
mod tests;
