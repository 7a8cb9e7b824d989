//! What happens after the turn of a manifest: changes by other clients and of the cluster configuration lead to a repair or a
//! new judgement, and the rollout completes once everything is in place.

use super::verdict::Unready;
use super::{
    Applied, Cause, Command, Delay, Judged, Object, Outcome, PATIENCE, PAUSE_CAP, Purpose, REPAIR_PAUSE_CAP, Reconcile,
    Rollout, Wake, unsettled,
};
use crate::cluster_version::status::failure::{Effect, Reason, UpdateError};
use crate::merge::inject::Source;
use crate::object::manifest::ObjectId;
use jiff::Timestamp;

impl Rollout {
    /// Completes once every object is in place at the same time: one that failed again after its turn is waited for, and
    /// so is one that is being looked at. What an install goes on past, a degraded operator, does not count; from here
    /// on it does, so it is judged again.
    pub(super) fn complete_if_in_place(&mut self, now: Timestamp) {
        let in_place = |object: &Object| object.passed && !object.failing && !object.repairs.is_at_work();
        if self.completed || self.plan.hand_over || !self.frontier.is_completed() || !self.objects.iter().all(in_place)
        {
            return;
        }
        self.completed = true;
        let failing = self.failures.objects();
        for position in 0..self.objects.len() {
            if self.objects.get(position).is_some_and(|object| failing.contains(&object.id)) {
                self.reconcile(position, now);
            }
        }
    }

    /// Another client changed an object. While its turn is not over, the attempt under way or the next one sees it; a
    /// parked node is woken.
    pub(super) fn on_changed(&mut self, position: usize, content: bool, now: Timestamp) {
        if !content && !self.is_gated_kind(position) {
            return;
        }
        match self.objects.get_mut(position) {
            Some(object) if object.passed => self.reconcile(position, now),
            Some(object) => object.changed = true,
            None => return,
        }
        self.wake(position);
    }

    /// Judges the gate again if a node is parked at it.
    pub(super) fn wake(&mut self, position: usize) {
        if let Some(node) = self.plan.graph.node_of(position)
            && self.runs.get_mut(node).is_some_and(|run| run.unpark(position))
        {
            self.attempt(node, position, true, Delay::default());
        }
    }

    /// Cluster configuration changed: what takes it in is applied again at once.
    pub(super) fn on_configuration(&mut self, sources: &[Source], now: Timestamp) {
        for position in 0..self.plan.manifests.len() {
            let Some(manifest) = self.plan.manifests.get(position) else { continue };
            if !Source::of(manifest).iter().any(|source| sources.contains(source)) {
                continue;
            }
            match self.objects.get_mut(position) {
                Some(object) if object.passed => {
                    object.configuration = true;
                    self.reconcile(position, now);
                }
                Some(object) => {
                    object.changed = true;
                    self.wake(position);
                }
                None => {}
            }
        }
    }

    /// An object whose turn is over is brought back if need be, and judged.
    pub(super) fn reconcile(&mut self, position: usize, now: Timestamp) {
        let Some(object) = self.objects.get_mut(position) else { return };
        if let Some(pause) = object.repairs.begin(now) {
            self.repair(position, Delay::of(pause));
        }
    }

    pub(super) fn repair(&mut self, position: usize, delay: Delay) {
        let gate = self.gate_mode(position, self.mode());
        let Some(object) = self.objects.get_mut(position) else { return };
        let configuration = std::mem::take(&mut object.configuration);
        let purpose = if configuration { Purpose::Configuration } else { Purpose::Repair };
        let contested = object.contested;
        self.commands.push(Command::Reconcile(Reconcile { position, purpose, gate, contested, delay }));
    }

    pub(super) fn on_repair(&mut self, request: &Reconcile, outcome: Outcome, now: Timestamp) {
        let position = request.position;
        // Before the end of the rollout other objects may wait for this one.
        let cap = if self.completed { REPAIR_PAUSE_CAP } else { PAUSE_CAP };
        let Some(object) = self.objects.get_mut(position) else { return };
        let follows = |applied: &&Applied| {
            request.purpose == Purpose::Configuration && matches!(applied, Applied::Updated { .. })
        };
        if let Some(applied) = outcome.applied.as_ref().filter(|applied| !follows(applied)) {
            object.repairs.record_write(applied, now);
            self.tally.repair(&object.id, applied);
        }
        let failed = outcome.failure.is_some();
        self.tally.errors += u64::from(failed);
        let answered = outcome.failure.as_ref().is_none_or(|failure| failure.cause != Cause::NoAnswer);
        let next = object.repairs.end(failed, answered, cap, now);
        let failures = object.repairs.failures();
        let conflict = !object.repairs.pause(now).is_zero();
        object.contested = conflict;
        let id = object.id.clone();
        object.failing = !lets_pass(&outcome);
        if let Some(pause) = next {
            let until = match &outcome.failure {
                Some(failure) if !conflict => self.until_gone(&failure.cause, position, failures),
                _ => Wake::Timeout,
            };
            self.repair(position, Delay { pause, until });
        }
        // A failure that the next attempt may overcome says nothing about the object yet.
        if !failed || failures >= PATIENCE {
            let error = error_of(outcome, &id);
            self.failures.of_object(id, error);
        }
        self.complete_if_in_place(now);
    }
}

/// Whether a node goes on past an object in this state.
pub(super) fn lets_pass(outcome: &Outcome) -> bool {
    let passes = |judged: &Judged| judged.as_desired && judged.unready.as_ref().is_none_or(Unready::lets_pass);
    outcome.failure.is_none() && outcome.judged.as_ref().is_none_or(passes)
}

/// What is to be reported of an object whose turn is over.
fn error_of(outcome: Outcome, id: &ObjectId) -> Option<UpdateError> {
    if let Some(failure) = outcome.failure {
        return Some(failure.error);
    }
    let judged = outcome.judged?;
    match judged.unready {
        Some(unready) => Some(unready.error),
        None if judged.as_desired => None,
        None => Some(UpdateError {
            effect: Effect::Wait,
            names: vec![UpdateError::name_of(id)],
            ..UpdateError::new(Reason::WorkloadUpdating, unsettled(id))
        }),
    }
}
