//! A new cluster with both releases in its payload store, and what its daemon costs while it installs and updates.

use super::figures::{CPU, Measured, PEAK, PER_DOCUMENT, RESIDENT, SECONDS, TIMES_FLOOR};
use super::machine;
use super::release::Facts;
use anyhow::{Context, ensure};
use cvo::api::{ClusterVersion, NAME};
use e2e::harness::audit::{self, Request};
use e2e::harness::{Programs, files, process};
use e2e::real_payload::simulated::{DAEMON_USER, SimulatedCluster, Started};
use e2e::real_payload::{Release, lay_out, signer::Signer};
use jiff::Timestamp;
use kube::Config;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// Limit for what should take seconds.
const LIMIT: Duration = Duration::from_secs(600);
/// The audit log has a request when it is answered, so the last requests of a time range appear a moment later.
const AUDIT_LAG: Duration = Duration::from_secs(2);
const KIB: f64 = 1024.0 / 1e6;

/// A cluster on which the first release can be installed.
pub struct BenchCluster {
    pub simulated: SimulatedCluster,
    pub facts: Facts,
    releases: [Release; 2],
}

/// What a process has used so far.
pub struct Spent {
    pub cpu_seconds: Option<f64>,
    /// In megabytes.
    pub peak: Option<f64>,
    pub resident: Option<f64>,
}

impl Spent {
    pub fn by(process: &Started) -> Spent {
        let (peak, resident) = process::memory(process.pid);
        let megabytes = |kib: Option<u64>| kib.map(|kib| kib as f64 * KIB);
        let cpu_seconds = process::cpu_seconds(process.pid);
        Spent { cpu_seconds, peak: megabytes(peak), resident: megabytes(resident) }
    }

    fn add_to(&self, measured: &mut Measured) {
        measured.add_known(CPU, self.cpu_seconds);
        measured.add_known(PEAK, self.peak);
        measured.add_known(RESIDENT, self.resident);
    }
}

impl BenchCluster {
    pub async fn build(programs: Programs, manifests: &Path) -> anyhow::Result<BenchCluster> {
        let cvo = programs.cvo.clone();
        let simulated = SimulatedCluster::build(programs).await?;
        let signer = Signer::new(&simulated.cluster.dir(), &cvo)?;
        let releases = lay_out(manifests, &simulated.store(), signer)?;
        let facts = Facts::read(&simulated.store(), &releases)?;
        let [first, _] = &releases;
        simulated.install(first).await?;
        Ok(BenchCluster { simulated, facts, releases })
    }

    pub fn first(&self) -> &Release {
        let [first, _] = &self.releases;
        first
    }

    pub fn second(&self) -> &Release {
        let [_, second] = &self.releases;
        second
    }

    /// To call the API server as the daemon's user.
    pub async fn daemon_config(&self) -> anyhow::Result<Config> {
        let kubeconfig = Kubeconfig::read_from(self.simulated.daemon_kubeconfig())?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    pub fn daemon_log(&self) -> String {
        files::tail(&self.simulated.daemon_log(), 20)
    }

    /// Measures from the start of the daemon's process until the first release is Completed. `floor` in seconds.
    pub async fn install(&self, delay: Duration, floor: Option<f64>) -> anyhow::Result<Measured> {
        let busy = machine::quiet().await;
        self.simulated.start(&self.releases, delay)?;
        let (process, done, spent) = self.completed(self.first()).await?;
        let requests = self.requests(process.started, done).await?;
        let mut measured = Measured::default();
        let seconds = done.duration_since(process.started).as_secs_f64();
        measured.add(SECONDS, seconds);
        measured.add_known(TIMES_FLOOR, floor.map(|floor| seconds / floor));
        measured.add_creations(&requests, process.started);
        measured.add_requests(&requests);
        measured.add(PER_DOCUMENT, requests.len() as f64 / self.facts.manifests.len() as f64);
        spent.add_to(&mut measured);
        measured.add("machine busy before", busy);
        Ok(measured)
    }

    /// Measures from the start of the new process, which the hand-over causes, until the second release is Completed;
    /// and the same from the request of the update. `delay` is how long each operator takes, from which the floor is
    /// computed.
    pub async fn update(&self, delay: Duration) -> anyhow::Result<Measured> {
        let busy = machine::quiet().await;
        let versions: Api<ClusterVersion> = Api::all(self.simulated.client.clone());
        let patch = Patch::Merge(json!({"spec": {"desiredUpdate": {"image": self.second().image}}}));
        let asked = Timestamp::now();
        versions.patch(NAME, &PatchParams::default(), &patch).await?;
        let (process, done, spent) = self.completed(self.second()).await?;
        ensure!(process.started > asked, "the daemon that completed the update is not a new one");
        let all = self.requests(asked, done).await?;
        let own = audit::within(&all, process.started..done);
        let mut measured = Measured::default();
        let seconds = done.duration_since(process.started).as_secs_f64();
        measured.add(SECONDS, seconds);
        let floor = delay.as_secs_f64() * self.facts.waits as f64;
        if floor > 0.0 {
            measured.add(TIMES_FLOOR, seconds / floor);
            measured.add("floor, seconds", floor);
        }
        measured.add("seconds from the request", done.duration_since(asked).as_secs_f64());
        measured.add_requests(&own);
        measured.add("requests from the request", all.len() as f64);
        measured.add("writes from the request", audit::writes(&all).len() as f64);
        spent.add_to(&mut measured);
        measured.add("machine busy before", busy);
        Ok(measured)
    }

    /// Waits until the release is completed; returns by which process, when, and what it had cost by then.
    async fn completed(&self, release: &Release) -> anyhow::Result<(Started, Timestamp, Spent)> {
        self.simulated.completed(release, LIMIT).await?;
        let done = Timestamp::now();
        let process = self.simulated.running()?;
        let spent = Spent::by(&process);
        ensure!(
            process.release == release.image,
            "release {} was completed by the daemon of another release",
            release.version
        );
        Ok((process, done, spent))
    }

    /// The daemon's requests within a time range that has just ended.
    pub async fn requests(&self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<Request>> {
        tokio::time::sleep(AUDIT_LAG).await;
        let log = self.simulated.cluster.audit_log();
        let requests = tokio::task::spawn_blocking(move || audit::requests(&log, DAEMON_USER)).await?;
        Ok(audit::within(&requests.context("cannot read the audit log")?, from..to))
    }
}
