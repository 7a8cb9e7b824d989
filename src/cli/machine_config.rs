//! `cvo machine-config`: the controller of node configuration.

use super::start::{LeaseArgs, MetricsArgs, ServingArgs, address};
use crate::daemon::machine_config::{self, Config};
use clap::Args;
use std::path::PathBuf;
use tokio_util::sync::CancellationToken;

/// Run the controller of node configuration: render the configuration of each MachineConfigPool and take its nodes there
#[derive(Args, Debug)]
pub(crate) struct MachineConfigArgs {
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
    serving: ServingArgs,
    /// Address of /healthz and /readyz (HTTP) for the kubelet, which ask nobody who they are; empty disables it.
    #[arg(long, default_value = "127.0.0.1:9097", value_name = "ADDRESS")]
    listen_health: String,
    /// Kubeconfig instead of the pod's service account.
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    metrics: MetricsArgs,
    /// Namespace of this process.
    #[arg(long, env = "POD_NAMESPACE", default_value = "openshift-machine-config-operator", value_name = "NAME")]
    namespace: String,
    /// Identity in the leader election; the pod's UID, so that a restarted container resumes its own lease.
    #[arg(long, env = "POD_UID", value_name = "ID")]
    identity: Option<String>,
    #[command(flatten)]
    lease: LeaseArgs,
}

pub(crate) async fn run(args: MachineConfigArgs, stop: CancellationToken) -> anyhow::Result<()> {
    let config = Config {
        kubeconfig: args.kubeconfig,
        serving: args.serving.serving(&args.listen)?,
        metrics: args.metrics.source()?,
        namespace: args.namespace,
        version: args.release_version,
        image: args.image,
        os_image: args.os_image,
        node: args.node_name.filter(|name| !name.is_empty()),
        ceiling: args.max_unavailable,
        node_objects: args.machine_config_nodes,
        listen_health: address("--listen-health", &args.listen_health)?,
        identity: args.identity.unwrap_or_else(|| uuid::Uuid::new_v4().to_string()),
        lease: args.lease.times()?,
    };
    Ok(machine_config::run(config, stop).await?)
}
