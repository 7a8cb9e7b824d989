//! The process that configures nodes.

use crate::cluster::lease::{LeaderResult, Times};
use crate::cluster::{Clients, Kinds, Objects};
use crate::machine_config::api::machine_config::{CONTROLLER_MANAGER, LEASE};
use crate::machine_config::render::Defaults;
use crate::machine_config::work::controller::{Figures, MachineConfigController};
use crate::machine_config::{decide, operator};
use crate::process::events::Events;
use crate::process::leader::{LAST_EVENTS, LeadingError, candidate, topology, while_leading};
use crate::process::prometheus::Querier;
use crate::process::serving;
use crate::process::settings::{LeaseSettings, QuerySettings, ServingSettings, address};
use crate::serve::health::Heartbeat;
use clap::Args;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Run the controller of node configuration: render the configuration of each MachineConfigPool and take its nodes there
#[derive(Args, Debug)]
pub(crate) struct Settings {
    /// The release that this process belongs to: it is published once the nodes that an update waits for have it.
    #[arg(long, env = "RELEASE_VERSION", value_name = "VERSION")]
    release_version: String,
    /// Pull spec of the image of this process, which is published with it.
    #[arg(long, env = "OPERATOR_IMAGE", value_name = "IMAGE", default_value = "")]
    image: String,
    /// Image of the operating system of the release; empty where nodes manage their own.
    #[arg(long, env = "OS_IMAGE", value_name = "IMAGE", default_value = "")]
    os_image: String,
    /// Node of this process, which is updated after the other nodes of its pool.
    #[arg(long, env = "NODE_NAME", value_name = "NAME")]
    node_name: Option<String>,
    /// The most nodes of all pools together that may be unavailable; without it each pool has its own limit alone.
    #[arg(long, value_name = "NUMBER")]
    max_unavailable: Option<usize>,
    /// Keep a MachineConfigNode for each node, which says how far it is: two more writes for each node that is updated.
    #[arg(long)]
    machine_config_nodes: bool,
    /// Address of the metrics (HTTPS), for clients with the certificate of the platform's Prometheus or with the token of one who
    /// may get the path /metrics; empty disables it.
    #[arg(long, default_value = "0.0.0.0:9001", value_name = "ADDRESS")]
    listen: String,
    #[command(flatten)]
    serving: ServingSettings,
    /// Address of /healthz and /readyz (HTTP) for the kubelet, which ask nobody who they are; empty disables it.
    #[arg(long, default_value = "127.0.0.1:9097", value_name = "ADDRESS")]
    listen_health: String,
    /// Kubeconfig instead of the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    metrics: QuerySettings,
    /// Namespace of this process.
    #[arg(long, env = "POD_NAMESPACE", default_value = "openshift-machine-config-operator", value_name = "NAME")]
    namespace: String,
    #[command(flatten)]
    lease: LeaseSettings,
}

impl Settings {
    /// What the controller needs of it.
    fn of_controller(&self, topology: Option<String>) -> decide::Settings {
        decide::Settings {
            defaults: Defaults {
                controller_version: env!("CARGO_PKG_VERSION").to_owned(),
                release_version: self.release_version.clone(),
                os_image: self.os_image.clone(),
                ..Defaults::default()
            },
            version: self.release_version.clone(),
            image: self.image.clone(),
            node: self.node_name.clone().filter(|name| !name.is_empty()),
            ceiling: self.max_unavailable,
            topology,
            node_objects: self.machine_config_nodes,
        }
    }
}

/// Runs the controller until it is told to `stop` (then `Ok`) or cannot continue.
pub(crate) async fn run(settings: Settings, stop: CancellationToken) -> Result<(), LeadingError> {
    let serving = settings.serving.serving(&settings.listen)?;
    let source = settings.metrics.source()?;
    let listen_health = address("--listen-health", &settings.listen_health)?;
    let times = settings.lease.times()?;
    let heartbeat = Arc::new(Heartbeat::default());
    if let Some(listen) = listen_health {
        serving::health(listen, heartbeat.clone(), stop.clone());
    }
    let clients = Arc::new(Clients::connect(settings.kubeconfig.as_deref()).await?);
    let reader = Objects::reader(clients.call.clone());
    let Some(topology) = topology(&reader, &stop).await else { return Ok(()) };
    let times = times.unwrap_or_else(|| Times::of_topology(topology.as_deref()));
    let result =
        LeaderResult { plural: "clusteroperators", name: operator::NAME.to_owned(), list: "/status/conditions" };
    let lease = (settings.namespace.as_str(), LEASE);
    let (election, objects) = candidate(&clients, CONTROLLER_MANAGER, lease, result, &settings.lease, times);
    let figures = Arc::new(Figures::new(clients.requests.clone()));
    if let Some(serving) = serving {
        let told = figures.clone();
        serving.start(Arc::new(move || told.text()), &clients, &Arc::new(Kinds::default()), stop.clone());
    }
    if !election.acquire(&stop).await {
        return Ok(());
    }
    let (version, image) = (&settings.release_version, &settings.image);
    tracing::info!(%version, %image, "configuring nodes");
    let querier = Querier { source, objects: objects.clone(), version: version.clone() };
    let of_controller = settings.of_controller(topology);
    let (until, held) = (stop.clone(), election.clone());
    let working = async move {
        let client = objects.client_for_writes();
        let (events, publishing) =
            Events::start(client, CONTROLLER_MANAGER, &settings.namespace, &held.identity, &until);
        let controller = MachineConfigController::new(of_controller, querier, &clients, (objects, events), &until);
        figures.show(&controller);
        controller.run(heartbeat, until.clone()).await;
        // They are not worth waiting for long.
        let _published = tokio::time::timeout(LAST_EVENTS, publishing).await;
    };
    while_leading(election, stop, working).await
}
