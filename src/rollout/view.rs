//! What others read of a rollout: for status, the progress record, and the clocks that outlive a process.

use super::{Plan, Rollout};
use crate::api::progress::NodeProgress;
use crate::graph::Mode;
use crate::payload::ObjectId;
use crate::status::facts::Conflict;
use crate::status::failure::UpdateError;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};

impl Rollout {
    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// As the rollout began, until it has completed: `Reconcile` from then on.
    pub(crate) fn current_mode(&self) -> Mode {
        self.mode()
    }

    pub(crate) fn started(&self) -> Timestamp {
        self.started
    }

    /// In graph order.
    pub(crate) fn nodes(&self) -> &[NodeProgress] {
        &self.nodes
    }

    /// Manifests whose turn is over, without those whose objects are known to fail again.
    pub(crate) fn done(&self) -> usize {
        self.objects.iter().filter(|object| object.passed && !object.failing).count()
    }

    /// Every node is done, and at that moment every object was in place. Once it is, it stays so.
    pub(crate) fn is_completed(&self) -> bool {
        self.completed
    }

    /// The own Deployment carries another release, and this process waits to be replaced.
    pub(crate) fn is_handing_over(&self) -> bool {
        self.handing_over
    }

    /// Failed attempts at manifests so far.
    pub(crate) fn errors(&self) -> u64 {
        self.tally.errors
    }

    /// How many objects were brought back after another client had changed them, by kind.
    pub(crate) fn repairs(&self) -> &BTreeMap<String, u64> {
        &self.tally.repairs
    }

    /// What is wrong now, joined into one error.
    pub(crate) fn failure(&self) -> Option<UpdateError> {
        self.failures.failure()
    }

    /// Names of the ClusterOperators that nodes wait for, and of those that are not well although their node went on.
    pub(crate) fn awaited_operators(&self) -> BTreeSet<String> {
        let waiting = self.nodes.iter().flat_map(|n| &n.waiting).filter(|w| w.kind == "ClusterOperator");
        let failing = self.failures.objects().into_iter().filter(|id| id.kind == "ClusterOperator").map(|id| id.name);
        waiting.map(|w| w.name.clone()).chain(failing).collect()
    }

    /// Whether the ClusterOperator's turn is still to come or under way. Then the time for which it was waited before
    /// still counts.
    pub(crate) fn is_ahead(&self, operator: &str) -> bool {
        let is = |id: &ObjectId| (id.group.as_str(), id.kind.as_str()) == ("config.openshift.io", "ClusterOperator");
        self.objects.iter().any(|object| !object.passed && is(&object.id) && object.id.name == operator)
    }

    /// Gives a wait that began before this process its old beginning. Clocks are keyed as by [`clock`].
    pub(crate) fn backdate(&mut self, clocks: &BTreeMap<String, Timestamp>) {
        for waiting in self.nodes.iter_mut().flat_map(|n| &mut n.waiting) {
            if let Some(since) = clocks.get(&clock(&waiting.kind, &waiting.namespace, &waiting.name)) {
                waiting.since = Some(waiting.since.map_or(*since, |s| s.min(*since)));
            }
        }
    }

    /// Objects that another client keeps changing back, by name.
    pub(crate) fn conflicts(&self, now: Timestamp) -> Vec<Conflict> {
        let mut conflicts: Vec<Conflict> =
            self.objects.iter().filter_map(|object| object.repairs.conflict(&object.id, now)).collect();
        conflicts.sort_by(|a, b| a.object.cmp(&b.object));
        conflicts
    }

    /// When the first of the conflicts will be over, if nothing more happens.
    pub(crate) fn conflict_ends(&self, now: Timestamp) -> Option<Timestamp> {
        self.objects.iter().filter_map(|object| object.repairs.conflict_ends(now)).min()
    }

    /// Objects that the release has deleted, in its order.
    pub(crate) fn deletions(&self) -> impl Iterator<Item = &ObjectId> {
        let deleted = |position: &usize| self.is_deletion(*position);
        let passed = self.objects.iter().enumerate().filter(|(_, object)| object.passed);
        passed.filter(move |(position, _)| deleted(position)).map(|(_, object)| &object.id)
    }

    /// From here on nothing starts and nothing counts: a rollout that is cancelled before its end never completes.
    pub(crate) fn cancel(&mut self) {
        self.cancelled = true;
    }
}

/// Key of a clock in the progress record.
pub(crate) fn clock(kind: &str, namespace: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}
