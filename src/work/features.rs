//! The current FeatureGate: read once at start, then watched as soon as its kind is served.

use crate::cluster::{ApiError, Clients, Kind, Kinds, Objects, WatchBackoff};
use crate::payload::Features;
use futures::StreamExt;
use kube::Client;
use kube::api::{WatchEvent, WatchParams};
use serde_json::Value;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

const NAME: &str = "cluster";
/// How long one watch lasts.
const WATCH_SECONDS: u32 = 1800;

fn kind() -> Kind {
    Kind::known("config.openshift.io", "v1", "FeatureGate", "featuregates", false)
}

/// Reads the FeatureGate. The default applies if there is none, or if its kind is not served.
pub(crate) async fn read(objects: &Objects) -> Result<Features, ApiError> {
    Ok(objects.get(&kind(), "", NAME).await?.as_ref().map(Features::of).unwrap_or_default())
}

/// Watches the FeatureGate; the value changes with it. A deletion changes nothing: the last decision stays valid until there
/// is another.
pub(crate) fn watch(
    clients: &Clients,
    kinds: Arc<Kinds>,
    first: Features,
    stop: CancellationToken,
) -> watch::Receiver<Arc<Features>> {
    let (sender, receiver) = watch::channel(Arc::new(first));
    match clients.for_watch() {
        Ok(client) => {
            tokio::spawn(async move { stop.run_until_cancelled(follow(client, kinds, sender)).await });
        }
        Err(error) => tracing::error!(%error, "cannot watch the FeatureGate"),
    }
    receiver
}

async fn follow(client: Client, kinds: Arc<Kinds>, sender: watch::Sender<Arc<Features>>) {
    let (mut backoff, kind) = (WatchBackoff::default(), kind());
    loop {
        // On a new cluster the CRD is installed by the release.
        kinds.served(&kind.api_version(), &kind.kind).await;
        if let Err(error) = watch_once(&client, &sender).await {
            tracing::debug!(%error, "watch of the FeatureGate failed; retrying");
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// One watch until it ends. It starts without a resourceVersion, so the first event is the current object.
async fn watch_once(client: &Client, sender: &watch::Sender<Arc<Features>>) -> Result<(), ApiError> {
    let attempt = "watch the FeatureGate";
    let params = WatchParams { timeout: Some(WATCH_SECONDS), ..WatchParams::default() };
    let params = params.fields(&format!("metadata.name={NAME}"));
    let request = kube::core::Request::new(kind().path("")).watch(&params, "");
    let request = request.map_err(|e| ApiError::of(attempt, kube::Error::BuildRequest(e)))?;
    let events = client.request_events::<Value>(request).await.map_err(|e| ApiError::of(attempt, e))?;
    let mut events = events.boxed();
    while let Some(event) = events.next().await {
        match event.map_err(|e| ApiError::of(attempt, e))? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                let features = Features::of(&object);
                sender.send_if_modified(|last| {
                    let changed = **last != features;
                    if changed {
                        tracing::info!(set = %features.set, versions = ?features.gates.keys(), "the FeatureGate changed");
                        *last = Arc::new(features);
                    }
                    changed
                });
            }
            WatchEvent::Error(status) => return Err(ApiError::of(attempt, kube::Error::Api(status))),
            WatchEvent::Deleted(_) | WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}
