//! Follows an update from outside: watches the ClusterVersion and the daemon's pods, and waits for a state of them.

use std::{future::ready, time::Duration};

use cvo::testing::api::{self, ClusterVersion, HistoryState};
use futures::{Stream, StreamExt, stream};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, ResourceExt, runtime::watcher::Config};

use super::{Platform, Release};
use crate::until::{self, Until, until};

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
    let named = Config::default().fields(&format!("metadata.name={}", api::NAME));
    let versions = until::changes(Api::<ClusterVersion>::all(client.clone()), named);
    let labelled = Config::default().labels(&format!("k8s-app={}", api::OWN_DEPLOYMENT));
    let pods = until::changes(Api::<Pod>::namespaced(client, api::NAMESPACE), labelled);
    let versions = versions.map(|version| Change::Version(Box::new(version)));
    stream::select(versions.boxed(), pods.filter_map(|pod| ready(running(&pod))).boxed())
}

fn running(pod: &Pod) -> Option<Change> {
    let ready = pod.status.as_ref()?.container_statuses.as_ref()?.iter().all(|container| container.ready);
    let image = pod.spec.as_ref()?.containers.first()?.image.clone()?;
    (ready && pod.metadata.deletion_timestamp.is_none()).then(|| Change::Pod { name: pod.name_any(), image })
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
    /// A wait that says in vain what a person would look at.
    pub fn wait(&self, what: impl Into<String>, limit: Duration) -> Until<'_> {
        until(what, limit).look(self.state())
    }

    /// The ClusterVersion as soon as `condition` holds.
    pub async fn until(
        &self,
        what: &str,
        limit: Duration,
        condition: impl FnMut(&ClusterVersion) -> bool,
    ) -> anyhow::Result<ClusterVersion> {
        let versions: Api<ClusterVersion> = Api::all(self.cluster.client().await?);
        Ok(self.wait(what, limit).existing(versions, api::NAME, condition).await?)
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
