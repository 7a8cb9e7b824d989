//! Queries the update service for the updates of this cluster, when the request changes and every few minutes.

use super::monitoring::Monitoring;
use crate::api::Release;
use crate::net::http::{self, HttpError};
use crate::status::facts::Retrieval;
use crate::updates::graph::{self, MAX_BODY, Reason, RetrievalError, Updates};
use jiff::Timestamp;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Chosen once per process between this and half as much again, so that many clusters do not query at the same moment.
const PERIOD: Duration = Duration::from_secs(150);

/// How long updates stay available while the service fails: meanwhile it may have learned of a risk.
const MAX_CACHE_AGE: Duration = Duration::from_secs(24 * 3600);

/// What the administrator's spec says about updates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Request {
    pub upstream: String,
    pub channel: String,
    pub cluster_id: String,
    /// `Multi`, or empty for that of the running release.
    pub architecture: String,
}

/// The part of each query that does not change while the process lives.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    /// `--update-service`, which overrides the spec.
    pub update_service: Option<String>,
    /// The running release.
    pub own: Release,
    /// Architecture of the running binary as the update service names it (`amd64`).
    pub architecture: String,
}

/// Runs until `stop`. A changed request is sent at once.
pub(crate) async fn run(
    client: Client,
    mut requests: watch::Receiver<Option<Request>>,
    updates: watch::Sender<Option<Retrieval>>,
    monitoring: Arc<Monitoring>,
    stop: CancellationToken,
) {
    let period = crate::cluster::jittered(PERIOD, 1, PERIOD);
    let mut cached = CachedResponse::new(Instant::now());
    loop {
        let request = requests.borrow_and_update().clone();
        if let Some(request) = request {
            let Some(response) = stop.run_until_cancelled(client.query(&request)).await else { return };
            let failure = response.as_ref().err().map(|error| error.reason.to_string());
            let changed = cached.request.as_ref().is_some_and(|last| *last != request);
            monitoring.on_retrieval(failure.as_deref(), changed, Timestamp::now());
            let next = cached.store(request, response, Instant::now());
            updates.send_if_modified(|last| {
                let changed = last.as_ref() != Some(&next);
                *last = Some(next);
                changed
            });
        }
        tokio::select! {
            () = stop.cancelled() => return,
            changed = requests.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(period), if cached.request.is_some() => {}
        }
    }
}

/// The last response, and the request it belongs to.
struct CachedResponse {
    request: Option<Request>,
    retrieval: Retrieval,
    /// When the service last confirmed it.
    confirmed: Instant,
}

impl CachedResponse {
    /// No response yet. The updates that an earlier process wrote to status count as confirmed now.
    fn new(now: Instant) -> Self {
        CachedResponse { request: None, retrieval: Retrieval::unanswered(), confirmed: now }
    }

    /// Stores a response and returns what is known now. A transient failure of the service does not withdraw the updates
    /// of its last response to the same request until they are too old.
    fn store(&mut self, request: Request, response: Result<Updates, RetrievalError>, now: Instant) -> Retrieval {
        let changed = self.request.replace(request).is_some_and(|last| self.request.as_ref() != Some(&last));
        let fresh = now.duration_since(self.confirmed) < MAX_CACHE_AGE;
        if response.is_ok() || changed {
            self.confirmed = now;
        }
        match response {
            Ok(Updates { current, available, conditional, notes: _ }) => {
                self.retrieval = Retrieval { current: Some(current), available, conditional, ..Retrieval::nothing() };
            }
            Err(error) if error.reason.is_transient() && !changed && fresh => {
                self.retrieval.outcome = Err(error.into())
            }
            Err(error) => self.retrieval = Retrieval { outcome: Err(error.into()), ..Retrieval::nothing() },
        }
        self.retrieval.clone()
    }
}

impl Client {
    async fn query(&self, request: &Request) -> Result<Updates, RetrievalError> {
        let response = self.try_query(request).await;
        match &response {
            Ok(updates) => updates.notes.iter().for_each(|note| tracing::info!(%note, "update service")),
            Err(error) => tracing::info!(%error, "no updates retrieved"),
        }
        response
    }

    async fn try_query(&self, request: &Request) -> Result<Updates, RetrievalError> {
        let upstream = graph::service(self.update_service.as_deref(), &request.upstream);
        let desired = if request.architecture.is_empty() { &self.own.architecture } else { &request.architecture };
        let architecture = if desired == "Multi" { "multi" } else { self.architecture.as_str() };
        let channel = &request.channel;
        let url = graph::request_url(upstream, architecture, channel, &request.cluster_id, &self.own.version)?;
        let client = http::client(&self.own.version).map_err(|e| failed(&e))?;
        let body = http::get_bounded(&client, &url, MAX_BODY).await.map_err(|e| failed(&e))?;
        graph::parse_updates(&body, &self.own, channel, desired)
    }
}

/// A service that answered with an error has another reason than one that could not be reached.
fn failed(error: &HttpError) -> RetrievalError {
    let reason = match error {
        HttpError::Status { .. } | HttpError::Body { .. } | HttpError::TooLarge { .. } => Reason::ResponseFailed,
        _ => Reason::RemoteFailed,
    };
    RetrievalError::new(reason, error.to_string())
}

#[cfg(test)]
mod tests;
