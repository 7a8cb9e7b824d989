//! One release being applied, and kept as desired once it is: a state machine without clock, tasks or cluster. The
//! executor performs its commands and reports what came of them; each report leads to the next commands.
//!
//! - A node starts when every node before it in the graph is done. Within a node one manifest comes after the other.
//! - Whatever fails is tried again after a pause, without end; the nodes that depend on it wait, all others go on.
//! - A closed gate parks its node until the object changes. Nothing is polled and nothing is walked again.
//! - Of each object at most one attempt is under way. Changes that arrive meanwhile lead to another attempt.
//! - After the turn of a manifest, a change of its object by another client leads to a repair or a new judgement.

mod clocks;
mod failures;
mod message;
mod node;
mod prerequisites;
mod reconcile;
mod repairs;
mod tally;
mod turn;
pub(crate) mod verdict;
mod view;

pub(crate) use clocks::Clocks;
pub(crate) use message::{Cause, Command, Delay, Event, Failure, Judged, Outcome, Purpose, Reconcile, Wake};
pub(crate) use view::View;

use crate::cluster_version::api::FIELD_MANAGER;
use crate::cluster_version::graph::{Frontier, Graph, Mode};
use crate::cluster_version::progress::{NodeProgress, NodeState, WaitingFor};
use crate::cluster_version::status::failure::{Effect, UpdateError};
use crate::gate;
use crate::machine_config::summary;
use crate::merge::{Applied, Manager, OfOthers, Owner};
use crate::object::definition::defined_group;
use crate::object::manifest::{Manifest, ObjectId};
use crate::release::api::Release;
use failures::Failures;
use jiff::Timestamp;
use node::NodeRun;
use prerequisites::Prerequisites;
use repairs::Repairs;
use std::sync::Arc;
use std::time::Duration;
use tally::Tally;

/// Under whose name the objects of a release are written. The machine-config controller wrote under the same name once: which
/// nodes of a pool have their turn, and which configuration.
pub const MANAGER: Manager = Manager {
    name: FIELD_MANAGER,
    of_others: &[
        OfOthers::Annotations(summary::DOMAIN),
        OfOthers::Field { group: summary::DOMAIN, kind: "MachineConfigPool", path: &["f:spec", "f:configuration"] },
    ],
};

/// The ClusterVersion, which owns all objects of the payload. If it is deleted, the garbage collector removes the platform.
pub fn owner(name: &str, uid: &str) -> Owner {
    Owner {
        api_version: "config.openshift.io/v1",
        kind: "ClusterVersion",
        plural: "clusterversions",
        namespaced: false,
        name: name.to_owned(),
        uid: uid.to_owned(),
        shares: true,
    }
}

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
    /// DaemonSets that are being rolled out and Jobs that run are not waited for.
    pub unfinished_pass: bool,
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
    /// Another client keeps changing it.
    contested: bool,
}

#[derive(Debug)]
pub(crate) struct Rollout {
    plan: Arc<Plan>,
    started: Timestamp,
    clocks: Clocks,
    nodes: Vec<NodeProgress>,
    completed: bool,
    cancelled: bool,
    /// The own Deployment carries another release, and this process waits to be replaced.
    handing_over: bool,
    /// It has waited for so long that this is told.
    hand_over_expired: bool,
    frontier: Frontier,
    prerequisites: Prerequisites,
    /// By node.
    runs: Vec<NodeRun>,
    /// By position.
    objects: Vec<Object>,
    failures: Failures,
    tally: Tally,
    commands: Vec<Command>,
}

impl Rollout {
    /// Begins, with the first commands. `clocks`: those of the rollout before, or of the process before.
    pub(crate) fn start(plan: Plan, mut clocks: Clocks, now: Timestamp) -> (Rollout, Vec<Command>) {
        clocks.begin(&plan.release.image);
        let manifests = &plan.manifests;
        let nodes = plan.graph.nodes();
        let mut rollout = Rollout {
            started: now,
            clocks,
            nodes: nodes
                .iter()
                .map(|n| NodeProgress { id: n.id.clone(), total: n.manifests.len(), ..NodeProgress::default() })
                .collect(),
            completed: false,
            cancelled: false,
            handing_over: false,
            hand_over_expired: false,
            frontier: Frontier::new(&plan.graph),
            prerequisites: Prerequisites::new(manifests, plan.mode),
            runs: nodes.iter().map(|n| NodeRun::new(&n.manifests, manifests)).collect(),
            objects: manifests.iter().map(|m| Object { id: m.id.clone(), ..Object::default() }).collect(),
            failures: Failures::default(),
            tally: Tally::default(),
            commands: Vec::new(),
            plan: Arc::new(plan),
        };
        if rollout.plan.hand_over && !rollout.has_successor() {
            rollout.report_missing_successor();
        } else {
            let first = rollout.prerequisites.start();
            rollout.commands.extend(first.into_iter().map(Command::CreatePrerequisite));
            rollout.start_nodes(now);
        }
        let commands = std::mem::take(&mut rollout.commands);
        (rollout, commands)
    }

    pub(crate) fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Every node is done, and at that moment every object was in place. Once it is, it stays so.
    pub(crate) fn is_completed(&self) -> bool {
        self.completed
    }

    /// From here on nothing starts and nothing counts: a rollout that is cancelled before its end never completes.
    pub(crate) fn cancel(&mut self) {
        self.cancelled = true;
    }

    /// Takes in what happened, and says what to do next.
    pub(crate) fn on(&mut self, event: Event, now: Timestamp) -> Vec<Command> {
        if self.cancelled {
            self.on_late(&event);
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

    /// The write of the own Deployment often is answered only when this process has been told to stop because of it.
    fn on_late(&mut self, event: &Event) {
        if let Event::Reconciled(Reconcile { position, purpose: Purpose::Apply { .. }, .. }, outcome) = event
            && outcome.applied.is_some()
            && self.plan.hand_over
            && self.is_own_deployment(*position)
            && !self.is_deletion(*position)
        {
            self.handing_over = true;
        }
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

    fn on_reconciled(&mut self, request: &Reconcile, outcome: Outcome, now: Timestamp) {
        if let (Some(object), Some(id)) = (self.objects.get_mut(request.position), &outcome.id) {
            object.id.clone_from(id);
        }
        match request.purpose {
            Purpose::Apply { node } => self.on_attempt(node, request, false, outcome, now),
            Purpose::Gate { node } => self.on_attempt(node, request, true, outcome, now),
            Purpose::Ahead { node } => {
                self.tally.errors += u64::from(outcome.failure.is_some());
                self.next_ahead(node);
            }
            Purpose::Repair | Purpose::Configuration => self.on_repair(request, outcome, now),
        }
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
            Cause::NoAnswer => Wake::ServerReady,
            Cause::WebhookAway(_) | Cause::Other => Wake::ObjectDeleted,
        }
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
        // One that is given time is waited for; what it amounts to in the end is said by condition Failing.
        let failing = error.as_ref().is_some_and(|e| !matches!(e.effect, Effect::Wait | Effect::FailAfterInterval));
        if !progress.waiting.first().is_some_and(|before| same(&before)) {
            progress.wait_ended(now);
        }
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

    /// As it began, until it has completed: `Reconcile` from then on.
    pub(crate) fn mode(&self) -> Mode {
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

    /// The own Deployment is among what is applied.
    fn has_successor(&self) -> bool {
        (0..self.objects.len()).any(|position| self.is_own_deployment(position) && !self.is_deletion(position))
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

    /// How the gate of an object is judged; `None` if it has none.
    fn gate_mode(&self, position: usize, mode: Mode) -> Option<Mode> {
        let passes = |m: &Manifest| {
            matches!((m.id.group.as_str(), m.id.kind.as_str()), ("apps", "DaemonSet") | ("batch", "Job"))
        };
        let passes = self.plan.unfinished_pass && self.manifest(position).is_some_and(passes);
        // Then only its failure counts.
        self.is_gated(position).then_some(if passes { Mode::Reconcile } else { mode })
    }

    /// A CustomResourceDefinition of the release brings kinds of this group.
    fn release_defines_group_of(&self, position: usize) -> bool {
        let group = self.manifest(position).map(|m| m.id.group.as_str());
        let definitions = self.plan.manifests.iter().filter(|m| m.id.kind == "CustomResourceDefinition");
        definitions.filter_map(|m| defined_group(&m.id.name)).any(|defined| Some(defined) == group)
    }
}

fn unsettled(id: &ObjectId) -> String {
    format!("{id} is applied, and changes again before it can be judged")
}

#[cfg(test)]
mod tests;
