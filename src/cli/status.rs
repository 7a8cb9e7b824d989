//! `cvo status`: shows the state of an update from the ClusterVersion, the ClusterOperators and the progress record. Only
//! reads; its output is a function of a [`State`], a width and the time.

mod details;
mod follow;
mod installed;
mod lines;
pub(crate) mod next_step;
mod pools;
mod recorded;
pub(crate) mod text;
mod view;

pub(crate) use crate::cluster_version::cli::request::Source;
pub(crate) use follow::Follower;
pub(crate) use recorded::{Archive, Recorded};
pub(crate) use view::{Concern, Phase, View, component};

use super::layout::{self, Page};
use super::output::print;
use super::reach;
use crate::cluster::{ApiError, Clients};
use crate::cluster_version::api::ClusterVersion;
use crate::cluster_version::progress::{CONFIG_MAP, KEY, Progress, SCHEMA};
use crate::cluster_version::work::silence;
use crate::diagnosis::lease::{Holder, Silence};
use crate::diagnosis::pods::Detail;
use crate::machine_config::api::machine_config;
use crate::machine_config::api::machine_config::MachineConfigPool;
use crate::object::cluster_operator::ClusterOperator;
use crate::object::read::Read;
use crate::olm::cli::status as olm;
use crate::olm::cli::status::{Lists, Objects, What};
use anyhow::bail;
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::Client;
use kube::api::{Api, ListParams};
use std::path::PathBuf;
use std::sync::Arc;

/// Show the progress of an update: what is done, what waits for what and since when, what is wrong, and the history
///
/// Reads the ClusterVersion, the ClusterOperators, pools and nodes, the daemon's progress record, and Subscriptions and
/// ClusterServiceVersions, and changes nothing. Of the operators that were installed it says how many are well, and which stand in the way of
/// an update; cvo olm status says more of each. If standard output is not a terminal, lines are not cut or wrapped, and --watch writes one
/// line for each change instead of redrawing.
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

/// What is wrong with a combination of flags of a command that shows a cluster, or with --from a file of one.
pub(crate) fn misuse(given: &ArgMatches) -> Option<String> {
    given.value_source("from")?;
    let on_the_line = |name: &&str| given.value_source(name) == Some(ValueSource::CommandLine);
    let flag = ["namespace", "name"].into_iter().find(on_the_line)?;
    Some(format!("--{flag} has no effect with --from: the file has the objects of one cluster version"))
}

/// The controller of nodes, where there are pools.
const OF_NODES: Holder<'static> = Holder {
    process: "the controller of nodes",
    namespace: machine_config::CONTROLLER_NAMESPACE,
    name: machine_config::LEASE,
    deployment: machine_config::CONTROLLER_DEPLOYMENT,
    // Pools may belong to another implementation.
    required: false,
};

impl Source {
    /// Who writes what a state shows.
    fn holders(&self, cluster_version: bool, pools: bool) -> Vec<Holder<'_>> {
        let daemon = cluster_version.then(|| silence::of_daemon(&self.namespace, &self.name));
        let nodes = pools.then_some(OF_NODES);
        daemon.into_iter().chain(nodes).collect()
    }
}

/// Those of the cluster, absent where their kind does not exist.
pub(crate) type Operators = Read<Vec<ClusterOperator>>;

/// The objects of the cluster that describe its update.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    /// `None` if it or its kind does not exist.
    pub cluster_version: Option<ClusterVersion>,
    pub operators: Operators,
    /// What says where the operators that were installed stand. Absent if it was not read, too.
    pub installed: Read<Objects>,
    /// `None` if the daemon has not written one yet, or it cannot be read; then a remark says why.
    pub progress: Option<Progress>,
    /// Empty where nodes are not configured by pools.
    pub pools: Vec<MachineConfigPool>,
    /// Read only if there are pools.
    pub nodes: Vec<Node>,
    /// Processes that should renew their Leases, and do not: what they write is as old as that.
    pub silences: Vec<Silence>,
    /// What is behind what is waited for, if that was looked at.
    pub details: Vec<Detail>,
    /// What could not be read and why.
    pub remarks: Vec<String>,
}

impl State {
    /// Nodes can be configured by pools without a ClusterVersion.
    fn has_something_to_show(&self) -> bool {
        self.cluster_version.is_some() || !self.pools.is_empty()
    }

    /// Follows what is waited for down to the pods, and tells what was left out.
    pub(crate) async fn look_behind(&mut self, client: &Client, all: bool, now: Timestamp) {
        self.find_causes(client, all, now).await;
        self.remarks.extend(details::left_out(&View::of(self, now), all));
    }

    /// The same without that, for whoever shows no more than one cause.
    pub(crate) async fn find_causes(&mut self, client: &Client, all: bool, now: Timestamp) {
        let view = View::of(self, now);
        let mut remarks = std::mem::take(&mut self.remarks);
        let details = details::gather(client, &view, &self.operators, all, now, &mut remarks).await;
        (self.details, self.remarks) = (details, remarks);
    }

    /// What is waited for and what is not well, and since when.
    pub(crate) fn awaited(&self, now: Timestamp) -> Vec<(String, Option<Timestamp>)> {
        details::since(&View::of(self, now))
    }

    /// Finds out why the daemon does not renew its Lease, if it does not.
    pub(crate) async fn explain_silence(&mut self, clients: &Clients, source: &Source) {
        silence::explain(clients, &source.namespace, &source.name, &mut self.silences, &mut self.remarks).await;
    }

    /// Reads what says where installed operators stand.
    pub(crate) async fn take_installed(&mut self, clients: &Clients, kinds: &[What]) -> Lists {
        let read = olm::read(clients, "", kinds).await;
        let text = |error: ApiError| error.to_string();
        let lists: Lists = read.into_iter().map(|(what, list)| (what, list.map_err(text))).collect();
        self.installed = of_lists(lists.clone());
        lists
    }

    /// Those that were read.
    pub(crate) fn operators(&self) -> &[ClusterOperator] {
        if let Read::Value(operators) = &self.operators { operators } else { &[] }
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
        state.take_operators(operators.map(|list| list.items));
        state.take_pools(client, pools.map(|list| list.items)).await;
        match record {
            Ok(Some(map)) => state.take_record(&map),
            Ok(None) => {}
            Err(error) => state.remarks.push(format!(
                "The progress record {}/{CONFIG_MAP} cannot be read, so components are not shown: {error}",
                source.namespace
            )),
        }
        if state.cluster_version.is_some() || !state.pools.is_empty() {
            state.take_silences(client, source).await;
        }
        Ok(state)
    }

    /// What cannot be read is a remark: the rest of the state is worth seeing.
    fn take_operators(&mut self, operators: kube::Result<Vec<ClusterOperator>>) {
        self.operators = match operators {
            Ok(operators) => Read::Value(operators),
            // The kind does not exist yet.
            Err(kube::Error::Api(status)) if status.code == 404 => Read::Absent,
            Err(error) => Read::Failed(ApiError::of("list the ClusterOperators", error).to_string()),
        };
        if let Read::Failed(error) = &self.operators {
            self.remarks.push(format!("Operators are not shown: {error}"));
        }
    }

    async fn take_silences(&mut self, client: &Client, source: &Source) {
        let holders = source.holders(self.cluster_version.is_some(), !self.pools.is_empty());
        match silence::look(client, &holders).await {
            Ok(silences) => self.silences = silences,
            Err(error) => self.remarks.push(format!("Whether what is shown is up to date is not known: {error}")),
        }
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

/// Nothing can be said of operators without their ClusterServiceVersions.
fn of_lists(lists: Lists) -> Read<Objects> {
    let failed = |list: &Result<_, String>| list.as_ref().err().cloned();
    match lists.get(&What::Versions) {
        Some(Ok(_)) => Read::Value(Objects::of(lists)),
        Some(Err(error)) => Read::Failed(error.clone()),
        // That there are none is not known where something else could not be read.
        None => lists.values().find_map(failed).map_or(Read::Absent, Read::Failed),
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
        return follow::run(Arc::new(clients), &args).await;
    }
    let mut state =
        State::gather(&clients.call, &args.source).await.map_err(|error| reach::explain(&clients.server(), error))?;
    if !state.has_something_to_show() {
        bail!(
            "this cluster has no ClusterVersion {:?}: the daemon is not installed, or --name is wrong; `cvo render \
             --help` says how to install it",
            args.source.name
        );
    }
    let now = Timestamp::now();
    state.take_installed(&clients, &What::FEW).await;
    state.explain_silence(&clients, &args.source).await;
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
pub(crate) mod tests;
