//! A release being loaded beside the pass that runs, as the loop waits for it.

use crate::status::facts::LoadStatus;
use crate::updates::Target;
use crate::work::retrieve::Loaded;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinHandle};
use tokio_util::sync::CancellationToken;

/// A release on its way.
pub struct Load {
    pub target: Target,
    /// Of the spec that asked for it.
    pub generation: i64,
    pub task: JoinHandle<Result<Loaded, Box<LoadStatus>>>,
    pub steps: watch::Receiver<LoadStatus>,
    pub stop: CancellationToken,
}

/// What is new of it.
pub enum LoadNews {
    Step(LoadStatus),
    Ended(Result<Result<Loaded, Box<LoadStatus>>, JoinError>),
}

/// Waits for the next news; for ever without a load. Cancel safe.
pub async fn news_of(load: &mut Option<Load>) -> LoadNews {
    let Some(load) = load else { return std::future::pending().await };
    tokio::select! {
        // A failed receive means that the task is about to end.
        Ok(()) = load.steps.changed() => LoadNews::Step(load.steps.borrow_and_update().clone()),
        ended = &mut load.task => LoadNews::Ended(ended),
    }
}
