//! Which nodes may start: those whose predecessors are all done. A node that waits at a gate or is tried again is still
//! running, so that nothing behind it starts. Nothing here knows time, tasks or clusters.

use super::Graph;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not started; the number of predecessors that are not done.
    Pending(usize),
    Running,
    Done,
}

/// State of one rollout over a graph.
#[derive(Clone, Debug)]
pub(crate) struct Frontier {
    states: Vec<State>,
    successors: Vec<Vec<usize>>,
    urgency: Vec<usize>,
    /// Pending nodes without open edges: the heaviest way first, then graph order.
    ready: BinaryHeap<(usize, Reverse<usize>)>,
}

impl Frontier {
    pub(crate) fn new(graph: &Graph) -> Self {
        let all = 0..graph.len();
        let mut frontier = Frontier {
            states: all.clone().map(|node| State::Pending(graph.predecessors(node).len())).collect(),
            successors: all.clone().map(|node| graph.successors(node)).collect(),
            urgency: all.clone().map(|node| graph.longest_path(node)).collect(),
            ready: BinaryHeap::new(),
        };
        for node in all {
            frontier.queue_if_ready(node);
        }
        frontier
    }

    /// All nodes that may start now and were not started before; they count as running from here on. The one with
    /// the most manifests on its way to an end comes first.
    pub(crate) fn start(&mut self) -> Vec<usize> {
        let mut started = Vec::with_capacity(self.ready.len());
        while let Some((_, Reverse(node))) = self.ready.pop() {
            self.set(node, State::Running);
            started.push(node);
        }
        started
    }

    /// A running node is done: all its manifests are applied and all its gates passed. `false`, and no effect, if that node
    /// is not running.
    pub(crate) fn done(&mut self, node: usize) -> bool {
        if !self.is_running(node) {
            return false;
        }
        self.set(node, State::Done);
        for next in self.successors.get(node).cloned().unwrap_or_default() {
            if let Some(State::Pending(open)) = self.states.get_mut(next) {
                *open = open.saturating_sub(1);
            }
            self.queue_if_ready(next);
        }
        true
    }

    pub(crate) fn is_running(&self, node: usize) -> bool {
        self.states.get(node) == Some(&State::Running)
    }

    /// Running nodes in graph order.
    pub(crate) fn running(&self) -> Vec<usize> {
        self.states.iter().enumerate().filter(|(_, state)| **state == State::Running).map(|(node, _)| node).collect()
    }

    /// Every node is done.
    pub(crate) fn is_completed(&self) -> bool {
        self.states.iter().all(|state| *state == State::Done)
    }

    fn set(&mut self, node: usize, state: State) {
        if let Some(slot) = self.states.get_mut(node) {
            *slot = state;
        }
    }

    fn queue_if_ready(&mut self, node: usize) {
        if self.states.get(node) == Some(&State::Pending(0)) {
            self.ready.push((self.urgency.get(node).copied().unwrap_or_default(), Reverse(node)));
        }
    }
}

#[cfg(test)]
mod tests;
