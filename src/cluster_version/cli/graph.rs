//! `cvo graph`: shows the order in which a rollout applies the manifests of a release.

use crate::cli::filters;
use crate::cli::filters::FilterArgs;
use crate::cli::folder;
use crate::cli::folder::Entry;
use crate::cli::layout::clean;
use crate::cli::output;
use crate::cluster_version::api::{NAMESPACE, OWN_DEPLOYMENT};
use crate::cluster_version::graph::{Graph, Mode, build};
use crate::object::manifest::{Manifest, ObjectId};
use clap::{ArgMatches, Args, ValueEnum};
use serde::Serialize;
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

/// Show the order in which the manifests of a release are applied
///
/// Stages are applied one after the other, and so are the manifests of a node; the nodes of a stage run in parallel. DIR is
/// the root of a release or a plain folder of manifests, as for `cvo payload list`. Only included manifests are shown.
#[derive(Args, Debug)]
pub(crate) struct GraphArgs {
    #[arg(value_name = "DIR")]
    pub dir: PathBuf,
    /// What the rollout does
    #[arg(long, value_enum, default_value_t = For::Update)]
    pub mode: For,
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    pub output: Output,
    /// With -o text: list the manifests of each node
    #[arg(long)]
    pub manifests: bool,
    #[command(flatten)]
    pub filters: FilterArgs,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum For {
    /// Install: everything in parallel, except that Jobs are waited for
    Install,
    /// Update: stage after stage
    Update,
    /// Keep the release applied: ordered like an installation
    Reconcile,
}

impl From<For> for Mode {
    fn from(mode: For) -> Mode {
        match mode {
            For::Install => Mode::Install,
            For::Update => Mode::Update,
            For::Reconcile => Mode::Reconcile,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// For people
    Text,
    /// For programs: version, mode, stages, nodes, edges
    Json,
    /// For Graphviz
    Dot,
}

/// The output of `-o json`. Nodes are referred to by id.
#[derive(Serialize)]
struct GraphJson<'a> {
    /// Empty if it is not known.
    version: &'a str,
    mode: Mode,
    stages: Vec<Stage<'a>>,
    nodes: Vec<Node<'a>>,
    edges: Vec<Edge<'a>>,
}

#[derive(Serialize)]
struct Stage<'a> {
    /// From 1.
    stage: usize,
    nodes: Vec<&'a str>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Node<'a> {
    id: &'a str,
    stage: usize,
    /// Manifests on the longest path from this node to an end, including its own: of the nodes that may start, the one with
    /// the longest path starts first.
    longest_path: usize,
    /// In the order of applying.
    manifests: Vec<Entry<'a>>,
}

/// `to` starts when `from` is done.
#[derive(Serialize)]
struct Edge<'a> {
    from: &'a str,
    to: &'a str,
}

/// What is wrong with a combination of flags that are valid one by one.
pub(crate) fn misuse(given: &ArgMatches) -> Option<String> {
    if given.get_flag("manifests") && given.get_one("output") != Some(&Output::Text) {
        return Some(
            "--manifests has an effect only with -o text: -o json always lists the manifests of each node".to_owned(),
        );
    }
    filters::misuse(given)
}

pub(crate) fn run(args: &GraphArgs) -> anyhow::Result<()> {
    let folder = folder::open(&args.dir, folder::NO_IMAGE, &args.filters)?;
    for warning in &folder.warnings {
        output::remark(&format!("warning: {}", clean(warning)));
    }
    let manifests = folder.included();
    let own = ObjectId::new("apps", "Deployment", NAMESPACE, OWN_DEPLOYMENT);
    let graph = build(&manifests, args.mode.into(), Some(&own));
    match args.output {
        Output::Text => output::to_stdout(|out| text(args.mode.into(), &graph, &manifests, args.manifests, out)),
        Output::Dot => output::to_stdout(|out| out.write_all(graph.to_dot().as_bytes())),
        Output::Json => {
            let json =
                serde_json::to_string_pretty(&graph_json(&folder.version, args.mode.into(), &graph, &manifests))?;
            output::to_stdout(|out| writeln!(out, "{json}"))
        }
    }
}

fn graph_json<'a>(version: &'a str, mode: Mode, graph: &'a Graph, manifests: &'a [Arc<Manifest>]) -> GraphJson<'a> {
    let node = |(position, node): (usize, &'a crate::cluster_version::graph::Node)| Node {
        id: &node.id,
        stage: node.stage,
        longest_path: graph.longest_path(position),
        manifests: node.manifests.iter().filter_map(|&i| manifests.get(i)).map(|m| Entry::of(m)).collect(),
    };
    let ids = |positions: Vec<usize>| positions.into_iter().filter_map(|i| graph.node(i)).map(|node| node.id.as_str());
    let edges = |(position, node): (usize, &'a crate::cluster_version::graph::Node)| {
        ids(graph.successors(position)).map(|to| Edge { from: &node.id, to }).collect::<Vec<_>>()
    };
    let stage = |nodes: &'a [crate::cluster_version::graph::Node]| Stage {
        stage: nodes.first().map_or(0, |node| node.stage),
        nodes: nodes.iter().map(|node| node.id.as_str()).collect(),
    };
    GraphJson {
        version,
        mode,
        stages: graph.nodes().chunk_by(|a, b| a.stage == b.stage).map(stage).collect(),
        nodes: graph.nodes().iter().enumerate().map(node).collect(),
        edges: graph.nodes().iter().enumerate().flat_map(edges).collect(),
    }
}

fn text(mode: Mode, graph: &Graph, manifests: &[Arc<Manifest>], each: bool, out: &mut impl Write) -> io::Result<()> {
    let nodes = graph.nodes();
    let stages = nodes.last().map_or(0, |node| node.stage);
    let mode = match mode {
        Mode::Install => "install",
        Mode::Update => "update",
        Mode::Reconcile => "reconcile",
    };
    writeln!(out, "{mode}: {stages} stages, {} nodes, {} manifests", nodes.len(), manifests.len())?;
    let width = nodes.iter().map(|node| clean(&node.id).chars().count()).max().unwrap_or(0);
    let mut last = 0;
    for (position, node) in nodes.iter().enumerate() {
        if node.stage != last {
            last = node.stage;
            writeln!(out, "\nstage {last}{}", if last > 1 { ", once the previous one is done" } else { "" })?;
        }
        let same = graph.predecessors(position).into_iter().filter_map(|i| graph.node(i)).filter(|n| n.stage == last);
        let after: Vec<_> = same.map(|n| clean(&n.id).into_owned()).collect();
        let after = if after.is_empty() { String::new() } else { format!(", after {}", after.join(", ")) };
        let members = || node.manifests.iter().filter_map(|&i| manifests.get(i));
        let operators: Vec<_> =
            members().filter(|m| m.id.kind == "ClusterOperator").map(|m| clean(&m.id.name).into_owned()).collect();
        let gate = if operators.is_empty() { String::new() } else { format!(", operator {}", operators.join(", ")) };
        let count = node.manifests.len();
        let several = if count == 1 { "" } else { "s" };
        writeln!(out, "  {:width$}  {count:3} manifest{several}{after}{gate}", clean(&node.id))?;
        for manifest in members().filter(|_| each) {
            writeln!(out, "      {}  ({})", clean(&manifest.id.to_string()), clean(&manifest.file))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
