//! What the processes that work under a Lease have in common.

use crate::cluster::lease::{Election, LeaderResult, Times};
use crate::cluster::{ApiError, ClientError, Clients, Kind, Objects, jittered};
use crate::merge::inject::Source;
use crate::process::settings::{LeaseSettings, SettingsError};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long a renewal of the lease that is under way may take when the lease is given back.
const RENEWED_WITHIN: Duration = Duration::from_secs(2);

/// A process that is told to stop ends after this time even if work is unfinished; the pod has 130 s to terminate.
const STOP_WITHIN: Duration = Duration::from_secs(120);

/// For events that are still to be published when everything else has ended.
pub(crate) const LAST_EVENTS: Duration = Duration::from_secs(2);

/// Why a process ends that was not told to.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LeadingError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error("no longer the leader: {0}")]
    LeaseLost(String),
    #[error("the main loop failed: {0}")]
    Crashed(String),
    #[error("did not stop within {} s", STOP_WITHIN.as_secs())]
    StopTimedOut,
}

/// What may become the leader: the lease, and the objects that are written while it is held. `lease`: its namespace
/// and name.
pub(crate) fn candidate(
    clients: &Clients,
    manager: &'static str,
    lease: (&str, &str),
    result: LeaderResult,
    settings: &LeaseSettings,
    times: Times,
) -> (Arc<Election>, Objects) {
    let election = Election::new(clients.call.clone(), manager, lease, result, &settings.identity(), times);
    let claim = election.claim.clone();
    let objects = Objects::new(clients.call.clone(), manager, Arc::new(move || claim.holds()));
    (Arc::new(election), objects.with_longest_write(times.longest_write()))
}

/// Works as the leader until the work ends, which it does when it is told to stop, or the lease is lost.
pub(crate) async fn while_leading(
    election: Arc<Election>,
    stop: CancellationToken,
    work: impl Future<Output = ()> + Send + 'static,
) -> Result<(), LeadingError> {
    // The lease is renewed until everything else has stopped.
    let renew_stop = CancellationToken::new();
    let (renewed, renew_until) = (election.clone(), renew_stop.clone());
    let mut renewing = tokio::spawn(async move { renewed.keep(&renew_until).await });
    let mut leading = tokio::spawn(work);
    let outcome = tokio::select! {
        ended = &mut leading => ended.map_err(|e| LeadingError::Crashed(e.to_string())),
        why = &mut renewing => {
            let why = why.unwrap_or_else(|e| e.to_string());
            tracing::error!(%why, "stopping: no longer the leader");
            stop.cancel();
            let _stopped = tokio::time::timeout(Duration::from_secs(10), &mut leading).await;
            Err(LeadingError::LeaseLost(why))
        }
        () = expired(&stop) => Err(LeadingError::StopTimedOut),
    };
    renew_stop.cancel();
    // A renewal that is under way would claim the lease again after it was given back.
    if !renewing.is_finished() && tokio::time::timeout(RENEWED_WITHIN, &mut renewing).await.is_err() {
        renewing.abort();
        let _aborted = renewing.await;
    }
    election.release().await;
    tracing::info!("stopped");
    outcome
}

async fn expired(stop: &CancellationToken) {
    stop.cancelled().await;
    tokio::time::sleep(STOP_WITHIN).await;
}

/// The topology of the control plane, which is read once, as far as it may be known. `None` if stopped before. What is not
/// answered is asked again: whoever takes the single node of a cluster for one of several loses the lease with each restart of
/// its API server.
pub(crate) async fn topology(objects: &Objects, stop: &CancellationToken) -> Option<Option<String>> {
    let asking = until_answered(stop, || async move {
        match read_topology(objects).await {
            Err(error) if error.is_rejected() => {
                let lease = "the lease is that of several nodes";
                tracing::warn!(%error, "the topology of the control plane is not known: {lease}");
                Ok(None)
            }
            read => read,
        }
    });
    stop.run_until_cancelled(asking).await.flatten()
}

/// `Infrastructure.status.controlPlaneTopology`, read once; `None` where it is not set, or the object or its kind is missing.
async fn read_topology(objects: &Objects) -> Result<Option<String>, ApiError> {
    let kind = Kind::known("config.openshift.io", "v1", Source::Infrastructure.kind(), "infrastructures", false);
    let object = objects.get(&kind, "", Source::NAME).await?;
    let topology = object.as_ref().and_then(|object| object.pointer("/status/controlPlaneTopology"));
    Ok(topology.and_then(Value::as_str).map(str::to_owned))
}

/// Repeats a read until the server answers; `None` if stopped before.
pub(crate) async fn until_answered<T, F>(stop: &CancellationToken, mut read: impl FnMut() -> F) -> Option<T>
where
    F: Future<Output = Result<T, ApiError>>,
{
    let mut failures = 0;
    loop {
        match read().await {
            Ok(answer) => return Some(answer),
            Err(error) => {
                failures += 1;
                tracing::warn!(%error, "what the start needs is not read; trying again");
                let pause = jittered(Duration::from_millis(250), failures, Duration::from_secs(10));
                stop.run_until_cancelled(tokio::time::sleep(pause)).await?;
            }
        }
    }
}

#[cfg(test)]
mod tests;
