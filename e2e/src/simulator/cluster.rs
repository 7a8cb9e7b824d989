//! A cluster for tests and measurements: a real control plane, simulated operators and workloads, and the daemon as a
//! process.

use super::daemon::{Node, PROCESS};
use super::releases::Release;
use super::requests::{DAEMON, GATES, is_bookkeeping};
use super::sample;
use super::simulation::{Simulation, Workloads};
use crate::conditions::Conditions;
use crate::faults::proxy::Proxy;
use crate::harness::audit::{self, Request};
use crate::harness::node::of_control_plane;
use crate::harness::{Cluster, Cvo, Options, files};
use crate::random::SeededRandom;
use crate::signing::{Keys, TRUSTED};
use anyhow::Context;
use cvo::testing::api::{ClusterVersion, NAME};
use k8s_openapi::api::core::v1::Node as KubernetesNode;
use k8s_openapi::api::rbac::v1::ClusterRoleBinding;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Client;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::task::AbortOnDropHandle;

/// How long anything that should come may take on a busy machine; it usually takes a few seconds.
pub const LIMIT: Duration = Duration::from_secs(180);
/// An update service that refuses connections.
const NO_UPDATE_SERVICE: &str = "http://127.0.0.1:9/graph";
/// All controllers but those of the workloads that are simulated.
const CONTROLLERS: &str = "*,-deployment-controller,-daemonset-controller,-job-controller";
/// The lease of a daemon that is killed or cut off is free again within seconds.
const SHORT_LEASE: &[&str] = &["--lease-duration", "15", "--lease-renew-deadline", "10", "--lease-retry", "2"];
/// The daemon renews its lease every 5 s, and stays the leader although it cannot for minutes.
pub const LONG_LEASE: [&str; 6] = ["--lease-duration", "400", "--lease-renew-deadline", "360", "--lease-retry", "5"];

/// What a daemon logs when it ends because it does not lead any more.
pub const LEASE_LOST: &str = "stopping: no longer the leader";

/// How the API server answers watches that ask for initial events (feature WatchList).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InitialEvents {
    Sent,
    /// As servers before Kubernetes 1.32, and 1.33 by default.
    Disabled,
    /// For this kind (`configmaps`) it refuses them, as some extension servers do. Needs `proxy`.
    RefusedFor(&'static str),
}

/// Ends the processes when it is dropped; `close` also reports what goes wrong with that.
pub struct SimulatedCluster {
    initial_events: InitialEvents,
    pub client: Client,
    pub keys: Keys,
    pub simulation: Simulation,
    pub node: Arc<Node>,
    following: Option<AbortOnDropHandle<()>>,
    pub(super) workloads: Workloads,
    // Last: the others must end before it.
    pub control_plane: Arc<Cluster>,
}

impl SimulatedCluster {
    /// A control plane. Nothing is simulated or installed yet.
    pub async fn start(workloads: Workloads) -> anyhow::Result<Self> {
        Self::start_on(InitialEvents::Sent, workloads).await
    }

    /// The same with an API server that answers so.
    pub async fn start_on(initial_events: InitialEvents, workloads: Workloads) -> anyhow::Result<Self> {
        Self::up(initial_events, workloads, Options::default()).await
    }

    async fn up(initial_events: InitialEvents, workloads: Workloads, options: Options) -> anyhow::Result<Self> {
        let kwok = workloads == Workloads::Kwok;
        let controllers = (!kwok).then(|| CONTROLLERS.to_owned());
        let feature_gates = (initial_events == InitialEvents::Disabled).then(|| "WatchList=false".to_owned());
        let options = Options { kwok, controllers, feature_gates, audit: true, gates: GATES, ..options };
        let control_plane = Arc::new(Cluster::up(options).await?);
        let client = control_plane.client().await?;
        let kubeconfig = daemon_kubeconfig(&control_plane, PROCESS)?;
        if kwok {
            control_plane.add_fake_nodes(0..1).await?;
            // The daemon's own pods do not tolerate the taint of simulated nodes, and run on nodes of the control plane.
            let nodes: Api<KubernetesNode> = Api::all(client.clone());
            for change in [json!({"spec": {"taints": null}}), of_control_plane()] {
                nodes.patch("fake-0", &PatchParams::default(), &Patch::Merge(change)).await?;
            }
        } else {
            allow_everything(&client).await?;
        }
        let dir = control_plane.dir();
        for folder in [control_plane.payload_dir(), signatures(&control_plane)] {
            files::make_dir(&folder)?;
        }
        let node = Node {
            name: PROCESS.to_owned(),
            cluster: control_plane.clone(),
            kubeconfig,
            payloads: control_plane.payload_dir(),
            program: None,
            arguments: if kwok { SHORT_LEASE.iter().map(ToString::to_string).collect() } else { Vec::new() },
            log_level: if kwok { "info,cvo=debug" } else { "info" },
            state: Default::default(),
            failure: Default::default(),
        };
        Ok(Self {
            initial_events,
            client,
            keys: Keys::generate(&dir).await?,
            simulation: Simulation::default(),
            node: Arc::new(node),
            following: None,
            workloads,
            control_plane,
        })
    }

    /// A cluster with kwok and sample releases of these versions, all signed, and the first one installed; the operators
    /// are simulated, and the daemon does not run yet.
    pub async fn with_samples(versions: &[&str]) -> anyhow::Result<(Self, Vec<Release>)> {
        Self::with_samples_on(InitialEvents::Sent, versions).await
    }

    /// The same with an API server that answers so.
    pub async fn with_samples_on(
        initial_events: InitialEvents,
        versions: &[&str],
    ) -> anyhow::Result<(Self, Vec<Release>)> {
        Self::start_on(initial_events, Workloads::Kwok).await?.filled(versions).await
    }

    /// The same with a control plane that is made so.
    pub async fn with_samples_in(options: Options, versions: &[&str]) -> anyhow::Result<(Self, Vec<Release>)> {
        Self::up(InitialEvents::Sent, Workloads::Kwok, options).await?.filled(versions).await
    }

    async fn filled(self, versions: &[&str]) -> anyhow::Result<(Self, Vec<Release>)> {
        let mut cluster = self;
        let mut releases = Vec::new();
        for version in versions {
            let release = cluster.lay_out_sample(version)?;
            cluster.sign(&release, TRUSTED).await?;
            releases.push(release);
        }
        cluster.install(releases.first().context("no version was named")?).await?;
        cluster.simulate(&releases, Duration::ZERO)?;
        Ok((cluster, releases))
    }

    /// The same with the daemon, after it has completed the first release.
    pub async fn with_installed(versions: &[&str]) -> anyhow::Result<(Self, Vec<Release>)> {
        let (mut cluster, releases) = Self::with_samples(versions).await?;
        let first = releases.first().context("no version was named")?;
        cluster.run_daemon(first).await?;
        cluster.completed(first).await?;
        Ok((cluster, releases))
    }

    /// The same; the daemon connects to a proxy without faults.
    pub async fn with_installed_behind_proxy(
        initial_events: InitialEvents,
        versions: &[&str],
    ) -> anyhow::Result<(Self, Proxy, Vec<Release>)> {
        let (mut cluster, releases) = Self::with_samples_on(initial_events, versions).await?;
        let proxy = cluster.proxy(SeededRandom::seed()).await?;
        let first = releases.first().context("no version was named")?;
        cluster.run_daemon(first).await?;
        cluster.completed(first).await?;
        Ok((cluster, proxy, releases))
    }

    /// A proxy to which the daemon, which does not run yet, connects instead of the API server.
    pub async fn proxy(&self, seed: u64) -> anyhow::Result<Proxy> {
        let proxy = Proxy::start(&self.control_plane, seed).await?;
        if let InitialEvents::RefusedFor(resource) = self.initial_events {
            proxy.refuse_initial_events(resource);
        }
        proxy.redirect(&self.node.kubeconfig)?;
        Ok(proxy)
    }

    /// The folder that `--payload-store` names.
    pub fn payloads(&self) -> PathBuf {
        self.control_plane.payload_dir()
    }

    /// The folder of the signature store.
    pub fn signatures(&self) -> PathBuf {
        signatures(&self.control_plane)
    }

    /// Lays out a sample release in the payload store, unsigned.
    pub fn lay_out_sample(&self, version: &str) -> anyhow::Result<Release> {
        sample::lay_out(&self.payloads(), version, &self.keys.verification_config(&self.signatures()))
    }

    /// Signs the release's digest and puts the signature into the store that the releases name.
    pub async fn sign(&self, release: &Release, key: &str) -> anyhow::Result<()> {
        self.keys.sign(&release.image, key, &self.signatures()).await
    }

    /// Applies what an administrator applies to install a release, out of what `cvo render` writes.
    pub async fn install(&self, release: &Release) -> anyhow::Result<()> {
        let rendered = self.control_plane.dir().join("rendered");
        let render = Cvo::new(["render", "--release-image", &release.image]);
        let render = render.flag("--manifests-dir", release.folder.join("manifests")).flag("--output-dir", &rendered);
        let manifests = rendered.join("manifests");
        let file = |name: &str| manifests.join(format!("0000_00_cluster-version-operator_{name}"));
        if self.workloads == Workloads::Kwok {
            // Without an address the daemon would ask the public update service.
            render.args(["--channel", "stable", "--upstream", NO_UPDATE_SERVICE]).output().await?;
            // The ClusterVersion comes with its own CRD, so it cannot be applied the first time.
            let _first = self.apply(&manifests).await;
            self.established(&["clusterversions.config.openshift.io", "clusteroperators.config.openshift.io"]).await?;
            return self.apply(&manifests).await;
        }
        // No more than the daemon needs to begin: what the daemon creates is measured.
        render.output().await?;
        self.apply(&file("00_namespace.yaml")).await?;
        self.apply(&file("01_clusterversions-Default.crd.yaml")).await?;
        self.established(&["clusterversions.config.openshift.io"]).await?;
        self.apply(&file("50_clusterversion.yaml")).await
    }

    async fn apply(&self, path: &Path) -> anyhow::Result<()> {
        let path = path.display().to_string();
        self.control_plane.kubectl(["apply", "--server-side", "-f", &path]).await.context(path)?;
        Ok(())
    }

    async fn established(&self, definitions: &[&str]) -> anyhow::Result<()> {
        for name in definitions {
            let api: Api<CustomResourceDefinition> = Api::all(self.client.clone());
            let wait = self.control_plane.until(format!("{name} to be established"), &[]);
            wait.existing(api, name, |it| it.has("Established=True")).await?;
        }
        Ok(())
    }

    /// Begins to simulate the operators (and workloads) of these releases, see `Simulation::start`.
    pub fn simulate(&mut self, releases: &[Release], delay: Duration) -> anyhow::Result<()> {
        self.simulation.start(self.client.clone(), releases, self.workloads, delay)
    }

    /// Gives the daemon, which does not run yet, more arguments.
    pub fn add_arguments<A: Into<String>>(&mut self, arguments: impl IntoIterator<Item = A>) -> anyhow::Result<()> {
        let node = Arc::get_mut(&mut self.node).context("the daemon runs already")?;
        node.arguments.extend(arguments.into_iter().map(Into::into));
        Ok(())
    }

    /// Gives the daemon, which does not run yet, these arguments in place of those for its lease.
    pub fn set_arguments(&mut self, arguments: &[&str]) -> anyhow::Result<()> {
        let node = Arc::get_mut(&mut self.node).context("the daemon runs already")?;
        node.arguments = arguments.iter().map(ToString::to_string).collect();
        Ok(())
    }

    /// The daemon, which does not run, is this program from now on; `None`: the one under test.
    pub fn set_program(&mut self, program: Option<PathBuf>) -> anyhow::Result<()> {
        Arc::get_mut(&mut self.node).context("the daemon runs")?.program = program;
        Ok(())
    }

    /// Starts the daemon of the release that is installed; from then on the image that its Deployment asks for is run.
    pub async fn run_daemon(&mut self, release: &Release) -> anyhow::Result<()> {
        self.node.start(release).await?;
        let following = tokio::spawn(self.node.clone().follow(self.client.clone()));
        self.following = Some(AbortOnDropHandle::new(following));
        Ok(())
    }

    /// The node of another daemon that stands by. It runs nothing yet.
    pub fn standby(&self, name: &str) -> anyhow::Result<Arc<Node>> {
        Ok(Arc::new(Node {
            name: name.to_owned(),
            cluster: self.control_plane.clone(),
            kubeconfig: daemon_kubeconfig(&self.control_plane, name)?,
            payloads: self.node.payloads.clone(),
            program: self.node.program.clone(),
            arguments: self.node.arguments.clone(),
            log_level: self.node.log_level,
            state: Default::default(),
            failure: Default::default(),
        }))
    }

    /// Ends the daemon.
    pub async fn stop_daemon(&mut self) -> anyhow::Result<()> {
        self.stop_following().await;
        self.node.stop().await
    }

    async fn stop_following(&mut self) {
        if let Some(following) = self.following.take() {
            following.abort();
            let _ended = following.await;
        }
    }

    /// It is right that the daemon ends whenever it loses its lease.
    pub fn may_lose_the_lease(&self) {
        self.control_plane.may_end(&self.node.name, LEASE_LOST);
    }

    /// Ends everything. It is an error if a process has ended by itself or panicked.
    pub async fn close(mut self) -> anyhow::Result<()> {
        self.stop_following().await;
        drop(self.simulation);
        drop(self.node);
        Ok(Arc::into_inner(self.control_plane).context("the cluster is still in use")?.down().await?)
    }

    pub fn versions(&self) -> Api<ClusterVersion> {
        Api::all(self.client.clone())
    }

    /// Merges into the ClusterVersion, as an administrator would.
    pub async fn patch(&self, patch: Value) -> anyhow::Result<()> {
        let params = PatchParams { field_manager: Some("administrator".into()), ..PatchParams::default() };
        self.versions().patch(NAME, &params, &Patch::Merge(&patch)).await?;
        Ok(())
    }

    /// Creates the FeatureGate with these gates of the release of that version.
    pub async fn enable_gates(&self, version: &str, gates: &[&str]) -> anyhow::Result<()> {
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", "FeatureGate"));
        let enabled: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
        let object = json!({
            "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
            "spec": {}, "status": {"featureGates": [{"version": version, "enabled": enabled}]},
        });
        let api: Api<DynamicObject> = Api::all_with(self.client.clone(), &kind);
        api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(())
    }

    /// Requests the update to a release.
    pub async fn request(&self, release: &Release) -> anyhow::Result<()> {
        self.patch(json!({"spec": {"desiredUpdate": {"version": release.version, "image": release.image}}})).await
    }

    /// All requests so far, in the order of their arrival.
    pub fn all_requests(&self) -> anyhow::Result<Vec<Request>> {
        Ok(audit::everything(&self.control_plane.audit_log())?)
    }

    /// Requests of the daemon so far, in the order of their arrival.
    pub fn requests(&self) -> anyhow::Result<Vec<Request>> {
        Ok(audit::requests(&self.control_plane.audit_log(), DAEMON)?)
    }

    /// What the daemon has written so far besides its own bookkeeping.
    pub fn writes(&self) -> anyhow::Result<Vec<Request>> {
        Ok(self.requests()?.into_iter().filter(|request| request.wrote() && !is_bookkeeping(request)).collect())
    }

    /// The file with the daemon's log.
    pub fn daemon_log(&self) -> PathBuf {
        self.control_plane.log(PROCESS)
    }
}

fn signatures(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("signatures")
}

/// The administrator's kubeconfig, acting as the daemon's service account in the pod of that name: so the requests of each
/// daemon are told apart.
fn daemon_kubeconfig(cluster: &Cluster, pod: &str) -> anyhow::Result<PathBuf> {
    Ok(cluster.kubeconfig_as(pod, DAEMON, &[&audit::pod_group(pod)])?)
}

/// The daemon's rights before it has applied its own manifests.
async fn allow_everything(client: &Client) -> anyhow::Result<()> {
    let binding: ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": {"name": "daemon"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": DAEMON}],
    }))?;
    Api::all(client.clone()).create(&PostParams::default(), &binding).await?;
    Ok(())
}
