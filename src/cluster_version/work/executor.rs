//! Runs a rollout on the cluster: performs the commands of the state machine as tasks, side by side, and hands it what
//! came of them, what the watches saw, and what changed in the cluster configuration. What others know of it is a view, which is
//! published when it has moved.

mod operation;

use super::apply::Applier;
use super::cluster_configuration::ConfigurationChanges;
use super::stand_in::stand_ins;
use crate::cluster::index::ChangeKind;
use crate::cluster_version::graph::Mode;
use crate::cluster_version::rollout::{Clocks, Command, Event, Plan, Rollout, View};
use crate::cluster_version::status::facts::{KeptFields, Unwatched};
use crate::heap;
use crate::object::manifest::{Manifest, ObjectId};
use jiff::Timestamp;
use operation::{Logged, Namespaces, Operations};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, watch};
use tokio::task::{JoinError, JoinHandle, JoinSet};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Moves within this time are told together.
const MOMENT: Duration = Duration::from_millis(50);

/// A rollout under way. Dropping it without [`RunningRollout::cancel`] leaves its tasks running.
#[derive(Debug)]
pub(crate) struct RunningRollout {
    view: watch::Receiver<Arc<View>>,
    applier: Arc<Applier>,
    executor: JoinHandle<()>,
    admitted: Arc<Notify>,
    cancel: CancellationToken,
}

impl RunningRollout {
    /// Writes nothing before [`RunningRollout::admit`].
    pub(crate) fn start(plan: Plan, clocks: Clocks, applier: Arc<Applier>) -> RunningRollout {
        let configuration = applier.configuration_changes();
        applier.set_desired(&plan.manifests);
        let manifests: Arc<[Arc<Manifest>]> = plan.manifests.as_slice().into();
        let now = Timestamp::now();
        let release = plan.release.version.clone();
        let (mut rollout, commands) = Rollout::start(plan, clocks, now);
        let (publish, view) = watch::channel(Arc::new(rollout.view(now)));
        let cancel = CancellationToken::new();
        let admitted = Arc::<Notify>::default();
        let executor = Executor {
            rollout,
            positions: Positions::new(manifests.clone(), applier.clone()),
            operations: Operations {
                applier: applier.clone(),
                manifests,
                cancel: cancel.clone(),
                logged: Logged::default(),
                namespaces: Namespaces::default(),
            },
            running: JoinSet::new(),
            configuration,
            hindrances: applier.hindrances(),
            publication: Publication { view: publish, at: Instant::now(), outdated: false, conflict_ends: None },
        };
        let running = executor.run(commands, admitted.clone());
        let executor = tokio::spawn(running.instrument(tracing::info_span!("rollout", release)));
        RunningRollout { view, applier, executor, admitted, cancel }
    }

    /// Lets it begin to write, unless it has been cancelled. Calling it again changes nothing.
    pub(crate) fn admit(&self) {
        self.admitted.notify_one();
    }

    /// As it was published last.
    pub(crate) fn view(&self) -> Arc<View> {
        self.view.borrow().clone()
    }

    /// Waits until another view is published. Cancel safe.
    pub(crate) async fn moved(&mut self) {
        if self.view.changed().await.is_err()
            && let Err(error) = (&mut self.executor).await
        {
            ended_badly(error);
        }
    }

    /// Objects that the release has deleted and that are there still or again, in the order of the release.
    pub(crate) fn pending_deletions(&self, view: &View) -> Vec<String> {
        view.deletions.iter().filter(|id| self.applier.index().is_present(id)).map(ToString::to_string).collect()
    }

    /// Kinds that cannot be watched, and fields that the server does not accept.
    pub(crate) fn hindrances(&self) -> (Vec<Unwatched>, Vec<KeptFields>) {
        (self.applier.unwatched(), self.applier.kept())
    }

    /// Starts nothing more and waits until what is under way has ended. The view is the last one then.
    pub(crate) async fn cancel(&mut self) {
        self.cancel.cancel();
        if let Err(error) = (&mut self.executor).await {
            ended_badly(error);
        }
    }
}

/// If a task that panicked were left alone, its node would be waited for without end. So the panic goes on, and the next
/// process continues.
fn ended_badly(error: JoinError) {
    tracing::error!(%error, "a task of the rollout ended badly");
    if let Ok(panic) = error.try_into_panic() {
        std::panic::resume_unwind(panic);
    }
}

/// What others see of the rollout.
struct Publication {
    view: watch::Sender<Arc<View>>,
    at: Instant,
    /// The rollout has moved since.
    outdated: bool,
    /// When the first of the published conflicts is over.
    conflict_ends: Option<Instant>,
}

impl Publication {
    /// Waits until the next one is due by time alone.
    async fn due(&self) {
        match if self.outdated { Some(self.at + MOMENT) } else { self.conflict_ends } {
            Some(due) => tokio::time::sleep_until(due).await,
            None => std::future::pending().await,
        }
    }

    fn publish(&mut self, rollout: &mut Rollout) {
        let now = Timestamp::now();
        self.view.send_replace(Arc::new(rollout.view(now)));
        (self.at, self.outdated) = (Instant::now(), false);
        let left = rollout.conflict_ends(now).and_then(|end| Duration::try_from(end.duration_since(now)).ok());
        self.conflict_ends = left.map(|left| self.at + left + Duration::from_millis(10));
    }
}

/// Owns the state machine: what others know of it is published, and nobody else changes it.
struct Executor {
    rollout: Rollout,
    operations: Operations,
    running: JoinSet<Option<Event>>,
    positions: Positions,
    configuration: ConfigurationChanges,
    hindrances: watch::Receiver<()>,
    publication: Publication,
}

impl Executor {
    /// Runs until cancelled and nothing is under way any more.
    async fn run(mut self, first: Vec<Command>, admitted: Arc<Notify>) {
        self.let_own_deployment_be_stopped();
        if self.operations.cancel.run_until_cancelled(admitted.notified()).await.is_none() {
            return;
        }
        self.report_for_components();
        self.perform(first);
        while !self.operations.cancel.is_cancelled() || !self.running.is_empty() {
            // The changes that come from here on are those of the next rollout.
            let cancelled = self.operations.cancel.is_cancelled();
            let applier = self.operations.applier.clone();
            let mut events = Vec::new();
            tokio::select! {
                () = self.operations.cancel.cancelled(), if !cancelled => {}
                Some(ended) = self.running.join_next() => self.take(ended, &mut events),
                changes = applier.index().changes(), if !cancelled => {
                    events.extend(changes.into_iter().filter_map(|(id, kind)| self.changed(&id, kind)));
                }
                Ok(()) = self.hindrances.changed(), if !cancelled => {}
                sources = self.configuration.next(), if !cancelled => events.push(Event::ConfigurationChanged(sources)),
                () = self.publication.due(), if !cancelled => {}
            }
            // Who looks at the view afterwards looks once, however much has happened.
            while let Some(ended) = self.running.try_join_next() {
                self.take(ended, &mut events);
            }
            self.step(events);
        }
        self.publication.publish(&mut self.rollout);
    }

    /// Its completion is told at once, all else together with what happens within the same moment, because an install moves a
    /// hundred times a second.
    fn step(&mut self, events: Vec<Event>) {
        if self.operations.cancel.is_cancelled() {
            self.rollout.cancel();
        }
        let (now, completed) = (Timestamp::now(), self.rollout.is_completed());
        let commands = events.into_iter().flat_map(|event| self.rollout.on(event, now)).collect();
        self.perform(commands);
        let completes = self.rollout.is_completed() != completed;
        if completes {
            self.let_own_deployment_be_stopped();
        }
        self.publication.outdated = true;
        if completes || self.publication.at.elapsed() >= MOMENT {
            self.publication.publish(&mut self.rollout);
        }
        if completes && self.rollout.is_completed() {
            // All objects have been read and compared, which the release at rest needs no memory for.
            heap::give_back();
        }
    }

    /// Those that have no operator.
    fn report_for_components(&mut self) {
        for stand_in in stand_ins(&self.operations.manifests) {
            let (applier, cancel) = (self.operations.applier.clone(), self.operations.cancel.clone());
            let reporting = async move {
                stand_in.run(applier, cancel).await;
                None
            };
            self.running.spawn(reporting.in_current_span());
        }
    }

    /// Only while nothing is being updated.
    fn let_own_deployment_be_stopped(&self) {
        let resting = self.rollout.mode() == Mode::Reconcile;
        self.operations.applier.set_stoppable(resting.then(|| self.rollout.plan().own_deployment.clone()));
    }

    fn changed(&self, id: &ObjectId, kind: ChangeKind) -> Option<Event> {
        Some(Event::Changed { position: self.positions.of(id)?, content: kind == ChangeKind::Content })
    }

    fn take(&self, ended: Result<Option<Event>, JoinError>, events: &mut Vec<Event>) {
        match ended {
            Ok(event) => events.extend(event),
            Err(error) => ended_badly(error),
        }
    }

    fn perform(&mut self, commands: Vec<Command>) {
        for command in commands {
            let operations = self.operations.clone();
            self.running.spawn(operations.perform(command).in_current_span());
        }
    }
}

/// Which manifest an object belongs to.
struct Positions {
    known: HashMap<ObjectId, usize>,
    manifests: Arc<[Arc<Manifest>]>,
    applier: Arc<Applier>,
}

impl Positions {
    fn new(manifests: Arc<[Arc<Manifest>]>, applier: Arc<Applier>) -> Positions {
        let id = |m: &Manifest| applier.resolve(m).map_or_else(|| m.id.clone(), |(_, id)| id);
        let known = manifests.iter().enumerate().map(|(position, m)| (id(m), position)).collect();
        Positions { known, manifests, applier }
    }

    /// A kind that was not served when the rollout began is known by the identity in its manifest, whose namespace may
    /// differ from what the cluster makes of it.
    fn of(&self, id: &ObjectId) -> Option<usize> {
        let resolves = |m: &Manifest| self.applier.resolve(m).is_some_and(|(_, resolved)| resolved == *id);
        self.known.get(id).copied().or_else(|| {
            let same = |m: &Manifest| (&m.id.group, &m.id.kind, &m.id.name) == (&id.group, &id.kind, &id.name);
            self.manifests.iter().position(|m| same(m) && resolves(m))
        })
    }
}

#[cfg(test)]
mod tests;
