//! The cluster on which a release is played: control plane without node and without the controllers that the stage hand
//! plays, the daemon's own user, a ClusterVersion, the stage hand.

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

/// The user as whom the daemon's requests are counted.
pub const DAEMON_USER: &str = "system:serviceaccount:default:daemon";
/// Controllers whose work the stage hand plays.
const CONTROLLERS: &str = "*,-deployment-controller,-daemonset-controller,-job-controller";
const STAGE_HAND: &str = "stage-hand";

/// A cluster with everything but the play begun.
pub struct Stage {
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
    /// It was not asked to.
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
    /// Just before.
    pub started: jiff::Timestamp,
    pub pid: i32,
}

impl Stage {
    pub async fn build(programs: Programs) -> anyhow::Result<Stage> {
        let options = Options { audit: true, controllers: Some(CONTROLLERS.to_owned()), ..Options::default() };
        let cluster = Cluster::up(options).await?;
        let client = cluster.client().await?;
        let stage = Stage { cluster, client, programs };
        stage.add_daemon_user().await?;
        Ok(stage)
    }

    /// Folder of the payload store.
    pub fn store(&self) -> PathBuf {
        self.cluster.dir().join("store")
    }

    /// Kubeconfig of the user as whom the daemon speaks.
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

    /// What an administrator applies to install: of what `cvo render` writes, the CRD, the namespace and the
    /// ClusterVersion, which the daemon needs to begin.
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

    /// Starts the stage hand, which starts the daemon of the first release.
    pub fn play(&self, releases: &[Release], delay: Duration) -> anyhow::Result<()> {
        let path = |path: PathBuf| path.display().to_string();
        let mut arguments = vec![
            STAGE_HAND.to_owned(),
            format!("--kubeconfig={}", path(self.cluster.kubeconfig())),
            format!("--daemon-kubeconfig={}", path(self.daemon_kubeconfig())),
            format!("--cvo={}", path(self.programs.cvo.clone())),
            format!("--payload-store={}", path(self.store())),
            format!("--daemon-log={}", path(self.daemon_log())),
            format!("--report={}", path(self.report())),
            format!("--delay={}", delay.as_secs_f64()),
        ];
        arguments.extend(releases.iter().map(|release| format!("--release={}", release.image)));
        let mut launch = Launch::new(STAGE_HAND, self.programs.lab.clone(), arguments);
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

    /// The processes of the daemon that have ended.
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

    /// Waits for a pass of the release that began after `since` to be through.
    pub async fn passed(&self, release: &Release, since: jiff::Timestamp, limit: Duration) -> anyhow::Result<()> {
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
        ensure!(found.is_some(), "no whole pass within {} s; {}", limit.as_secs(), self.unfinished().await?);
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

    /// Signals the stage hand.
    pub fn signal(&self, signal: rustix::process::Signal) -> anyhow::Result<()> {
        let dir = self.cluster.dir().display().to_string();
        let processes = crate::harness::process::marked(&dir);
        let is_hand = |pid: i32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).nth(1) == Some(STAGE_HAND.as_bytes())
        };
        let hand = processes.iter().find(|p| is_hand(p.pid)).context("the stage hand is gone")?;
        let pid = rustix::process::Pid::from_raw(hand.pid).context("a process id")?;
        Ok(rustix::process::kill_process(pid, signal)?)
    }

    /// Ends the play; returns when daemon and stage hand are gone.
    pub async fn end(&self) -> anyhow::Result<()> {
        let dir = self.cluster.dir().display().to_string();
        let before = self.usages().map_or(0, |u| u.len());
        self.signal(rustix::process::Signal::TERM)?;
        let begun = std::time::Instant::now();
        while self.usages().map_or(0, |u| u.len()) == before {
            ensure!(begun.elapsed() < Duration::from_secs(140), "the stage hand of {dir} does not end");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(())
    }
}

fn progress(record: &ConfigMap) -> Option<Progress> {
    serde_json::from_str(record.data.as_ref()?.get(KEY)?).ok()
}

/// Watches one object until it is as wanted.
async fn wait_for<K>(api: Api<K>, name: &str, wanted: impl Fn(&K) -> bool, limit: Duration) -> Option<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + std::fmt::Debug + serde::de::DeserializeOwned + Send + 'static,
{
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut seen = std::pin::pin!(watcher(api, config).default_backoff().applied_objects());
    let wait = async {
        loop {
            match seen.next().await {
                Some(Ok(object)) if wanted(&object) => return Some(object),
                Some(_) => {}
                None => return None,
            }
        }
    };
    tokio::time::timeout(limit, wait).await.ok().flatten()
}
