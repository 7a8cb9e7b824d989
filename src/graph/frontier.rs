//! Which nodes may start: the executor's state without the executor (payload-and-apply §3.6).
//!
//! A runner asks `start`, runs what it is given, reports with `done`, and asks again until `end` answers. A node that
//! waits at a gate is still running. Nothing here knows time, tasks or clusters.

use super::Graph;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// What came of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// All its manifests are written and all its gates passed.
    Done,
    /// It ended early: what waits for it stays where it is, the rest goes on.
    Failed,
}

/// How a pass ended. Nodes are positions in graph order, lists of them ascending.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Every node is done and nobody cancelled.
    Completed,
    /// Some nodes failed, and all that could run without them has run.
    Blocked {
        failed: Vec<usize>,
        /// Nodes that were never started.
        pending: usize,
        /// The first of them.
        never_started: Option<usize>,
    },
    /// The pass was cancelled and what ran then has ended. Never a success, even if nothing was left to do.
    Cancelled { failed: Vec<usize>, pending: usize, never_started: Option<usize> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Not started; the number of predecessors that are not done.
    Pending(usize),
    Running,
    Done,
    Failed,
}

/// State of one pass over a graph.
#[derive(Clone, Debug)]
pub struct Frontier {
    states: Vec<State>,
    successors: Vec<Vec<usize>>,
    urgency: Vec<usize>,
    /// Pending nodes without open edges: the heaviest way first, then graph order.
    ready: BinaryHeap<(usize, Reverse<usize>)>,
    running: usize,
    cancelled: bool,
}

impl Frontier {
    pub fn new(graph: &Graph) -> Self {
        let all = 0..graph.len();
        let mut frontier = Frontier {
            states: all.clone().map(|node| State::Pending(graph.predecessors(node).len())).collect(),
            successors: all.clone().map(|node| graph.successors(node)).collect(),
            urgency: all.clone().map(|node| graph.longest_path(node)).collect(),
            ready: BinaryHeap::new(),
            running: 0,
            cancelled: false,
        };
        for node in all {
            frontier.queue_if_ready(node);
        }
        frontier
    }

    /// All nodes that may start now and were not started before; they count as running from here on. The one with
    /// the most manifests on its way to an end comes first. Empty after `cancel`.
    pub fn start(&mut self) -> Vec<usize> {
        let mut started = Vec::with_capacity(self.ready.len());
        while let Some((_, Reverse(node))) = self.ready.pop() {
            self.set(node, State::Running);
            started.push(node);
        }
        started
    }

    /// Reports what came of a running node. `false`, and no effect, if that node is not running.
    pub fn done(&mut self, node: usize, outcome: Outcome) -> bool {
        if !self.is_running(node) {
            return false;
        }
        match outcome {
            Outcome::Failed => self.set(node, State::Failed),
            Outcome::Done => {
                self.set(node, State::Done);
                for next in self.successors.get(node).cloned().unwrap_or_default() {
                    if let Some(State::Pending(open)) = self.states.get_mut(next) {
                        *open = open.saturating_sub(1);
                    }
                    self.queue_if_ready(next);
                }
            }
        }
        true
    }

    /// A failed node is tried again by its runner and counts as running. `false`, and no effect, if it has not failed
    /// or the pass is cancelled.
    pub fn reopen(&mut self, node: usize) -> bool {
        let again = !self.cancelled && self.states.get(node) == Some(&State::Failed);
        if again {
            self.set(node, State::Running);
        }
        again
    }

    /// From here on nothing starts. What runs may end; the pass ends with it, as cancelled.
    pub fn cancel(&mut self) {
        self.cancelled = true;
        self.ready.clear();
    }

    pub fn is_running(&self, node: usize) -> bool {
        self.states.get(node) == Some(&State::Running)
    }

    /// Running nodes in graph order.
    pub fn running(&self) -> Vec<usize> {
        self.having(|state| state == State::Running)
    }

    /// How the pass ended; `None` while a node runs or may start.
    pub fn end(&self) -> Option<End> {
        if self.running > 0 || !self.ready.is_empty() {
            return None;
        }
        let failed = self.having(|state| state == State::Failed);
        let waiting = self.having(|state| matches!(state, State::Pending(_)));
        let (pending, never_started) = (waiting.len(), waiting.first().copied());
        Some(match (self.cancelled, pending + failed.len()) {
            (true, _) => End::Cancelled { failed, pending, never_started },
            (false, 0) => End::Completed,
            (false, _) => End::Blocked { failed, pending, never_started },
        })
    }

    fn having(&self, wanted: impl Fn(State) -> bool) -> Vec<usize> {
        self.states.iter().enumerate().filter(|(_, state)| wanted(**state)).map(|(node, _)| node).collect()
    }

    /// The only place where a node begins or stops running, so that the count cannot go astray.
    fn set(&mut self, node: usize, state: State) {
        if let Some(slot) = self.states.get_mut(node) {
            self.running -= usize::from(*slot == State::Running);
            self.running += usize::from(state == State::Running);
            *slot = state;
        }
    }

    fn queue_if_ready(&mut self, node: usize) {
        if !self.cancelled && self.states.get(node) == Some(&State::Pending(0)) {
            self.ready.push((self.urgency.get(node).copied().unwrap_or_default(), Reverse(node)));
        }
    }
}

#[cfg(test)]
mod tests;
