//! Acceptance lines 11 and 12 of payload-and-apply, and properties over random graphs and outcomes.

use super::super::{Graph, Node};
use super::{End, Frontier, Outcome};
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
    Graph::from_edges(weights.iter().enumerate().map(node).collect(), edges).unwrap()
}

/// Two parallel groups, then two more, then one.
fn two_stages() -> Graph {
    graph(&[1, 1, 1, 1, 1], &[(0, 2), (0, 3), (1, 2), (1, 3), (2, 4), (3, 4)])
}

/// §10.11: an error in one of two parallel groups.
#[test]
fn an_error_in_one_group_lets_the_other_end_and_holds_the_later_stages() {
    let mut frontier = Frontier::new(&two_stages());
    assert_eq!(frontier.start(), [0, 1]);
    assert!(frontier.done(0, Outcome::Failed));
    assert_eq!((frontier.end(), frontier.running()), (None, vec![1]));
    assert!(frontier.done(1, Outcome::Done));
    assert!(frontier.start().is_empty());
    assert_eq!(frontier.end(), Some(End::Blocked { failed: vec![0], pending: 3, never_started: Some(2) }));
}

/// §10.11: errors in both.
#[test]
fn both_errors_are_returned() {
    let mut frontier = Frontier::new(&two_stages());
    frontier.start();
    frontier.done(1, Outcome::Failed);
    frontier.done(0, Outcome::Failed);
    assert_eq!(frontier.end(), Some(End::Blocked { failed: vec![0, 1], pending: 3, never_started: Some(2) }));
}

/// §10.11: what waited for a failed node starts once that is done.
#[test]
fn a_failed_node_may_be_retried_and_the_pass_goes_on() {
    let mut frontier = Frontier::new(&two_stages());
    frontier.start();
    frontier.done(0, Outcome::Failed);
    frontier.done(1, Outcome::Done);
    assert!(frontier.end().is_some());
    assert!(frontier.reopen(0) && frontier.is_running(0));
    assert_eq!((frontier.end(), frontier.start()), (None, vec![]));
    frontier.done(0, Outcome::Done);
    assert_eq!((frontier.end(), frontier.start()), (None, vec![2, 3]));
    frontier.done(2, Outcome::Done);
    frontier.done(3, Outcome::Done);
    assert_eq!(frontier.start(), [4]);
    frontier.done(4, Outcome::Done);
    assert_eq!(frontier.end(), Some(End::Completed));
}

/// §10.12: while a node runs.
#[test]
fn cancel_during_a_node() {
    let mut frontier = Frontier::new(&two_stages());
    frontier.start();
    frontier.cancel();
    assert_eq!(frontier.end(), None, "what runs may end first");
    frontier.done(0, Outcome::Done);
    frontier.done(1, Outcome::Failed);
    assert!(!frontier.reopen(1), "a retry would be a start");
    assert!(frontier.start().is_empty());
    assert_eq!(frontier.end(), Some(End::Cancelled { failed: vec![1], pending: 3, never_started: Some(2) }));
}

/// §10.12: with work that could start.
#[test]
fn cancel_with_work_that_is_ready() {
    let mut frontier = Frontier::new(&two_stages());
    frontier.cancel();
    assert!(frontier.start().is_empty());
    assert_eq!(frontier.end(), Some(End::Cancelled { failed: vec![], pending: 5, never_started: Some(0) }));
}

/// §10.12: even if nothing was left to do.
#[test]
fn a_cancelled_pass_never_looks_like_success() {
    let mut frontier = Frontier::new(&graph(&[1], &[]));
    frontier.start();
    frontier.cancel();
    frontier.done(0, Outcome::Done);
    assert_eq!(frontier.end(), Some(End::Cancelled { failed: vec![], pending: 0, never_started: None }));
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
    assert!(!frontier.done(0, Outcome::Done) && !frontier.done(99, Outcome::Done) && !frontier.reopen(0));
    assert_eq!(frontier.start(), [0, 1]);
    assert!(frontier.done(0, Outcome::Done) && !frontier.done(0, Outcome::Done));
    assert!(frontier.start().is_empty(), "a doubled report must not resolve the edge of the other node");
}

#[test]
fn an_empty_graph_is_completed_at_once() {
    assert_eq!(Frontier::new(&graph(&[], &[])).end(), Some(End::Completed));
}

/// Weights, edges without a cycle whatever their direction in graph order, and a stream of choices.
fn any_pass() -> impl Strategy<Value = (Vec<usize>, Vec<(usize, usize)>, Vec<u8>)> {
    (1..24usize).prop_flat_map(|n| {
        let names = Just((0..n).collect::<Vec<_>>()).prop_shuffle();
        let edges = (names, prop::collection::vec((0..n, 0..n), 0..3 * n)).prop_map(|(names, pairs)| {
            let forward = pairs.into_iter().filter(|(a, b)| a < b);
            forward.map(|(a, b)| (names[a], names[b])).collect()
        });
        (prop::collection::vec(1..9usize, n), edges, prop::collection::vec(any::<u8>(), 1..120))
    })
}

/// Nodes that wait for one of these, over however many others, in graph order.
fn after(graph: &Graph, roots: &[usize]) -> Vec<usize> {
    let mut found: HashSet<usize> = HashSet::new();
    let mut open = roots.to_vec();
    while let Some(node) = open.pop() {
        open.extend(graph.successors(node).into_iter().filter(|next| found.insert(*next)));
    }
    let mut found: Vec<usize> = found.into_iter().collect();
    found.sort_unstable();
    found
}

/// §10.12: with one worker.
#[test]
fn cancel_with_one_worker() {
    // A runner that takes only the first of what may start keeps the rest for itself; the frontier calls it running.
    let graph = two_stages();
    let mut frontier = Frontier::new(&graph);
    let mut queue = frontier.start();
    let worked_on = queue.remove(0);
    frontier.cancel();
    frontier.done(worked_on, Outcome::Done);
    for withdrawn in queue {
        assert_eq!(frontier.end(), None);
        frontier.done(withdrawn, Outcome::Failed);
    }
    assert!(frontier.start().is_empty());
    assert_eq!(frontier.end(), Some(End::Cancelled { failed: vec![1], pending: 3, never_started: Some(2) }));
}

proptest! {
    // A failure prints its smallest input; nothing is left in the tree.
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(2000), failure_persistence: None, ..ProptestConfig::default() })]

    /// §10.11, §10.12: a runner that ends running nodes in any order, fails some, retries some, and may cancel at some moment.
    #[test]
    fn a_pass_keeps_its_promises((weights, edges, choices) in any_pass(), cancel_at in prop::option::of(0..20usize)) {
        let graph = graph(&weights, &edges);
        let mut frontier = Frontier::new(&graph);
        let (mut started, mut done, mut failed) = (HashSet::new(), HashSet::new(), HashSet::new());
        let mut cancelled = false;
        for (step, choice) in choices.iter().cycle().enumerate() {
            prop_assert!(step < 10 * weights.len() + 20, "the pass does not end");
            if cancel_at == Some(step) {
                frontier.cancel();
                cancelled = true;
            }
            let batch = frontier.start();
            prop_assert!(!cancelled || batch.is_empty(), "started after cancel");
            for pair in batch.windows(2) {
                let rank = |n: usize| (std::cmp::Reverse(graph.longest_path(n)), n);
                prop_assert!(rank(pair[0]) < rank(pair[1]));
            }
            for node in batch {
                prop_assert!(started.insert(node), "started twice");
                prop_assert!(graph.predecessors(node).iter().all(|p| done.contains(p)), "started too early");
            }
            if frontier.end().is_some() {
                break;
            }
            let running = frontier.running();
            prop_assert!(!running.is_empty(), "nothing runs, nothing starts, and no end");
            let node = running[usize::from(*choice) % running.len()];
            // A third of the nodes fail; a node fails at most once, so that every pass can end.
            if choice % 3 == 0 && failed.insert(node) {
                frontier.done(node, Outcome::Failed);
                if choice % 2 == 0 {
                    prop_assert_eq!(frontier.reopen(node), !cancelled);
                }
            } else {
                frontier.done(node, Outcome::Done);
                done.insert(node);
            }
        }
        let all: HashSet<usize> = (0..weights.len()).collect();
        let never: Vec<usize> = (0..weights.len()).filter(|node| !started.contains(node)).collect();
        match frontier.end() {
            Some(End::Completed) => {
                prop_assert!(!cancelled);
                prop_assert_eq!(&done, &all);
                prop_assert_eq!(&started, &all);
            }
            Some(End::Blocked { failed, pending, never_started }) => {
                prop_assert!(!cancelled && !failed.is_empty());
                prop_assert_eq!(&never, &after(&graph, &failed), "all that could run without the failed ones has run");
                prop_assert!(failed.iter().all(|node| !done.contains(node)));
                prop_assert_eq!((pending, never_started), (never.len(), never.first().copied()));
            }
            Some(End::Cancelled { pending, never_started, .. }) => {
                prop_assert!(cancelled);
                prop_assert_eq!((pending, never_started), (never.len(), never.first().copied()));
            }
            None => prop_assert!(false, "no end"),
        }
    }
}
