//! Whether the nodes can run the daemon of a release. Followed only as long as none can: then the update waits for a node that does.

use crate::cluster::task;
use crate::cluster::watcher::{self, Event, Selection, Selector};
use crate::cluster::{ApiError, Kind};
use crate::cluster_version::forecast::placement::Demand;
use crate::object::manifest::ObjectId;
use crate::object::read::Read;
use crate::release::Payload;
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::Node;
use kube::Client;
use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// A release that is loaded waits no longer than this for the first answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Whose nodes are looked at, and for which Deployment.
pub(crate) struct Place {
    pub client: Client,
    pub own_deployment: ObjectId,
    /// Of the process, which a panic ends.
    pub stop: CancellationToken,
}

/// The nodes are followed until one will do, or this is dropped.
pub(super) struct Placement {
    verdict: watch::Receiver<Option<Read<String>>>,
    _task: AbortOnDropHandle<()>,
}

impl Placement {
    /// `None` if the release says nothing of the daemon.
    pub(super) async fn begin(place: Place, payload: &Payload) -> Option<Placement> {
        let Place { client, own_deployment, stop } = place;
        let own = payload.all_manifests().into_iter().find(|manifest| manifest.id == own_deployment)?;
        let demand = Demand::of(&own.object().ok()?)?;
        let nodes = Selection::new(Kind::known("", "v1", "Node", "nodes", false), "", Selector::All);
        let (told, mut verdict) = watch::channel(None);
        let following = async move { follow(demand, watcher::events(client, nodes), &told).await };
        let task = AbortOnDropHandle::new(tokio::spawn(task::guarded("nodes for the daemon", &stop, following)));
        let told = tokio::time::timeout(PATIENCE, verdict.wait_for(Option::is_some)).await.is_ok();
        tracing::debug!(told, "looked for nodes that can run the daemon of the release");
        Some(Placement { verdict, _task: task })
    }

    /// What no node meets; `Absent` if one will do.
    pub(super) fn verdict(&self) -> Read<String> {
        self.verdict.borrow().clone().unwrap_or_else(|| Read::Failed("they were not read in time".to_owned()))
    }

    /// Waits until that changes; for ever once a node will do. Cancel safe.
    pub(super) async fn changed(&mut self) {
        if self.verdict.changed().await.is_err() {
            std::future::pending().await
        }
    }
}

/// Tells the verdict whenever it changes, until a node meets the demand.
async fn follow(
    demand: Demand,
    events: impl Stream<Item = Result<Event<Node>, ApiError>>,
    told: &watch::Sender<Option<Read<String>>>,
) {
    let mut events = pin!(events);
    // By name, whether it meets the demand.
    let (mut nodes, mut known) = (BTreeMap::new(), false);
    while let Some(event) = events.next().await {
        match event {
            Ok(Event::Init) => {
                nodes.clear();
                known = false;
            }
            Ok(Event::InitApply(node) | Event::Apply(node)) => {
                let met = demand.is_met_by(&node);
                nodes.insert(node.metadata.name.unwrap_or_default(), met);
            }
            Ok(Event::Delete(node)) => drop(nodes.remove(&node.metadata.name.unwrap_or_default())),
            Ok(Event::InitDone) => known = true,
            // What was known before stays so until everything is read again.
            Err(error) => {
                told.send_if_modified(|verdict| {
                    let first = verdict.is_none();
                    if first {
                        *verdict = Some(Read::Failed(error.to_string()));
                    }
                    first
                });
            }
        }
        // Before all have been told, only one that will do says something.
        if !known && !nodes.values().any(|met| *met) {
            continue;
        }
        let verdict = Some(demand.unmet_by(nodes.values().copied()));
        let met = verdict == Some(Read::Absent);
        told.send_if_modified(|told| {
            let changed = *told != verdict;
            *told = verdict;
            changed
        });
        if met {
            return;
        }
    }
}

#[cfg(test)]
mod tests;
