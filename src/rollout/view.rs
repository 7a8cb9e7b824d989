//! What others read of a rollout: for status, the progress record, and the clocks that outlive a process.

use super::{Plan, Rollout};
use crate::api::progress::{NodeProgress, NodeState};
use crate::graph::Mode;
use crate::payload::ObjectId;
use crate::status::drained::{self, Drained};
use crate::status::facts::Conflict;
use crate::status::failure::{Reason, UpdateError};
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

    /// What is wrong now, joined into one error, where nodes of the cluster explain that some operators are not available.
    pub(crate) fn failure_beside(&self, drained: &Drained) -> Option<UpdateError> {
        self.failures.failure_beside(drained)
    }

    /// Names of the ClusterOperators that fail because they are not available.
    pub(crate) fn unavailable_operators(&self) -> BTreeSet<String> {
        drained::unavailable(self.failures.all())
    }

    /// The nodes of the graph as they are told where nodes of the cluster explain that some operators are not available.
    pub(crate) fn nodes_beside(&self, drained: &Drained) -> Vec<NodeProgress> {
        let mut nodes = self.nodes.clone();
        for node in nodes.iter_mut().filter(|node| node.state == NodeState::Failing) {
            let [waiting] = node.waiting.as_mut_slice() else { continue };
            let explained = drained.get(&waiting.name).filter(|_| waiting.kind == "ClusterOperator");
            if let Some(explaining) = explained.filter(|_| waiting.reason == Reason::OperatorNotAvailable.as_str()) {
                node.state = NodeState::Waiting;
                node.error.clear();
                if !explaining.is_empty() {
                    waiting.reason = Reason::NodesUpdating.to_string();
                    waiting.message = drained::text(&BTreeSet::from([waiting.name.clone()]), explaining);
                }
            }
        }
        nodes
    }

    /// The objects at whose gates nodes wait, and those that are not well although their node went on. What cannot be applied
    /// fails at once and needs no clock, except for a ClusterOperator.
    pub(crate) fn awaited(&self) -> Vec<ObjectId> {
        let waiting = self.runs.iter().zip(&self.nodes).filter(|(_, progress)| !progress.waiting.is_empty());
        let waiting = waiting.filter_map(|(run, _)| {
            let id = &self.objects.get(run.waiting()?.0)?.id;
            (id.kind == "ClusterOperator" || run.attempt.reported.is_some()).then(|| id.clone())
        });
        waiting.chain(self.failures.objects()).collect()
    }

    /// Whether the turn of the object with this clock is still to come or under way. Then the time for which it was waited
    /// before still counts.
    pub(crate) fn is_ahead(&self, key: &str) -> bool {
        self.objects.iter().any(|object| !object.passed && clock_of(&object.id) == key)
    }

    /// Gives a wait that began before this process its old beginning. Clocks are keyed as by [`clock`].
    pub(crate) fn backdate(&mut self, clocks: &BTreeMap<String, Timestamp>) {
        for waiting in self.nodes.iter_mut().flat_map(|n| &mut n.waiting) {
            if let Some(since) = clocks.get(&clock(&waiting.kind, &waiting.namespace, &waiting.name)) {
                waiting.since = Some(waiting.since.map_or(*since, |s| s.min(*since)));
            }
        }
    }

    /// Objects that another client keeps changing back, by name. What is over is forgotten with that.
    pub(crate) fn conflicts(&mut self, now: Timestamp) -> Vec<Conflict> {
        self.objects.iter_mut().for_each(|object| object.repairs.forget(now));
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

/// Key of the clock of an object.
pub(crate) fn clock_of(id: &ObjectId) -> String {
    clock(&id.kind, &id.namespace, &id.name)
}

/// Key of a clock in the progress record.
pub(crate) fn clock(kind: &str, namespace: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}
