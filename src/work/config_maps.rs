//! Follows the ConfigMaps whose changes count at once: the gates of the release, what the administrator has acknowledged, and
//! signatures that somebody adds to the cluster.

use crate::api::MANAGED_NAMESPACE;
use crate::cluster::{Clients, WatchBackoff};
use crate::error::{CAUSE, chain, shortened};
use crate::updates::upgradeable::Read;
use crate::verify::SIGNATURES_LABEL;
use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, PartialObjectMeta};
use kube::runtime::watcher::{Config, Event};
use kube::runtime::{WatchStreamExt, watcher};
use std::collections::BTreeMap;
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
    pub(crate) fn follow(clients: &Clients, stop: &CancellationToken) -> ConfigMaps {
        let (told_gates, gates) = watch::channel(None);
        let (told_acks, acks) = watch::channel(None);
        let (told_signatures, signatures) = watch::channel(());
        let (awaited, waits) = watch::channel(false);
        match clients.for_watch() {
            Ok(client) => {
                let following = futures::future::join3(
                    follow_one(client.clone(), MANAGED_NAMESPACE, "admin-gates", told_gates),
                    follow_one(client.clone(), "openshift-config", "admin-acks", told_acks),
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
async fn follow_one(client: Client, namespace: &str, name: &str, tell: watch::Sender<Option<Data>>) {
    let api: Api<ConfigMap> = Api::namespaced(client, namespace);
    let config = Config::default().fields(&format!("metadata.name={name}")).timeout(WATCH_SECONDS);
    let mut events = watcher(api, config).backoff(WatchBackoff::default()).boxed();
    let data = |map: ConfigMap| Some(Read::Value(map.data.unwrap_or_default()));
    let mut listed = None;
    while let Some(event) = events.next().await {
        let next = match event {
            Ok(Event::Init) => {
                listed = None;
                continue;
            }
            Ok(Event::InitApply(map)) => {
                listed = data(map);
                continue;
            }
            Ok(Event::InitDone) => listed.take().or(Some(Read::Absent)),
            Ok(Event::Apply(map)) => data(map),
            Ok(Event::Delete(_)) => Some(Read::Absent),
            Err(error) => {
                tracing::debug!(%namespace, %name, %error, "watch of a ConfigMap failed; retrying");
                if matches!(&*tell.borrow(), Some(Read::Value(_) | Read::Absent)) {
                    continue;
                }
                Some(Read::Failed(shortened(&chain(&error), CAUSE).into_owned()))
            }
        };
        tell.send_if_modified(|last| {
            let changed = *last != next;
            *last = next;
            changed
        });
    }
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
