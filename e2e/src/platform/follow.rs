//! Follows an update from outside: watches the ClusterVersion and the daemon's pods, and waits for a state of them.

use std::{future::ready, time::Duration};

use anyhow::{anyhow, bail};
use cvo::testing::api::{self, ClusterVersion, Condition, ConditionStatus, HistoryState};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, Client, ResourceExt,
    runtime::{WatchStreamExt, watcher},
};

use super::{Platform, Release};

/// A changed object.
#[derive(Debug, Clone)]
pub enum Change {
    Version(Box<ClusterVersion>),
    /// A pod of the daemon whose containers are ready.
    Pod {
        name: String,
        image: String,
    },
}

/// Every state of the ClusterVersion and of the daemon's pods, beginning with the current one.
pub fn changes(client: Client) -> impl Stream<Item = Change> + Send + Unpin {
    let named = |name: &str| watcher::Config::default().fields(&format!("metadata.name={name}"));
    let versions = watcher(Api::<ClusterVersion>::all(client.clone()), named(api::NAME))
        .default_backoff()
        .applied_objects()
        .filter_map(|event| ready(event.ok().map(|version| Change::Version(Box::new(version)))));
    let labelled = watcher::Config::default().labels(&format!("k8s-app={}", api::OWN_DEPLOYMENT));
    let pods = watcher(Api::<Pod>::namespaced(client, api::NAMESPACE), labelled)
        .default_backoff()
        .applied_objects()
        .filter_map(|event| ready(event.ok().and_then(|pod| running(&pod))));
    stream::select(versions.boxed(), pods.boxed())
}

fn running(pod: &Pod) -> Option<Change> {
    let ready = pod.status.as_ref()?.container_statuses.as_ref()?.iter().all(|container| container.ready);
    let image = pod.spec.as_ref()?.containers.first()?.image.clone()?;
    (ready && pod.metadata.deletion_timestamp.is_none()).then(|| Change::Pod { name: pod.name_any(), image })
}

/// The condition of that type.
pub fn condition<'a>(version: &'a ClusterVersion, type_: &str) -> Option<&'a Condition> {
    version.status.as_ref()?.conditions.iter().find(|condition| condition.type_ == type_)
}

/// Whether the condition of that type is True.
pub fn is_true(version: &ClusterVersion, type_: &str) -> bool {
    condition(version, type_).is_some_and(|condition| condition.status == ConditionStatus::True)
}

/// Whether the newest history entry is this release, completed.
pub fn completed(version: &ClusterVersion, release: &Release) -> bool {
    let newest = version.status.as_ref().and_then(|status| status.history.first());
    newest.is_some_and(|entry| entry.image == release.image && entry.state == HistoryState::Completed)
}

/// Whether this version is among the available updates.
pub fn offered(version: &ClusterVersion, release: &Release) -> bool {
    let updates = version.status.as_ref().and_then(|status| status.available_updates.as_ref());
    updates.into_iter().flatten().any(|update| update.version == release.version)
}

impl Platform {
    /// The ClusterVersion as soon as `condition` holds. If that takes longer than `limit`, the error has its status and the
    /// end of the daemon's log.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        mut condition: impl FnMut(&ClusterVersion) -> bool,
    ) -> anyhow::Result<ClusterVersion> {
        let client = self.cluster.client().await?;
        let found = changes(client).filter_map(|change| {
            let found = match change {
                Change::Version(version) if condition(&version) => Some(*version),
                _ => None,
            };
            ready(found)
        });
        match tokio::time::timeout(limit, std::pin::pin!(found).next()).await {
            Ok(Some(found)) => Ok(found),
            Ok(None) => bail!("the watch ended while waiting for: {what}"),
            Err(_) => Err(anyhow!("waited {} s in vain for: {what}\n{}", limit.as_secs(), self.state().await)),
        }
    }

    /// Until the release is completed.
    pub async fn until_completed(&self, release: &Release, limit: Duration) -> anyhow::Result<ClusterVersion> {
        let what = format!("{} to be completed", release.version);
        self.until(&what, limit, |version| completed(version, release)).await
    }

    /// What a person would look at when something hangs.
    pub async fn state(&self) -> String {
        let daemon = format!("deployment/{}", api::OWN_DEPLOYMENT);
        let log = ["logs", "--tail=40", "--prefix", "-n", api::NAMESPACE, &daemon];
        let looks: [&[&str]; 5] = [
            &[
                "get",
                "clusterversion",
                "version",
                "-o",
                "jsonpath={range .status.conditions[*]}{.type}={.status} {.reason}: {.message}{\"\\n\"}{end}",
            ],
            &["get", "clusterversion,clusteroperators"],
            &["get", "pods", "-A", "-o", "wide"],
            &["get", "events", "-A", "--field-selector=type!=Normal"],
            &log,
        ];
        let mut text = String::new();
        for look in looks {
            let said = self.cluster.kubectl(look).await.unwrap_or_else(|error| error.to_string());
            text.push_str(&format!("--- kubectl {}\n{said}\n", look.join(" ")));
        }
        text
    }
}
