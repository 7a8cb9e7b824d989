//! Tables over small graphs, and properties over random ones.

use super::super::{Graph, Node};
use super::Frontier;
use proptest::prelude::*;
use std::collections::HashSet;

/// Nodes with the given numbers of manifests.
fn graph(weights: &[usize], edges: &[(usize, usize)]) -> Graph {
    let mut next = 0;
    let node = |(i, &weight): (usize, &usize)| {
        let manifests = (next..next + weight).collect();
        next += weight;
        Node { id: format!("1/10/n{i}"), stage: 1, manifests }
    };
    Graph::from_edges(weights.iter().enumerate().map(node).collect(), edges)
}

/// Two parallel groups, then two more, then one.
fn two_stages() -> Graph {
    graph(&[1, 1, 1, 1, 1], &[(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 4)])
}

#[test]
fn node_that_is_not_done_lets_the_others_go_on_and_holds_the_later_stages() {
    let mut frontier = Frontier::new(&two_stages());
    assert_eq!(frontier.start(), [0, 1]);
    assert!(frontier.done(1));
    assert_eq!((frontier.start(), frontier.running(), frontier.is_completed()), (vec![], vec![0], false));
    assert!(frontier.done(0));
    assert_eq!(frontier.start(), [2, 3]);
    frontier.done(2);
    frontier.done(3);
    assert_eq!((frontier.start(), frontier.is_completed()), (vec![4], false));
    frontier.done(4);
    assert!(frontier.is_completed());
}

#[test]
fn the_longest_way_starts_first_and_graph_order_breaks_ties() {
    // 0 is light but leads to a heavy node; 1 and 2 tie; 3 is heavy itself.
    let mut frontier = Frontier::new(&graph(&[1, 3, 3, 7, 9], &[(0, 4)]));
    assert_eq!(frontier.start(), [0, 3, 1, 2]);
}

#[test]
fn reports_about_nodes_that_do_not_run_change_nothing() {
    let mut frontier = Frontier::new(&two_stages());
    assert!(!frontier.done(0) && !frontier.done(99));
    assert_eq!(frontier.start(), [0, 1]);
    assert!(frontier.done(0) && !frontier.done(0));
    assert!(frontier.start().is_empty(), "a doubled report must not resolve the edge of the other node");
}

#[test]
fn empty_graph_is_completed_at_once() {
    assert!(Frontier::new(&graph(&[], &[])).is_completed());
}

/// Weights, edges without a cycle whatever their direction in graph order, and a stream of choices.
fn any_rollout() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize)>, Vec<u8>)> {
    (1..24usize).prop_flat_map(|n| {
        let names = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
        let edges = (names, prop::collection::vec((0..n, 0..n), 0..3 * n)).prop_map(|(names, pairs)| {
            let forward = pairs.into_iter().filter(|(a, b)| a < b);
            forward.map(|(a, b)| (names[a], names[b])).collect()
        });
        (prop::collection::vec(1..9usize, n), edges, prop::collection::vec(any::<u8>(), 1..120))
    })
}

proptest! {
    // A failure prints its smallest input; nothing is left in the tree.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), failure_persistence: None, ..ProptestConfig::default() })]

    /// A runner that ends running nodes in any order, and never ends some.
    #[test]
    fn rollout_keeps_its_promises((weights, edges, choices) in any_rollout()) {
        let graph = graph(&weights, &edges);
        let mut frontier = Frontier::new(&graph);
        let (mut started, mut done, mut stuck) = (HashSet::new(), HashSet::new(), HashSet::new());
        for (step, choice) in choices.iter().cycle().enumerate() {
            prop_assert!(step < 10 * weights.len() + 20, "the rollout does not end");
            let batch = frontier.start();
            for pair in batch.windows(2) {
                let rank = |n: usize| (std::cmp::Reverse(graph.longest_path(n)), n);
                prop_assert!(rank(pair[0]) < rank(pair[1]));
            }
            for node in batch {
                prop_assert!(started.insert(node), "started twice");
                prop_assert!(graph.predecessors(node).iter().all(|p| done.contains(p)), "started too early");
            }
            let open: Vec<usize> = frontier.running().into_iter().filter(|node| !stuck.contains(node)).collect();
            let Some(node) = open.get(usize::from(*choice) % open.len().max(1)) else { break };
            if choice % 3 == 0 {
                stuck.insert(*node);
            } else {
                prop_assert!(frontier.done(*node));
                done.insert(*node);
            }
        }
        prop_assert_eq!(frontier.is_completed(), done.len() == weights.len());
        let held = |node: &usize| stuck.iter().any(|first| graph.is_before(*first, *node));
        let never: Vec<usize> = (0..weights.len()).filter(|node| !started.contains(node)).collect();
        prop_assert!(never.iter().all(held), "all that could run without the stuck ones has run");
    }
}
