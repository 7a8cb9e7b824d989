//! The FeatureGate object as it is now: read once at the start, then one watch from when its kind is served.

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
/// As for the feeds: longer than the server's own range.
const WATCH_SECONDS: u32 = 1800;

fn kind() -> Kind {
    Kind::known("config.openshift.io", "v1", "FeatureGate", "featuregates", false)
}

/// What the object says; what one says that is not there, when it is not, or its kind not served.
pub async fn read(objects: &Objects) -> Result<Features, ApiError> {
    Ok(objects.get(&kind(), "", NAME).await?.as_ref().map(Features::of).unwrap_or_default())
}

/// Begins to watch the object; the value changes whenever it says something else. That it was deleted changes nothing:
/// what was decided holds until something else is.
pub fn watch(
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
        // On a fresh cluster it comes with the release.
        kinds.served(&kind.api_version(), &kind.kind).await;
        if let Err(error) = once(&client, &sender).await {
            tracing::debug!(%error, "watch of the FeatureGate ended; trying again");
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// One watch to its end. It begins at no resourceVersion, so that what is there now comes as its first event.
async fn once(client: &Client, sender: &watch::Sender<Arc<Features>>) -> Result<(), ApiError> {
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
                sender.send_if_modified(|held| {
                    let changed = **held != features;
                    if changed {
                        tracing::info!(set = %features.set, versions = ?features.gates.keys(), "the FeatureGate changed");
                        *held = Arc::new(features);
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
