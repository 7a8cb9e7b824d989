//! Tasks that go on until the process is told to stop. If one of them panics, what it follows would be blind for the rest of the
//! process while everything else looks well: so the process stops in order, and is started again.

use futures::FutureExt;
use std::panic::AssertUnwindSafe;
use tokio_util::sync::CancellationToken;
use tracing::Instrument;

/// Runs the task until it ends or `stop`, which a panic cancels. `what` names it in the log.
pub(crate) fn spawn<F>(what: &'static str, stop: &CancellationToken, task: F)
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let until = stop.clone();
    tokio::spawn(guarded(what, stop, async move { until.run_until_cancelled(task).await }));
}

/// The task, for whoever has a handle of it and ends it by that. `stop` is the one of the process, which a panic cancels.
pub(crate) fn guarded<F>(
    what: &'static str,
    stop: &CancellationToken,
    task: F,
) -> impl Future<Output = ()> + Send + use<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    let stop = stop.clone();
    let guarded = async move {
        // Nothing of the task is looked at after it has panicked.
        if AssertUnwindSafe(task).catch_unwind().await.is_err() {
            tracing::error!(task = what, "stopping because a task has panicked; see the panic above");
            stop.cancel();
        }
    };
    guarded.instrument(tracing::info_span!("task", name = what))
}

#[cfg(test)]
mod tests;
