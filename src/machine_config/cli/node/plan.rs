//! `cvo node plan`: shows what MachineConfigs would do to the nodes of a cluster before they are applied. Only reads.

mod collect;
mod given;
mod text;

use crate::cli::exit::Exit;
use crate::cli::output::print;
use crate::cli::{layout, reach};
use crate::cluster::Clients;
use crate::machine_config::plan::{Verdict, plan};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use std::path::PathBuf;

/// Show what MachineConfigs would do to the nodes of the cluster before they are applied
///
/// Also takes KubeletConfigs and ContainerRuntimeConfigs, of which MachineConfigs are made.
///
/// Reads the pools, MachineConfigs, nodes, pods and PodDisruptionBudgets of the cluster, puts what is given in the place of
/// what has the same name, renders each pool as the controller does, and shows for each pool: the rendered
/// MachineConfig, which files, units and other things change, what that disrupts and why, in which order nodes are told and
/// how many at a time, how long that takes if nodes take as long as the last ones did, and what would keep nodes waiting:
/// maintenance windows, approvals, a pause, nodes that are unavailable, PodDisruptionBudgets. Changes nothing.
#[derive(Args, Clone, Debug)]
pub(crate) struct NodePlanArgs {
    /// Files with MachineConfigs, KubeletConfigs and ContainerRuntimeConfigs as YAML or JSON, several in each if wanted; - is standard input
    #[arg(required = true, value_name = "MACHINECONFIG")]
    pub files: Vec<PathBuf>,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: one object, `schema` 1
    Json,
}

pub(crate) async fn run(args: NodePlanArgs) -> anyhow::Result<Exit> {
    let given = given::read(&args.files)?;
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    let (cluster, remarks) = collect::collect(&clients).await.map_err(|error| match error {
        collect::CollectError::Api(error) => reach::explain(&clients.server(), error),
        other => other.into(),
    })?;
    let mut plan = plan(&cluster, &given.configs, &given.sources, Timestamp::now());
    plan.remarks.extend(remarks);
    match args.output {
        Output::Text => print(&text::text(&plan, &layout::page()))?,
        Output::Json => print(&(serde_json::to_string_pretty(&plan)? + "\n"))?,
    }
    Ok(match plan.verdict() {
        Verdict::Fine => Exit::Success,
        Verdict::Incomplete => Exit::Incomplete,
        Verdict::Waits => Exit::Waits,
        Verdict::Fails => Exit::Failure,
    })
}
