//! `cvo status`: the state of an update for people, from the ClusterVersion, the ClusterOperators and the progress
//! record (architecture §4). Reads only; what it shows is a pure function of a [`State`], a width and the time.

mod follow;
mod lines;
pub(super) mod text;
mod view;

pub(super) use text::clean;

pub use view::{Concern, OperatorConcern, Phase, View};

use super::output::say;
use super::reach;
use crate::api::progress::{CONFIG_MAP, KEY, Progress, SCHEMA};
use crate::api::{ClusterOperator, ClusterVersion, NAME, NAMESPACE};
use crate::cluster::{ApiError, Clients};
use anyhow::bail;
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, ListParams};
use std::io::IsTerminal;
use std::path::PathBuf;

/// Show how far an update is: what is done, what waits for what and since when, what is wrong, and the history.
///
/// Reads the ClusterVersion, the ClusterOperators and the daemon's progress record; changes nothing. Without a terminal
/// nothing is cut to a width, and --watch writes one line for each thing that happens instead of redrawing.
#[derive(Args, Clone, Debug)]
pub struct StatusArgs {
    /// Follow the update until interrupted
    #[arg(short, long)]
    pub watch: bool,
    /// Form of the output; with --watch, json is one object a line
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// Kubeconfig of the cluster [default: $KUBECONFIG, else ~/.kube/config, else the pod's service account]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    #[command(flatten)]
    pub source: Source,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people
    Text,
    /// For programs
    Json,
}

/// Where the daemon keeps what is shown.
#[derive(Args, Clone, Debug)]
pub struct Source {
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

/// What the cluster says about its update.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// `None`: there is none, or its kind is not defined yet.
    pub cluster_version: Option<ClusterVersion>,
    pub operators: Vec<ClusterOperator>,
    /// `None`: the daemon has not written one yet, or it cannot be read (then a remark says why).
    pub progress: Option<Progress>,
    /// What could not be read and why.
    pub remarks: Vec<String>,
}

impl State {
    /// Reads everything once. A progress record that cannot be read is a remark; without the rest there is nothing to
    /// show, which is an error.
    pub async fn gather(client: &Client, source: &Source) -> Result<State, ApiError> {
        let versions: Api<ClusterVersion> = Api::all(client.clone());
        let operators: Api<ClusterOperator> = Api::all(client.clone());
        let records: Api<ConfigMap> = Api::namespaced(client.clone(), &source.namespace);
        let everything = ListParams::default();
        let (version, operators, record) =
            tokio::join!(versions.get_opt(&source.name), operators.list(&everything), records.get_opt(CONFIG_MAP));
        let mut state = State {
            cluster_version: version
                .map_err(|error| ApiError::of(&format!("read ClusterVersion {}", source.name), error))?,
            ..State::default()
        };
        state.operators = match operators {
            Ok(list) => list.items,
            // The kind is not defined yet.
            Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
            Err(error) => return Err(ApiError::of("list the ClusterOperators", error)),
        };
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

    /// Takes the progress record out of its ConfigMap; what is no record of a schema known here becomes a remark.
    fn take_record(&mut self, map: &ConfigMap) {
        let text = map.data.as_ref().and_then(|data| data.get(KEY)).map(String::as_str).unwrap_or_default();
        let remark = match serde_json::from_str::<Progress>(text) {
            Ok(progress) if progress.schema == SCHEMA => return self.progress = Some(progress),
            Ok(progress) => {
                format!(
                    "has schema {}, this cvo knows schema {SCHEMA}: use the cvo of the cluster's release",
                    progress.schema
                )
            }
            Err(error) => {
                format!("is no progress record ({error}); the daemon writes a new one when something happens")
            }
        };
        self.remarks.push(format!("Components are not shown: ConfigMap {CONFIG_MAP}, key {KEY}, {remark}"));
    }
}

/// The state as text. `width` in columns; `usize::MAX` cuts and wraps nothing. `now` is what times are told against.
pub fn render(state: &State, width: usize, colours: bool, now: Timestamp) -> String {
    text::text(&View::of(state, now), &text::Page { width, colours, now })
}

pub async fn run(args: StatusArgs) -> anyhow::Result<()> {
    let clients = Clients::connect(args.kubeconfig.as_deref()).await?;
    if args.watch {
        return follow::run(&clients, &args).await;
    }
    let state =
        State::gather(&clients.call, &args.source).await.map_err(|error| reach::explain(&clients.server(), error))?;
    if state.cluster_version.is_none() {
        bail!(
            "this cluster has no ClusterVersion {:?}: the daemon is not installed, or --name names another one; \
             `cvo render --help` says how to install",
            args.source.name
        );
    }
    let now = Timestamp::now();
    match args.output {
        Output::Json => say(&(serde_json::to_string_pretty(&View::of(&state, now))? + "\n")),
        Output::Text => say(&render(&state, terminal().map_or(usize::MAX, |t| t.0), colours(), now)),
    }
}

/// What a page on standard output is laid out for now.
pub(super) fn page() -> text::Page {
    let width = terminal().map_or(usize::MAX, |terminal| terminal.0);
    text::Page { width, colours: colours(), now: Timestamp::now() }
}

/// Columns and rows of the terminal on standard output, if it is one.
fn terminal() -> Option<(usize, usize)> {
    if !std::io::stdout().is_terminal() {
        return None;
    }
    let size = rustix::termios::tcgetwinsize(std::io::stdout()).ok();
    let size = size.filter(|size| size.ws_col > 0 && size.ws_row > 0);
    Some(size.map_or((80, 24), |size| (size.ws_col.into(), size.ws_row.into())))
}

/// On a terminal, unless NO_COLOR is set to anything (no-color.org) or the terminal can none.
fn colours() -> bool {
    let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    terminal().is_some() && !set("NO_COLOR") && !dumb
}

#[cfg(test)]
mod tests;
