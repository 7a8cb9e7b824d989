//! The ClusterVersion controller: ClusterVersion in, ClusterVersion.status out. It waits for an event (the object, the
//! rollout, a load, the update service), a deadline or the stop; takes in what happened; decides; performs; and writes
//! what is to be told.

mod clocks;
mod decide;
mod filters;
mod judgement;
mod live;
mod loading;
mod observe;
mod placement;
mod report;
mod retry;
mod status_writer;

use super::apply::Applier;
use super::config_maps::{Changed, ConfigMaps};
use super::drained::DrainedOperators;
use super::dropped::Dropped;
use super::egress::Way;
use super::events::{Events, Told};
use super::health;
use super::monitoring::Monitoring;
use super::retrieve::{Retriever, Terms};
use super::rollout::RunningRollout;
use super::update_service;
use crate::api::progress::Progress;
use crate::api::{ClusterVersionSpec, ClusterVersionStatus, HistoryEntry, HistoryState};
use crate::cluster::Clients;
use crate::cluster::lease::Note;
use crate::graph::{self, Mode};
use crate::payload::{ApplyFilter, Features, Filter, Payload, Selection};
use crate::rollout::{Plan, owner};
use crate::status::facts::LoadStep;
use crate::updates::timeline::Timeline;
use crate::updates::{self, FeatureGates, Target};
use crate::verify::Digest;
use clocks::Clocks;
use decide::{Action, Loading, Running, Situation};
use filters::EffectiveFilter;
use jiff::Timestamp;
use loading::{Load, LoadNews};
use placement::Place;
use retry::Refused;
use status_writer::StatusWriter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Everything the controller is built from.
#[derive(Debug)]
pub(crate) struct Parts {
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
    /// The request to the update service, which the controller keeps up to date.
    pub requests: watch::Sender<Option<update_service::Request>>,
    pub updates: watch::Receiver<Option<update_service::Told>>,
    /// What the FeatureGate says now.
    pub features: watch::Receiver<Arc<Features>>,
    /// How requests to signature stores leave the cluster.
    pub way: Way,
    pub config_maps: ConfigMaps,
    /// Profile and excluded identifier.
    pub filter: Filter,
    /// `--always-enable-capabilities`.
    pub always_enabled: BTreeSet<String>,
    /// Nodes that are being updated explain that operators are not available.
    pub nodes_explain: bool,
    /// `--unfinished-workloads-pass`.
    pub unfinished_pass: bool,
    pub events: Events,
    pub monitoring: Arc<Monitoring>,
    /// In the lease of this process.
    pub note: Arc<Note>,
}

/// The release that is being applied, and how it was accepted.
struct Accepted {
    payload: Arc<Payload>,
    /// Verified by signature in this process.
    verified: bool,
    /// What was forced or warned about, for the history.
    risks: String,
}

/// A rollout, and what it was begun with.
struct Current {
    rollout: RunningRollout,
    filter: ApplyFilter,
    selection: Selection,
}

/// The state of the controller. Whatever must outlive the process is in the cluster.
pub(crate) struct ClusterVersionController {
    parts: Parts,
    live: live::Latest,
    writer: StatusWriter,
    accepted: Accepted,
    current: Option<Current>,
    /// What the last rollout was begun with, for the capabilities that the next one implies.
    selected: Option<Selection>,
    /// Objects that the release that is applied no longer contains.
    dropped: Dropped,
    /// Operators that are not available, perhaps because nodes are being updated.
    drained: DrainedOperators,
    filter: EffectiveFilter,
    load: Option<Load>,
    refused: Option<Refused>,
    /// Errors of the spec's validation.
    invalid: Vec<String>,
    /// How the request was understood, if that needs to be said.
    note: String,
    /// The events that were published about loading.
    told: Told,
    /// The newest history entry that events have told of, if there was one; `None` before the history is known.
    told_entry: Option<Option<HistoryEntry>>,
    /// The hand-over of the present rollout was told.
    told_hand_over: bool,
    /// The own Deployment was found scaled to zero.
    stopped: bool,
    clocks: Clocks,
    durations: BTreeMap<String, f64>,
    timeline: Timeline,
    payloads: BTreeMap<String, String>,
    kept: observe::Kept,
}

impl std::fmt::Debug for ClusterVersionController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterVersionController").field("name", &self.parts.name).finish_non_exhaustive()
    }
}

impl ClusterVersionController {
    pub(crate) fn new(parts: Parts) -> Self {
        ClusterVersionController {
            live: live::Latest::new(&parts.name, parts.progress.history.clone()),
            writer: StatusWriter::new(parts.applier.objects().clone(), &parts.name, parts.note.clone()),
            accepted: Accepted { payload: parts.own.clone(), verified: false, risks: String::new() },
            current: None,
            selected: None,
            dropped: Dropped::new(parts.applier.clone(), &parts.progress.dropped),
            drained: DrainedOperators::new(parts.applier.clone(), parts.clients.clone(), parts.nodes_explain),
            filter: EffectiveFilter::new(parts.filter.clone(), parts.always_enabled.clone()),
            load: None,
            refused: None,
            invalid: Vec::new(),
            note: String::new(),
            told: Told::default(),
            told_entry: parts.progress.history.first().cloned().map(Some),
            told_hand_over: false,
            stopped: false,
            clocks: Clocks::recorded(&parts.progress.release.image, parts.progress.clocks.clone()),
            durations: parts.progress.durations.clone(),
            timeline: Timeline::recorded(&parts.progress.updates, &parts.progress.nodes),
            payloads: parts.progress.payloads.clone(),
            kept: observe::Kept::default(),
            parts,
        }
    }

    /// Runs until `stop`; writes the last status before it returns.
    pub(crate) async fn run(mut self, stop: CancellationToken) {
        let mut objects = live::watch(&self.parts.clients, &stop);
        let mut updates = self.parts.updates.clone();
        let mut features = self.parts.features.clone();
        let mut way = self.parts.way.clone();
        let mut operators = self.parts.applier.operators().changes();
        let monitoring = self.parts.monitoring.clone();
        tracing::info!(name = %self.parts.name, "waiting for the ClusterVersion");
        loop {
            let deadline = self.deadline(Timestamp::now());
            tokio::select! {
                () = stop.cancelled() => break,
                told = objects.recv() => {
                    if !self.live.on_told(told, &stop) {
                        break;
                    }
                }
                () = moved(&mut self.current) => {}
                news = loading::next(&mut self.load) => self.on_load(news),
                Ok(()) = updates.changed() => {}
                Ok(()) = features.changed() => {}
                Ok(()) = operators.changed() => {}
                Ok(()) = way.changed() => {
                    if matches!(*way.borrow_and_update(), Some(Ok(_))) {
                        self.on_new_way();
                    }
                }
                () = self.dropped.changed() => {}
                () = self.drained.changed() => {}
                changed = self.parts.config_maps.changed() => self.on_config_maps(changed),
                written = self.writer.ended() => self.live.on_written(written),
                () = tokio::time::sleep(deadline) => {}
                () = monitoring.heartbeat.asked() => {
                    monitoring.heartbeat.answer();
                    continue;
                }
            }
            // Whatever else has happened meanwhile is taken in before deciding once.
            while let Ok(event) = objects.try_recv() {
                self.live.on_change(event);
            }
            self.turn().await;
        }
        self.end().await;
    }

    async fn end(mut self) {
        self.stop_loading();
        self.observe_rollout(Timestamp::now());
        if let Some(current) = &mut self.current {
            current.rollout.cancel().await;
        }
        self.tell_hand_over();
        self.writer.forget_refused();
        if let Some(written) = self.writer.finish().await {
            self.live.on_written(Some(written));
        }
        self.write_last_status().await;
    }

    /// Once more if another client was faster: the successor must find what has been reached.
    async fn write_last_status(&mut self) {
        for _ in 0..2 {
            let Some((live, status)) = self.status_to_write(Timestamp::now()) else { return };
            match self.writer.write_last(live, &status).await {
                Err(error) if error.is_conflict() => match self.writer.read().await {
                    Ok(Some(object)) => self.live.on_change(live::Change::Applied(Box::new(object))),
                    Ok(None) => return,
                    Err(error) => return tracing::warn!(%error, "last status not written"),
                },
                Err(error) => return tracing::warn!(%error, "last status not written"),
                Ok(()) => return,
            }
        }
        tracing::warn!("last status not written: the ClusterVersion keeps being changed");
    }

    /// Takes in what happened, decides, performs, reports.
    async fn turn(&mut self) {
        let Some((spec, status)) = self.observe_live() else {
            self.rest().await;
            return self.tell_metrics(Timestamp::now());
        };
        // Each action changes the situation. A handful of rounds is enough, and the bound keeps a mistake from spinning.
        for _ in 0..8 {
            self.judge_load(&spec, &status);
            let actions = self.decide(&spec, &status, Timestamp::now());
            if actions.is_empty() {
                break;
            }
            for action in actions {
                tracing::info!(?action, "decided");
                self.perform(action, &spec, &status).await;
            }
        }
        self.note = self.note_on(&spec, &status);
        self.parts.config_maps.await_signatures(self.refused.as_ref().and_then(Refused::unsigned));
        let now = Timestamp::now();
        self.observe_rollout(now);
        self.follow_drained();
        self.publish(now);
        self.tell_metrics(now);
    }

    /// Without a ClusterVersion there is nobody to act for: what is under way ends, and drift is not repaired. Objects that
    /// were kept going would be given back an owner that is gone, and the garbage collector would take them.
    async fn rest(&mut self) {
        self.writer.rest();
        self.refused = None;
        self.stop_loading();
        self.stop_rollout().await;
    }

    /// The valid part of the spec, and the status as it stands. What depends on them is brought up to date.
    fn observe_live(&mut self) -> Option<(ClusterVersionSpec, ClusterVersionStatus)> {
        let gates = self.gates();
        let live = self.live.live()?;
        let (spec, status) = (live.spec.clone(), live.status.clone());
        let terms = retry::Terms { generation: live.generation, gates };
        if let Some(refused) = &mut self.refused {
            refused.consider(terms, Timestamp::now());
        }
        self.parts.applier.set_owner(owner(&self.parts.name, &live.uid));
        let errors = updates::validate(&self.parts.name, gates, &spec, &status);
        self.invalid = errors.iter().map(ToString::to_string).chain(self.live.problems()).collect();
        let valid = updates::clear(&spec, &errors);
        self.filter.update(&self.accepted.payload, &valid, &status, &self.features());
        self.request_updates(spec, &valid, &status, gates);
        Some((valid, status))
    }

    /// The feature gates of the running release.
    fn gates(&self) -> FeatureGates {
        let features = self.features();
        let enabled = features.enabled([self.parts.own.release.version.as_str()]);
        FeatureGates::of(enabled)
    }

    /// Tells the task that asks the update service what to ask. `spec` is as it was given, and `valid` without its errors.
    fn request_updates(
        &self,
        spec: ClusterVersionSpec,
        valid: &ClusterVersionSpec,
        status: &ClusterVersionStatus,
        gates: FeatureGates,
    ) {
        let known = self.parts.requests.borrow().as_ref().map(|request| request.offered.clone());
        // The updates in status are for the running release only once it is the one that was completed last.
        let own = |entry: &HistoryEntry| {
            entry.state == HistoryState::Completed && entry.image == self.parts.own.release.image
        };
        let offered = known.unwrap_or_else(|| {
            let current = status.history.first().is_some_and(own);
            update_service::offered(
                status.available_updates.as_deref().filter(|_| current),
                &status.conditional_updates,
            )
        });
        // A request for a version that is only offered once a risk is accepted is invalid until then: the risks count.
        let accepted = spec.desired_update.iter().flat_map(|update| &update.accept_risks);
        let accepted = accepted.map(|risk| risk.name.clone()).collect();
        let request = update_service::Request {
            // The URL as it was given, valid or not: without it the default service would be queried.
            upstream: spec.upstream,
            channel: spec.channel,
            cluster_id: spec.cluster_id,
            architecture: valid.desired_update.as_ref().map(|update| update.architecture.clone()).unwrap_or_default(),
            accepted_risks: gates.accept_risks.then_some(accepted),
            own_risks: gates.accept_risks.then(|| self.risks(valid)).flatten(),
            offered,
        };
        self.parts.requests.send_if_modified(|current| {
            let changed = current.as_ref() != Some(&request);
            *current = Some(request);
            changed
        });
    }

    fn features(&self) -> Arc<Features> {
        self.parts.features.borrow().clone()
    }

    fn decide(&self, spec: &ClusterVersionSpec, status: &ClusterVersionStatus, now: Timestamp) -> Vec<Action> {
        let mode = self.current.as_ref().map(|current| current.rollout.state().current_mode());
        decide::decide(&Situation {
            spec,
            status,
            own: &self.parts.own.release,
            running: self.current.as_ref().zip(mode).map(|(current, mode)| Running {
                image: &self.accepted.payload.release.image,
                mode,
                filter: &current.filter,
            }),
            filter: self.filter.get(),
            loading: self.load.as_ref().map(|load| Loading { target: &load.target, stage: load.stage() }),
            refused: self.refused.as_ref().map(|r| (&r.target, r.again)),
            now,
        })
    }

    async fn perform(&mut self, action: Action, spec: &ClusterVersionSpec, status: &ClusterVersionStatus) {
        match action {
            Action::StartOwn { mode } => {
                let payload = self.parts.own.clone();
                self.accepted = Accepted { payload, verified: false, risks: String::new() };
                self.start(mode, spec, status).await;
            }
            Action::StartLoaded => {
                let Some(load) = self.load.take() else { return };
                let (forced, risks) = (load.target.force, load.accepted_risks());
                let Some(loaded) = load.loaded else { return };
                self.refused = None;
                self.kept.on_load_ended(LoadStep::PayloadLoaded, true);
                self.accepted = Accepted { payload: loaded.payload, verified: loaded.verified, risks };
                self.tell_overridden(forced);
                // Older folders are pruned when the next one is extracted.
                self.payloads = BTreeMap::from([loaded.tree]);
                self.start(Mode::Update, spec, status).await;
            }
            Action::Restart { mode } => self.start(mode, spec, status).await,
            Action::Load(target) => self.begin_load(target, spec),
            Action::Preflight => {
                if let Some(load) = &mut self.load {
                    let hindrances = health::hindrances(self.parts.clients.call.clone());
                    load.run_preflight(self.parts.retriever.clone(), hindrances);
                }
            }
            Action::StopLoading => self.stop_loading(),
            Action::ForgetRefused => self.refused = None,
        }
    }

    async fn stop_rollout(&mut self) {
        if let Some(mut current) = self.current.take() {
            current.rollout.cancel().await;
            self.kept.on_rollout_ended(&current.rollout.state());
            self.selected = Some(current.selection);
        }
    }

    async fn start(&mut self, mode: Mode, spec: &ClusterVersionSpec, status: &ClusterVersionStatus) {
        self.stop_rollout().await;
        // The release may bring another schema of ClusterVersion.
        self.writer.forget_refused();
        self.told_hand_over = false;
        let selection = self.select(spec, status);
        let manifests = selection.manifests.clone();
        let release = self.accepted.payload.release.clone();
        self.clocks.begin(&release.image);
        let own_deployment = self.own_deployment();
        let graph = graph::build::build(&manifests, mode, Some(&own_deployment));
        tracing::info!(release = %release.version, ?mode, nodes = graph.len(), manifests = manifests.len(), "rollout begins");
        let hand_over = release.image != self.parts.own.release.image;
        let unfinished_pass = self.parts.unfinished_pass;
        let plan = Plan { release, mode, manifests, graph, own_deployment, hand_over, unfinished_pass };
        let rollout = RunningRollout::start(plan, self.parts.applier.clone());
        self.current = Some(Current { rollout, filter: self.filter.get().clone(), selection });
    }

    /// What of the release is included. A capability that a managed object has moved into is enabled, so that the object
    /// stays managed.
    fn select(&mut self, spec: &ClusterVersionSpec, status: &ClusterVersionStatus) -> Selection {
        let payload = self.accepted.payload.clone();
        self.filter.update(&payload, spec, status, &self.features());
        let selection = payload.select(self.filter.get());
        let before = match self.selected.take() {
            Some(before) => before,
            // At the start the own release takes its own place.
            None if Arc::ptr_eq(&payload, &self.parts.own) => {
                self.dropped.begin(None, &selection, self.filter.get());
                return selection;
            }
            None => self.parts.own.select(self.filter.get()),
        };
        let selection = self.imply(&payload, selection, &before);
        self.dropped.begin(Some(&before), &selection, self.filter.get());
        selection
    }

    fn imply(&mut self, payload: &Payload, selection: Selection, before: &Selection) -> Selection {
        if before.hash == selection.hash {
            return selection;
        }
        let implied = self.filter.imply(&selection, before);
        if implied.is_empty() {
            return selection;
        }
        tracing::info!(?implied, "capabilities enabled, because managed objects have moved into them");
        payload.select(self.filter.get())
    }

    fn begin_load(&mut self, target: Target, spec: &ClusterVersionSpec) {
        let terms = Terms {
            filter: self.filter.for_load(&target.release.version, &self.features()),
            stores: spec.signature_stores.clone(),
            history: self.live.live().map(|live| digests(&live.status.history)).unwrap_or_default(),
        };
        // What was refused before is not asked for any more.
        self.refused.take_if(|refused| !refused.target.is(&target));
        let history = self.live.live().map(|live| live.status.history.as_slice()).unwrap_or_default();
        let running = [&self.accepted.payload.release.image, &target.release.image];
        loading::retain_needed(&mut self.payloads, running.map(String::as_str), history);
        let accepted_by =
            retry::Terms { generation: self.live.live().map_or(0, |live| live.generation), gates: self.gates() };
        let hindrances = health::hindrances(self.parts.clients.call.clone());
        let (retriever, payloads) = (self.parts.retriever.clone(), self.payloads.clone());
        let place = Place {
            client: self.parts.clients.call.clone(),
            own_deployment: self.own_deployment(),
            stop: self.parts.applier.stop().clone(),
        };
        self.load = Some(Load::start(retriever, target, accepted_by, terms, payloads, hindrances, place));
    }

    fn stop_loading(&mut self) {
        if let Some(load) = self.load.take() {
            load.stop();
        }
    }

    /// A signature may be the one that was missing.
    fn on_config_maps(&mut self, changed: Changed) {
        if let (Changed::Signatures(version), Some(refused)) = (changed, &mut self.refused) {
            refused.on_signature(version, Timestamp::now());
        }
    }

    /// The stores of signatures may be reached by it.
    fn on_new_way(&mut self) {
        if let Some(refused) = &mut self.refused {
            refused.on_new_way(Timestamp::now());
        }
    }

    fn on_load(&mut self, news: LoadNews) {
        match (news, self.load.take()) {
            (LoadNews::Failed(mut refusal), Some(Load { target, accepted_by, begun_with, .. })) => {
                self.payloads.extend(refusal.tree.take());
                let status = &refusal.status;
                tracing::warn!(image = %target.release.image, step = ?status.step, outcome = ?status.outcome, "release not accepted");
                self.kept.on_load_ended(status.step, false);
                let (before, now) = (self.refused.as_ref(), Timestamp::now());
                let mut refused = Refused::new(target, *refusal, before, accepted_by, now);
                refused.on_signature_meanwhile(self.parts.config_maps.newest_signature(), now);
                refused.on_new_way_meanwhile(&begun_with, &self.parts.way.borrow(), now);
                self.refused = Some(refused);
            }
            (LoadNews::Moved | LoadNews::Failed(_), load) => {
                let tree = load.as_ref().and_then(|load| load.loaded.as_ref()).map(|loaded| loaded.tree.clone());
                self.payloads.extend(tree);
                self.load = load;
            }
        }
    }
}

/// Of those entries whose image has one.
fn digests(history: &[HistoryEntry]) -> BTreeSet<Digest> {
    history.iter().filter_map(|entry| Digest::of_pull_spec(&entry.image).ok()).collect()
}

/// Waits until the rollout has moved; for ever without one. Cancel safe.
async fn moved(current: &mut Option<Current>) {
    match current {
        Some(current) => current.rollout.moved().await,
        None => std::future::pending().await,
    }
}
