//! The process that configures nodes.

use super::leader::{LAST_EVENTS, LeadingError, topology, while_leading};
use crate::api::machine_config::{CONTROLLER_MANAGER, LEASE};
use crate::cluster::lease::{Election, LeaderResult, Times};
use crate::cluster::{Clients, Kinds, Objects};
use crate::pools::operator;
use crate::pools::render::Defaults;
use crate::serve::health::Heartbeat;
use crate::work::events::Events;
use crate::work::machine_config::{Figures, MachineConfigController, Settings};
use crate::work::promql::{self, Querier};
use crate::work::serving::{self, Serving};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// The configuration from the command line.
#[derive(Debug)]
pub(crate) struct Config {
    pub kubeconfig: Option<PathBuf>,
    /// Where the queries of pools are sent.
    pub metrics: promql::Source,
    pub namespace: String,
    pub version: String,
    pub image: String,
    pub os_image: String,
    pub node: Option<String>,
    pub ceiling: Option<usize>,
    /// Whether MachineConfigNodes are written.
    pub node_objects: bool,
    /// Where metrics are served; nowhere if absent.
    pub serving: Option<Serving>,
    /// Where health is served; nowhere if absent.
    pub listen_health: Option<SocketAddr>,
    pub identity: String,
    /// Those that suit the topology of the control plane if absent.
    pub lease: Option<Times>,
}

/// Runs the controller until it is told to `stop` (then `Ok`) or cannot continue.
pub(crate) async fn run(config: Config, stop: CancellationToken) -> Result<(), LeadingError> {
    let heartbeat = Arc::new(Heartbeat::default());
    if let Some(listen) = config.listen_health {
        serving::health(listen, heartbeat.clone(), stop.clone());
    }
    let clients = Arc::new(Clients::connect(config.kubeconfig.as_deref()).await?);
    let reader = Objects::reader(clients.call.clone());
    let Some(topology) = topology(&reader, &stop).await else { return Ok(()) };
    let times = config.lease.unwrap_or_else(|| Times::of_topology(topology.as_deref()));
    let result =
        LeaderResult { plural: "clusteroperators", name: operator::NAME.to_owned(), list: "/status/conditions" };
    let election = Election::new(
        clients.call.clone(),
        CONTROLLER_MANAGER,
        (&config.namespace, LEASE),
        result,
        &config.identity,
        times,
    );
    let election = Arc::new(election);
    let claim = election.claim.clone();
    let objects = Objects::new(clients.call.clone(), CONTROLLER_MANAGER, Arc::new(move || claim.holds()));
    let objects = objects.with_longest_write(times.longest_write());
    let figures = Arc::new(Figures::new(clients.requests.clone()));
    if let Some(serving) = config.serving {
        let told = figures.clone();
        serving.start(Arc::new(move || told.text()), &clients, &Arc::new(Kinds::default()), stop.clone());
    }
    if !election.acquire(&stop).await {
        return Ok(());
    }
    let (version, image) = (&config.version, &config.image);
    tracing::info!(%version, %image, "configuring nodes");
    let querier = Querier { source: config.metrics, objects: objects.clone(), version: config.version.clone() };
    let settings = Settings {
        defaults: Defaults {
            controller_version: env!("CARGO_PKG_VERSION").to_owned(),
            release_version: config.version.clone(),
            os_image: config.os_image,
            ..Defaults::default()
        },
        version: config.version,
        image: config.image,
        node: config.node,
        ceiling: config.ceiling,
        topology,
        node_objects: config.node_objects,
    };
    let until = stop.clone();
    let working = async move {
        let client = objects.client_for_writes();
        let (events, publishing) =
            Events::start(client, CONTROLLER_MANAGER, &config.namespace, &config.identity, &until);
        let controller = MachineConfigController::new(settings, querier, &clients, (objects, events), &until);
        figures.show(&controller);
        controller.run(heartbeat, until.clone()).await;
        // They are not worth waiting for long.
        let _published = tokio::time::timeout(LAST_EVENTS, publishing).await;
    };
    while_leading(election, stop, working).await
}
