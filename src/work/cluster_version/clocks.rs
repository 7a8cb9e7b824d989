//! Since when the daemon waits for each cluster operator. The clocks outlive the process in the progress record, and belong to
//! one release: the wait for another one, and for the way back from it, begins anew.

use crate::rollout::clock;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

#[derive(Debug, Default)]
pub(super) struct Clocks {
    /// Image of the release that they belong to.
    image: String,
    times: BTreeMap<String, Timestamp>,
}

impl Clocks {
    /// As a process before has recorded them.
    pub(super) fn recorded(image: &str, times: BTreeMap<String, Timestamp>) -> Clocks {
        Clocks { image: image.to_owned(), times }
    }

    /// A rollout of this release begins.
    pub(super) fn begin(&mut self, image: &str) {
        if self.image != image {
            *self = Clocks::recorded(image, BTreeMap::new());
        }
    }

    /// Those that are awaited have a clock from now on. The others lose theirs, so that they start afresh the next time, unless
    /// their turn has not come yet in this process: then the clock of the process before goes on.
    pub(super) fn observe(&mut self, awaited: &BTreeSet<String>, is_ahead: impl Fn(&str) -> bool, now: Timestamp) {
        for name in awaited {
            self.times.entry(clock("ClusterOperator", "", name)).or_insert(now);
        }
        let of_operators = clock("ClusterOperator", "", "");
        self.times.retain(|key, _| {
            let operator = key.strip_prefix(&of_operators).unwrap_or_default();
            awaited.contains(operator) || is_ahead(operator)
        });
    }

    pub(super) fn of_operator(&self, name: &str) -> Option<Timestamp> {
        self.times.get(&clock("ClusterOperator", "", name)).copied()
    }

    /// By the key of the object.
    pub(super) fn all(&self) -> &BTreeMap<String, Timestamp> {
        &self.times
    }
}

#[cfg(test)]
mod tests;
