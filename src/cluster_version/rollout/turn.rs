//! The turn of each manifest in its node: it is applied, its gate is waited for, and what fails is tried again.

use super::node::Step;
use super::verdict::Unready;
use super::{
    Applied, Cause, Command, Delay, Failure, HAND_OVER, Judged, Object, Outcome, PATIENCE, PAUSE_CAP, Purpose,
    Reconcile, Rollout, UNSTABLE, Wake, unsettled,
};
use crate::cluster_version::graph::Mode;
use crate::cluster_version::progress::NodeState;
use crate::cluster_version::status::failure::{Reason, UpdateError};
use crate::object::definition::defined_group;
use crate::object::manifest::Manifest;
use crate::pause::doubled;
use jiff::Timestamp;
use std::time::Duration;

impl Rollout {
    /// Goes on with the next manifest of a node.
    pub(super) fn step(&mut self, node: usize, now: Timestamp) {
        let Some(run) = self.runs.get_mut(node) else { return };
        match run.step(&self.plan.manifests, self.plan.mode) {
            Step::Precreate(position) => self.commands.push(Command::Precreate { node, position }),
            Step::Apply(position) if self.prerequisites.hold(position, node) => {}
            Step::Apply(position) => self.attempt(node, position, false, Delay::default()),
            Step::Gate(position) => self.attempt(node, position, true, Delay::default()),
            Step::Done => self.node_done(node, now),
        }
    }

    /// The next attempt at the present manifest of a node.
    pub(super) fn attempt(&mut self, node: usize, position: usize, applied: bool, delay: Delay) {
        let deferred = !applied && self.is_definition(position);
        let gate = self.gate_mode(position, self.plan.mode).filter(|_| !deferred && !self.is_own_deployment(position));
        let Some(object) = self.objects.get_mut(position) else { return };
        object.changed = false;
        self.commands.push(Command::Reconcile(Reconcile {
            position,
            purpose: if applied { Purpose::Gate { node } } else { Purpose::Apply { node } },
            gate,
            contested: object.contested,
            delay,
        }));
    }

    pub(super) fn on_attempt(
        &mut self,
        node: usize,
        request: &Reconcile,
        applied_before: bool,
        outcome: Outcome,
        now: Timestamp,
    ) {
        let position = request.position;
        let Some(run) = self.runs.get_mut(node) else { return };
        let repaired = outcome.applied.as_ref().filter(|applied| applied_before && **applied != Applied::Unchanged);
        let mut pause = Duration::ZERO;
        if let (Some(applied), Some(object)) = (repaired, self.objects.get_mut(position)) {
            object.repairs.record_write(applied, now);
            self.tally.repair(&object.id, applied);
            pause = object.repairs.pause(now);
            object.contested = !pause.is_zero();
        }
        if let Some(failure) = outcome.failure {
            let applied = applied_before || outcome.applied.is_some();
            return self.on_failed_attempt(node, position, applied, &failure, now);
        }
        run.attempt.failures = 0;
        if repaired.is_some() {
            // What it was between two writes counts: it is never seen at rest as it should be.
            if request.contested && super::reconcile::lets_pass(&outcome) {
                return self.passed(node, position, now);
            }
            // Another client that keeps changing the object is answered more and more slowly.
            return self.attempt(node, position, true, Delay::of(pause));
        }
        if !applied_before && self.is_definition(position) && !self.is_deletion(position) {
            // In an install the prerequisites have seen to those that were created there.
            if self.plan.mode != Mode::Install || outcome.applied == Some(Applied::Created) {
                self.commands.push(Command::ServeKinds(position));
            }
            if let Some(run) = self.runs.get_mut(node) {
                run.defer_gate();
            }
            return self.step(node, now);
        }
        if self.plan.hand_over && self.is_own_deployment(position) && !self.is_deletion(position) {
            return self.hand_over(node, position, now);
        }
        match outcome.judged {
            Some(judged) => self.on_judged(node, position, judged, now),
            None => self.passed(node, position, now),
        }
    }

    pub(super) fn on_failed_attempt(
        &mut self,
        node: usize,
        position: usize,
        applied: bool,
        failure: &Failure,
        now: Timestamp,
    ) {
        let definition = self.is_definition(position);
        self.tally.errors += 1;
        if let Some(progress) = self.nodes.get_mut(node) {
            progress.retries = progress.retries.saturating_add(1);
        }
        let Some(run) = self.runs.get_mut(node) else { return };
        if failure.cause == Cause::KindNotServed && !definition && run.wait_for_definitions() {
            return self.step(node, now);
        }
        let group = self.plan.manifests.get(position).map(|m| m.id.group.as_str()).unwrap_or_default();
        if failure.cause == Cause::KindNotServed && self.prerequisites.bring(group, &self.plan.manifests) {
            let delay = Delay { pause: PAUSE_CAP, until: Wake::KindServed { refresh: false } };
            return self.attempt(node, position, applied, delay);
        }
        run.attempt.failures = run.attempt.failures.saturating_add(1);
        run.attempt.reported = None;
        let failures = run.attempt.failures;
        let reported = (failures >= PATIENCE).then(|| failure.error.clone());
        self.report_waiting(node, position, failure.error.reason.as_str(), &failure.error.message, reported, now);
        let ahead = match &failure.cause {
            Cause::WebhookAway(of) if failures >= PATIENCE && !applied => {
                self.brings_webhook(node, position, of.as_deref())
            }
            _ => Vec::new(),
        };
        if !ahead.is_empty() {
            if let Some(run) = self.runs.get_mut(node) {
                run.write_ahead(ahead);
            }
            return self.next_ahead(node);
        }
        let until = self.until_gone(&failure.cause, position, failures);
        let pause = retry_pause(failures);
        self.attempt(node, position, applied, Delay { pause, until });
    }

    /// What is behind a manifest and brings the webhook that it waits for, with all that comes before that: the workloads in
    /// the namespace of the webhook's Service, or those of a component that defines the kind which is converted. Empty if
    /// somebody else has to bring it. Never among it are the own Deployment, ClusterOperators, definitions and deletions: their
    /// turn means something. Nor is anything behind a Job, which has to have ended before.
    fn brings_webhook(&self, node: usize, position: usize, namespace: Option<&str>) -> Vec<usize> {
        let (Some(run), Some(waiting)) = (self.runs.get(node), self.manifest(position)) else { return Vec::new() };
        let positions = self.plan.graph.nodes().get(node).map(|node| node.manifests.as_slice()).unwrap_or_default();
        let defines_kind = positions.iter().filter(|other| self.is_definition(**other)).any(|definition| {
            self.manifest(*definition).and_then(|m| defined_group(&m.id.name)) == Some(waiting.id.group.as_str())
        });
        let is_written = |m: &Manifest| m.delete() == Ok(false) && m.id != self.plan.own_deployment;
        let brings = |m: &Manifest| {
            let workload = matches!(m.id.kind.as_str(), "Deployment" | "DaemonSet" | "StatefulSet");
            let here = namespace.map_or(defines_kind, |namespace| m.id.namespace == namespace);
            m.id.group == "apps" && workload && here && is_written(m)
        };
        let is =
            |condition: &dyn Fn(&Manifest) -> bool, position: usize| self.manifest(position).is_some_and(condition);
        let is_job = |m: &Manifest| (m.id.group.as_str(), m.id.kind.as_str()) == ("batch", "Job");
        let behind: Vec<usize> = run.behind(position).take_while(|other| !is(&is_job, *other)).collect();
        let Some(last) = behind.iter().rposition(|other| is(&brings, *other)) else { return Vec::new() };
        let caught = |m: &Manifest| (&m.id.group, &m.id.kind) == (&waiting.id.group, &waiting.id.kind);
        let ahead = |m: &Manifest| {
            let in_turn = matches!(m.id.kind.as_str(), "ClusterOperator" | "CustomResourceDefinition");
            is_written(m) && !in_turn && !caught(m)
        };
        behind.into_iter().take(last + 1).filter(|other| is(&ahead, *other)).collect()
    }

    /// Writes the next manifest that brings a webhook; after the last one the manifest that waits for it is tried again, at
    /// the latest after a pause.
    pub(super) fn next_ahead(&mut self, node: usize) {
        let Some(run) = self.runs.get_mut(node) else { return };
        if let Some(position) = run.next_ahead() {
            let purpose = Purpose::Ahead { node };
            let (gate, contested, delay) = (None, false, Delay::default());
            return self.commands.push(Command::Reconcile(Reconcile { position, purpose, gate, contested, delay }));
        }
        let Some((position, failures)) = run.waiting() else { return };
        let pause = retry_pause(failures);
        let behind: Vec<usize> = run.behind(position).collect();
        let behind = behind.into_iter().filter(|other| self.is_gated_kind(*other)).collect();
        self.attempt(node, position, false, Delay { pause, until: Wake::AnyChanged(behind) });
    }

    pub(super) fn on_judged(&mut self, node: usize, position: usize, judged: Judged, now: Timestamp) {
        let Some(run) = self.runs.get_mut(node) else { return };
        if !judged.as_desired {
            run.attempt.unstable = run.attempt.unstable.saturating_add(1);
            let unstable = run.attempt.unstable;
            if unstable == UNSTABLE {
                run.attempt.reported = None;
                let message = unsettled(&self.id(position));
                self.report_waiting(node, position, "Unsettled", &message, None, now);
            }
            let pause = doubled(Duration::from_millis(10), unstable, Duration::from_secs(1));
            return self.attempt(node, position, true, Delay::of(pause));
        }
        run.attempt.unstable = 0;
        let Some(unready) = judged.unready else { return self.passed(node, position, now) };
        if unready.lets_pass() {
            self.failures.of_object(self.id(position), Some(unready.error));
            return self.passed(node, position, now);
        }
        if run.attempt.reported.as_ref() != Some(&unready) {
            run.attempt.reported = Some(unready.clone());
            let Unready { reason, message, error } = unready;
            self.report_waiting(node, position, &reason, &message, Some(error), now);
        }
        self.park(node, position);
    }

    /// The own Deployment carries the new release: this process waits to be stopped, and its successor goes on. Until
    /// then the Deployment is brought back whenever another client changes it.
    pub(super) fn hand_over(&mut self, node: usize, position: usize, now: Timestamp) {
        if !std::mem::replace(&mut self.handing_over, true) {
            self.commands.push(Command::HandOverTimer { node, after: HAND_OVER });
        }
        // Again after each attempt: one that failed in between was told instead.
        self.report_hand_over(node, position, now);
        self.park(node, position);
    }

    /// Waits for the object to change, unless it has changed since the attempt began.
    pub(super) fn park(&mut self, node: usize, position: usize) {
        if self.objects.get(position).is_some_and(|object| object.changed) {
            return self.attempt(node, position, true, Delay::default());
        }
        if let Some(run) = self.runs.get_mut(node) {
            run.attempt.parked = true;
        }
    }

    pub(super) fn on_hand_over_expired(&mut self, node: usize, now: Timestamp) {
        let own = |object: &Object| object.id == self.plan.own_deployment;
        let Some(position) = self.objects.iter().position(own) else { return };
        self.hand_over_expired = true;
        self.report_hand_over(node, position, now);
    }

    fn report_hand_over(&mut self, node: usize, position: usize, now: Timestamp) {
        if !self.hand_over_expired {
            let message = "the new release's own Deployment is applied; waiting for this process to be replaced";
            return self.report_waiting(node, position, "HandOver", message, None, now);
        }
        let message = format!(
            "{} was applied {} s ago, but this process has not been asked to stop: look at the Deployment's events and \
             pods; the old release still serves",
            self.id(position),
            HAND_OVER.as_secs()
        );
        let error = UpdateError::new(Reason::HandOverTimedOut, message.as_str());
        self.report_waiting(node, position, "HandOverTimedOut", &message, Some(error), now);
    }

    pub(super) fn passed(&mut self, node: usize, position: usize, now: Timestamp) {
        if let Some(progress) = self.nodes.get_mut(node) {
            progress.done += 1;
            progress.state = NodeState::Running;
            progress.wait_ended(now);
            progress.waiting.clear();
            progress.error.clear();
        }
        self.failures.of_node(node, None);
        if let Some(run) = self.runs.get_mut(node) {
            run.passed(position);
        }
        if let Some(object) = self.objects.get_mut(position) {
            object.passed = true;
            if std::mem::take(&mut object.changed) {
                self.reconcile(position, now);
            }
        }
        self.step(node, now);
    }

    pub(super) fn node_done(&mut self, node: usize, now: Timestamp) {
        if let Some(progress) = self.nodes.get_mut(node) {
            progress.state = NodeState::Done;
            progress.finished = Some(now);
        }
        self.failures.of_node(node, None);
        self.frontier.done(node);
        self.start_nodes(now);
        self.complete_if_in_place(now);
    }

    /// Nothing is applied of another release whose orchestrator could not take over: this process would carry the cluster to it
    /// to the end, and the next one would go back to its own release.
    pub(super) fn report_missing_successor(&mut self) {
        let id = self.plan.own_deployment.clone();
        let message = format!(
            "nothing of the release is applied, because its orchestrator could not take over: {id} is excluded, see \
             spec.overrides and the capabilities that are enabled"
        );
        self.failures.of_object(id, Some(UpdateError::new(Reason::NoSuccessor, message)));
    }
}

/// Between two attempts at the manifest whose turn it is.
fn retry_pause(failures: u32) -> Duration {
    doubled(Duration::from_millis(500), failures, PAUSE_CAP)
}
