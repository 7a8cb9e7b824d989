//! A release on its way beside the rollout that runs: loaded, then held until no precondition speaks against it, then tried by
//! its own preflight.

use crate::api::Release;
use crate::plan::Trouble;
use crate::status::facts::LoadStatus;
use crate::status::facts::LoadStep;
use crate::updates::Target;
use crate::updates::preconditions::{self, Finding};
use crate::work::retrieve::{Loaded, Refusal, Retriever, Terms};
use futures::FutureExt;
use futures::future::try_join;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

/// A release on its way, or loaded and not yet started.
pub(crate) struct Load {
    pub target: Target,
    /// Of the spec that asked for it.
    pub generation: i64,
    /// The last step that was told of.
    pub status: LoadStatus,
    pub loaded: Option<Loaded>,
    /// What speaks against it, as last judged.
    findings: Vec<Finding>,
    /// What would hinder any update, as read beside the release.
    hindrances: Vec<Finding>,
    preflight: Preflight,
    task: Option<JoinHandle<Result<Ended, Box<Refusal>>>>,
    steps: watch::Receiver<LoadStatus>,
    sender: watch::Sender<LoadStatus>,
    cancel: CancellationToken,
}

/// What a task has achieved.
enum Ended {
    /// What in the cluster would hinder any update is read meanwhile.
    Loaded(Box<Loaded>, Vec<Finding>),
    Preflight,
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
        generation: i64,
        terms: Terms,
        payloads: BTreeMap<String, String>,
        hindrances: impl Future<Output = Vec<Trouble>> + Send + 'static,
    ) -> Load {
        let status = LoadStatus::started(target.release.clone());
        let (sender, steps) = watch::channel(status.clone());
        let cancel = CancellationToken::new();
        let loading = retriever.load(target.clone(), terms, payloads, sender.clone(), cancel.clone());
        let task = tokio::spawn(async move {
            // A release that cannot be loaded is told at once.
            let (loaded, hindrances) = try_join(loading, hindrances.map(Ok)).await?;
            let told = |it: Trouble| (it.object, it.message, it.next_step);
            let hindrances: Vec<_> = hindrances.into_iter().map(told).collect();
            Ok(Ended::Loaded(Box::new(loaded), preconditions::of_hindrances(&hindrances)))
        });
        Load {
            target,
            generation,
            status,
            loaded: None,
            findings: Vec::new(),
            hindrances: Vec::new(),
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
            _ if preconditions::is_blocked(&self.findings) && !self.target.force => Stage::Blocked,
            (_, Preflight::Pending) => Stage::Admitted,
            (_, Preflight::Running) => Stage::Preflight,
            (_, Preflight::Passed) => Stage::Ready,
        }
    }

    /// The release as its payload describes it, once that is loaded.
    pub(crate) fn release(&self) -> Option<&Release> {
        self.loaded.as_ref().map(|loaded| &loaded.payload.release)
    }

    /// What speaks against it now.
    pub(crate) fn judge(&mut self, mut findings: Vec<Finding>) {
        findings.extend(self.hindrances.iter().cloned());
        if self.findings != findings {
            let text = preconditions::summary(&findings, self.target.force);
            tracing::info!(image = %self.target.release.image, findings = text, "preconditions judged");
            self.findings = findings;
        }
    }

    /// Begins the preflight of the loaded release.
    pub(crate) fn run_preflight(&mut self, retriever: Arc<Retriever>) {
        let Some(loaded) = &self.loaded else { return };
        let (release, verified) = (loaded.payload.release.clone(), loaded.verified);
        let running = retriever.preflight(release, verified, self.sender.clone(), self.cancel.clone());
        self.task = Some(tokio::spawn(async move { running.await.map(|()| Ended::Preflight) }));
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

/// Waits for what is new; for ever without a load, or after its end. Cancel safe.
pub(crate) async fn next(load: &mut Option<Load>) -> LoadNews {
    let Some(Load { target, status, loaded, hindrances, preflight, task: running, steps, .. }) = load else {
        return std::future::pending().await;
    };
    let Some(task) = running else { return std::future::pending().await };
    let ended = tokio::select! {
        // A failed receive means that the task is about to end.
        Ok(()) = steps.changed() => {
            status.clone_from(&steps.borrow_and_update());
            return LoadNews::Moved;
        }
        ended = task => ended,
    };
    *running = None;
    match ended {
        Ok(Ok(Ended::Loaded(result, found))) => {
            (*loaded, *hindrances) = (Some(*result), found);
            LoadNews::Moved
        }
        Ok(Ok(Ended::Preflight)) => {
            *preflight = Preflight::Passed;
            LoadNews::Moved
        }
        Ok(Err(failed)) => LoadNews::Failed(failed),
        Err(error) => {
            let cause = format!("loading ended badly: {error}");
            let status = LoadStatus::failed(LoadStep::RetrievePayload, target.release.clone(), cause);
            LoadNews::Failed(Box::new(Refusal { status, tree: None }))
        }
    }
}
