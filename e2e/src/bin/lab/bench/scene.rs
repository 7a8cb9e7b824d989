//! A fresh cluster with both releases laid ready, and what its daemon costs while it installs and updates.

use super::figures::{CPU, Measured, PEAK, PER_DOCUMENT, RESIDENT, SECONDS, TIMES_FLOOR};
use super::machine;
use super::release::Facts;
use anyhow::{Context, ensure};
use cvo::api::{ClusterVersion, NAME};
use e2e::harness::audit::{self, Request};
use e2e::harness::{Programs, files, process};
use e2e::real_payload::stage::{DAEMON_USER, Stage, Started};
use e2e::real_payload::{Release, lay_out, signer::Signer};
use jiff::Timestamp;
use kube::Config;
use kube::api::{Api, Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::json;
use std::path::Path;
use std::time::Duration;

/// For what should take seconds.
const LIMIT: Duration = Duration::from_secs(600);
/// The audit log tells of a request when it is answered: those of a stretch of time are all there a moment later.
const AUDIT_LAG: Duration = Duration::from_secs(2);
const KIB: f64 = 1024.0 / 1e6;

/// The cluster, ready to be installed.
pub struct Scene {
    pub stage: Stage,
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

    fn tell(&self, measured: &mut Measured) {
        measured.add_known(CPU, self.cpu_seconds);
        measured.add_known(PEAK, self.peak);
        measured.add_known(RESIDENT, self.resident);
    }
}

impl Scene {
    pub async fn build(programs: Programs, manifests: &Path) -> anyhow::Result<Scene> {
        let cvo = programs.cvo.clone();
        let stage = Stage::build(programs).await?;
        let signer = Signer::new(&stage.cluster.dir(), &cvo)?;
        let releases = lay_out(manifests, &stage.store(), signer)?;
        let facts = Facts::read(&stage.store(), &releases)?;
        let [first, _] = &releases;
        stage.install(first).await?;
        Ok(Scene { stage, facts, releases })
    }

    pub fn first(&self) -> &Release {
        let [first, _] = &self.releases;
        first
    }

    pub fn second(&self) -> &Release {
        let [_, second] = &self.releases;
        second
    }

    /// To speak to the API server as the daemon's user.
    pub async fn daemon_config(&self) -> anyhow::Result<Config> {
        let kubeconfig = Kubeconfig::read_from(self.stage.daemon_kubeconfig())?;
        Ok(Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?)
    }

    pub fn daemon_log(&self) -> String {
        files::tail(&self.stage.daemon_log(), 20)
    }

    /// Begins the play: from the start of the daemon's process until the first release is Completed. `floor` in seconds.
    pub async fn install(&self, delay: Duration, floor: Option<f64>) -> anyhow::Result<Measured> {
        let busy = machine::quiet().await;
        self.stage.play(&self.releases, delay)?;
        let (process, done, spent) = self.completed(self.first()).await?;
        let requests = self.requests(process.started, done).await?;
        let mut measured = Measured::default();
        let seconds = done.duration_since(process.started).as_secs_f64();
        measured.add(SECONDS, seconds);
        measured.add_known(TIMES_FLOOR, floor.map(|floor| seconds / floor));
        measured.add_creations(&requests, process.started);
        measured.add_requests(&requests);
        measured.add(PER_DOCUMENT, requests.len() as f64 / self.facts.manifests.len() as f64);
        spent.tell(&mut measured);
        measured.add("machine busy before", busy);
        Ok(measured)
    }

    /// From the start of the new process, which the hand-over brings about, until the second release is Completed; and the
    /// same from the request of the update. `delay`: how long each operator takes, which makes a floor.
    pub async fn update(&self, delay: Duration) -> anyhow::Result<Measured> {
        let busy = machine::quiet().await;
        let versions: Api<ClusterVersion> = Api::all(self.stage.client.clone());
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
        spent.tell(&mut measured);
        measured.add("machine busy before", busy);
        Ok(measured)
    }

    /// Waits for the release; who completed it, when, and what that had cost by then.
    async fn completed(&self, release: &Release) -> anyhow::Result<(Started, Timestamp, Spent)> {
        self.stage.completed(release, LIMIT).await?;
        let done = Timestamp::now();
        let process = self.stage.running()?;
        let spent = Spent::by(&process);
        ensure!(process.release == release.image, "release {} is completed by another's daemon", release.version);
        Ok((process, done, spent))
    }

    /// The daemon's requests of a stretch of time that has just ended.
    pub async fn requests(&self, from: Timestamp, to: Timestamp) -> anyhow::Result<Vec<Request>> {
        tokio::time::sleep(AUDIT_LAG).await;
        let log = self.stage.cluster.audit_log();
        let requests = tokio::task::spawn_blocking(move || audit::requests(&log, DAEMON_USER)).await?;
        Ok(audit::within(&requests.context("cannot read the audit log")?, from..to))
    }
}
