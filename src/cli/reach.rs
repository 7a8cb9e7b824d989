//! Errors about an API server that cannot be reached.

use crate::cluster::ApiError;
use crate::cluster::error::Cause;
use crate::error::chain;
use kube::runtime::watcher;

/// Adds the address and a hint to errors about reaching the server. An error that the server itself returned needs none.
pub(crate) fn explain(server: &str, error: ApiError) -> anyhow::Error {
    match error.cause {
        Cause::Transport(_) | Cause::Timeout => anyhow::anyhow!("{error} ({})", hint(server)),
        _ => error.into(),
    }
}

/// The same for a watch, as text.
pub(crate) fn explain_watch(server: &str, error: &watcher::Error) -> String {
    let text = chain(error);
    let answered = match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => matches!(error, kube::Error::Api(_)),
        watcher::Error::WatchError(_) | watcher::Error::NoResourceVersion => true,
    };
    if answered { text } else { format!("{text} ({})", hint(server)) }
}

fn hint(server: &str) -> String {
    format!("the API server should be at {server}: is it running? --kubeconfig names another")
}

#[cfg(test)]
mod tests;
