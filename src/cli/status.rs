//! `cvo status`: shows the state of an update from the ClusterVersion, the ClusterOperators and the progress record. Only
//! reads; its output is a function of a [`State`], a width and the time.

mod details;
mod follow;
mod lines;
pub(crate) mod next_step;
mod pools;
mod recorded;
mod text;
mod view;

pub(crate) use follow::Follower;
pub(crate) use recorded::{Archive, Recorded};
pub(crate) use view::View;

use super::layout::{self, Page};
use super::output::print;
use super::reach;
use crate::api::machine_config::MachineConfigPool;
use crate::api::progress::{CONFIG_MAP, KEY, Progress, SCHEMA};
use crate::api::{ClusterOperator, ClusterVersion, NAME, NAMESPACE};
use crate::cluster::{ApiError, Clients};
use crate::plan::pods::Detail;
use anyhow::bail;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Client;
use kube::api::{Api, ListParams};
use std::path::PathBuf;

/// Show the progress of an update: what is done, what waits for what and since when, what is wrong, and the history
///
/// Reads the ClusterVersion, the ClusterOperators, pools and nodes, and the daemon's progress record, and changes nothing. If standard output
/// is not a terminal, lines are not cut or wrapped, and --watch writes one line for each change instead of redrawing.
#[derive(Args, Clone, Debug)]
pub(crate) struct StatusArgs {
    /// Follow the update until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Output format; with --watch, json writes one object a line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Look behind everything that is waited for: pods, their containers and their last events; without it, the first cause of each of a few
    #[arg(long, conflicts_with = "watch")]
    pub details: bool,
    /// Read what `cvo collect` has written instead of a cluster
    #[arg(long, value_name = "FILE", conflicts_with_all = ["kubeconfig", "watch"])]
    pub from: Option<PathBuf>,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Where the daemon keeps its state.
#[derive(Args, Clone, Debug)]
pub(crate) struct Source {
    /// Namespace of the daemon
    #[arg(long, env = "CVO_NAMESPACE", default_value = NAMESPACE, value_name = "NAME")]
    pub namespace: String,
    /// Name of the ClusterVersion
    #[arg(long, env = "CVO_NAME", default_value = NAME, value_name = "NAME")]
    pub name: String,
}

impl Default for Source {
    fn default() -> Self {
        Source { namespace: NAMESPACE.to_owned(), name: NAME.to_owned() }
    }
}

/// The objects of the cluster that describe its update.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// `None` if it or its kind does not exist.
    pub cluster_version: Option<ClusterVersion>,
    pub operators: Vec<ClusterOperator>,
    /// `None` if the daemon has not written one yet, or it cannot be read; then a remark says why.
    pub progress: Option<Progress>,
    /// Empty where nodes are not configured by pools.
    pub pools: Vec<MachineConfigPool>,
    /// Read only if there are pools.
    pub nodes: Vec<Node>,
    /// What is behind what is waited for, if that was looked at.
    pub details: Vec<Detail>,
    /// What could not be read and why.
    pub remarks: Vec<String>,
}

impl State {
    /// Follows what is waited for down to the pods.
    pub(crate) async fn look_behind(&mut self, client: &Client, all: bool, now: Timestamp) {
        let view = View::of(self, now);
        self.details = details::gather(client, &view, &self.operators, all, now, &mut self.remarks).await;
    }

    /// Reads everything once. If only the progress record cannot be read, that is a remark instead of an error.
    pub(crate) async fn gather(client: &Client, source: &Source) -> Result<State, ApiError> {
        let versions: Api<ClusterVersion> = Api::all(client.clone());
        let operators: Api<ClusterOperator> = Api::all(client.clone());
        let records: Api<ConfigMap> = Api::namespaced(client.clone(), &source.namespace);
        let pools: Api<MachineConfigPool> = Api::all(client.clone());
        let everything = ListParams::default();
        let (version, operators, record, pools) = tokio::join!(
            versions.get_opt(&source.name),
            operators.list(&everything),
            records.get_opt(CONFIG_MAP),
            pools.list(&everything)
        );
        let cluster_version = match version {
            Ok(found) => found,
            // The kind does not exist: nodes can be configured without it.
            Err(kube::Error::Api(status)) if status.code == 404 => None,
            Err(error) => return Err(ApiError::of(&format!("read ClusterVersion {}", source.name), error)),
        };
        let mut state = State { cluster_version, ..State::default() };
        state.operators = match operators {
            Ok(list) => list.items,
            // The kind does not exist yet.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => return Err(ApiError::of("list the ClusterOperators", error)),
        };
        state.take_pools(client, pools.map(|list| list.items)).await;
        match record {
            Ok(Some(map)) => state.take_record(&map),
            Ok(None) => {}
            Err(error) => state.remarks.push(format!(
                "The progress record {}/{CONFIG_MAP} cannot be read, so components are not shown: {error}",
                source.namespace
            )),
        }
        Ok(state)
    }

    /// What cannot be read is a remark: the update is not about nodes alone.
    async fn take_pools(&mut self, client: &Client, pools: kube::Result<Vec<MachineConfigPool>>) {
        self.pools = match pools {
            Ok(pools) => pools,
            // The kind does not exist.
            Err(kube::Error::Api(status)) if status.code == 404 => return,
            Err(error) => {
                return self.remarks.push(format!("Pools are not shown, because they cannot be listed: {error}"));
            }
        };
        if self.pools.is_empty() {
            return;
        }
        let nodes: Api<Node> = Api::all(client.clone());
        match nodes.list(&ListParams::default()).await {
            Ok(list) => self.nodes = list.items,
            Err(error) => self.remarks.push(format!("Nodes are not shown, because they cannot be listed: {error}")),
        }
    }

    /// Reads the progress record from its ConfigMap; a record that cannot be read becomes a remark.
    fn take_record(&mut self, map: &ConfigMap) {
        let text = map.data.as_ref().and_then(|data| data.get(KEY)).map(String::as_str).unwrap_or_default();
        let remark = match serde_json::from_str::<Progress>(text) {
            Ok(progress) if progress.schema == SCHEMA => return self.progress = Some(progress),
            Ok(progress) => {
                format!(
                    "has schema {}, but this cvo knows only schema {SCHEMA}: use the cvo of the cluster's release",
                    progress.schema
                )
            }
            Err(error) => {
                format!("is not a progress record ({error}); the daemon writes a new one at the next change")
            }
        };
        self.remarks.push(format!("Components are not shown: ConfigMap {CONFIG_MAP}, key {KEY}, {remark}"));
    }
}

/// The state as text. `width` in columns; with `usize::MAX` nothing is cut or wrapped. Durations end at `now`.
pub(crate) fn render(state: &State, width: usize, colours: bool, now: Timestamp) -> String {
    text::text(&View::of(state, now), &Page { width, colours, now })
}

pub(crate) async fn run(args: StatusArgs) -> anyhow::Result<()> {
    if let Some(file) = &args.from {
        let (state, now) = State::recorded(file)?;
        return show(&View::of(&state, now), args.output, now);
    }
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    if args.watch {
        return follow::run(&clients, &args).await;
    }
    let mut state =
        State::gather(&clients.call, &args.source).await.map_err(|error| reach::explain(&clients.server(), error))?;
    if state.cluster_version.is_none() {
        bail!(
            "this cluster has no ClusterVersion {:?}: the daemon is not installed, or --name is wrong; `cvo render \
             --help` says how to install it",
            args.source.name
        );
    }
    let now = Timestamp::now();
    state.look_behind(&clients.call, args.details, now).await;
    show(&View::of(&state, now), args.output, now)
}

/// Durations end at `now`.
fn show(view: &View, output: Output, now: Timestamp) -> anyhow::Result<()> {
    match output {
        Output::Json => print(&(serde_json::to_string_pretty(view)? + "\n")),
        Output::Text => print(&text::text(view, &Page { now, ..layout::page() })),
    }
}

#[cfg(test)]
mod tests;
