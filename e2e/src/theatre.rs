//! A light theatre for the daemon: a real control plane, pods played by kwok, operators played by watches, and the daemon
//! as a plain process that is ended and replaced when its own Deployment names another image, as a node would do it.

pub mod counts;
pub mod crew;
pub mod release;

use std::{
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::{Duration, Instant},
};

use cvo::api::{ClusterVersion, Condition, HistoryState, NAMESPACE, OWN_DEPLOYMENT, condition, progress::Progress};
use futures::StreamExt;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Node},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    runtime::{WatchStreamExt, wait::await_condition, watcher},
};
use serde_json::{Value, json};
use tokio::{sync::Mutex, task::JoinHandle};

use crate::fire::proxy::Proxy;
use crate::harness::{
    Cluster, Identity, Launch, Options,
    audit::{self, Request},
    named, programs,
};
use crew::Crew;
use release::{PLATFORM_KEY, Release, Store};

/// How long anything that should come may take on a busy machine; it usually takes a few seconds.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// What the daemon's Deployment grants a pod to end.
const GRACE: Duration = Duration::from_secs(130);
/// Name of the daemon's process in the harness.
const PROCESS: &str = "cvo";

/// An update service that refuses connections.
const NOWHERE: &str = "http://127.0.0.1:9/graph";

/// Runs a command to its end and returns what it said; panics with its complaints when it failed.
pub async fn run(command: &mut Command) -> String {
    let mut command = std::mem::replace(command, Command::new("true"));
    let shown = format!("{command:?}");
    let done = tokio::task::spawn_blocking(move || command.output()).await.unwrap().unwrap();
    assert!(done.status.success(), "{shown} failed: {}", String::from_utf8_lossy(&done.stderr));
    String::from_utf8(done.stdout).unwrap()
}

/// The stage and everybody on it. `close` it; dropping it ends the processes as well.
pub struct Theatre {
    pub client: Client,
    pub crew: Crew,
    pub store: Store,
    stage: Arc<Stage>,
    node: Option<JoinHandle<()>>,
    // Last: the others must end before it.
    cluster: Arc<Cluster>,
}

/// What the played node needs to run the daemon.
#[derive(Debug)]
struct Stage {
    kubeconfig: PathBuf,
    payloads: PathBuf,
    pod: Mutex<Option<Pod>>,
    /// Images of all pods that ran, in order.
    past: Mutex<Vec<String>>,
}

/// The daemon's pod as the node sees it.
#[derive(Debug)]
struct Pod {
    /// Stays the same when its process is restarted.
    identity: String,
    image: String,
    process: Identity,
}

impl Theatre {
    /// A control plane with one played node, releases laid out and signed, the first one rendered and applied, with an
    /// update service that nobody offers. The daemon does not run yet.
    pub async fn open(versions: &[&str]) -> (Self, Vec<Release>) {
        let options = Options { kwok: true, audit: true, ..Default::default() };
        let cluster = Arc::new(Cluster::up(options).await.unwrap());
        let client = cluster.client().await.unwrap();
        cluster.add_fake_nodes(1).await.unwrap();
        // The daemon's own pods tolerate no taint of the laboratory.
        let nodes: Api<Node> = Api::all(client.clone());
        let bare = json!({"spec": {"taints": null}});
        nodes.patch("fake-0", &PatchParams::default(), &Patch::Merge(&bare)).await.unwrap();

        let store = Store::make(&cluster.dir()).await;
        let mut releases = Vec::new();
        for version in versions {
            let release = store.lay(version);
            store.sign(&release, PLATFORM_KEY).await;
            releases.push(release);
        }
        install(&cluster, &releases[0]).await;
        let stage = Stage {
            kubeconfig: daemon_kubeconfig(&cluster),
            payloads: store.payloads(),
            pod: Mutex::new(None),
            past: Mutex::new(Vec::new()),
        };
        let crew = Crew::start(client.clone());
        (Self { client, crew, store, stage: Arc::new(stage), node: None, cluster }, releases)
    }

    /// The node begins to run the pod of the daemon's Deployment, and replaces it as the image changes.
    pub fn run_daemon(&mut self) {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), NAMESPACE);
        let (cluster, stage) = (self.cluster.clone(), self.stage.clone());
        self.node = Some(tokio::spawn(play_node(deployments, cluster, stage)));
    }

    /// Kills the daemon's process at once; the node starts it again in the same pod. Returns the image it ran.
    pub async fn crash(&self) -> String {
        let mut pod = self.stage.pod.lock().await;
        let pod = pod.as_mut().expect("a daemon to kill");
        pod.process = self.stage.launch(&self.cluster, &pod.identity, &pod.image).await;
        pod.image.clone()
    }

    /// Asks the daemon to stop, waits until it has, and starts it again in a pod of its own, as a drained node would.
    pub async fn restart_daemon(&self) {
        let mut pod = self.stage.pod.lock().await;
        let image = pod.as_ref().unwrap().image.clone();
        self.stage.replace(&self.cluster, &mut pod, &image).await;
    }

    /// Images of all pods that the daemon ran in so far, in order.
    pub async fn past_pods(&self) -> Vec<String> {
        self.stage.past.lock().await.clone()
    }

    /// Ends everything.
    pub async fn close(mut self) {
        if let Some(node) = self.node.take() {
            node.abort();
            let _ended = node.await;
        }
        drop(self.crew);
        Arc::into_inner(self.cluster).expect("nobody else holds the cluster").down().await.unwrap();
    }

    pub fn versions(&self) -> Api<ClusterVersion> {
        Api::all(self.client.clone())
    }

    /// Merges into the ClusterVersion, as an administrator would.
    pub async fn patch(&self, patch: Value) {
        let params = PatchParams { field_manager: Some("administrator".into()), ..PatchParams::default() };
        self.versions().patch("version", &params, &Patch::Merge(&patch)).await.unwrap();
    }

    /// Asks for a release.
    pub async fn ask_for(&self, release: &Release) {
        self.patch(json!({"spec": {"desiredUpdate": {"version": release.version, "image": release.image}}})).await;
    }

    /// Makes the namespace that an obstructed release waits for.
    pub async fn clear_the_way(&self) {
        let obstacle = Namespace { metadata: named(release::OBSTACLE), ..Namespace::default() };
        Api::all(self.client.clone()).create(&PostParams::default(), &obstacle).await.unwrap();
    }

    /// Waits by watch until the ClusterVersion is as wanted; panics with what it says and the daemon's log otherwise.
    pub async fn until(&self, what: &str, ok: impl Fn(&ClusterVersion) -> bool) -> ClusterVersion {
        let condition = |object: Option<&ClusterVersion>| object.is_some_and(&ok);
        let wait = await_condition(self.versions(), "version", condition);
        match tokio::time::timeout(PATIENCE, wait).await {
            Ok(found) => found.unwrap().unwrap(),
            Err(_) => self.give_up(what).await,
        }
    }

    /// Waits by watch until an object is as wanted (`None`: not there).
    pub async fn until_object<K>(
        &self,
        what: &str,
        api: Api<K>,
        name: &str,
        within: Duration,
        ok: impl Fn(Option<&K>) -> bool,
    ) -> Duration
    where
        K: kube::Resource + Clone + std::fmt::Debug + Send + serde::de::DeserializeOwned + 'static,
    {
        let begun = Instant::now();
        if tokio::time::timeout(within, await_condition(api, name, |object: Option<&K>| ok(object))).await.is_err() {
            self.give_up(what).await;
        }
        begun.elapsed()
    }

    /// Waits until the release is the newest Completed entry and nothing is in progress.
    pub async fn completed(&self, release: &Release) -> ClusterVersion {
        let done = |object: &ClusterVersion| {
            let newest = object.status.as_ref().and_then(|status| status.history.first());
            let completed = newest.is_some_and(|e| e.image == release.image && e.state == HistoryState::Completed);
            completed && says(object, "Progressing", "False").is_some()
        };
        self.until(&format!("{} to be completed", release.version), done).await
    }

    /// Waits by watch until the progress record is as wanted.
    pub async fn until_progress(&self, what: &str, ok: impl Fn(&Progress) -> bool) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), NAMESPACE);
        let condition = |map: Option<&ConfigMap>| {
            let text = map.and_then(|map| map.data.as_ref()?.get("progress.json"));
            text.and_then(|text| serde_json::from_str(text).ok()).is_some_and(|progress| ok(&progress))
        };
        self.until_object(what, maps, "cluster-version-progress", PATIENCE, condition).await;
    }

    /// A proxy that the daemon goes through from when it is started next.
    pub async fn proxy(&self, seed: &str) -> Proxy {
        let proxy = Proxy::start(&self.cluster, seed).await.unwrap();
        proxy.stand_before(&self.stage.kubeconfig).unwrap();
        proxy
    }

    /// Kills the API server and starts it again.
    pub async fn restart_apiserver(&self) {
        self.cluster.restart_apiserver().await.unwrap();
    }

    /// Copies the API server's data as they are.
    pub async fn back_up(&self) -> PathBuf {
        let backup = self.cluster.dir().join("backup");
        self.cluster.back_up(&backup).await.unwrap();
        backup
    }

    /// Brings back what the backup holds.
    pub async fn restore(&self, backup: &Path) {
        self.cluster.restore(backup).await.unwrap();
    }

    /// Everybody's requests so far, in the order of their arrival.
    pub fn everything(&self) -> Vec<Request> {
        audit::everything(&self.cluster.audit_log()).unwrap()
    }

    /// Requests of the daemon so far, in the order of their arrival.
    pub fn requests(&self) -> Vec<Request> {
        audit::requests(&self.cluster.audit_log(), audit::DAEMON).unwrap()
    }

    /// What the daemon has written so far besides its own bookkeeping.
    pub fn writes(&self) -> Vec<Request> {
        self.requests().into_iter().filter(|request| request.wrote() && !request.is_bookkeeping()).collect()
    }

    /// The daemon's log from the beginning.
    pub fn daemon_log(&self) -> String {
        std::fs::read_to_string(self.cluster.log(PROCESS)).unwrap_or_default()
    }

    pub async fn give_up(&self, what: &str) -> ! {
        let log = self.daemon_log();
        let tail: Vec<&str> = log.lines().rev().take(60).collect();
        let tail: Vec<&str> = tail.into_iter().rev().collect();
        let object = self.versions().get_opt("version").await;
        let status = object.map(|object| serde_json::to_string_pretty(&object.and_then(|o| o.status)).unwrap());
        panic!(
            "waited in vain for {what}\nClusterVersion.status: {}\ndaemon's log:\n{}",
            status.unwrap_or_default(),
            tail.join("\n")
        );
    }
}

/// The condition of that type when it has that status.
pub fn says<'a>(object: &'a ClusterVersion, type_: &str, status: &str) -> Option<&'a Condition> {
    let found = condition::find(&object.status.as_ref()?.conditions, type_)?;
    (format!("{:?}", found.status) == status).then_some(found)
}

/// Renders a release's own manifests and applies them as `cvo render` says.
async fn install(cluster: &Cluster, release: &Release) {
    let rendered = cluster.dir().join("rendered");
    let mut render = Command::new(programs::cvo().unwrap());
    render.args(["render", "--release-image", &release.image, "--channel", "stable"]);
    render.arg("--manifests-dir").arg(release.root.join("manifests")).arg("--output-dir").arg(&rendered);
    // Without one the daemon would ask the service of the public.
    render.args(["--upstream", NOWHERE]);
    run(&mut render).await;
    let folder = rendered.join("manifests").display().to_string();
    let apply = ["apply", "--server-side", "-f", &folder];
    // The ClusterVersion comes with its own CRD, so the first round cannot take it.
    let _first = cluster.kubectl(apply).await;
    let kinds = ["clusterversions", "clusteroperators"].map(|kind| format!("crd/{kind}.config.openshift.io"));
    cluster.kubectl(["wait", "--for=condition=Established", &kinds[0], &kinds[1]]).await.unwrap();
    cluster.kubectl(apply).await.unwrap();
}

/// The administrator's kubeconfig, acting as the daemon's service account.
fn daemon_kubeconfig(cluster: &Cluster) -> PathBuf {
    let text = std::fs::read_to_string(cluster.kubeconfig()).unwrap();
    let mut file: Value = serde_json::from_str(&text).unwrap();
    file["users"][0]["user"]["as"] = json!(audit::DAEMON);
    let path = cluster.dir().join("daemon.kubeconfig");
    std::fs::write(&path, file.to_string()).unwrap();
    path
}

/// Follows the daemon's Deployment: another image ends the pod and starts the next; a process that ends by itself is
/// started again in its pod.
async fn play_node(deployments: Api<Deployment>, cluster: Arc<Cluster>, stage: Arc<Stage>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={OWN_DEPLOYMENT}"));
    let mut events = watcher(deployments, config).default_backoff().boxed();
    // The end of a process that is not waited for gives no event.
    let mut look = tokio::time::interval(Duration::from_millis(200));
    loop {
        tokio::select! {
            event = events.next() => {
                let Some(Ok(watcher::Event::Apply(object) | watcher::Event::InitApply(object))) = event else { continue };
                let Some(image) = image_of(&object) else { continue };
                let mut pod = stage.pod.lock().await;
                if pod.as_ref().is_none_or(|pod| pod.image != image) {
                    stage.replace(&cluster, &mut pod, &image).await;
                }
            }
            _ = look.tick() => {
                let mut pod = stage.pod.lock().await;
                if let Some(pod) = pod.as_mut().filter(|pod| !pod.process.alive()) {
                    println!("the daemon has ended by itself; started again");
                    pod.process = stage.launch(&cluster, &pod.identity, &pod.image).await;
                }
            }
        }
    }
}

fn image_of(object: &Deployment) -> Option<String> {
    object.spec.as_ref()?.template.spec.as_ref()?.containers.first()?.image.clone()
}

impl Stage {
    /// Ends the pod as a node does, with a request first, and starts one of that image.
    async fn replace(&self, cluster: &Arc<Cluster>, pod: &mut Option<Pod>, image: &str) {
        if pod.is_some() {
            let ended = cluster.terminate(PROCESS, GRACE).await.unwrap();
            assert!(ended, "the daemon did not stop within its grace period");
        }
        let identity = uuid::Uuid::new_v4().to_string();
        let process = self.launch(cluster, &identity, image).await;
        self.past.lock().await.push(image.to_owned());
        *pod = Some(Pod { identity, image: image.to_owned(), process });
    }

    /// Starts the process; one that still runs is killed before.
    async fn launch(&self, cluster: &Arc<Cluster>, identity: &str, image: &str) -> Identity {
        let hex = image.rsplit_once(':').unwrap().1;
        let payload = self.payloads.join(format!("sha256-{hex}"));
        let path = |path: &Path| path.display().to_string();
        let arguments = [
            "start",
            "--release-image",
            image,
            "--identity",
            identity,
            "--listen",
            "",
            "--payload-source",
            "directory",
            "--lease-duration",
            "15",
            "--lease-renew-deadline",
            "10",
            "--lease-retry",
            "2",
            "--kubeconfig",
            &path(&self.kubeconfig),
            "--payload",
            &path(&payload),
            "--payload-store",
            &path(&self.payloads),
        ];
        let launch = Launch::new(PROCESS, programs::cvo().unwrap(), arguments).env("RUST_LOG", "info,cvo=debug");
        let cluster = cluster.clone();
        tokio::task::spawn_blocking(move || cluster.spawn(launch)).await.unwrap().unwrap()
    }
}
