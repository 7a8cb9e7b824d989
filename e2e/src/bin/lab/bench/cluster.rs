//! A fresh cluster with both releases in its payload store, and what the daemon costs while it installs and updates.

use super::figures::{CPU, Measured, PEAK, PER_DOCUMENT, REQUESTS, RESIDENT, Row, SECONDS, TIMES_FLOOR};
use super::release::Facts;
use super::{floor, machine};
use anyhow::{Context, ensure};
use e2e::harness::Leaf;
use e2e::harness::audit::{self, Request};
use e2e::real_payload::lay_out;
use e2e::services::monitoring::PROMETHEUS;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::daemon::{Pod, Usage};
use e2e::simulator::releases::Release;
use e2e::simulator::requests;
use e2e::simulator::simulation::Workloads;
use jiff::Timestamp;
use kube::Config;
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::Path;
use std::time::Duration;

pub(super) static INSTALL: Row = Row {
    name: "install",
    about: "start of the daemon until 5.0.0 is Completed, operators answering at once",
    needs: &[&floor::ROW],
    targets: &[(TIMES_FLOOR, 1.4), (PER_DOCUMENT, 1.3), (CPU, 2.0), (PEAK, 60.0)],
};
pub(super) static UPDATE: Row = Row {
    name: "update",
    about: "start of the new daemon until 5.0.1 is Completed, operators answering at once",
    needs: &[],
    targets: &[(SECONDS, 4.0), (REQUESTS, 200.0)],
};
pub(super) static UPDATE_SLOW: Row = Row {
    name: "update-slow",
    about: "the same, each operator answering 5 s after its Deployment carries the new version",
    needs: &[],
    targets: &[(TIMES_FLOOR, 1.1)],
};

/// The audit log shows a request when it is answered: after this time all requests of a period are in it.
pub(super) const AUDIT_LAG: Duration = Duration::from_secs(2);

/// The cluster, ready to be installed.
pub(super) struct BenchCluster {
    pub simulated: SimulatedCluster,
    pub facts: Facts,
    /// Where the daemon serves its metrics.
    pub metrics: String,
    /// Who may read them.
    pub prometheus: Leaf,
    releases: [Release; 2],
}

impl BenchCluster {
    pub(super) async fn start(manifests: &Path) -> anyhow::Result<Self> {
        let mut simulated = SimulatedCluster::start(Workloads::Simulated).await?;
        // As in its Deployment: serving metrics is a part of what it costs.
        let metrics = format!("127.0.0.1:{}", simulated.control_plane.port("metrics"));
        simulated.add_arguments(["--listen", metrics.as_str()])?;
        let releases = lay_out(manifests, &simulated).await?;
        let facts = Facts::read(&releases)?;
        let [first, _] = &releases;
        simulated.install(first).await?;
        let prometheus = simulated.control_plane.client_certificate(PROMETHEUS)?;
        Ok(Self { simulated, facts, releases, metrics: format!("https://{metrics}/metrics"), prometheus })
    }

    pub(super) fn first(&self) -> &Release {
        let [first, _] = &self.releases;
        first
    }

    pub(super) fn second(&self) -> &Release {
        let [_, second] = &self.releases;
        second
    }

    /// The release that the daemon of now belongs to.
    pub(super) async fn running(&self) -> anyhow::Result<&Release> {
        let image = self.daemon().await?.image;
        self.releases.iter().find(|release| release.image == image).context("a daemon of no release runs")
    }

    /// To speak to the API server as the daemon's user.
    pub(super) async fn daemon_config(&self) -> anyhow::Result<Config> {
        let kubeconfig = Kubeconfig::read_from(&self.simulated.node.kubeconfig)?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    /// The daemon that runs now.
    pub(super) async fn daemon(&self) -> anyhow::Result<Pod> {
        self.simulated.node.state.lock().await.running.clone().context("no daemon runs")
    }

    /// Measures from the start of the daemon's process until the first release is Completed. `floor` in seconds.
    pub(super) async fn install(&mut self, delay: Duration, floor: Option<f64>) -> anyhow::Result<Measured> {
        let busy = machine::quiet().await;
        self.simulated.simulate(&self.releases, delay)?;
        let [first, _] = &self.releases;
        self.simulated.run_daemon(first).await?;
        let (pod, done, usage) = self.completed(self.first()).await?;
        let requests = self.requests(pod.started, done).await?;
        let mut measured = Measured::default();
        let seconds = done.duration_since(pod.started).as_secs_f64();
        measured.add(SECONDS, seconds);
        measured.add_known(TIMES_FLOOR, floor.map(|floor| seconds / floor));
        measured.add_creations(&requests, pod.started);
        measured.add_requests(&requests);
        measured.add(PER_DOCUMENT, requests.len() as f64 / self.facts.manifests.len() as f64);
        add_usage(&mut measured, usage);
        measured.add("machine busy before", busy);
        Ok(measured)
    }

    /// Measures from the start of the new process, after the hand-over, until the second release is Completed; and the
    /// same from the request of the update. `delay`: how long each operator takes, which makes a floor.
    pub(super) async fn update(&self, delay: Duration) -> anyhow::Result<Measured> {
        let busy = machine::quiet().await;
        let asked = Timestamp::now();
        self.simulated.request(self.second()).await?;
        let (pod, done, usage) = self.completed(self.second()).await?;
        ensure!(pod.started > asked, "the daemon that completed the update is not a new one");
        let all = self.requests(asked, done).await?;
        let own = audit::within(&all, pod.started..done);
        let mut measured = Measured::default();
        let seconds = done.duration_since(pod.started).as_secs_f64();
        measured.add(SECONDS, seconds);
        let floor = delay.as_secs_f64() * self.facts.waits as f64;
        if floor > 0.0 {
            measured.add(TIMES_FLOOR, seconds / floor);
            measured.add("floor, seconds", floor);
        }
        measured.add("seconds from the request", done.duration_since(asked).as_secs_f64());
        measured.add_requests(&own);
        measured.add("requests from the request", all.len() as f64);
        measured.add("writes from the request", requests::writes(&all).len() as f64);
        add_usage(&mut measured, usage);
        measured.add("machine busy before", busy);
        Ok(measured)
    }

    /// Waits for the release; who completed it, when, and what that had cost by then.
    async fn completed(&self, release: &Release) -> anyhow::Result<(Pod, Timestamp, Usage)> {
        self.simulated.completed(release).await?;
        let done = Timestamp::now();
        let pod = self.daemon().await?;
        let usage = Usage::of(&pod.process);
        ensure!(pod.image == release.image, "the daemon of another release has completed {}", release.version);
        Ok((pod, done, usage))
    }

    /// The daemon's requests of a period that has just ended.
    pub(super) async fn requests(&self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<Request>> {
        tokio::time::sleep(AUDIT_LAG).await;
        let log = self.simulated.control_plane.audit_log();
        let requests = tokio::task::spawn_blocking(move || audit::requests(&log, requests::DAEMON)).await?;
        Ok(audit::within(&requests.context("cannot read the audit log")?, from..to))
    }
}

fn add_usage(measured: &mut Measured, usage: Usage) {
    measured.add_known(CPU, usage.cpu_seconds);
    measured.add_known(PEAK, usage.peak_kib.map(megabytes));
    measured.add_known(RESIDENT, usage.resident_kib.map(megabytes));
}

/// A megabyte is 10^6 bytes.
pub(super) fn megabytes(kib: u64) -> f64 {
    kib as f64 * 1024.0 / 1e6
}
