//! A release being loaded beside the rollout that runs.

use crate::status::facts::LoadStatus;
use crate::updates::Target;
use crate::work::retrieve::{Loaded, Retriever, Terms};
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
    task: Option<JoinHandle<Result<Loaded, Box<LoadStatus>>>>,
    steps: watch::Receiver<LoadStatus>,
    cancel: CancellationToken,
}

/// What is new of it.
pub(crate) enum LoadNews {
    /// Another step began, or the release is loaded.
    Moved,
    Failed(Box<LoadStatus>),
}

impl Load {
    pub(crate) fn start(
        retriever: Arc<Retriever>,
        target: Target,
        generation: i64,
        terms: Terms,
        payloads: BTreeMap<String, String>,
    ) -> Load {
        let status = LoadStatus::started(target.release.clone());
        let (sender, steps) = watch::channel(status.clone());
        let cancel = CancellationToken::new();
        let loading = retriever.load(target.clone(), terms, payloads, sender, cancel.clone());
        Load { target, generation, status, loaded: None, task: Some(tokio::spawn(loading)), steps, cancel }
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
    let Some(Load { target, status, loaded, task: running, steps, .. }) = load else {
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
        Ok(Ok(result)) => {
            *loaded = Some(result);
            LoadNews::Moved
        }
        Ok(Err(failed)) => LoadNews::Failed(failed),
        Err(error) => LoadNews::Failed(Box::new(LoadStatus::failed(
            target.release.clone(),
            format!("loading ended badly: {error}"),
        ))),
    }
}
