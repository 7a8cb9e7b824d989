//! What is waited for on a simulated cluster, and what a person would look at when it does not come.

use super::cluster::{LIMIT, SimulatedCluster};
use super::releases::Release;
use super::simulation::Workloads;
use crate::conditions::Conditions;
use crate::harness::files;
use crate::until::{Until, until};
use cvo::testing::api::progress::{CONFIG_MAP, KEY, Progress};
use cvo::testing::api::{ClusterVersion, HistoryState, NAME, NAMESPACE};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Resource;
use kube::api::Api;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fmt::Debug;
use std::time::{Duration, Instant};

/// The same limit for a real release.
const LIMIT_OF_REAL_RELEASE: Duration = Duration::from_secs(600);

impl SimulatedCluster {
    fn limit(&self) -> Duration {
        if self.workloads == Workloads::Kwok { LIMIT } else { LIMIT_OF_REAL_RELEASE }
    }

    /// A wait that is given up when no daemon can be run, or the simulation is refused, and that says in vain what there is.
    pub fn wait(&self, what: impl Into<String>) -> Until<'_> {
        let wait = until(what, self.limit()).look(self.state());
        wait.unless(self.node.failed()).unless(self.simulation.refused())
    }

    /// Waits until the ClusterVersion is as expected.
    pub async fn until(&self, what: &str, ok: impl Fn(&ClusterVersion) -> bool) -> anyhow::Result<ClusterVersion> {
        Ok(self.wait(what).existing(self.versions(), NAME, ok).await?)
    }

    /// Waits until an object is as expected (`None`: it does not exist), and returns it and how long that took.
    pub async fn until_object<K>(
        &self,
        what: &str,
        api: Api<K>,
        name: &str,
        within: Duration,
        ok: impl Fn(Option<&K>) -> bool,
    ) -> anyhow::Result<(Option<K>, Duration)>
    where
        K: Resource + Clone + Debug + Send + Serialize + DeserializeOwned + 'static,
    {
        let begun = Instant::now();
        let found = self.wait(what).within(within).object(api, name, ok).await?;
        Ok((found, begun.elapsed()))
    }

    /// Waits until the release is the newest Completed entry and nothing is in progress.
    pub async fn completed(&self, release: &Release) -> anyhow::Result<ClusterVersion> {
        let done = |object: &ClusterVersion| {
            let newest = object.status.as_ref().and_then(|status| status.history.first());
            let completed = newest.is_some_and(|e| e.image == release.image && e.state == HistoryState::Completed);
            completed && object.has("Progressing=False")
        };
        self.until(&format!("{} to be completed", release.version), done).await
    }

    /// Waits until the progress record is as expected.
    pub async fn until_progress(&self, what: &str, ok: impl Fn(&Progress) -> bool) -> anyhow::Result<()> {
        let condition = |map: &ConfigMap| progress(map).is_some_and(|progress| ok(&progress));
        self.wait(what).existing(self.records(), CONFIG_MAP, condition).await?;
        Ok(())
    }

    /// Waits until a rollout of the release that began after `since` is done.
    pub async fn rolled_out(&self, release: &Release, since: Timestamp) -> anyhow::Result<()> {
        let done = |progress: &Progress| {
            let rollout = &progress.rollout;
            progress.release.image == release.image
                && rollout.started.is_some_and(|at| at > since)
                && rollout.total > 0
                && rollout.done == rollout.total
        };
        self.until_progress(&format!("a new rollout of {} to be done", release.version), done).await
    }

    /// Waits until `cvo status` says all of it, and returns what it says and how long that took.
    pub async fn status_says(&self, words: &[&str], absent: &[&str]) -> anyhow::Result<(String, Duration)> {
        let begun = Instant::now();
        let says = async || {
            let said = self.control_plane.cvo(["status"]).run().await.map_err(|error| error.to_string())?.all();
            let all = words.iter().all(|word| said.contains(word)) && !absent.iter().any(|word| said.contains(word));
            if all { Ok(said) } else { Err(said) }
        };
        let wait = self.wait(format!("cvo status to say {words:?}, without {absent:?}"));
        Ok((wait.answer(says).await?, begun.elapsed()))
    }

    fn records(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client.clone(), NAMESPACE)
    }

    /// What a person would look at when something does not happen.
    pub async fn state(&self) -> String {
        let object = self.versions().get_opt(NAME).await;
        let status = object.map(|object| serde_json::to_string_pretty(&object.and_then(|o| o.status)));
        let record = self.records().get_opt(CONFIG_MAP).await.ok().flatten();
        let nodes = record.as_ref().and_then(progress).map(|progress| progress.nodes).unwrap_or_default();
        let open = nodes.iter().filter(|n| n.done < n.total).take(40);
        let open = open.map(|n| format!("{} {:?} {}/{} {:?} {}\n", n.id, n.state, n.done, n.total, n.waiting, n.error));
        format!(
            "ClusterVersion.status: {status:?}\nunfinished nodes:\n{}daemon's log:\n{}",
            open.collect::<String>(),
            files::tail(&self.daemon_log(), 60)
        )
    }
}

fn progress(record: &ConfigMap) -> Option<Progress> {
    serde_json::from_str(record.data.as_ref()?.get(KEY)?).ok()
}
