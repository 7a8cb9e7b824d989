//! A cluster on which a whole release can be installed without nodes: a control plane without the controllers that are
//! simulated, the simulator of workloads and operators, and a user for the daemon.

use super::Release;
use crate::harness::{Cluster, Launch, Options, Programs};
use anyhow::{Context, ensure};
use cvo::api::progress::{CONFIG_MAP, KEY, Progress};
use cvo::api::{ClusterVersion, HistoryState, NAME, NAMESPACE};
use futures::StreamExt;
use k8s_openapi::api::authentication::v1::{TokenRequest, TokenRequestSpec};
use k8s_openapi::api::core::v1::{ConfigMap, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use kube::api::{Api, PostParams};
use kube::runtime::{WatchStreamExt, watcher};
use serde::Deserialize;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The daemon's user, by which its requests are recognized.
pub const DAEMON_USER: &str = "system:serviceaccount:default:daemon";
/// All controllers but those that the simulator replaces.
const CONTROLLERS: &str = "*,-deployment-controller,-daemonset-controller,-job-controller";
const SIMULATOR: &str = "stage-hand";

/// See the top of the file.
pub struct SimulatedCluster {
    pub cluster: Cluster,
    pub client: kube::Client,
    programs: Programs,
}

/// What one daemon process used.
#[derive(Clone, Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    pub release: String,
    pub started: jiff::Timestamp,
    /// When it was asked to stop.
    pub asked: jiff::Timestamp,
    pub ended: jiff::Timestamp,
    /// It ended without being asked.
    pub by_itself: bool,
    pub cpu_seconds: Option<f64>,
    #[serde(rename = "peakKiB")]
    pub peak_kib: Option<u64>,
    #[serde(rename = "residentKiB")]
    pub resident_kib: Option<u64>,
}

/// A daemon process that was started.
#[derive(Clone, Debug, Deserialize)]
pub struct Started {
    pub release: String,
    /// Just before it was started.
    pub started: jiff::Timestamp,
    pub pid: i32,
}

impl SimulatedCluster {
    pub async fn build(programs: Programs) -> anyhow::Result<SimulatedCluster> {
        let options = Options { audit: true, controllers: Some(CONTROLLERS.to_owned()), ..Options::default() };
        let cluster = Cluster::up(options).await?;
        let client = cluster.client().await?;
        let simulated = SimulatedCluster { cluster, client, programs };
        simulated.add_daemon_user().await?;
        Ok(simulated)
    }

    /// Folder of the payload store.
    pub fn store(&self) -> PathBuf {
        self.cluster.dir().join("store")
    }

    /// Kubeconfig of the daemon's user.
    pub fn daemon_kubeconfig(&self) -> PathBuf {
        self.cluster.dir().join("daemon.kubeconfig")
    }

    /// A service account with all rights and a kubeconfig with its token.
    async fn add_daemon_user(&self) -> anyhow::Result<()> {
        let accounts: Api<ServiceAccount> = Api::namespaced(self.client.clone(), "default");
        let account: ServiceAccount = serde_json::from_value(json!({"metadata": {"name": "daemon"}}))?;
        accounts.create(&PostParams::default(), &account).await?;
        let binding: ClusterRoleBinding = serde_json::from_value(json!({
            "metadata": {"name": "daemon"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": "daemon", "namespace": "default"}],
        }))?;
        Api::all(self.client.clone()).create(&PostParams::default(), &binding).await?;
        let spec = TokenRequestSpec { expiration_seconds: Some(86_400), ..TokenRequestSpec::default() };
        let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
        let answer = accounts.create_token_request("daemon", &PostParams::default(), &request).await?;
        let token = answer.status.context("a token")?.token;
        let text = fs::read_to_string(self.cluster.kubeconfig())?;
        let mut config: serde_json::Value = serde_json::from_str(&text)?;
        *config.pointer_mut("/users/0/user").context("the kubeconfig has a user")? = json!({ "token": token });
        Ok(fs::write(self.daemon_kubeconfig(), config.to_string())?)
    }

    /// Applies what an administrator applies to install a release: of the output of `cvo render` the CRD, the namespace
    /// and the ClusterVersion, which the daemon needs to start.
    pub async fn install(&self, release: &Release) -> anyhow::Result<()> {
        let rendered = self.cluster.dir().join("rendered");
        let mut render = tokio::process::Command::new(&self.programs.cvo);
        render
            .args(["render", "--release-image", &release.image, "--manifests-dir"])
            .arg(release.folder.join("manifests"))
            .arg("--output-dir")
            .arg(&rendered);
        let output = render.output().await.context("cannot run cvo render")?;
        ensure!(output.status.success(), "cvo render failed: {}", String::from_utf8_lossy(&output.stderr));
        let files = rendered.join("manifests");
        for part in ["00_namespace.yaml", "01_clusterversions-Default.crd.yaml"] {
            self.apply(&files.join(format!("0000_00_cluster-version-operator_{part}"))).await?;
        }
        let crd = "crd/clusterversions.config.openshift.io";
        self.cluster.kubectl(["wait", "--for=condition=Established", crd, "--timeout=60s"]).await?;
        self.apply(&files.join("0000_00_cluster-version-operator_50_clusterversion.yaml")).await
    }

    async fn apply(&self, file: &Path) -> anyhow::Result<()> {
        let file = file.display().to_string();
        self.cluster.kubectl(["apply", "--server-side", "-f", &file]).await.map(|_| ()).context(file)
    }

    /// Starts the simulator, which starts the daemon of the first release.
    pub fn start(&self, releases: &[Release], delay: Duration) -> anyhow::Result<()> {
        let path = |path: PathBuf| path.display().to_string();
        let mut arguments = vec![
            SIMULATOR.to_owned(),
            format!("--kubeconfig={}", path(self.cluster.kubeconfig())),
            format!("--daemon-kubeconfig={}", path(self.daemon_kubeconfig())),
            format!("--cvo={}", path(self.programs.cvo.clone())),
            format!("--payload-store={}", path(self.store())),
            format!("--daemon-log={}", path(self.daemon_log())),
            format!("--report={}", path(self.report())),
            format!("--delay={}", delay.as_secs_f64()),
        ];
        arguments.extend(releases.iter().map(|release| format!("--release={}", release.image)));
        let mut launch = Launch::new(SIMULATOR, self.programs.lab.clone(), arguments);
        if let Ok(level) = std::env::var("RUST_LOG") {
            launch = launch.env("RUST_LOG", level);
        }
        self.cluster.spawn(launch)?;
        Ok(())
    }

    pub fn daemon_log(&self) -> PathBuf {
        self.cluster.log("daemon")
    }

    fn report(&self) -> PathBuf {
        self.cluster.dir().join("daemons.jsonl")
    }

    /// The daemon processes that have ended.
    pub fn usages(&self) -> anyhow::Result<Vec<Usage>> {
        let text = fs::read_to_string(self.report())?;
        let mut found = Vec::new();
        for line in text.lines() {
            let line: serde_json::Value = serde_json::from_str(line)?;
            if line.get("ended").is_some() {
                found.push(serde_json::from_value(line)?);
            }
        }
        Ok(found)
    }

    /// The daemon process that was started last.
    pub fn running(&self) -> anyhow::Result<Started> {
        let text = fs::read_to_string(self.report())?;
        let mut starts = text.lines().filter_map(|line| serde_json::from_str(line).ok());
        starts.next_back().context("no daemon was started")
    }

    /// Waits until the newest history entry is this release, Completed.
    pub async fn completed(&self, release: &Release, limit: Duration) -> anyhow::Result<ClusterVersion> {
        let versions: Api<ClusterVersion> = Api::all(self.client.clone());
        let done = |found: &ClusterVersion| {
            let newest = found.status.as_ref().and_then(|status| status.history.first());
            newest.is_some_and(|e| e.state == HistoryState::Completed && e.version == release.version)
        };
        let found = wait_for(versions.clone(), NAME, done, limit).await;
        match found {
            Some(found) => Ok(found),
            None => anyhow::bail!(
                "{} is not Completed after {} s; ClusterVersion: {:#?}; {}",
                release.version,
                limit.as_secs(),
                versions.get(NAME).await.map(|found| found.status),
                self.unfinished().await.unwrap_or_default(),
            ),
        }
    }

    /// Waits until a rollout of the release that began after `since` is complete.
    pub async fn rolled_out(&self, release: &Release, since: jiff::Timestamp, limit: Duration) -> anyhow::Result<()> {
        let records: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let done = |found: &ConfigMap| {
            progress(found).is_some_and(|p| {
                let pass = &p.pass;
                p.release.image == release.image
                    && pass.started.is_some_and(|at| at > since)
                    && pass.total > 0
                    && pass.done == pass.total
            })
        };
        let found = wait_for(records, CONFIG_MAP, done, limit).await;
        ensure!(found.is_some(), "no complete rollout within {} s; {}", limit.as_secs(), self.unfinished().await?);
        Ok(())
    }

    /// What the progress record says is not done.
    async fn unfinished(&self) -> anyhow::Result<String> {
        let records: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let record = records.get(CONFIG_MAP).await?;
        let nodes = progress(&record).map(|p| p.nodes).unwrap_or_default();
        let open = nodes.iter().filter(|n| n.done < n.total);
        let lines = open.map(|n| format!("{} {:?} {}/{} {:?} {}", n.id, n.state, n.done, n.total, n.waiting, n.error));
        Ok(format!("unfinished nodes:\n{}", lines.take(40).collect::<Vec<_>>().join("\n")))
    }

    /// Sends the simulator a signal.
    pub fn signal(&self, signal: rustix::process::Signal) -> anyhow::Result<()> {
        let dir = self.cluster.dir().display().to_string();
        let processes = crate::harness::process::marked(&dir);
        let is_simulator = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).nth(1) == Some(SIMULATOR.as_bytes())
        };
        let simulator = processes.iter().find(|p| is_simulator(p.pid)).context("the simulator is not running")?;
        let pid = rustix::process::Pid::from_raw(simulator.pid).context("a process id")?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// Ends the simulator and the daemon.
    pub async fn stop(&self) -> anyhow::Result<()> {
        let dir = self.cluster.dir().display().to_string();
        let before = self.usages().map_or(0, |u| u.len());
        self.signal(rustix::process::Signal::TERM)?;
        let started = std::time::Instant::now();
        while self.usages().map_or(0, |u| u.len()) == before {
            ensure!(started.elapsed() < Duration::from_secs(140), "the simulator of {dir} does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn progress(record: &ConfigMap) -> Option<Progress> {
    serde_json::from_str(record.data.as_ref()?.get(KEY)?).ok()
}

/// Watches one object until it is as expected.
async fn wait_for<K>(api: Api<K>, name: &str, expected: impl Fn(&K) -> bool, limit: Duration) -> Option<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut objects = std::pin::pin!(watcher(api, config).default_backoff().applied_objects());
    let wait = async {
        loop {
            match objects.next().await {
                Some(Ok(object)) if expected(&object) => return Some(object),
                Some(_) => {}
                None => return None,
            }
        }
    };
    tokio::time::timeout(limit, wait).await.ok().flatten()
}
