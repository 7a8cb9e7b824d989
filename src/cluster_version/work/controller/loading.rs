//! A release on its way beside the rollout that runs: loaded, then held until no precondition speaks against it, then tried by
//! its own preflight.

use super::placement::{Place, Placement};
use super::retry;
use crate::cluster_version::api::HistoryEntry;
use crate::cluster_version::status::facts::LoadStatus;
use crate::cluster_version::status::facts::LoadStep;
use crate::cluster_version::updates::Target;
use crate::cluster_version::updates::preconditions;
use crate::cluster_version::updates::preconditions::{Finding, of_hindrances};
use crate::cluster_version::work::retrieve::{Loaded, Refusal, Retriever, Terms, folder};
use crate::diagnosis::Trouble;
use crate::object::read::Read;
use crate::release::api::Release;
use futures::FutureExt;
use futures::future::try_join;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// A release on its way, or loaded and not yet started.
pub(crate) struct Load {
    pub target: Target,
    /// What it is accepted by.
    pub accepted_by: retry::Terms,
    /// The way to the stores of signatures when it began.
    pub begun_with: retry::FoundWay,
    /// The last step that was told of.
    pub status: LoadStatus,
    pub loaded: Option<Loaded>,
    /// What speaks against it, as last judged.
    findings: Vec<Finding>,
    /// What would hinder any update, as read beside the release, and again before it starts if it had to wait.
    hindrances: Vec<Finding>,
    /// Where its daemon is to run.
    placement: Option<Placement>,
    loaded_at: Instant,
    preflight: Preflight,
    task: Option<JoinHandle<Result<Ended, Box<Refusal>>>>,
    steps: watch::Receiver<LoadStatus>,
    sender: watch::Sender<LoadStatus>,
    cancel: CancellationToken,
}

/// What a task has achieved.
enum Ended {
    /// What in the cluster would hinder any update is read meanwhile.
    Loaded(Box<Loaded>, Vec<Finding>, Option<Placement>),
    /// The same, if it was read again.
    Preflight(Option<Vec<Finding>>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Preflight {
    Pending,
    Running,
    Passed,
}

/// How far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Loading,
    /// A precondition speaks against it. It goes on as soon as that is no longer so.
    Blocked,
    /// Nothing speaks against it: its preflight may run.
    Admitted,
    Preflight,
    /// It may be applied.
    Ready,
}

/// What is new of it.
pub(crate) enum LoadNews {
    /// Another step began or ended.
    Moved,
    Failed(Box<Refusal>),
}

impl Load {
    pub(crate) fn start(
        retriever: Arc<Retriever>,
        target: Target,
        accepted_by: retry::Terms,
        terms: Terms,
        payloads: BTreeMap<String, String>,
        hindrances: impl Future<Output = Vec<Trouble>> + Send + 'static,
        place: Place,
    ) -> Load {
        let status = LoadStatus::started(target.release.clone());
        let begun_with = retriever.way.borrow().clone();
        let (sender, steps) = watch::channel(status.clone());
        let cancel = CancellationToken::new();
        let loading = retriever.load(target.clone(), terms, payloads, sender.clone(), cancel.clone());
        let span = tracing::info_span!("load", image = status.release.image);
        let loading = async move {
            // A release that cannot be loaded is told at once.
            let (loaded, hindrances) = try_join(loading, hindrances.map(Ok)).await?;
            let placement = Placement::begin(place, &loaded.payload).await;
            Ok(Ended::Loaded(Box::new(loaded), of_hindrances(&hindrances), placement))
        };
        let task = tokio::spawn(loading.instrument(span));
        Load {
            target,
            accepted_by,
            begun_with,
            status,
            loaded: None,
            findings: Vec::new(),
            hindrances: Vec::new(),
            placement: None,
            loaded_at: Instant::now(),
            preflight: Preflight::Pending,
            task: Some(task),
            steps,
            sender,
            cancel,
        }
    }

    pub(crate) fn stage(&self) -> Stage {
        match (&self.loaded, self.preflight) {
            (None, _) => Stage::Loading,
            _ if preconditions::is_blocked(&self.findings, self.target.force) => Stage::Blocked,
            (_, Preflight::Pending) => Stage::Admitted,
            (_, Preflight::Running) => Stage::Preflight,
            (_, Preflight::Passed) => Stage::Ready,
        }
    }

    /// The release as its payload describes it, once that is loaded.
    pub(crate) fn release(&self) -> Option<&Release> {
        self.loaded.as_ref().map(|loaded| &loaded.payload.release)
    }

    /// What its daemon demands of a node, if none meets it.
    pub(crate) fn unplaced(&self) -> Read<String> {
        self.placement.as_ref().map(Placement::verdict).unwrap_or_default()
    }

    /// What speaks against it now.
    pub(crate) fn judge(&mut self, mut findings: Vec<Finding>) {
        findings.extend(self.hindrances.iter().cloned());
        // What is found before it starts has to be of now, and it may be days until nothing speaks against it any more.
        if self.preflight == Preflight::Passed && preconditions::is_blocked(&findings, self.target.force) {
            self.preflight = Preflight::Pending;
        }
        if self.findings != findings {
            let text = preconditions::summary(&findings, self.target.force);
            tracing::info!(image = %self.target.release.image, findings = text, "preconditions judged");
            self.findings = findings;
        }
    }

    /// Begins the preflight of the loaded release. What the update is to be accepted in spite of is what there is now.
    pub(crate) fn run_preflight(
        &mut self,
        retriever: Arc<Retriever>,
        hindrances: impl Future<Output = Vec<Trouble>> + Send + 'static,
    ) {
        let Some(loaded) = &self.loaded else { return };
        let (release, verified) = (loaded.payload.release.clone(), loaded.verified);
        let running = retriever.preflight(release, verified, self.sender.clone(), self.cancel.clone());
        let outdated = self.loaded_at.elapsed() > CURRENT;
        let span = tracing::info_span!("preflight", image = self.target.release.image);
        let running = async move {
            let hindrances = async { if outdated { Some(of_hindrances(&hindrances.await)) } else { None } };
            let ((), hindrances) = try_join(running, hindrances.map(Ok)).await?;
            Ok(Ended::Preflight(hindrances))
        };
        self.task = Some(tokio::spawn(running.instrument(span)));
        self.preflight = Preflight::Running;
    }

    /// What it does, or why it does not go on.
    pub(crate) fn status(&self) -> LoadStatus {
        let release = || self.release().unwrap_or(&self.target.release).clone();
        match self.stage() {
            Stage::Blocked => {
                let summary = preconditions::summary(&self.findings, false);
                LoadStatus::failed(LoadStep::PreconditionChecks, release(), summary)
            }
            _ => self.status.clone(),
        }
    }

    /// What was accepted although it spoke against the release, for the history.
    pub(crate) fn accepted_risks(&self) -> String {
        let verification = self.loaded.as_ref().map(|loaded| loaded.accepted_risks.clone()).unwrap_or_default();
        let preconditions = preconditions::summary(&self.findings, self.target.force);
        let texts = [verification, preconditions];
        texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join("\n")
    }

    pub(crate) fn stop(self) {
        self.cancel.cancel();
        if let Some(task) = self.task {
            task.abort();
        }
    }
}

/// What was read of the cluster beside a release is current for so long.
const CURRENT: Duration = Duration::from_secs(60);

/// So many of the newest releases in the history may be asked for again soon.
const KEPT: usize = 2;

/// Forgets extracted payloads, which are folders on the disk of a node, except those of these images and of the newest releases
/// in the history: any number of others may have been asked for and never applied.
pub(crate) fn retain_needed(payloads: &mut BTreeMap<String, String>, images: [&str; 2], history: &[HistoryEntry]) {
    let newest = history.iter().take(KEPT).map(|entry| entry.image.as_str());
    let needed: BTreeSet<String> = images.into_iter().chain(newest).map(folder).collect();
    payloads.retain(|name, _| needed.contains(name));
}

/// Waits for what is new; for ever without a load. Cancel safe.
pub(crate) async fn next(load: &mut Option<Load>) -> LoadNews {
    let Some(Load {
        target, status, loaded, hindrances, placement, loaded_at, preflight, task: running, steps, ..
    }) = load
    else {
        return std::future::pending().await;
    };
    let ended = tokio::select! {
        // A failed receive means that the task is about to end.
        Ok(()) = steps.changed(), if running.is_some() => {
            status.clone_from(&steps.borrow_and_update());
            return LoadNews::Moved;
        }
        () = async { match placement { Some(placement) => placement.changed().await, None => std::future::pending().await } } => {
            return LoadNews::Moved;
        }
        ended = async { match running { Some(task) => task.await, None => std::future::pending().await } } => ended,
    };
    *running = None;
    match ended {
        Ok(Ok(Ended::Loaded(result, found, place))) => {
            (*loaded, *hindrances, *placement, *loaded_at) = (Some(*result), found, place, Instant::now());
            LoadNews::Moved
        }
        Ok(Ok(Ended::Preflight(found))) => {
            *preflight = Preflight::Passed;
            if let Some(found) = found {
                *hindrances = found;
            }
            LoadNews::Moved
        }
        Ok(Err(failed)) => LoadNews::Failed(failed),
        Err(error) => {
            let cause = format!("loading ended badly: {error}");
            LoadNews::Failed(Box::new(Refusal::new(&target.release, (LoadStep::RetrievePayload, cause))))
        }
    }
}

#[cfg(test)]
mod tests;
