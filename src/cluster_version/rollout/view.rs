//! What others know of a rollout: for status, the progress record, events and metrics.

use super::clocks::{Clocks, clock, clock_of};
use super::failures::Failures;
use super::{Plan, Rollout};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::progress::{NodeProgress, NodeState};
use crate::cluster_version::status::drained;
use crate::cluster_version::status::drained::Drained;
use crate::cluster_version::status::facts::Conflict;
use crate::cluster_version::status::failure::{Reason, UpdateError};
use crate::object::manifest::ObjectId;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A rollout at one moment.
#[derive(Clone, Debug)]
pub(crate) struct View {
    pub plan: Arc<Plan>,
    pub started: Timestamp,
    /// Every node is done, and at that moment every object was in place. Once it is, it stays so.
    pub completed: bool,
    /// The own Deployment carries another release, and this process waits to be replaced.
    pub handing_over: bool,
    /// Manifests whose turn is over, without those whose objects are known to fail again.
    pub done: usize,
    /// In graph order.
    pub nodes: Vec<NodeProgress>,
    /// Since when the daemon waits, by what [`UpdateError::name_of`] makes of the object.
    pub waiting_since: BTreeMap<String, Timestamp>,
    /// For the next rollout and the next process.
    pub clocks: Clocks,
    /// Objects that another client keeps changing back, by name.
    pub conflicts: Vec<Conflict>,
    /// Objects that the release has deleted, in its order.
    pub deletions: Vec<ObjectId>,
    /// Failed attempts at manifests so far.
    pub errors: u64,
    /// How many objects were brought back after another client had changed them, by kind.
    pub repairs: BTreeMap<String, u64>,
    failures: Failures,
}

impl View {
    /// As the rollout began, until it has completed: `Reconcile` from then on.
    pub(crate) fn mode(&self) -> Mode {
        if self.completed { Mode::Reconcile } else { self.plan.mode }
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
}

impl Rollout {
    /// As it is now. The clocks of what is waited for run from here on, and conflicts that are over are forgotten.
    pub(crate) fn view(&mut self, now: Timestamp) -> View {
        let awaited = self.awaited();
        let mut clocks = std::mem::take(&mut self.clocks);
        clocks.observe(&awaited, |key| self.is_ahead(key), now);
        self.clocks = clocks;
        self.backdate();
        let since = |id: &ObjectId| Some((UpdateError::name_of(id), self.clocks.of(id)?));
        View {
            waiting_since: awaited.iter().filter_map(since).collect(),
            conflicts: self.conflicts(now),
            plan: self.plan.clone(),
            started: self.started,
            completed: self.completed,
            handing_over: self.handing_over,
            done: self.done(),
            nodes: self.nodes.clone(),
            clocks: self.clocks.clone(),
            deletions: self.deletions().cloned().collect(),
            errors: self.tally.errors,
            repairs: self.tally.repairs.clone(),
            failures: self.failures.clone(),
        }
    }

    /// When the first of the conflicts will be over, if nothing more happens.
    pub(crate) fn conflict_ends(&self, now: Timestamp) -> Option<Timestamp> {
        self.objects.iter().filter_map(|object| object.repairs.conflict_ends(now)).min()
    }

    pub(super) fn done(&self) -> usize {
        self.objects.iter().filter(|object| object.passed && !object.failing).count()
    }

    /// The objects at whose gates nodes wait, and those that are not well although their node went on. What cannot be applied
    /// fails at once and needs no clock, except for a ClusterOperator.
    pub(super) fn awaited(&self) -> Vec<ObjectId> {
        let waiting = self.runs.iter().zip(&self.nodes).filter(|(_, progress)| !progress.waiting.is_empty());
        let waiting = waiting.filter_map(|(run, _)| {
            let id = &self.objects.get(run.waiting()?.0)?.id;
            (id.kind == "ClusterOperator" || run.attempt.reported.is_some()).then(|| id.clone())
        });
        waiting.chain(self.failures.objects()).collect()
    }

    /// Whether the turn of the object with this clock is still to come or under way. Then the time for which it was waited
    /// before still counts.
    pub(super) fn is_ahead(&self, key: &str) -> bool {
        self.objects.iter().any(|object| !object.passed && clock_of(&object.id) == key)
    }

    /// Gives a wait that began before this rollout its old beginning.
    fn backdate(&mut self) {
        for waiting in self.nodes.iter_mut().flat_map(|n| &mut n.waiting) {
            if let Some(since) = self.clocks.of_key(&clock(&waiting.kind, &waiting.namespace, &waiting.name)) {
                waiting.since = Some(waiting.since.map_or(since, |s| s.min(since)));
            }
        }
    }

    /// What is over is forgotten with that.
    pub(super) fn conflicts(&mut self, now: Timestamp) -> Vec<Conflict> {
        self.objects.iter_mut().for_each(|object| object.repairs.forget(now));
        let mut conflicts: Vec<Conflict> =
            self.objects.iter().filter_map(|object| object.repairs.conflict(&object.id, now)).collect();
        conflicts.sort_by(|a, b| a.object.cmp(&b.object));
        conflicts
    }

    pub(super) fn deletions(&self) -> impl Iterator<Item = &ObjectId> {
        let deleted = |position: &usize| self.is_deletion(*position);
        let passed = self.objects.iter().enumerate().filter(|(_, object)| object.passed);
        passed.filter(move |(position, _)| deleted(position)).map(|(_, object)| &object.id)
    }
}
