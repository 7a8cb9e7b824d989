//! Run levels and components as a graph, and the frontier of what may start (payload-and-apply §3).
//!
//! Outside this room a node is its position in graph order (`usize`); petgraph's own indices stay in here.

pub mod build;
pub mod frontier;

pub use build::build;
pub use frontier::Frontier;

use petgraph::Direction;
use petgraph::algo::{has_path_connecting, tarjan_scc, toposort};
use petgraph::dot::{Config, Dot};
use petgraph::graph::{DiGraph, NodeIndex};
use serde::{Deserialize, Serialize};

/// How a pass walks the graph (payload-and-apply §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No Completed entry in history: everything at once, Jobs are barriers.
    Install,
    /// Stages in sequence, components of a stage in parallel.
    Update,
    /// The wanted release is in place: everything at once.
    Reconcile,
}

/// Manifests that are applied one after the other: one component of one level, a Job, or a file without a level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Node {
    /// `stage/level/component`, or `stage/-/file` for a file without a level; a repeated one ends in `#2`, `#3`, ...
    /// The same in plan, status, page, metrics and events.
    pub id: String,
    /// From 1. In an update nothing of a stage starts before the stage before it has ended.
    pub stage: usize,
    /// Positions in the list the graph was built from, in the order of applying; never empty in a built graph.
    pub manifests: Vec<usize>,
}

/// A graph that cannot be walked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GraphError {
    #[error(
        "these nodes wait for each other, so none of them could ever start: {}; remove one of the edges between them",
        .cycles.iter().map(|members| members.join(", ")).collect::<Vec<_>>().join(" | ")
    )]
    Cycle {
        /// Ids of the members, in graph order; one list a cycle.
        cycles: Vec<Vec<String>>,
    },
    #[error("an edge leads from node {from} to node {to}, but there are only {nodes} nodes, counted from 0")]
    NoSuchNode { from: usize, to: usize, nodes: usize },
}

/// What waits for what. Never cyclic: a cycle is found when the graph is made.
#[derive(Clone, Debug)]
pub struct Graph {
    nodes: Vec<Node>,
    /// Node `i` of `nodes` is petgraph's node `i`; nodes are only ever added.
    shape: DiGraph<(), ()>,
    /// Node by manifest position.
    node_of: Vec<Option<usize>>,
    /// Manifests on the heaviest way from a node to an end, its own included.
    longest: Vec<usize>,
}

impl Graph {
    /// A graph from nodes and edges `(before, after)`; doubled edges count once.
    pub fn from_edges(nodes: Vec<Node>, edges: &[(usize, usize)]) -> Result<Graph, GraphError> {
        let mut shape = DiGraph::with_capacity(nodes.len(), edges.len());
        for _ in &nodes {
            shape.add_node(());
        }
        for &(from, to) in edges {
            if from >= nodes.len() || to >= nodes.len() {
                return Err(GraphError::NoSuchNode { from, to, nodes: nodes.len() });
            }
            shape.update_edge(NodeIndex::new(from), NodeIndex::new(to), ());
        }
        let order = match toposort(&shape, None) {
            Ok(order) => order,
            Err(cycle) => return Err(cycles(&nodes, &shape, cycle.node_id())),
        };
        Ok(Graph::assemble(nodes, shape, &order))
    }

    /// `order` lists every node after all nodes it waits for.
    fn assemble(nodes: Vec<Node>, shape: DiGraph<(), ()>, order: &[NodeIndex]) -> Graph {
        let longest = longest_paths(&nodes, &shape, order);
        let node_of = positions(&nodes);
        Graph { nodes, shape, node_of, longest }
    }

    /// All nodes in graph order: stage by stage, inside a stage as loaded.
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

    /// Whether the second node waits for the first one, directly or not.
    pub fn is_before(&self, first: usize, second: usize) -> bool {
        first != second
            && first.max(second) < self.len()
            && has_path_connecting(&self.shape, NodeIndex::new(first), NodeIndex::new(second), None)
    }

    /// The node that applies the manifest at this position; `None` for a position that was not in the list.
    pub fn node_of(&self, manifest: usize) -> Option<usize> {
        self.node_of.get(manifest).copied().flatten()
    }

    /// Manifests on the heaviest way from this node to an end of the graph, its own included: how urgent it is.
    pub fn longest_path(&self, node: usize) -> usize {
        self.longest.get(node).copied().unwrap_or_default()
    }

    /// The graph in Graphviz's language.
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

/// Names the members of every cycle. `met` is the node at which sorting gave up; it alone is named if, against
/// expectation, no component holds a cycle, so that the report is never empty.
fn cycles(nodes: &[Node], shape: &DiGraph<(), ()>, met: NodeIndex) -> GraphError {
    let name = |index: &NodeIndex| nodes.get(index.index()).map(|n| n.id.clone()).unwrap_or_default();
    let mut found: Vec<Vec<NodeIndex>> = tarjan_scc(shape)
        .into_iter()
        .filter(|members| members.len() > 1 || members.first().is_some_and(|&one| shape.contains_edge(one, one)))
        .collect();
    if found.is_empty() {
        found.push(vec![met]);
    }
    for members in &mut found {
        members.sort_unstable();
    }
    found.sort_unstable();
    GraphError::Cycle { cycles: found.iter().map(|members| members.iter().map(name).collect()).collect() }
}

fn longest_paths(nodes: &[Node], shape: &DiGraph<(), ()>, order: &[NodeIndex]) -> Vec<usize> {
    let mut longest = vec![0; nodes.len()];
    for &index in order.iter().rev() {
        let below = shape.neighbors(index).filter_map(|next| longest.get(next.index()).copied()).max().unwrap_or(0);
        let own = nodes.get(index.index()).map_or(0, |node| node.manifests.len());
        if let Some(slot) = longest.get_mut(index.index()) {
            *slot = own + below;
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
mod tests {
    use super::*;

    fn nodes(weights: &[usize]) -> Vec<Node> {
        let mut next = 0;
        let node = |(i, &weight): (usize, &usize)| {
            let manifests = (next..next + weight).collect();
            next += weight;
            Node { id: format!("1/10/{}", char::from(b'a' + i as u8)), stage: 1, manifests }
        };
        weights.iter().enumerate().map(node).collect()
    }

    #[test]
    fn a_cycle_is_reported_with_all_its_members_and_only_them() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 1), (3, 4), (5, 5)];
        let error = Graph::from_edges(nodes(&[1; 6]), &edges).unwrap_err();
        let members = |names: &[&str]| names.iter().map(|n| format!("1/10/{n}")).collect::<Vec<_>>();
        assert_eq!(error, GraphError::Cycle { cycles: vec![members(&["b", "c", "d"]), members(&["f"])] });
        assert!(error.to_string().contains("1/10/b, 1/10/c, 1/10/d | 1/10/f"), "{error}");
    }

    #[test]
    fn an_edge_to_nowhere_is_refused() {
        let error = Graph::from_edges(nodes(&[1, 1]), &[(0, 2)]).unwrap_err();
        assert_eq!(error, GraphError::NoSuchNode { from: 0, to: 2, nodes: 2 });
    }

    #[test]
    fn longest_path_counts_manifests_not_nodes() {
        // a(1) -> b(5) -> d(1); a -> c(1) -> d; e(3) alone
        let graph = Graph::from_edges(nodes(&[1, 5, 1, 1, 3]), &[(0, 1), (0, 2), (1, 3), (2, 3)]).unwrap();
        let longest: Vec<usize> = (0..6).map(|i| graph.longest_path(i)).collect();
        assert_eq!(longest, [7, 6, 2, 1, 3, 0]);
        assert_eq!((graph.predecessors(3), graph.successors(0)), (vec![1, 2], vec![1, 2]));
        assert_eq!((graph.predecessors(9), graph.successors(9)), (vec![], vec![]));
        assert_eq!(
            (graph.node_of(0), graph.node_of(5), graph.node_of(10), graph.node_of(11)),
            (Some(0), Some(1), Some(4), None)
        );
    }

    #[test]
    fn dot_names_nodes_and_edges() {
        let mut two = nodes(&[1, 2]);
        two[1].id = "2/-/odd\"name".into();
        let dot = Graph::from_edges(two, &[(0, 1)]).unwrap().to_dot();
        for part in ["digraph", "1/10/a\\n1 manifests", "2/-/odd\\\"name\\n2 manifests", "0 -> 1"] {
            assert!(dot.contains(part), "{part} not in {dot}");
        }
    }
}
