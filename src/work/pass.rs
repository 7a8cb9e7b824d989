//! One release being applied, and looked after once it is: the frontier says which nodes may start, their tasks report,
//! and after a node is done the index's news about its objects are drift to repair or health to judge.

mod troubles;

use super::apply::{Applied, Applier};
use super::drift::{self, Mended, Repairs};
use super::node::{self, Context, Report, What};
use super::surroundings::{self, Changed};
use crate::api::Release;
use crate::api::progress::{NodeProgress, NodeState};
use crate::cluster::index::ChangeKind;
use crate::gate::{self, Verdict};
use crate::graph::frontier::{End, Frontier, Outcome};
use crate::graph::{Graph, Mode};
use crate::merge::inject::Source;
use crate::payload::{Manifest, ObjectId};
use crate::status::facts::Conflict;
use crate::status::failure::{Effect, Reason, UpdateError};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{OnceCell, mpsc};
use tokio::task::{JoinError, JoinSet};
use tokio_util::sync::CancellationToken;
use troubles::Troubles;

/// What is to be applied and how.
#[derive(Debug)]
pub struct Plan {
    pub release: Release,
    pub mode: Mode,
    /// Those that take part, in load order.
    pub manifests: Vec<Arc<Manifest>>,
    pub graph: Graph,
    pub own_deployment: ObjectId,
    /// Applying the own Deployment hands over to a successor.
    pub hand_over: bool,
}

/// What happened, for the loop.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// Something moved: progress, an error, drift, health.
    Moved,
    /// Every node is done, for the first time.
    Completed,
}

/// A running pass. Dropping it without [`Pass::cancel`] leaves its tasks to end by themselves.
#[derive(Debug)]
pub struct Pass {
    pub release: Release,
    /// Turns to `Reconcile` when the pass has completed.
    pub mode: Mode,
    pub started: Timestamp,
    pub nodes: Vec<NodeProgress>,
    pub done: usize,
    pub total: usize,
    pub completed: bool,
    context: Arc<Context>,
    graph: Graph,
    frontier: Frontier,
    tasks: JoinSet<()>,
    reports: mpsc::Receiver<Report>,
    troubles: Troubles,
    positions: HashMap<ObjectId, usize>,
    /// By position: in place, its gate passed.
    passed: HashSet<usize>,
    /// Touched by another hand before their turn was over: to be looked at once more then.
    touched_early: HashSet<usize>,
    mending: JoinSet<Mended>,
    repairs: HashMap<ObjectId, Repairs>,
    settings: Changed,
    /// Being brought to other settings of the cluster, which is no repair.
    following: HashSet<usize>,
}

impl Pass {
    /// Starts the first nodes.
    pub fn start(plan: Plan, applier: Arc<Applier>) -> Pass {
        // Bounded: nodes wait when the loop is slow.
        let (sender, reports) = mpsc::channel(256);
        surroundings::follow(&applier, &plan.manifests);
        let settings = applier.settings.changed();
        applier.want(&plan.manifests);
        let nodes = plan.graph.nodes().iter().map(|n| NodeProgress {
            id: n.id.clone(),
            total: n.manifests.len(),
            ..NodeProgress::default()
        });
        let ids = plan.manifests.iter().map(|m| applier.kinds.resolve(m).map_or_else(|| m.id.clone(), |(_, id)| id));
        let mut pass = Pass {
            release: plan.release,
            mode: plan.mode,
            started: Timestamp::now(),
            nodes: nodes.collect(),
            done: 0,
            total: plan.manifests.len(),
            completed: false,
            positions: ids.enumerate().map(|(position, id)| (id, position)).collect(),
            context: Arc::new(Context {
                applier,
                mode: plan.mode,
                manifests: plan.manifests,
                own_deployment: plan.own_deployment,
                hand_over: plan.hand_over,
                foundation: OnceCell::new(),
                cancel: CancellationToken::new(),
                reports: sender,
            }),
            frontier: Frontier::new(&plan.graph),
            graph: plan.graph,
            tasks: JoinSet::new(),
            reports,
            troubles: Troubles::default(),
            passed: HashSet::new(),
            touched_early: HashSet::new(),
            mending: JoinSet::new(),
            repairs: HashMap::new(),
            settings,
            following: HashSet::new(),
        };
        pass.advance();
        pass
    }

    fn advance(&mut self) {
        for index in self.frontier.start() {
            let positions = self.graph.nodes().get(index).map(|n| n.manifests.clone()).unwrap_or_default();
            if let Some(node) = self.nodes.get_mut(index) {
                node.state = NodeState::Running;
                node.started = Some(Timestamp::now());
            }
            self.tasks.spawn(node::run(self.context.clone(), index, positions));
        }
    }

    /// Waits for what happens next. Cancel safe.
    pub async fn next(&mut self) -> Event {
        loop {
            tokio::select! {
                Some(report) = self.reports.recv() => {
                    // Whoever looks at the pass afterwards looks once, however much has happened.
                    let mut event = self.take(report);
                    while event != Some(Event::Completed)
                        && let Ok(more) = self.reports.try_recv()
                    {
                        event = self.take(more).or(event);
                    }
                    if let Some(event) = event {
                        return event;
                    }
                }
                touched = self.context.applier.index.changes() => {
                    for (id, touched) in touched {
                        self.touched(&id, touched);
                    }
                }
                sources = self.settings.next() => self.follow(&sources),
                Some(mended) = self.mending.join_next(), if !self.mending.is_empty() => {
                    match mended {
                        Ok(mended) => self.mended(mended),
                        Err(error) => ended_badly(error),
                    }
                    return Event::Moved;
                }
                Some(ended) = self.tasks.join_next(), if !self.tasks.is_empty() => {
                    if let Err(error) = ended {
                        ended_badly(error);
                    }
                }
            }
        }
    }

    fn take(&mut self, report: Report) -> Option<Event> {
        let index = report.node;
        let node = self.nodes.get_mut(index)?;
        match report.what {
            What::Waiting(mut waiting, error) => {
                let same = |w: &&crate::api::progress::WaitingFor| {
                    (&w.kind, &w.namespace, &w.name) == (&waiting.kind, &waiting.namespace, &waiting.name)
                };
                let since = node.waiting.first().filter(same).and_then(|w| w.since);
                waiting.since = Some(since.unwrap_or_else(Timestamp::now));
                let failing = error.as_ref().is_some_and(|e| e.effect != Effect::Wait);
                node.state = if failing { NodeState::Failing } else { NodeState::Waiting };
                node.error = if failing { waiting.message.clone() } else { String::new() };
                node.waiting = vec![waiting];
                self.troubles.of_node(index, error);
            }
            What::Remember(id, error) => {
                self.troubles.of_object(id, Some(error));
            }
            What::Restored { position, applied } => {
                if let Some(id) = self.id_at(position) {
                    self.wrote(&id, &applied);
                }
            }
            What::Passed { position, applied, judged } => {
                self.done += 1;
                node.done += 1;
                node.state = NodeState::Running;
                node.waiting.clear();
                node.error.clear();
                self.troubles.of_node(index, None);
                tracing::debug!(position, ?applied, "manifest in place");
                self.passed.insert(position);
                let early = self.touched_early.remove(&position);
                // Most have no gate: nothing is looked up for them.
                if (early || judged.is_some())
                    && let Some(id) = self.id_at(position)
                {
                    // While the gate's verdict was on its way here, too.
                    let since = judged.is_some_and(|times| self.context.applier.index.change_count(&id) != times);
                    if early || since {
                        self.look_after(id, position);
                    }
                }
            }
            What::Done => {
                node.state = NodeState::Done;
                node.finished = Some(Timestamp::now());
                self.troubles.of_node(index, None);
                self.frontier.done(index, Outcome::Done);
                self.advance();
                if !self.completed && matches!(self.frontier.end(), Some(End::Completed)) {
                    if self.context.hand_over {
                        self.without_successor();
                        return Some(Event::Moved);
                    }
                    self.complete();
                    return Some(Event::Completed);
                }
            }
        }
        Some(Event::Moved)
    }

    /// Everything of another release is in place, and nothing has taken over: called complete, its orchestrator would never
    /// run, and the next process would go back to its own release.
    fn without_successor(&mut self) {
        let id = self.context.own_deployment.clone();
        let message = format!(
            "the release is applied, but its orchestrator cannot take over: {id} takes no part, see spec.overrides and the \
             capabilities that are enabled"
        );
        self.troubles.of_object(id, Some(UpdateError::new(Reason::NoSuccessor, message)));
    }

    /// From here on only failures count: what was merely waited for is judged anew.
    fn complete(&mut self) {
        self.completed = true;
        self.mode = Mode::Reconcile;
        for id in self.troubles.objects() {
            if let Some(position) = self.position(&id) {
                self.look_after(id, position);
            }
        }
        self.troubles.forget_waits();
    }

    /// Another hand touched an object. While its turn is not over, its node sees for itself, except for what happens
    /// between the write and the gate: that is looked at when the turn is over.
    fn touched(&mut self, id: &ObjectId, touched: ChangeKind) {
        let Some(position) = self.position(id) else { return };
        if touched == ChangeKind::Status && !gate::gated(&id.group, &id.kind) {
            return;
        }
        if self.passed.contains(&position) {
            self.look_after(id.clone(), position);
        } else if touched == ChangeKind::Content {
            self.touched_early.insert(position);
        }
    }

    /// Settings of the cluster changed: what takes them in is applied again at once.
    fn follow(&mut self, sources: &[Source]) {
        let context = self.context.clone();
        for (position, manifest) in context.manifests.iter().enumerate() {
            if !Source::of(manifest).iter().any(|source| sources.contains(source)) {
                continue;
            }
            if !self.passed.contains(&position) {
                self.touched_early.insert(position);
            } else if let Some(id) = self.id_at(position) {
                self.following.insert(position);
                self.look_after(id, position);
            }
        }
    }

    /// A kind that was not served when the pass began is known by its manifest's own identity, whose namespace may differ
    /// from what the cluster makes of it.
    fn position(&self, id: &ObjectId) -> Option<usize> {
        let known = self.positions.get(id).copied();
        known.or_else(|| {
            let same = |m: &&Arc<Manifest>| (&m.id.group, &m.id.kind, &m.id.name) == (&id.group, &id.kind, &id.name);
            let mut candidates = self.context.manifests.iter().enumerate().filter(|(_, m)| same(m));
            candidates
                .find(|(_, m)| self.context.applier.kinds.resolve(m).is_some_and(|(_, i)| i == *id))
                .map(|(p, _)| p)
        })
    }

    fn id_at(&self, position: usize) -> Option<ObjectId> {
        let manifest = self.context.manifests.get(position)?;
        Some(self.context.applier.kinds.resolve(manifest)?.1)
    }

    fn look_after(&mut self, id: ObjectId, position: usize) {
        if let Some(pause) = self.repairs.entry(id.clone()).or_default().begin() {
            self.mend(id, position, pause);
        }
    }

    fn mend(&mut self, id: ObjectId, position: usize, pause: Duration) {
        let (context, mode) = (self.context.clone(), self.mode);
        self.mending.spawn(async move { drift::mend(&context, mode, id, position, pause).await });
    }

    fn mended(&mut self, mended: Mended) {
        let Mended { id, position, mode, applied, verdict, failed } = mended;
        let following = self.following.remove(&position);
        match &applied {
            Some(Applied::Updated { fields, .. }) if following => {
                tracing::info!(object = %id, ?fields, "follows the cluster's settings");
            }
            Some(applied) => self.wrote(&id, applied),
            None => {}
        }
        let repairs = self.repairs.entry(id.clone()).or_default();
        // What it was judged for is over: judged once more.
        if mode != self.mode {
            repairs.look_again();
        }
        let next = repairs.end(failed.is_some());
        let patient = failed.is_some() && repairs.failures() < node::PATIENCE;
        if let Some(pause) = next {
            self.mend(id.clone(), position, pause);
        }
        // A failure that the next attempt may have overcome says nothing about the object yet.
        if patient || mode != self.mode {
            return;
        }
        let error = match (failed, verdict) {
            (Some(error), _) | (None, Some(Verdict::Failing(error))) => Some(error),
            (None, Some(Verdict::Waiting { report, .. })) => report,
            _ => None,
        };
        self.troubles.of_object(id, error);
    }

    /// Another hand's doing was undone.
    fn wrote(&mut self, id: &ObjectId, applied: &Applied) {
        let repairs = self.repairs.entry(id.clone()).or_default();
        match applied {
            Applied::Updated { fields, by } => {
                tracing::info!(object = %id, ?fields, by = by.as_deref().unwrap_or("unknown"), "drift repaired");
                repairs.wrote(fields, by.as_deref());
            }
            Applied::Created => {
                tracing::info!(object = %id, "deleted object restored");
                repairs.wrote(&["(deleted)".to_owned()], None);
            }
            Applied::Deleted => {
                tracing::info!(object = %id, "object that must not be there deleted again");
                repairs.wrote(&["(created)".to_owned()], None);
            }
            Applied::Left => {}
        }
    }

    /// What is wrong now, joined as payload-and-apply §4.9 says.
    pub fn failure(&self) -> Option<UpdateError> {
        self.troubles.failure()
    }

    /// What the pass began as; unlike `mode`, which ends as `Reconcile`.
    pub fn began_as(&self) -> Mode {
        self.context.mode
    }

    /// Names of the ClusterOperators that nodes are waiting for, and of those that are not well although their node
    /// went on.
    pub fn awaited_operators(&self) -> BTreeSet<String> {
        let waiting = self.nodes.iter().flat_map(|n| &n.waiting).filter(|w| w.kind == "ClusterOperator");
        let unwell = self.troubles.objects().into_iter().filter(|id| id.kind == "ClusterOperator").map(|id| id.name);
        waiting.map(|w| w.name.clone()).chain(unwell).collect()
    }

    /// Whether the ClusterOperator's turn in this pass is still to come or under way: how long it was waited for before is
    /// not over then.
    pub fn is_ahead(&self, operator: &str) -> bool {
        let id = ObjectId::new("config.openshift.io", "ClusterOperator", "", operator);
        self.position(&id).is_some_and(|position| !self.passed.contains(&position))
    }

    /// Gives a wait that began before this process its old beginning.
    pub fn backdate(&mut self, clocks: &BTreeMap<String, Timestamp>) {
        for waiting in self.nodes.iter_mut().flat_map(|n| &mut n.waiting) {
            if let Some(since) = clocks.get(&clock(&waiting.kind, &waiting.namespace, &waiting.name)) {
                waiting.since = Some(waiting.since.map_or(*since, |s| s.min(*since)));
            }
        }
    }

    /// Objects that somebody else keeps changing back.
    pub fn conflicts(&self) -> Vec<Conflict> {
        let mut conflicts: Vec<Conflict> = self.repairs.iter().filter_map(|(id, r)| r.fight(id)).collect();
        conflicts.sort_by(|a, b| a.object.cmp(&b.object));
        conflicts
    }

    /// Objects that the release has deleted and that are there still or again, in the order of the release.
    pub fn pending_deletions(&self) -> Vec<String> {
        let Context { manifests, applier, .. } = &*self.context;
        let deleted = manifests
            .iter()
            .enumerate()
            .filter(|(position, manifest)| manifest.delete() == Ok(true) && self.passed.contains(position));
        let ids = deleted.filter_map(|(_, manifest)| Some(applier.kinds.resolve(manifest)?.1));
        ids.filter(|id| applier.index.is_present(id)).map(|id| id.to_string()).collect()
    }

    /// When a fight will have gone quiet, so that its condition can be withdrawn.
    pub fn next_quiet(&self) -> Option<Instant> {
        self.repairs.values().filter_map(Repairs::quiet_at).min()
    }

    /// Stops starting anything and waits until what is under way has ended. A cancelled pass is never a success.
    pub async fn cancel(mut self) {
        self.frontier.cancel();
        self.context.cancel.cancel();
        self.reports.close();
        while self.tasks.join_next().await.is_some() {}
        while self.mending.join_next().await.is_some() {}
    }
}

/// A task that panicked would be waited for without end: the process goes with it, and the next one goes on.
fn ended_badly(error: JoinError) {
    tracing::error!(%error, "a task of the pass ended badly");
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

/// Key of a clock in the progress record.
pub fn clock(kind: &str, namespace: &str, name: &str) -> String {
    let kind = kind.to_lowercase();
    if namespace.is_empty() { format!("{kind}/{name}") } else { format!("{kind}/{namespace}/{name}") }
}
