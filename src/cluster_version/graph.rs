//! The graph of a rollout: which manifests are applied in order, and what waits for what.
//!
//! Outside of this module a node is its position in graph order (`usize`); petgraph's indices stay inside.

pub(crate) mod build;
pub(crate) mod frontier;

pub(crate) use build::build;
pub(crate) use frontier::Frontier;

use petgraph::Direction;
use petgraph::algo::{has_path_connecting, toposort};
use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, NodeIndex};
use serde::{Deserialize, Serialize};

/// How a rollout orders the manifests, and what its gates wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No release was ever applied completely: everything at once, except that Jobs are barriers.
    Install,
    /// Another release was applied before: stages in sequence, components of a stage in parallel.
    Update,
    /// This release was applied before: everything at once, except that Jobs are barriers.
    Reconcile,
}

/// Manifests that are applied in order: one component of one run level, a Job, or a file without a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `stage/level/component`, or `stage/-/file` for a file without a level. A repeated id ends in `#2`, `#3` and so on.
    /// Plan, status, page, metrics and events all use this id.
    pub id: String,
    /// From 1. In an update no node of a stage starts before all nodes of the stages before it are done.
    pub stage: usize,
    /// Positions in the list from which the graph was built, in the order of applying. Never empty.
    pub manifests: Vec<usize>,
}

/// Nodes and edges. Every edge leads from an earlier node to a later one, so there is no cycle.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    /// Node `i` of `nodes` is node `i` of petgraph.
    shape: DiGraph<(), ()>,
    /// Node by manifest position.
    node_of: Vec<Option<usize>>,
    /// For each node the number of manifests on the longest path that starts with it.
    longest: Vec<usize>,
}

impl Graph {
    fn new(nodes: Vec<Node>, shape: DiGraph<(), ()>) -> Graph {
        let longest = longest_paths(&nodes, &shape);
        let node_of = positions(&nodes);
        Graph { nodes, shape, node_of, longest }
    }

    /// A graph with edges `(before, after)`.
    #[cfg(test)]
    fn from_edges(nodes: Vec<Node>, edges: &[(usize, usize)]) -> Graph {
        let mut shape = DiGraph::new();
        for _ in &nodes {
            shape.add_node(());
        }
        for &(from, to) in edges {
            shape.update_edge(NodeIndex::new(from), NodeIndex::new(to), ());
        }
        Graph::new(nodes, shape)
    }

    /// All nodes in graph order: stage by stage, and inside a stage in load order.
    pub fn nodes(&self) -> &[Node] {
        &self.nodes
    }

    pub fn node(&self, node: usize) -> Option<&Node> {
        self.nodes.get(node)
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// Nodes that must be done before this one starts, in graph order.
    pub fn predecessors(&self, node: usize) -> Vec<usize> {
        self.neighbours(node, Direction::Incoming)
    }

    /// Nodes that wait for this one, in graph order.
    pub fn successors(&self, node: usize) -> Vec<usize> {
        self.neighbours(node, Direction::Outgoing)
    }

    /// Whether the second node waits for the first one, directly or indirectly.
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        first != second
            && first.max(second) < self.len()
            && has_path_connecting(&self.shape, NodeIndex::new(first), NodeIndex::new(second), None)
    }

    /// The node that applies the manifest at this position.
    pub fn node_of(&self, manifest: usize) -> Option<usize> {
        self.node_of.get(manifest).copied().flatten()
    }

    /// Number of manifests on the longest path that starts with this node. Nodes with longer paths are more urgent.
    pub fn longest_path(&self, node: usize) -> usize {
        self.longest.get(node).copied().unwrap_or_default()
    }

    /// The graph in Graphviz' DOT language.
    pub fn to_dot(&self) -> String {
        let label = |_: &DiGraph<(), ()>, (index, ()): (NodeIndex, &())| {
            let Some(node) = self.nodes.get(index.index()) else { return String::new() };
            let text = format!("{}\n{} manifests", node.id, node.manifests.len());
            format!("label={text:?} shape=box")
        };
        let config = [Config::EdgeNoLabel, Config::NodeNoLabel];
        format!("{:?}", Dot::with_attr_getters(&self.shape, &config, &|_, _| String::new(), &label))
    }

    fn neighbours(&self, node: usize, direction: Direction) -> Vec<usize> {
        let mut found: Vec<usize> =
            self.shape.neighbors_directed(NodeIndex::new(node), direction).map(NodeIndex::index).collect();
        found.sort_unstable();
        found
    }
}

fn longest_paths(nodes: &[Node], shape: &DiGraph<(), ()>) -> Vec<usize> {
    let mut longest = vec![0; nodes.len()];
    // From the last node on, so that the paths of a node's successors are known. Sorting fails for a cycle only.
    for index in toposort(shape, None).unwrap_or_default().into_iter().rev() {
        let rest = shape.neighbors(index).filter_map(|next| longest.get(next.index()).copied()).max().unwrap_or(0);
        let own = nodes.get(index.index()).map_or(0, |node| node.manifests.len());
        if let Some(slot) = longest.get_mut(index.index()) {
            *slot = own + rest;
        }
    }
    longest
}

fn positions(nodes: &[Node]) -> Vec<Option<usize>> {
    let last = nodes.iter().flat_map(|node| &node.manifests).max();
    let mut node_of = vec![None; last.map_or(0, |&position| position + 1)];
    for (i, node) in nodes.iter().enumerate() {
        for &position in &node.manifests {
            if let Some(slot) = node_of.get_mut(position) {
                *slot = Some(i);
            }
        }
    }
    node_of
}

#[cfg(test)]
mod tests;
