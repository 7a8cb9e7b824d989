//! The main loop: ClusterVersion in, ClusterVersion.status out. It waits for an event (the object, the pass, a load, the
//! update service), a deadline or the stop; brings the facts up to date; decides; performs.

mod choice;
pub mod decide;
mod loading;
mod object;
mod refused;
mod writer;

pub use decide::Action;

use super::apply::Applier;
use super::available::Question;
use super::events::{self, Events};
use super::pass::{Event, Pass, Plan, clock};
use super::retrieve::{Loaded, Retriever, Terms};
use crate::api::progress::{self, Progress, SCHEMA};
use crate::api::{ClusterVersionSpec, ClusterVersionStatus, OWN_DEPLOYMENT};
use crate::cluster::Clients;
use crate::graph::{self, Mode};
use crate::merge::Owner;
use crate::payload::{ApplyFilter, Features, Filter, ObjectId, Payload, Selection};
use crate::status::facts::{LoadStatus, LoadStep, Retrieval};
use crate::status::{self, Facts};
use crate::updates::{self, Gates, Target};
use choice::Choice;
use decide::{Running, Situation};
use jiff::{SignedDuration, Timestamp};
use loading::{Load, LoadNews, news_of};
use refused::Refused;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::task::JoinError;
use tokio_util::sync::CancellationToken;
use writer::StatusWriter;

/// When the report of a waiting operator changes by time alone (payload-and-apply §4.7).
const REPORT_AFTER: [SignedDuration; 3] =
    [SignedDuration::from_mins(30), SignedDuration::from_mins(40), SignedDuration::from_mins(90)];

/// Everything the loop is built from.
#[derive(Debug)]
pub struct Parts {
    pub clients: Arc<Clients>,
    pub applier: Arc<Applier>,
    pub retriever: Arc<Retriever>,
    /// The payload of the running image.
    pub own: Arc<Payload>,
    /// Name of the ClusterVersion.
    pub name: String,
    pub namespace: String,
    /// The record that a predecessor left.
    pub progress: Progress,
    pub records: watch::Sender<Progress>,
    /// What the update service is to be asked; the loop keeps it up to date.
    pub questions: watch::Sender<Option<Question>>,
    pub answers: watch::Receiver<Option<Retrieval>>,
    /// What the FeatureGate says now.
    pub features: watch::Receiver<Arc<Features>>,
    /// Profile and excluded identifier.
    pub filter: Filter,
    /// `--always-enable-capabilities`.
    pub always_enabled: BTreeSet<String>,
    pub events: Events,
}

/// The loop's state. Whatever must outlive the process is in the cluster.
pub struct Sync {
    parts: Parts,
    object: object::Latest,
    writer: StatusWriter,
    pass: Option<Pass>,
    /// The release being applied.
    payload: Arc<Payload>,
    choice: Choice,
    /// What the pass was begun with, and who takes part in it.
    applied: Option<(ApplyFilter, Selection)>,
    facts: Facts,
    load: Option<Load>,
    refused: Option<Refused>,
    clocks: BTreeMap<String, Timestamp>,
    durations: BTreeMap<String, f64>,
    payloads: BTreeMap<String, String>,
}

impl std::fmt::Debug for Sync {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sync").field("facts", &self.facts).finish_non_exhaustive()
    }
}

impl Sync {
    pub fn new(parts: Parts) -> Self {
        // Clocks belong to a release; those of another one say nothing.
        let same_release = parts.progress.release.image == parts.own.release.image;
        Sync {
            object: object::Latest::new(&parts.name),
            writer: StatusWriter::new(parts.applier.objects.clone(), &parts.name),
            pass: None,
            payload: parts.own.clone(),
            choice: Choice::new(parts.filter.clone(), parts.always_enabled.clone()),
            applied: None,
            facts: Facts::new(parts.own.release.clone()),
            load: None,
            refused: None,
            clocks: if same_release { parts.progress.clocks.clone() } else { BTreeMap::new() },
            durations: parts.progress.durations.clone(),
            payloads: parts.progress.payloads.clone(),
            parts,
        }
    }

    /// Runs until `stop`; writes the last status before it returns.
    pub async fn run(mut self, stop: CancellationToken) {
        let mut objects = object::watch(&self.parts.clients, stop.clone());
        let mut answers = self.parts.answers.clone();
        let mut features = self.parts.features.clone();
        tracing::info!(name = %self.parts.name, "waiting for the ClusterVersion");
        loop {
            let deadline = self.deadline();
            tokio::select! {
                () = stop.cancelled() => break,
                Some(event) = objects.recv() => self.object.take(event),
                event = next_of(&mut self.pass) => self.moved(&event),
                news = news_of(&mut self.load) => match news {
                    LoadNews::Step(step) => self.loading(step),
                    LoadNews::Ended(outcome) => self.loaded(outcome).await,
                },
                Ok(()) = answers.changed() => self.facts.retrieval = answers.borrow_and_update().clone(),
                Ok(()) = features.changed() => {}
                written = self.writer.ended() => self.object.wrote(written),
                () = tokio::time::sleep(deadline) => {}
            }
            // Whatever else has happened meanwhile is taken in before deciding once.
            while let Ok(event) = objects.try_recv() {
                self.object.take(event);
            }
            self.turn().await;
        }
        self.end().await;
    }

    async fn end(mut self) {
        if let Some(load) = self.load.take() {
            load.task.abort();
        }
        if let Some(pass) = self.pass.take() {
            self.gather(&pass);
            pass.cancel().await;
        }
        self.writer.forget_refused();
        if let Some(written) = self.writer.settled().await {
            self.object.wrote(Some(written));
        }
        // Once more if somebody else was faster: the successor must find what has been reached.
        for _ in 0..2 {
            let Some((live, status)) = self.status_to_write() else { return };
            match self.writer.write_last(live, &status).await {
                Err(error) if error.is_conflict() => match self.writer.read().await {
                    Ok(Some(object)) => self.object.take(object::Seen::Object(Box::new(object))),
                    Ok(None) => return,
                    Err(error) => return tracing::warn!(%error, "last status not written"),
                },
                Err(error) => return tracing::warn!(%error, "last status not written"),
                Ok(()) => return,
            }
        }
        tracing::warn!("last status not written: the ClusterVersion keeps being changed");
    }

    /// Facts, decision, actions, status.
    async fn turn(&mut self) {
        let Some((spec, status)) = self.read_object() else { return self.rest().await };
        // Each action changes the situation; a handful of rounds settles it, and the bound keeps a mistake from spinning.
        for _ in 0..8 {
            let actions = self.decide(&spec, &status);
            if actions.is_empty() {
                break;
            }
            for action in actions {
                tracing::info!(?action, "decided");
                self.perform(action, &spec).await;
            }
        }
        if let Some(pass) = self.pass.take() {
            self.gather(&pass);
            self.pass = Some(pass);
        }
        self.facts.capabilities = self.choice.facts();
        self.publish();
    }

    /// Without a ClusterVersion there is nobody to act for: what is under way ends, and drift is nobody's concern. Objects
    /// that were kept going would be given back an owner that is no more, and be taken for garbage.
    async fn rest(&mut self) {
        self.writer.rest();
        self.refused = None;
        if let Some(load) = self.load.take() {
            load.stop.cancel();
            load.task.abort();
        }
        if let Some(pass) = self.pass.take() {
            pass.cancel().await;
        }
    }

    /// The valid part of the spec, and the status as it stands.
    fn read_object(&mut self) -> Option<(ClusterVersionSpec, ClusterVersionStatus)> {
        let live = self.object.live()?;
        let (spec, status) = (live.spec.clone(), live.status.clone());
        self.facts.generation = live.generation;
        if let Some(refused) = &mut self.refused {
            refused.consider(live.generation, Timestamp::now());
        }
        self.parts.applier.wanted.set_owner(Owner { name: self.parts.name.clone(), uid: live.uid.clone() });
        let errors = updates::validate(&self.parts.name, Gates::default(), &spec, &status);
        self.facts.invalid = errors.iter().map(ToString::to_string).collect();
        self.facts.invalid.extend(self.object.troubles());
        let valid = updates::clear(&spec, &errors);
        self.choice.update(&self.payload, &valid, &status, &self.features());
        let question = Question {
            // As it stands: without the address that was given, another service would be asked (cluster-version §1.4).
            upstream: spec.upstream,
            channel: spec.channel,
            cluster_id: spec.cluster_id,
            architecture: valid.desired_update.as_ref().map(|update| update.architecture.clone()).unwrap_or_default(),
        };
        self.parts.questions.send_if_modified(|current| {
            let changed = current.as_ref() != Some(&question);
            *current = Some(question);
            changed
        });
        Some((valid, status))
    }

    fn features(&self) -> Arc<Features> {
        self.parts.features.borrow().clone()
    }

    fn decide(&self, spec: &ClusterVersionSpec, status: &ClusterVersionStatus) -> Vec<Action> {
        decide::decide(&Situation {
            spec,
            status,
            own: &self.parts.own.release,
            running: self.pass.as_ref().zip(self.applied.as_ref()).map(|(pass, (filter, _))| Running {
                image: &pass.release.image,
                mode: pass.mode,
                filter,
            }),
            wanted: self.choice.wanted(),
            loading: self.load.as_ref().map(|l| &l.target),
            refused: self.refused.as_ref().map(|r| (&r.target, r.again)),
            now: Timestamp::now(),
        })
    }

    async fn perform(&mut self, action: Action, spec: &ClusterVersionSpec) {
        match action {
            Action::StartOwn { mode } => {
                self.payload = self.parts.own.clone();
                self.facts.local = true;
                self.facts.verified = false;
                self.facts.accepted_risks = String::new();
                if self.refused.is_none() {
                    self.accepted();
                }
                self.start(mode, spec).await;
            }
            Action::Restart { mode } => self.start(mode, spec).await,
            Action::Load(target) => self.begin_load(target, spec),
            Action::StopLoading => {
                if let Some(load) = self.load.take() {
                    load.stop.cancel();
                    load.task.abort();
                }
                self.accepted();
            }
            Action::ForgetRefused => {
                self.refused = None;
                self.accepted();
            }
        }
    }

    /// Takes in a step of the load pipeline and tells of it, once.
    fn loading(&mut self, status: LoadStatus) {
        let notice = events::notice(&status);
        let told = self.facts.load.as_ref().map(events::notice);
        if told.as_ref() != Some(&notice)
            && let Some(live) = self.object.live()
        {
            self.parts.events.tell(notice, &self.parts.name, &live.uid);
        }
        self.facts.load = Some(status);
    }

    /// `ReleaseAccepted` speaks of the release that runs.
    fn accepted(&mut self) {
        self.loading(LoadStatus {
            step: LoadStep::PayloadLoaded,
            outcome: Some(Ok(())),
            release: self.payload.release.clone(),
            message: String::new(),
        });
    }

    async fn start(&mut self, mode: Mode, spec: &ClusterVersionSpec) {
        if let Some(pass) = self.pass.take() {
            pass.cancel().await;
        }
        let selection = self.select(spec);
        let (manifests, hash) = (selection.manifests.clone(), selection.hash.clone());
        self.applied = Some((self.choice.wanted().clone(), selection));
        let release = self.payload.release.clone();
        let own_deployment = ObjectId::new("apps", "Deployment", &self.parts.namespace, OWN_DEPLOYMENT);
        let graph = graph::build::build(&manifests, mode, Some(&own_deployment));
        self.facts.actual = release.clone();
        self.facts.version_hash = hash;
        self.facts.completed = false;
        self.facts.mode = mode;
        tracing::info!(release = %release.version, ?mode, nodes = graph.len(), manifests = manifests.len(), "pass begins");
        let plan = Plan {
            mode,
            hand_over: release.image != self.parts.own.release.image,
            own_deployment,
            release,
            manifests,
            graph,
        };
        self.pass = Some(Pass::start(plan, self.parts.applier.clone()));
    }

    /// Who takes part in the release that is to be applied. What was managed and has moved into a disabled capability
    /// enables it (payload-and-apply §2.9).
    fn select(&mut self, spec: &ClusterVersionSpec) -> Selection {
        let status = self.object.live().map(|live| live.status.clone()).unwrap_or_default();
        self.choice.update(&self.payload, spec, &status, &self.features());
        let selection = self.payload.select(self.choice.wanted());
        let before = match self.applied.take() {
            Some((_, before)) => before,
            // At the start the own release takes its own place.
            None if Arc::ptr_eq(&self.payload, &self.parts.own) => return selection,
            None => self.parts.own.select(self.choice.wanted()),
        };
        if before.hash == selection.hash {
            return selection;
        }
        let implied = self.choice.imply(&selection, &before);
        if implied.is_empty() {
            return selection;
        }
        tracing::info!(?implied, "capabilities enabled, because managed objects have moved into them");
        self.payload.select(self.choice.wanted())
    }

    fn begin_load(&mut self, target: Target, spec: &ClusterVersionSpec) {
        let status = LoadStatus {
            step: LoadStep::RetrievePayload,
            outcome: None,
            release: target.release.clone(),
            message: String::new(),
        };
        let (sender, steps) = watch::channel(status.clone());
        self.loading(status);
        let stop = CancellationToken::new();
        let loading = self.parts.retriever.clone().load(
            target.clone(),
            Terms {
                filter: self.choice.for_load(&target.release.version, &self.features()),
                stores: spec.signature_stores.clone(),
                overrides: spec.overrides.clone(),
            },
            self.payloads.clone(),
            sender,
            stop.clone(),
        );
        // What was refused before is not asked for any more.
        self.refused.take_if(|refused| !refused.target.is(&target));
        let generation = self.facts.generation;
        self.load = Some(Load { target, generation, task: tokio::spawn(loading), steps, stop });
    }

    async fn loaded(&mut self, ended: Result<Result<Loaded, Box<LoadStatus>>, JoinError>) {
        let Some(load) = self.load.take() else { return };
        let outcome = ended.unwrap_or_else(|error| {
            Err(Box::new(LoadStatus {
                step: LoadStep::RetrievePayload,
                outcome: Some(Err(format!("loading ended badly: {error}"))),
                release: load.target.release.clone(),
                message: String::new(),
            }))
        });
        match outcome {
            Ok(loaded) => {
                self.refused = None;
                self.payload = loaded.payload;
                self.facts.verified = loaded.verified;
                self.facts.local = false;
                self.facts.accepted_risks = loaded.accepted_risks;
                // Older folders are pruned when the next one is extracted.
                self.payloads = BTreeMap::from([loaded.tree]);
                self.clocks.clear();
                self.accepted();
                if let Some((spec, _)) = self.read_object() {
                    self.start(Mode::Update, &spec).await;
                }
            }
            Err(status) => self.refuse(load.target, load.generation, *status),
        }
    }

    fn refuse(&mut self, target: Target, generation: i64, status: LoadStatus) {
        tracing::warn!(image = %target.release.image, step = ?status.step, outcome = ?status.outcome, "release not accepted");
        self.refused = Some(Refused::new(target, self.refused.as_ref(), generation, Timestamp::now()));
        self.loading(status);
    }

    fn moved(&mut self, event: &Event) {
        if *event == Event::Completed {
            tracing::info!(release = %self.facts.actual.version, "pass completed");
            self.facts.completed = true;
        }
    }

    /// Brings the facts up to date with the pass.
    fn gather(&mut self, pass: &Pass) {
        let now = Timestamp::now();
        let facts = &mut self.facts;
        (facts.done, facts.total, facts.mode) = (pass.done, pass.total, pass.mode);
        facts.failure = pass.failure();
        facts.conflicts = pass.conflicts();
        facts.pending_deletions = pass.pending_deletions();
        let key = |name: &str| clock("ClusterOperator", "", name);
        let awaited = pass.awaited_operators();
        let since = awaited.iter().map(|name| (name.clone(), *self.clocks.entry(key(name)).or_insert(now)));
        facts.waiting_since = since.collect();
        // An operator that is no longer waited for starts afresh the next time. One whose turn has not come yet in this
        // process was waited for by the one before, and the clock goes on (payload-and-apply §9.3 C8).
        let of_operators = key("");
        self.clocks.retain(|k, _| {
            let operator = k.strip_prefix(&of_operators).unwrap_or_default();
            awaited.contains(operator) || pass.is_ahead(operator)
        });
        // A pass that finds everything in place says nothing about how long an update takes.
        for node in pass.nodes.iter().filter(|_| pass.began_as() != Mode::Reconcile) {
            if let (Some(started), Some(finished)) = (node.started, node.finished)
                && let Some(component) = node.id.rsplit('/').next()
            {
                self.durations.insert(component.to_owned(), finished.duration_since(started).as_secs_f64());
            }
        }
    }

    /// Status and progress record, if they differ from what is written.
    fn publish(&mut self) {
        if let Some(mut pass) = self.pass.take() {
            pass.backdate(&self.clocks);
            self.parts.records.send_replace(self.record(&pass));
            self.pass = Some(pass);
        }
        match self.status_to_write() {
            Some((live, status)) => self.writer.offer(live, status),
            None => self.writer.rest(),
        }
    }

    fn status_to_write(&self) -> Option<(serde_json::Value, ClusterVersionStatus)> {
        let live = self.object.live()?;
        let next = self.writer.acceptable(status::compute(&live.status, &self.facts, Timestamp::now()));
        (next != live.status).then(|| (live.raw.clone(), next))
    }

    fn record(&self, pass: &Pass) -> Progress {
        Progress {
            schema: SCHEMA,
            release: pass.release.clone(),
            pass: progress::Pass {
                mode: format!("{:?}", pass.mode).to_lowercase(),
                started: Some(pass.started),
                done: pass.done,
                total: pass.total,
            },
            nodes: pass.nodes.clone(),
            clocks: self.clocks.clone(),
            durations: self.durations.clone(),
            payloads: self.payloads.clone(),
            history: self.object.live().map(|l| l.status.history.clone()).unwrap_or_default(),
        }
    }

    /// How long nothing can change by itself.
    fn deadline(&self) -> Duration {
        let now = Timestamp::now();
        let retry = self.refused.as_ref().filter(|_| self.load.is_none()).map(|r| r.again);
        let reports = self.facts.waiting_since.values();
        let reports = reports.flat_map(|since| REPORT_AFTER.map(|after| *since + after + SignedDuration::from_secs(1)));
        let next = reports.filter(|t| *t > now).chain(retry).min();
        let next = next.map(|t| Duration::try_from(t.duration_since(now)).unwrap_or(Duration::ZERO));
        let quiet = self.pass.as_ref().and_then(Pass::next_quiet);
        let quiet = quiet.map(|t| t.saturating_duration_since(Instant::now()) + Duration::from_millis(10));
        let written = self.writer.due();
        [next, quiet, written].into_iter().flatten().min().unwrap_or(Duration::from_secs(3600))
    }
}

async fn next_of(pass: &mut Option<Pass>) -> Event {
    match pass {
        Some(pass) => pass.next().await,
        None => std::future::pending().await,
    }
}
