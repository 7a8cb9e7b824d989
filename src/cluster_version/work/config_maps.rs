//! Follows the ConfigMaps whose changes count at once: the gates of the release, what the administrator has acknowledged, and
//! signatures that somebody adds to the cluster.

use crate::cluster::task;
use crate::cluster::{Clients, Kind, Kinds, WatchBackoff, named};
use crate::cluster_version::work::retrieve::Unsigned;
use crate::object::MANAGED_NAMESPACE;
use crate::object::read::Read;
use crate::verify::SIGNATURES_LABEL;
use futures::stream::BoxStream;
use futures::{Stream, StreamExt};
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
    /// The newest resourceVersion of one, if that is a number.
    signatures: watch::Receiver<Option<u64>>,
    /// What signatures are followed for.
    awaited: watch::Sender<Option<Unsigned>>,
}

/// What has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changed {
    GatesOrAcks,
    /// Up to this resourceVersion, if that is a number.
    Signatures(Option<u64>),
}

impl ConfigMaps {
    /// Follows them until `stop`.
    pub(crate) fn follow(clients: &Clients, kinds: &Arc<Kinds>, stop: &CancellationToken) -> ConfigMaps {
        let (told_gates, gates) = watch::channel(None);
        let (told_acks, acks) = watch::channel(None);
        let (told_signatures, signatures) = watch::channel(None);
        let (awaited, waits) = watch::channel(None);
        let one = |namespace, name| named::follow(clients, kinds.clone(), Kind::config_map(), namespace, name);
        match clients.for_watch() {
            Ok(client) => {
                let following = futures::future::join3(
                    follow_one(one(MANAGED_NAMESPACE, "admin-gates"), told_gates),
                    follow_one(one("openshift-config", "admin-acks"), told_acks),
                    follow_signatures_while(client, waits, told_signatures),
                );
                task::spawn("gates and signatures", stop, following);
            }
            Err(error) => tracing::error!(%error, "cannot watch the ConfigMaps of gates and signatures"),
        }
        ConfigMaps { gates, acks, signatures, awaited }
    }

    /// Signatures are followed only while a release waits for one.
    pub(crate) fn await_signatures(&self, waits: Option<Unsigned>) {
        self.awaited.send_if_modified(|last| std::mem::replace(last, waits) != waits);
    }

    /// The resourceVersion of the newest signature that was seen, if it is a number.
    pub(crate) fn newest_signature(&self) -> Option<u64> {
        *self.signatures.borrow()
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
            Ok(()) = self.signatures.changed() => Changed::Signatures(*self.signatures.borrow_and_update()),
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

async fn follow_signatures_while(
    client: Client,
    mut waits: watch::Receiver<Option<Unsigned>>,
    tell: watch::Sender<Option<u64>>,
) {
    while let Ok(Some(unsigned)) = waits.wait_for(Option::is_some).await.map(|waits| *waits) {
        tokio::select! {
            () = follow_signatures(signatures(client.clone()), unsigned, &tell) => {}
            _ = waits.wait_for(Option::is_none) => {}
        }
    }
}

type Metadata = PartialObjectMeta<ConfigMap>;

/// The ConfigMaps with signatures; their content is read when it is needed.
fn signatures(client: Client) -> impl Stream<Item = watcher::Result<Event<Metadata>>> {
    let api: Api<Metadata> = Api::namespaced(client, MANAGED_NAMESPACE);
    // kube's watcher reads metadata alone, without the signatures.
    let config = Config::default().labels(SIGNATURES_LABEL).timeout(WATCH_SECONDS);
    watcher(api, config).backoff(WatchBackoff::default())
}

/// Tells of each ConfigMap with signatures that is new: of a list, those that nobody has read.
async fn follow_signatures(
    events: impl Stream<Item = watcher::Result<Event<Metadata>>>,
    unsigned: Unsigned,
    tell: &watch::Sender<Option<u64>>,
) {
    let mut events = std::pin::pin!(events);
    let (mut known, mut listed) = (unsigned, None);
    while let Some(event) = events.next().await {
        let news = match event {
            Ok(Event::Init) => {
                listed = None;
                None
            }
            Ok(Event::InitApply(map)) => {
                let version = version(&map);
                if known.lacks(version).unwrap_or(true) {
                    listed = listed.max(Some(version));
                }
                None
            }
            Ok(Event::InitDone) => listed.take(),
            Ok(Event::Apply(map)) => Some(version(&map)),
            Ok(Event::Delete(_)) => None,
            Err(error) => {
                tracing::debug!(%error, "watch of the signatures failed; trying again");
                None
            }
        };
        if let Some(version) = news {
            known = Unsigned { as_of: known.as_of.max(version) };
            tell.send_replace(known.as_of);
        }
    }
}

fn version(map: &Metadata) -> Option<u64> {
    map.metadata.resource_version.as_ref()?.parse().ok()
}

#[cfg(test)]
mod tests;
