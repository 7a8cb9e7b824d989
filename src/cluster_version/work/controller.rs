//! The ClusterVersion controller: ClusterVersion in, ClusterVersion.status out. It waits for an event (the object, the
//! rollout, a load, the update service), a deadline or the stop; takes in what happened; decides; performs; and writes
//! what is to be told.

mod decide;
mod filters;
mod judgement;
mod live;
mod loading;
pub(crate) mod notices;
mod observe;
mod placement;
mod report;
mod retry;
mod seen;
mod status_writer;

use super::advice;
use super::apply::Applier;
use super::config_maps::{Changed, ConfigMaps};
use super::drained::DrainedOperators;
use super::dropped::Dropped;
use super::executor::RunningRollout;
use super::health;
use super::monitoring::Monitoring;
use super::retrieve::{Retriever, Terms};
use crate::cluster::Clients;
use crate::cluster::lease::Note;
use crate::cluster_version::api::HistoryEntry;
use crate::cluster_version::graph;
use crate::cluster_version::graph::Mode;
use crate::cluster_version::progress::Progress;
use crate::cluster_version::rollout::{Clocks, Plan};
use crate::cluster_version::status::facts::LoadStep;
use crate::cluster_version::updates::Target;
use crate::cluster_version::updates::timeline::Timeline;
use crate::cluster_version::work::settings::Settings;
use crate::process::egress::Way;
use crate::process::events::Events;
use crate::release::{ApplyFilter, Features, Payload, Selection};
use crate::verify::Digest;
use decide::{Action, Loading, Running, Situation};
use filters::EffectiveFilter;
use jiff::Timestamp;
use loading::{Load, LoadNews};
use placement::Place;
use retry::Refused;
use seen::Seen;
use status_writer::StatusWriter;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Everything the controller is built from.
#[derive(Debug)]
pub(crate) struct Parts {
    pub settings: Arc<Settings>,
    pub clients: Arc<Clients>,
    pub applier: Arc<Applier>,
    pub retriever: Arc<Retriever>,
    /// The payload of the running image.
    pub own: Arc<Payload>,
    /// The record that a predecessor left.
    pub progress: Progress,
    pub records: watch::Sender<Progress>,
    /// Asks the update service.
    pub advice: advice::Handle,
    /// What the FeatureGate says now.
    pub features: watch::Receiver<Arc<Features>>,
    /// How requests to signature stores leave the cluster.
    pub way: Way,
    pub config_maps: ConfigMaps,
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
    /// The events that were published about loading.
    told: notices::Told,
    /// The newest history entry that events have told of, if there was one; `None` before the history is known.
    told_entry: Option<Option<HistoryEntry>>,
    /// The hand-over of the present rollout was told.
    told_hand_over: bool,
    /// The own Deployment was found scaled to zero.
    stopped: bool,
    /// As the rollout before has left them.
    clocks: Clocks,
    durations: BTreeMap<String, f64>,
    timeline: Timeline,
    payloads: BTreeMap<String, String>,
    kept: observe::Kept,
}

impl std::fmt::Debug for ClusterVersionController {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterVersionController").field("name", &self.parts.settings.name).finish_non_exhaustive()
    }
}

impl ClusterVersionController {
    pub(crate) fn new(parts: Parts) -> Self {
        let settings = &parts.settings;
        let (clients, nodes_explain) = (parts.clients.clone(), !settings.drained_operators_fail);
        ClusterVersionController {
            live: live::Latest::new(&settings.name, parts.progress.history.clone()),
            writer: StatusWriter::new(parts.applier.objects().clone(), &settings.name, parts.note.clone()),
            accepted: Accepted { payload: parts.own.clone(), verified: false, risks: String::new() },
            current: None,
            selected: None,
            dropped: Dropped::new(parts.applier.clone(), &parts.progress.dropped),
            drained: DrainedOperators::new(parts.applier.clone(), clients, nodes_explain),
            filter: EffectiveFilter::new(settings.filter(), &settings.always_enable_capabilities),
            load: None,
            refused: None,
            told: notices::Told::default(),
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
        let mut features = self.parts.features.clone();
        let mut way = self.parts.way.clone();
        let mut operators = self.parts.applier.operators().changes();
        let monitoring = self.parts.monitoring.clone();
        tracing::info!(object = %format_args!("ClusterVersion {}", self.parts.settings.name), "waiting for it");
        let mut again = None;
        loop {
            let pause = self.pause(again);
            tokio::select! {
                () = stop.cancelled() => break,
                told = objects.recv() => {
                    if !self.live.on_told(told, &stop) {
                        break;
                    }
                }
                () = moved(&mut self.current) => {}
                news = loading::next(&mut self.load) => self.on_load(news),
                () = self.parts.advice.changed() => {}
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
                () = tokio::time::sleep(pause) => {}
                () = monitoring.heartbeat.asked() => {
                    monitoring.heartbeat.answer();
                    continue;
                }
            }
            // Whatever else has happened meanwhile is taken in before deciding once.
            while let Ok(event) = objects.try_recv() {
                self.live.on_change(event);
            }
            again = self.turn().await;
        }
        self.end().await;
    }

    /// How long nothing can change by itself. `again`: when the last turn wants the next one.
    fn pause(&self, again: Option<Timestamp>) -> Duration {
        let left = |at: Timestamp| Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO);
        again.map(left).into_iter().chain(self.writer.due()).min().unwrap_or(Duration::from_secs(3600))
    }

    async fn end(mut self) {
        self.stop_loading();
        if let Some(current) = &mut self.current {
            current.rollout.cancel().await;
        }
        if let Some(seen) = self.look(Timestamp::now()) {
            self.tell_hand_over(&seen);
        }
        self.writer.forget_refused();
        if let Some(written) = self.writer.finish().await {
            self.live.on_written(Some(written));
        }
        self.write_last_status().await;
    }

    /// Once more if another client was faster: the successor must find what has been reached.
    async fn write_last_status(&mut self) {
        for _ in 0..2 {
            let Some(seen) = self.look(Timestamp::now()) else { return };
            let Some(status) = self.status_to_write(&seen, &self.facts(&seen)) else { return };
            match self.writer.write_last(seen.live.raw.clone(), &status).await {
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

    /// Takes in what happened, decides, performs, reports. Returns when to look again by time alone.
    async fn turn(&mut self) -> Option<Timestamp> {
        // Each action changes what there is to see. A handful of rounds is enough, and the bound keeps a mistake from spinning.
        let mut rounds = 0..8;
        let seen = loop {
            let Some(seen) = self.look(Timestamp::now()) else {
                self.rest().await;
                self.tell_metrics(None, Timestamp::now());
                return None;
            };
            self.take_in(&seen);
            let actions = rounds.next().map(|_| self.decide(&seen)).unwrap_or_default();
            if actions.is_empty() {
                break seen;
            }
            for action in actions {
                tracing::info!(?action, "decided");
                self.perform(action, &seen).await;
            }
        };
        self.parts.config_maps.await_signatures(self.refused.as_ref().and_then(Refused::unsigned));
        self.observe_rollout(&seen);
        self.publish(&seen);
        self.tell_metrics(Some(&seen), seen.at);
        self.next_turn(&seen)
    }

    /// Without a ClusterVersion there is nobody to act for: what is under way ends, and drift is not repaired. Objects that
    /// were kept going would be given back an owner that is gone, and the garbage collector would take them.
    async fn rest(&mut self) {
        self.writer.rest();
        self.refused = None;
        self.stop_loading();
        self.stop_rollout().await;
    }

    fn decide(&self, seen: &Seen) -> Vec<Action> {
        decide::decide(&Situation {
            target: &seen.target,
            status: &seen.live.status,
            own: &self.parts.own.release,
            running: self.current.as_ref().zip(seen.mode()).map(|(current, mode)| Running {
                image: &self.accepted.payload.release.image,
                mode,
                filter: &current.filter,
            }),
            filter: self.filter.get(),
            loading: self.load.as_ref().map(|load| Loading { target: &load.target, stage: load.stage() }),
            refused: self.refused.as_ref().map(|r| (&r.target, r.again)),
            now: seen.at,
        })
    }

    async fn perform(&mut self, action: Action, seen: &Seen) {
        match action {
            Action::StartOwn { mode } => {
                let payload = self.parts.own.clone();
                self.accept(Accepted { payload, verified: false, risks: String::new() }, seen);
                self.start(mode).await;
            }
            Action::StartLoaded => {
                let Some(load) = self.load.take() else { return };
                let (forced, risks) = (load.target.force, load.accepted_risks());
                let Some(loaded) = load.loaded else { return };
                self.refused = None;
                self.kept.on_load_ended(LoadStep::PayloadLoaded, true);
                self.accept(Accepted { payload: loaded.payload, verified: loaded.verified, risks }, seen);
                self.tell_overridden(forced, seen);
                // Older folders are pruned when the next one is extracted.
                self.payloads = BTreeMap::from([loaded.tree]);
                self.start(Mode::Update).await;
            }
            Action::Restart { mode } => self.start(mode).await,
            Action::Load(target) => self.begin_load(target, seen),
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

    /// What is applied from now on.
    fn accept(&mut self, accepted: Accepted, seen: &Seen) {
        self.filter.update(&accepted.payload, &seen.spec, &seen.live.status, &seen.features);
        self.accepted = accepted;
    }

    async fn stop_rollout(&mut self) {
        if let Some(mut current) = self.current.take() {
            current.rollout.cancel().await;
            let view = current.rollout.view();
            self.kept.on_rollout_ended(&view);
            self.clocks.clone_from(&view.clocks);
            self.selected = Some(current.selection);
        }
    }

    async fn start(&mut self, mode: Mode) {
        self.stop_rollout().await;
        // The release may bring another schema of ClusterVersion.
        self.writer.forget_refused();
        self.told_hand_over = false;
        let selection = self.select();
        let manifests = selection.manifests.clone();
        let release = self.accepted.payload.release.clone();
        let own_deployment = self.own_deployment();
        let graph = graph::build::build(&manifests, mode, Some(&own_deployment));
        tracing::info!(release = %release.version, ?mode, nodes = graph.len(), manifests = manifests.len(), "rollout begins");
        let hand_over = release.image != self.parts.own.release.image;
        let unfinished_pass = self.parts.settings.unfinished_workloads_pass;
        let plan = Plan { release, mode, manifests, graph, own_deployment, hand_over, unfinished_pass };
        let rollout = RunningRollout::start(plan, std::mem::take(&mut self.clocks), self.parts.applier.clone());
        self.current = Some(Current { rollout, filter: self.filter.get().clone(), selection });
    }

    /// What of the release is included. A capability that a managed object has moved into is enabled, so that the object
    /// stays managed.
    fn select(&mut self) -> Selection {
        let payload = self.accepted.payload.clone();
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

    fn begin_load(&mut self, target: Target, seen: &Seen) {
        let history = &seen.live.status.history;
        let terms = Terms {
            filter: self.filter.for_load(&target.release.version, &seen.features),
            stores: seen.spec.signature_stores.clone(),
            history: digests(history),
        };
        // What was refused before is not asked for any more.
        self.refused.take_if(|refused| !refused.target.is(&target));
        let running = [&self.accepted.payload.release.image, &target.release.image];
        loading::retain_needed(&mut self.payloads, running.map(String::as_str), history);
        let accepted_by = retry::Terms { generation: seen.live.generation, gates: seen.gates };
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
