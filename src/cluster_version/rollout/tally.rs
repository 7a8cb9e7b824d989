//! What is counted of a rollout, for the metrics.

use crate::merge::Applied;
use crate::object::manifest::ObjectId;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    /// Failed attempts at manifests.
    pub errors: u64,
    /// Objects that were brought back, by kind.
    pub repairs: BTreeMap<String, u64>,
}

impl Tally {
    /// What came of an attempt to bring an object back.
    pub(super) fn repair(&mut self, id: &ObjectId, applied: &Applied) {
        if *applied != Applied::Unchanged {
            *self.repairs.entry(id.kind.clone()).or_default() += 1;
        }
    }
}
