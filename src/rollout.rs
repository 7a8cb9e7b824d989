//! One release being applied, and kept as desired once it is: a state machine without clock, tasks or cluster. The
//! executor performs its commands and reports what came of them; each report leads to the next commands.
//!
//! - A node starts when every node before it in the graph is done. Within a node one manifest comes after the other.
//! - Whatever fails is tried again after a pause, without end; the nodes that depend on it wait, all others go on.
//! - A closed gate parks its node until the object changes. Nothing is polled and nothing is walked again.
//! - Of each object at most one attempt is under way. Changes that arrive meanwhile lead to another attempt.
//! - After the turn of a manifest, a change of its object by another client leads to a repair or a new judgement.

mod backoff;
mod failures;
mod message;
mod node;
mod prerequisites;
mod repairs;
mod view;

pub(crate) use backoff::doubled;
pub(crate) use message::{Applied, Cause, Command, Delay, Event, Failure, Judged, Outcome, Purpose, Reconcile, Wake};
pub(crate) use view::clock;

use crate::api::Release;
use crate::api::progress::{NodeProgress, NodeState, WaitingFor};
use crate::gate::{self, Verdict};
use crate::graph::{Frontier, Graph, Mode};
use crate::merge::inject::Source;
use crate::payload::{Manifest, ObjectId};
use crate::status::failure::{Effect, Reason, UpdateError};
use failures::Failures;
use jiff::Timestamp;
use node::{NodeRun, Step};
use prerequisites::Prerequisites;
use repairs::Repairs;
use std::sync::Arc;
use std::time::Duration;

/// Failures of one manifest in a row before they are reported: about four seconds of retries.
const PATIENCE: u32 = 3;
/// Judgements in a row that were overtaken by a change of the object before that is reported.
const UNSTABLE: u32 = 10;
/// Pauses between attempts at an object double up to this, as long as the rollout has not completed.
const PAUSE_CAP: Duration = Duration::from_secs(30);
/// The same afterwards.
const REPAIR_PAUSE_CAP: Duration = Duration::from_secs(300);
/// How long the own Deployment may be out without this process being told to stop.
const HAND_OVER: Duration = Duration::from_secs(300);

/// What is to be applied and how.
#[derive(Debug)]
pub(crate) struct Plan {
    pub release: Release,
    pub mode: Mode,
    /// Those that are included, in load order.
    pub manifests: Vec<Arc<Manifest>>,
    pub graph: Graph,
    pub own_deployment: ObjectId,
    /// Applying the own Deployment hands over to a successor.
    pub hand_over: bool,
}

/// What is known of one manifest's object.
#[derive(Debug, Default)]
struct Object {
    /// As the cluster names it, as far as its kind is known.
    id: ObjectId,
    /// Its turn is over: it was in place, its gate passed.
    passed: bool,
    /// After its turn it was found not to be in place any more, or its gate to be closed.
    failing: bool,
    /// Changed, or its configuration did, since the attempt under way began.
    changed: bool,
    repairs: Repairs,
    /// The next attempt brings it to changed cluster configuration, which is no repair.
    configuration: bool,
}

#[derive(Debug)]
pub(crate) struct Rollout {
    plan: Plan,
    started: Timestamp,
    nodes: Vec<NodeProgress>,
    completed: bool,
    cancelled: bool,
    /// The own Deployment carries another release, and this process waits to be replaced.
    handing_over: bool,
    frontier: Frontier,
    prerequisites: Prerequisites,
    /// By node.
    runs: Vec<NodeRun>,
    /// By position.
    objects: Vec<Object>,
    failures: Failures,
    commands: Vec<Command>,
}

impl Rollout {
    /// Begins, with the first commands.
    pub(crate) fn start(plan: Plan, now: Timestamp) -> (Rollout, Vec<Command>) {
        let manifests = &plan.manifests;
        let nodes = plan.graph.nodes();
        let mut rollout = Rollout {
            started: now,
            nodes: nodes
                .iter()
                .map(|n| NodeProgress { id: n.id.clone(), total: n.manifests.len(), ..NodeProgress::default() })
                .collect(),
            completed: false,
            cancelled: false,
            handing_over: false,
            frontier: Frontier::new(&plan.graph),
            prerequisites: Prerequisites::new(manifests, plan.mode),
            runs: nodes.iter().map(|n| NodeRun::new(&n.manifests, manifests)).collect(),
            objects: manifests.iter().map(|m| Object { id: m.id.clone(), ..Object::default() }).collect(),
            failures: Failures::default(),
            commands: Vec::new(),
            plan,
        };
        let first = rollout.prerequisites.start();
        rollout.commands.extend(first.into_iter().map(Command::CreatePrerequisite));
        rollout.start_nodes(now);
        let commands = std::mem::take(&mut rollout.commands);
        (rollout, commands)
    }

    /// Takes in what happened, and says what to do next.
    pub(crate) fn on(&mut self, event: Event, now: Timestamp) -> Vec<Command> {
        if self.cancelled {
            return Vec::new();
        }
        match event {
            Event::PrerequisiteDone { position, applied } => self.on_prerequisite(position, applied.as_ref(), now),
            Event::Precreated { node } => self.step(node, now),
            Event::Reconciled(request, outcome) => self.on_reconciled(&request, *outcome, now),
            Event::Changed { position, content } => self.on_changed(position, content, now),
            Event::ConfigurationChanged(sources) => self.on_configuration(&sources, now),
            Event::HandOverExpired { node } => self.on_hand_over_expired(node, now),
        }
        std::mem::take(&mut self.commands)
    }

    fn start_nodes(&mut self, now: Timestamp) {
        let started = self.frontier.start();
        for index in &started {
            if let Some(node) = self.nodes.get_mut(*index) {
                node.state = NodeState::Running;
                node.started = Some(now);
            }
        }
        if self.prerequisites.are_namespaces_done() {
            started.into_iter().for_each(|node| self.step(node, now));
        }
    }

    fn on_prerequisite(&mut self, position: usize, applied: Option<&Applied>, now: Timestamp) {
        if applied == Some(&Applied::Created) && self.is_definition(position) {
            self.commands.push(Command::ServeKinds(position));
        }
        let nodes_wait = !self.prerequisites.are_namespaces_done();
        let (next, waiting) = self.prerequisites.ended(position);
        self.commands.extend(next.into_iter().map(Command::CreatePrerequisite));
        if nodes_wait && self.prerequisites.are_namespaces_done() {
            self.frontier.running().into_iter().for_each(|node| self.step(node, now));
        }
        if let Some(node) = waiting {
            self.step(node, now);
        }
    }

    /// Goes on with the next manifest of a node.
    fn step(&mut self, node: usize, now: Timestamp) {
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
    fn attempt(&mut self, node: usize, position: usize, applied: bool, delay: Delay) {
        let deferred = !applied && self.is_definition(position);
        let gated = !deferred && self.is_gated(position) && !self.is_own_deployment(position);
        if let Some(object) = self.objects.get_mut(position) {
            object.changed = false;
        }
        self.commands.push(Command::Reconcile(Reconcile {
            position,
            purpose: if applied { Purpose::Gate { node } } else { Purpose::Apply { node } },
            gate: gated.then_some(self.plan.mode),
            delay,
        }));
    }

    fn on_reconciled(&mut self, request: &Reconcile, outcome: Outcome, now: Timestamp) {
        if let (Some(object), Some(id)) = (self.objects.get_mut(request.position), &outcome.id) {
            object.id.clone_from(id);
        }
        match request.purpose {
            Purpose::Apply { node } => self.on_attempt(node, request.position, false, outcome, now),
            Purpose::Gate { node } => self.on_attempt(node, request.position, true, outcome, now),
            Purpose::Repair | Purpose::Configuration => self.on_repair(request, outcome, now),
        }
    }

    fn on_attempt(&mut self, node: usize, position: usize, applied_before: bool, outcome: Outcome, now: Timestamp) {
        let Some(run) = self.runs.get_mut(node) else { return };
        let repaired = outcome.applied.as_ref().filter(|applied| applied_before && **applied != Applied::Unchanged);
        let mut pause = Duration::ZERO;
        if let (Some(applied), Some(object)) = (repaired, self.objects.get_mut(position)) {
            object.repairs.record_write(applied, now);
            pause = object.repairs.pause(now);
        }
        if let Some(failure) = outcome.failure {
            let applied = applied_before || outcome.applied.is_some();
            return self.on_failed_attempt(node, position, applied, &failure, now);
        }
        run.attempt.failures = 0;
        if repaired.is_some() {
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

    fn on_failed_attempt(&mut self, node: usize, position: usize, applied: bool, failure: &Failure, now: Timestamp) {
        let definition = self.is_definition(position);
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
        if failure.cause == Cause::WebhookAway
            && failures >= PATIENCE
            && !applied
            && self.runs.get_mut(node).is_some_and(|run| run.pass_over(position))
        {
            return self.step(node, now);
        }
        let until = self.until_gone(&failure.cause, position, failures);
        let pause = doubled(Duration::from_millis(500), failures, PAUSE_CAP);
        self.attempt(node, position, applied, Delay { pause, until });
    }

    /// The event that removes the cause of a failure.
    fn until_gone(&self, cause: &Cause, position: usize, failures: u32) -> Wake {
        match cause {
            Cause::NamespaceMissing(name) => Wake::NamespaceChanged(name.clone()),
            Cause::Terminating => Wake::ObjectChanged,
            // Another client may serve a kind in a group of the release as well: after a while the server is asked.
            Cause::KindNotServed => {
                Wake::KindServed { refresh: failures >= PATIENCE || !self.release_defines_group_of(position) }
            }
            Cause::KindGone => Wake::Refresh,
            Cause::WebhookAway | Cause::Other => Wake::Timeout,
        }
    }

    fn on_judged(&mut self, node: usize, position: usize, judged: Judged, now: Timestamp) {
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
        let (reason, message, error) = match judged.verdict {
            Verdict::Ready => return self.passed(node, position, now),
            Verdict::Failing(error) if error.effect == Effect::Report => {
                self.failures.of_object(self.id(position), Some(error));
                return self.passed(node, position, now);
            }
            Verdict::Waiting { reason, message, report } => (reason, message, report),
            Verdict::Failing(error) => (error.reason.to_string(), error.message.clone(), Some(error)),
        };
        let report = (reason, message, error);
        if let Some(run) = self.runs.get_mut(node).filter(|run| run.attempt.reported.as_ref() != Some(&report)) {
            run.attempt.reported = Some(report.clone());
            let (reason, message, error) = report;
            self.report_waiting(node, position, &reason, &message, error, now);
        }
        self.park(node, position);
    }

    /// The own Deployment carries the new release: this process waits to be stopped, and its successor goes on. Until
    /// then the Deployment is brought back whenever another client changes it.
    fn hand_over(&mut self, node: usize, position: usize, now: Timestamp) {
        if !std::mem::replace(&mut self.handing_over, true) {
            let message = "the new release's own Deployment is applied; waiting for this process to be replaced";
            self.report_waiting(node, position, "HandOver", message, None, now);
            self.commands.push(Command::HandOverTimer { node, after: HAND_OVER });
        }
        self.park(node, position);
    }

    /// Waits for the object to change, unless it has changed since the attempt began.
    fn park(&mut self, node: usize, position: usize) {
        if self.objects.get(position).is_some_and(|object| object.changed) {
            return self.attempt(node, position, true, Delay::default());
        }
        if let Some(run) = self.runs.get_mut(node) {
            run.attempt.parked = true;
        }
    }

    fn on_hand_over_expired(&mut self, node: usize, now: Timestamp) {
        let own = |object: &Object| object.id == self.plan.own_deployment;
        let Some(position) = self.objects.iter().position(own) else { return };
        let message = format!(
            "{} was applied {} s ago, but this process has not been asked to stop: look at the Deployment's events and \
             pods; the old release still serves",
            self.id(position),
            HAND_OVER.as_secs()
        );
        let error = UpdateError::new(Reason::HandOverTimedOut, message.as_str());
        self.report_waiting(node, position, "HandOverTimedOut", &message, Some(error), now);
    }

    fn passed(&mut self, node: usize, position: usize, now: Timestamp) {
        if let Some(progress) = self.nodes.get_mut(node) {
            progress.done += 1;
            progress.state = NodeState::Running;
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

    fn node_done(&mut self, node: usize, now: Timestamp) {
        if let Some(progress) = self.nodes.get_mut(node) {
            progress.state = NodeState::Done;
            progress.finished = Some(now);
        }
        self.failures.of_node(node, None);
        self.frontier.done(node);
        self.start_nodes(now);
        if self.plan.hand_over && self.frontier.is_completed() {
            self.report_missing_successor();
        }
        self.complete_if_in_place(now);
    }

    /// Everything of another release is in place, and nothing has taken over: if this counted as completed, its
    /// orchestrator would never run, and the next process would go back to its own release.
    fn report_missing_successor(&mut self) {
        let id = self.plan.own_deployment.clone();
        let message = format!(
            "the release is applied, but its orchestrator cannot take over: {id} is excluded, see spec.overrides and the \
             capabilities that are enabled"
        );
        self.failures.of_object(id, Some(UpdateError::new(Reason::NoSuccessor, message)));
    }

    /// Completes once every object is in place at the same time: one that failed again after its turn is waited for, and
    /// so is one that is being looked at. What an install goes on past, a degraded operator, does not count; from here
    /// on it does, so it is judged again.
    fn complete_if_in_place(&mut self, now: Timestamp) {
        let in_place = |object: &Object| object.passed && !object.failing && !object.repairs.is_running();
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
    fn on_changed(&mut self, position: usize, content: bool, now: Timestamp) {
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
    fn wake(&mut self, position: usize) {
        if let Some(node) = self.plan.graph.node_of(position)
            && self.runs.get_mut(node).is_some_and(|run| run.unpark(position))
        {
            self.attempt(node, position, true, Delay::default());
        }
    }

    /// Cluster configuration changed: what takes it in is applied again at once.
    fn on_configuration(&mut self, sources: &[Source], now: Timestamp) {
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
    fn reconcile(&mut self, position: usize, now: Timestamp) {
        let Some(object) = self.objects.get_mut(position) else { return };
        if let Some(pause) = object.repairs.begin(now) {
            self.repair(position, Delay::of(pause));
        }
    }

    fn repair(&mut self, position: usize, delay: Delay) {
        let gate = self.is_gated(position).then(|| self.mode());
        let Some(object) = self.objects.get_mut(position) else { return };
        let configuration = std::mem::take(&mut object.configuration);
        let purpose = if configuration { Purpose::Configuration } else { Purpose::Repair };
        self.commands.push(Command::Reconcile(Reconcile { position, purpose, gate, delay }));
    }

    fn on_repair(&mut self, request: &Reconcile, outcome: Outcome, now: Timestamp) {
        let position = request.position;
        // Before the end of the rollout other objects may wait for this one.
        let cap = if self.completed { REPAIR_PAUSE_CAP } else { PAUSE_CAP };
        let Some(object) = self.objects.get_mut(position) else { return };
        let follows = |applied: &&Applied| {
            request.purpose == Purpose::Configuration && matches!(applied, Applied::Updated { .. })
        };
        if let Some(applied) = outcome.applied.as_ref().filter(|applied| !follows(applied)) {
            object.repairs.record_write(applied, now);
        }
        let failed = outcome.failure.is_some();
        let next = object.repairs.end(failed, cap, now);
        let failures = object.repairs.failures();
        let conflict = !object.repairs.pause(now).is_zero();
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

    /// The node waits, and the error that conditions are to report, if there is one.
    fn report_waiting(
        &mut self,
        node: usize,
        position: usize,
        reason: &str,
        message: &str,
        error: Option<UpdateError>,
        now: Timestamp,
    ) {
        let Some((progress, manifest)) = self.nodes.get_mut(node).zip(self.plan.manifests.get(position)) else {
            return;
        };
        let ObjectId { kind, namespace, name, .. } = &manifest.id;
        let same = |w: &&WaitingFor| (&w.kind, &w.namespace, &w.name) == (kind, namespace, name);
        let since = progress.waiting.first().filter(same).and_then(|w| w.since).unwrap_or(now);
        let failing = error.as_ref().is_some_and(|error| error.effect != Effect::Wait);
        progress.state = if failing { NodeState::Failing } else { NodeState::Waiting };
        progress.error = if failing { message.to_owned() } else { String::new() };
        progress.waiting = vec![WaitingFor {
            kind: kind.clone(),
            namespace: namespace.clone(),
            name: name.clone(),
            reason: reason.to_owned(),
            message: message.to_owned(),
            since: Some(since),
        }];
        self.failures.of_node(node, error);
    }

    fn mode(&self) -> Mode {
        if self.completed { Mode::Reconcile } else { self.plan.mode }
    }

    fn manifest(&self, position: usize) -> Option<&Manifest> {
        self.plan.manifests.get(position).map(Arc::as_ref)
    }

    fn id(&self, position: usize) -> ObjectId {
        self.objects.get(position).map(|object| object.id.clone()).unwrap_or_default()
    }

    fn is_definition(&self, position: usize) -> bool {
        self.manifest(position).is_some_and(|m| m.id.kind == "CustomResourceDefinition")
    }

    fn is_deletion(&self, position: usize) -> bool {
        self.manifest(position).is_some_and(|m| m.delete() == Ok(true))
    }

    fn is_own_deployment(&self, position: usize) -> bool {
        self.objects.get(position).is_some_and(|object| object.id == self.plan.own_deployment)
    }

    fn is_gated_kind(&self, position: usize) -> bool {
        self.manifest(position).is_some_and(|m| gate::gated(&m.id.group, &m.id.kind))
    }

    fn is_gated(&self, position: usize) -> bool {
        let waited_for = |m: &Manifest| m.delete() == Ok(false) && !m.create_only();
        self.is_gated_kind(position) && self.manifest(position).is_some_and(waited_for)
    }

    /// A CustomResourceDefinition of the release brings kinds of this group.
    fn release_defines_group_of(&self, position: usize) -> bool {
        let group = self.manifest(position).map(|m| m.id.group.as_str());
        let definitions = self.plan.manifests.iter().filter(|m| m.id.kind == "CustomResourceDefinition");
        definitions.filter_map(|m| prerequisites::defined_group(m)).any(|defined| Some(defined) == group)
    }
}

/// Whether a node goes on past an object in this state.
fn lets_pass(outcome: &Outcome) -> bool {
    let open = |verdict: &Verdict| match verdict {
        Verdict::Ready => true,
        Verdict::Failing(error) => error.effect == Effect::Report,
        Verdict::Waiting { .. } => false,
    };
    outcome.failure.is_none() && outcome.judged.as_ref().is_none_or(|judged| judged.as_desired && open(&judged.verdict))
}

/// What is to be reported of an object whose turn is over.
fn error_of(outcome: Outcome, id: &ObjectId) -> Option<UpdateError> {
    if let Some(failure) = outcome.failure {
        return Some(failure.error);
    }
    let judged = outcome.judged?;
    match judged.verdict {
        Verdict::Failing(error) => Some(error),
        Verdict::Waiting { report, .. } => report,
        Verdict::Ready if judged.as_desired => None,
        Verdict::Ready => Some(UpdateError {
            effect: Effect::Wait,
            names: vec![id.name.clone()],
            ..UpdateError::new(Reason::WorkloadUpdating, unsettled(id))
        }),
    }
}

fn unsettled(id: &ObjectId) -> String {
    format!("{id} is applied, and changes again before it can be judged")
}

#[cfg(test)]
mod tests;
