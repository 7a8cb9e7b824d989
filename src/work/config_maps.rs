//! Follows the ConfigMaps whose changes count at once: the gates of the release, what the administrator has acknowledged, and
//! signatures that somebody adds to the cluster.

use crate::api::MANAGED_NAMESPACE;
use crate::cluster::{Clients, Kind, Kinds, WatchBackoff, named};
use crate::updates::upgradeable::Read;
use crate::verify::SIGNATURES_LABEL;
use futures::StreamExt;
use futures::stream::BoxStream;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long one watch lasts, in seconds.
const WATCH_SECONDS: u32 = 1800;

/// The data of one ConfigMap.
pub(crate) type Data = Read<BTreeMap<String, String>>;

/// The latest state of each.
#[derive(Debug)]
pub(crate) struct ConfigMaps {
    gates: watch::Receiver<Option<Data>>,
    acks: watch::Receiver<Option<Data>>,
    signatures: watch::Receiver<()>,
    /// Whether signatures are followed.
    awaited: watch::Sender<bool>,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    GatesOrAcks,
    Signatures,
}

impl ConfigMaps {
    /// Follows them until `stop`.
    pub(crate) fn follow(clients: &Clients, kinds: &Arc<Kinds>, stop: &CancellationToken) -> ConfigMaps {
        let (told_gates, gates) = watch::channel(None);
        let (told_acks, acks) = watch::channel(None);
        let (told_signatures, signatures) = watch::channel(());
        let (awaited, waits) = watch::channel(false);
        let one = |namespace, name| named::follow(clients, kinds.clone(), Kind::config_map(), namespace, name);
        match clients.for_watch() {
            Ok(client) => {
                let following = futures::future::join3(
                    follow_one(one(MANAGED_NAMESPACE, "admin-gates"), told_gates),
                    follow_one(one("openshift-config", "admin-acks"), told_acks),
                    follow_signatures_while(client, waits, told_signatures),
                );
                let stop = stop.clone();
                tokio::spawn(async move { stop.run_until_cancelled(following).await });
            }
            Err(error) => tracing::error!(%error, "cannot watch the ConfigMaps of gates and signatures"),
        }
        ConfigMaps { gates, acks, signatures, awaited }
    }

    /// Signatures are followed only while a release waits for one.
    pub(crate) fn await_signatures(&self, waits: bool) {
        self.awaited.send_if_modified(|last| std::mem::replace(last, waits) != waits);
    }

    /// Gates and acknowledgements; `None` before both have been read once.
    pub(crate) fn gates_and_acks(&self) -> Option<(Data, Data)> {
        self.gates.borrow().clone().zip(self.acks.borrow().clone())
    }

    /// Waits for the next change. Cancel safe.
    pub(crate) async fn changed(&mut self) -> Changed {
        tokio::select! {
            Ok(()) = self.gates.changed() => Changed::GatesOrAcks,
            Ok(()) = self.acks.changed() => Changed::GatesOrAcks,
            Ok(()) = self.signatures.changed() => Changed::Signatures,
            else => std::future::pending().await,
        }
    }
}

/// The data of one ConfigMap. An error counts only as long as it has never been read.
async fn follow_one(mut states: BoxStream<'static, Read<Value>>, tell: watch::Sender<Option<Data>>) {
    while let Some(state) = states.next().await {
        tell.send_if_modified(|last| {
            let next = match state {
                Read::Failed(_) if matches!(last, Some(Read::Value(_) | Read::Absent)) => return false,
                Read::Failed(cause) => Read::Failed(cause),
                Read::Absent => Read::Absent,
                Read::Value(map) => Read::Value(data(&map)),
            };
            let changed = last.as_ref() != Some(&next);
            *last = Some(next);
            changed
        });
    }
}

fn data(map: &Value) -> BTreeMap<String, String> {
    let data = map.get("data").and_then(Value::as_object).into_iter().flatten();
    data.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

async fn follow_signatures_while(client: Client, mut waits: watch::Receiver<bool>, tell: watch::Sender<()>) {
    while waits.wait_for(|waits| *waits).await.is_ok() {
        tokio::select! {
            () = follow_signatures(client.clone(), &tell) => {}
            _ = waits.wait_for(|waits| !*waits) => {}
        }
    }
}

/// Tells of each change of a ConfigMap with signatures; their content is read when it is needed.
async fn follow_signatures(client: Client, tell: &watch::Sender<()>) {
    let api: Api<PartialObjectMeta<ConfigMap>> = Api::namespaced(client, MANAGED_NAMESPACE);
    let config = Config::default().labels(SIGNATURES_LABEL).timeout(WATCH_SECONDS);
    let mut events = watcher(api, config).backoff(WatchBackoff::default()).boxed();
    while let Some(event) = events.next().await {
        match event {
            // The list may contain what was added since the signatures were read last.
            Ok(Event::Apply(_) | Event::InitDone) => {
                tell.send_replace(());
            }
            Ok(Event::Init | Event::InitApply(_) | Event::Delete(_)) => {}
            Err(error) => tracing::debug!(%error, "watch of the signatures failed; retrying"),
        }
    }
}

#[cfg(test)]
mod tests;
