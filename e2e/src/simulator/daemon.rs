//! The node that runs the daemon: a process in the place of the pod of the daemon's own Deployment. When the Deployment
//! asks for another image, the process is ended and its successor started, as a kubelet would do it.

use super::releases::Release;
use crate::harness::{Cluster, Cvo, Identity, process};
use crate::platform::component::environment;
use crate::until::changes;
use anyhow::{Context, ensure};
use cvo::testing::api::{NAMESPACE, OWN_DEPLOYMENT};
use cvo::testing::work::retrieve;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use kube::runtime::watcher;
use kube::{Api, Client};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, watch};

/// The daemon's Deployment.
const DEPLOYMENT: &str = "cluster-version/0000_00_cluster-version-operator_30_deployment.yaml";
/// What the daemon's Deployment grants a pod to end.
const GRACE: Duration = Duration::from_secs(130);
/// Name of the daemon's process in the harness, and of its log, where one daemon runs.
pub const PROCESS: &str = "cvo";

/// The node of the daemon, and what it starts the daemon with.
#[derive(Debug)]
pub struct Node {
    /// Of the daemon's process in the harness, and of its log; its pod in the audit log.
    pub name: String,
    pub cluster: Arc<Cluster>,
    pub kubeconfig: PathBuf,
    pub payloads: PathBuf,
    /// The daemon, where it is not the program under test.
    pub program: Option<PathBuf>,
    /// More arguments of the daemon.
    pub arguments: Vec<String>,
    /// `RUST_LOG` of the daemon where this process has none.
    pub log_level: &'static str,
    pub state: Mutex<State>,
    /// Why no daemon can be run any more.
    pub failure: watch::Sender<Option<String>>,
}

/// The daemon's pods.
#[derive(Debug, Default)]
pub struct State {
    pub running: Option<Pod>,
    /// Images of all pods that ran, in order.
    pub images: Vec<String>,
    pub ended: Vec<Ended>,
}

/// The daemon's pod as the node sees it.
#[derive(Debug, Clone)]
pub struct Pod {
    /// Stays the same when its process is started again.
    identity: String,
    pub image: String,
    pub process: Identity,
    /// Just before the process was started.
    pub started: Timestamp,
}

/// A process of the daemon that has ended.
#[derive(Debug)]
pub struct Ended {
    pub pod: Pod,
    /// When it was asked to end; `None` if it ended by itself.
    pub asked: Option<Timestamp>,
    pub at: Timestamp,
    /// Before it was asked to end.
    pub usage: Usage,
}

/// What a process has used so far; nothing is known of one that has ended.
#[derive(Debug, Clone, Copy)]
pub struct Usage {
    pub cpu_seconds: Option<f64>,
    pub peak_kib: Option<u64>,
    pub resident_kib: Option<u64>,
}

impl Usage {
    pub fn of(process: &Identity) -> Self {
        let (peak_kib, resident_kib) = process::memory(process.pid);
        Self { cpu_seconds: process::cpu_seconds(process.pid), peak_kib, resident_kib }
    }
}

impl Node {
    /// Starts the daemon of a release.
    pub async fn start(&self, release: &Release) -> anyhow::Result<()> {
        self.replace(&mut *self.state.lock().await, &release.image).await
    }

    /// Runs the image that the daemon's Deployment asks for. Returns only when that is impossible.
    pub async fn follow(self: Arc<Self>, client: Client) {
        let deployments: Api<Deployment> = Api::namespaced(client, NAMESPACE);
        let config = watcher::Config::default().fields(&format!("metadata.name={OWN_DEPLOYMENT}"));
        let mut changes = changes(deployments, config);
        loop {
            let done = tokio::select! {
                Some(deployment) = changes.next() => match image(&deployment) {
                    Some(image) => self.update(&image).await,
                    None => Ok(()),
                },
                () = self.ended() => self.check().await,
            };
            if let Err(error) = done {
                self.failure.send_replace(Some(format!("the daemon cannot be run: {error:#}")));
                return;
            }
        }
    }

    /// Returns once no daemon can be run any more, and says why.
    pub async fn failed(&self) -> String {
        said(self.failure.subscribe()).await
    }

    async fn update(&self, image: &str) -> anyhow::Result<()> {
        let mut state = self.state.lock().await;
        match &state.running {
            Some(pod) if pod.image == image => Ok(()),
            _ => self.replace(&mut state, image).await,
        }
    }

    /// Returns once the process that runs now has ended.
    async fn ended(&self) {
        let running = self.state.lock().await.running.clone();
        match running {
            Some(pod) => pod.process.ended().await,
            None => std::future::pending().await,
        }
    }

    /// Starts a process that has ended by itself again, in its pod, as a kubelet would. The cluster does not forget it.
    async fn check(&self) -> anyhow::Result<()> {
        let mut state = self.state.lock().await;
        let Some(pod) = state.running.clone().filter(|pod| !pod.process.alive()) else { return Ok(()) };
        eprintln!("the daemon has ended by itself and is started again");
        state.running = Some(self.launch(pod.identity.clone(), &pod.image).await?);
        let usage = Usage::of(&pod.process);
        state.ended.push(Ended { pod, asked: None, at: Timestamp::now(), usage });
        Ok(())
    }

    /// Kills the process and starts it again in the same pod. Returns its image.
    pub async fn crash(&self) -> anyhow::Result<String> {
        let mut state = self.state.lock().await;
        let pod = state.running.clone().context("no daemon runs")?;
        state.running = Some(self.launch(pod.identity, &pod.image).await?);
        Ok(pod.image)
    }

    /// Whether the holder of the lease is its pod.
    pub async fn is(&self, holder: &str) -> bool {
        self.state.lock().await.running.as_ref().is_some_and(|pod| pod.identity == holder)
    }

    /// Freezes the process (SIGSTOP) while something happens. Its node neither ends nor replaces it meanwhile.
    pub async fn frozen<T>(&self, meanwhile: impl Future<Output = anyhow::Result<T>>) -> anyhow::Result<T> {
        let state = self.state.lock().await;
        let pod = state.running.as_ref().context("no daemon runs")?;
        pod.process.freeze();
        let happened = meanwhile.await;
        pod.process.thaw();
        happened
    }

    /// Ends the pod and starts another one of the same image, as when a node is drained.
    pub async fn restart(&self) -> anyhow::Result<()> {
        let mut state = self.state.lock().await;
        let image = state.running.as_ref().context("no daemon runs")?.image.clone();
        self.replace(&mut state, &image).await
    }

    /// Ends the pod.
    pub async fn stop(&self) -> anyhow::Result<()> {
        self.end(&mut *self.state.lock().await).await
    }

    /// Images of all pods so far, in order.
    pub async fn images(&self) -> Vec<String> {
        self.state.lock().await.images.clone()
    }

    /// Ends the pod as a node does: sends SIGTERM and waits.
    async fn end(&self, state: &mut State) -> anyhow::Result<()> {
        let Some(pod) = state.running.clone() else { return Ok(()) };
        let (asked, usage) = (Timestamp::now(), Usage::of(&pod.process));
        let ended = self.cluster.terminate(&self.name, GRACE).await?;
        ensure!(ended, "the daemon did not end within {} s of SIGTERM", GRACE.as_secs());
        state.ended.push(Ended { pod, asked: Some(asked), at: Timestamp::now(), usage });
        state.running = None;
        Ok(())
    }

    async fn replace(&self, state: &mut State, image: &str) -> anyhow::Result<()> {
        self.end(state).await?;
        state.running = Some(self.launch(uuid::Uuid::new_v4().to_string(), image).await?);
        state.images.push(image.to_owned());
        Ok(())
    }

    /// Starts the process; one that still runs is killed first.
    async fn launch(&self, identity: String, image: &str) -> anyhow::Result<Pod> {
        let payload = self.payloads.join(retrieve::folder(image));
        // Several clusters share this machine: who wants to reach a server says where it listens.
        let silent = ["--listen", "--listen-health"].into_iter();
        let silent = silent.filter(|flag| !self.arguments.iter().any(|argument| argument == flag));
        let daemon = Cvo::new(["start", "--release-image", image, "--identity", &identity])
            .args(["--payload-source", "directory"])
            .flag("--payload", &payload)
            .flag("--payload-store", &self.payloads)
            .kubeconfig(&self.kubeconfig)
            .args(&self.arguments)
            .args(silent.flat_map(|flag| [flag, ""]))
            .log_level(self.log_level)
            .program(self.program.as_deref());
        let daemon = environment(DEPLOYMENT)?.iter().fold(daemon, |daemon, (name, value)| daemon.env(name, value));
        let launch = daemon.launch(&self.name)?;
        let cluster = self.cluster.clone();
        let started = Timestamp::now();
        let process = tokio::task::spawn_blocking(move || cluster.spawn(launch)).await??;
        Ok(Pod { identity, image: image.to_owned(), process, started })
    }
}

/// What a channel says, as soon as it says anything.
pub(super) async fn said(mut channel: watch::Receiver<Option<String>>) -> String {
    let said = channel.wait_for(Option::is_some).await.ok().and_then(|said| said.clone());
    match said {
        Some(said) => said,
        None => std::future::pending().await,
    }
}

fn image(deployment: &Deployment) -> Option<String> {
    deployment.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone()
}
