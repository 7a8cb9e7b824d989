//! One running node of the graph: its manifests in order, each applied and then gated. CustomResourceDefinitions are
//! gated together, before the first manifest that may need one, because the server takes a while for each. Nothing is
//! taken out of this order, since what comes later may need what comes before it; only what brings a webhook without
//! which the present manifest cannot be applied is written, not gated, before its turn.

use super::verdict::Unready;
use crate::cluster_version::graph::Mode;
use crate::object::manifest::Manifest;
use std::collections::VecDeque;
use std::sync::Arc;

/// What a node does next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Precreate(usize),
    Apply(usize),
    /// Waits for the gate of a definition that was applied before.
    Gate(usize),
    Done,
}

#[derive(Debug, Default)]
pub(crate) struct NodeRun {
    /// ClusterOperators appear when their node starts, so that dashboards show them before their operator runs.
    precreate: VecDeque<usize>,
    /// Not applied yet, in order.
    queue: VecDeque<usize>,
    /// Definitions that are applied, and whose gates are still to be passed.
    definitions: VecDeque<usize>,
    /// Written now although a manifest before them is not applied: they bring the webhook that it waits for.
    ahead: VecDeque<usize>,
    /// The next manifest is of a kind that is not served before these definitions are established.
    needs_definitions: bool,
    pub attempt: Attempt,
}

/// Where the present manifest of a node stands.
#[derive(Debug, Default)]
pub(crate) struct Attempt {
    /// `None` before the first manifest.
    position: Option<usize>,
    /// In a row.
    pub failures: u32,
    /// How often in a row the object changed while it was judged.
    pub unstable: u32,
    /// What was reported last about the gate.
    pub reported: Option<Unready>,
    /// The gate is closed; the next change of the object wakes the node.
    pub parked: bool,
}

impl NodeRun {
    pub(crate) fn new(positions: &[usize], manifests: &[Arc<Manifest>]) -> Self {
        let is_operator = |position: &&usize| {
            manifests.get(**position).is_some_and(|m| {
                m.id.group == "config.openshift.io" && m.id.kind == "ClusterOperator" && m.delete() == Ok(false)
            })
        };
        NodeRun {
            precreate: positions.iter().filter(is_operator).copied().collect(),
            queue: positions.iter().copied().collect(),
            ..NodeRun::default()
        }
    }

    /// What comes next, with a fresh attempt.
    pub(crate) fn step(&mut self, manifests: &[Arc<Manifest>], mode: Mode) -> Step {
        self.attempt = Attempt::default();
        if let Some(position) = self.precreate.pop_front() {
            return Step::Precreate(position);
        }
        let next = self.queue.front().copied();
        // In an install only a manifest of a kind that is not served yet has reason to wait.
        let waits = next.and_then(|position| manifests.get(position)).is_none_or(|manifest| {
            manifest.id.kind != "CustomResourceDefinition" && (mode != Mode::Install || self.needs_definitions)
        });
        match (next, self.definitions.front()) {
            (_, Some(definition)) if waits => {
                self.attempt.position = Some(*definition);
                Step::Gate(*definition)
            }
            (Some(position), _) => {
                self.attempt.position = Some(position);
                Step::Apply(position)
            }
            (None, _) => Step::Done,
        }
    }

    /// The manifest whose turn it is, and how often in a row it has failed.
    pub(crate) fn waiting(&self) -> Option<(usize, u32)> {
        self.attempt.position.map(|position| (position, self.attempt.failures))
    }

    /// The object changed: whether its closed gate is what the node waits for. If so, it waits no more.
    pub(crate) fn unpark(&mut self, position: usize) -> bool {
        let parked = self.attempt.parked && self.attempt.position == Some(position);
        self.attempt.parked &= !parked;
        parked
    }

    /// The kind of the present manifest is not served. `true` if definitions of this node are to be waited for first.
    pub(crate) fn wait_for_definitions(&mut self) -> bool {
        self.needs_definitions = !self.definitions.is_empty();
        self.needs_definitions
    }

    /// What comes after the manifest whose turn it is, in order.
    pub(crate) fn behind(&self, position: usize) -> impl DoubleEndedIterator<Item = usize> + ExactSizeIterator {
        let turn = self.queue.front() == Some(&position);
        self.queue.range(if turn { 1.. } else { self.queue.len().. }).copied()
    }

    /// These are written next, each once, before the manifest whose turn it is gets its next attempt.
    pub(crate) fn write_ahead(&mut self, positions: Vec<usize>) {
        self.ahead = positions.into();
    }

    /// The next of them.
    pub(crate) fn next_ahead(&mut self) -> Option<usize> {
        self.ahead.pop_front()
    }

    /// The definition is applied; its gate is passed later.
    pub(crate) fn defer_gate(&mut self) {
        self.definitions.extend(self.queue.pop_front());
    }

    /// The manifest is in place and its gate passed.
    pub(crate) fn passed(&mut self, position: usize) {
        self.queue.retain(|p| *p != position);
        self.definitions.retain(|p| *p != position);
        self.needs_definitions &= !self.definitions.is_empty();
    }
}
