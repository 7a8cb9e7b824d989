//! Follows how requests leave the cluster: the proxy in the status of `Proxy/cluster`, and the bundle of trusted CAs.

use crate::cluster::{ApiError, Clients, Kind, Kinds, Objects, WatchBackoff, jittered};
use crate::net::http::{Bundle, Egress, Roots};
use crate::net::proxy::ProxySettings;
use futures::StreamExt;
use kube::Client;
use kube::api::{WatchEvent, WatchParams};
use serde_json::Value;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// `None` until both objects have been read.
pub(crate) type Way = watch::Receiver<Option<Egress>>;

const WATCH_SECONDS: u32 = 1800;
const BUNDLE_KEY: &str = "ca-bundle.crt";

/// An object that decides about the way.
#[derive(Clone, Copy, Debug)]
enum Source {
    Proxy,
    TrustBundle,
}

impl Source {
    fn kind(self) -> Kind {
        match self {
            Source::Proxy => Kind::known("config.openshift.io", "v1", "Proxy", "proxies", false),
            Source::TrustBundle => Kind::config_map(),
        }
    }

    fn place(self) -> (&'static str, &'static str) {
        match self {
            Source::Proxy => ("", "cluster"),
            Source::TrustBundle => (crate::api::MANAGED_NAMESPACE, "trusted-ca-bundle"),
        }
    }

    /// Takes over what the object says; `None` if it does not exist.
    fn update(self, egress: &mut Egress, object: Option<&Value>) {
        match self {
            Source::Proxy => egress.proxy = object.and_then(proxy),
            Source::TrustBundle => egress.roots = object.and_then(bundle).map_or(Roots::System, Roots::Only),
        }
    }
}

/// The settings in the status, which are the effective ones.
fn proxy(object: &Value) -> Option<ProxySettings> {
    let text = |field: &str| {
        let value = object.pointer(&format!("/status/{field}")).and_then(Value::as_str);
        value.unwrap_or_default().trim().to_owned()
    };
    let settings = ProxySettings { http: text("httpProxy"), https: text("httpsProxy"), none: text("noProxy") };
    (!settings.http.is_empty() || !settings.https.is_empty()).then_some(settings)
}

/// A bundle that is empty counts as absent.
fn bundle(object: &Value) -> Option<Bundle> {
    let pem = object.get("data")?.get(BUNDLE_KEY)?.as_str()?;
    let (namespace, name) = Source::TrustBundle.place();
    let origin = format!("ConfigMap {namespace}/{name}, key {BUNDLE_KEY}");
    (!pem.trim().is_empty()).then(|| Bundle { pem: pem.to_owned(), origin })
}

/// Starts to follow both objects.
pub(crate) fn follow(clients: &Clients, objects: Objects, kinds: Arc<Kinds>, stop: CancellationToken) -> Way {
    let (sender, receiver) = watch::channel(None);
    let watching = match clients.for_watch() {
        Ok(client) => client,
        Err(error) => {
            tracing::error!(%error, "cannot watch the proxy and the trusted CAs");
            objects.client().clone()
        }
    };
    tokio::spawn(async move {
        stop.run_until_cancelled(async move {
            let first = first_read(&objects).await;
            tracing::info!(
                proxy = first.proxy.is_some(),
                bundle = first.roots != Roots::System,
                "way out of the cluster"
            );
            sender.send_replace(Some(first));
            tokio::join!(
                keep(Source::Proxy, &watching, &objects, &kinds, &sender),
                keep(Source::TrustBundle, &watching, &objects, &kinds, &sender),
            );
        })
        .await
    });
    receiver
}

/// No request leaves before both have been read: it would go out directly where a proxy is needed.
async fn first_read(objects: &Objects) -> Egress {
    let (mut egress, mut failures) = (Egress::default(), 0);
    for source in [Source::Proxy, Source::TrustBundle] {
        loop {
            match read(objects, source).await {
                Ok(object) => break source.update(&mut egress, object.as_ref()),
                Err(error) => {
                    failures += 1;
                    tracing::warn!(%error, "cannot read how requests leave the cluster; retrying");
                    tokio::time::sleep(jittered(Duration::from_millis(250), failures, Duration::from_secs(10))).await;
                }
            }
        }
    }
    egress
}

async fn read(objects: &Objects, source: Source) -> Result<Option<Value>, ApiError> {
    let (namespace, name) = source.place();
    objects.get(&source.kind(), namespace, name).await
}

async fn keep(
    source: Source,
    client: &Client,
    objects: &Objects,
    kinds: &Kinds,
    sender: &watch::Sender<Option<Egress>>,
) {
    let (mut backoff, kind) = (WatchBackoff::default(), source.kind());
    loop {
        // On a new cluster the CRD is installed by the release.
        kinds.served(&kind.api_version(), &kind.kind).await;
        if let Err(error) = watch_once(source, client, objects, sender).await {
            tracing::debug!(%error, "watch of the proxy or the trusted CAs failed; retrying");
        }
        tokio::time::sleep(backoff.pause()).await;
    }
}

/// One watch until it ends, with a read before it: a deletion before the watch has no event.
async fn watch_once(
    source: Source,
    client: &Client,
    objects: &Objects,
    sender: &watch::Sender<Option<Egress>>,
) -> Result<(), ApiError> {
    let attempt = "watch how requests leave the cluster";
    let (namespace, name) = source.place();
    let object = read(objects, source).await?;
    apply(source, object.as_ref(), sender);
    let version = object.as_ref().and_then(|object| object.pointer("/metadata/resourceVersion"));
    let version = version.and_then(Value::as_str).unwrap_or_default();
    let params = WatchParams { timeout: Some(WATCH_SECONDS), ..WatchParams::default() };
    let params = params.fields(&format!("metadata.name={name}"));
    let request = kube::core::Request::new(source.kind().path(namespace)).watch(&params, version);
    let request = request.map_err(|e| ApiError::of(attempt, kube::Error::BuildRequest(e)))?;
    let events = client.request_events::<Value>(request).await.map_err(|e| ApiError::of(attempt, e))?;
    let mut events = events.boxed();
    while let Some(event) = events.next().await {
        match event.map_err(|e| ApiError::of(attempt, e))? {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => apply(source, Some(&object), sender),
            WatchEvent::Deleted(_) => apply(source, None, sender),
            WatchEvent::Error(status) => return Err(ApiError::of(attempt, kube::Error::Api(status))),
            WatchEvent::Bookmark(_) => {}
        }
    }
    Ok(())
}

fn apply(source: Source, object: Option<&Value>, sender: &watch::Sender<Option<Egress>>) {
    sender.send_if_modified(|egress| {
        let mut next = egress.clone().unwrap_or_default();
        source.update(&mut next, object);
        let changed = egress.as_ref() != Some(&next);
        if changed {
            tracing::info!(?source, exists = object.is_some(), "the way out of the cluster changed");
            *egress = Some(next);
        }
        changed
    });
}

#[cfg(test)]
mod tests;
