//! What everything else of an install needs is created first, whatever the order of its nodes: namespaces, before any node
//! starts, and then definitions beside the nodes, because a server takes its time to serve a new kind. Those behind a Job
//! wait for their turn, since nothing may overtake a Job.

use crate::cluster_version::graph::Mode;
use crate::object::definition::defined_group;
use crate::object::manifest::Manifest;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Objects on their way at once.
const AT_ONCE: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Prerequisites {
    /// Not begun yet: positions of namespaces, then of definitions, those first whose group most manifests need.
    queue: VecDeque<usize>,
    /// Namespaces that have not ended.
    namespaces: BTreeSet<usize>,
    /// Definitions that have not ended.
    definitions: BTreeSet<usize>,
    running: usize,
    /// Nodes whose next manifest is a definition that has not ended, by its position.
    waiting: BTreeMap<usize, usize>,
}

impl Prerequisites {
    /// Empty in every mode but an install.
    pub(crate) fn new(manifests: &[Arc<Manifest>], mode: Mode) -> Self {
        if mode != Mode::Install {
            return Prerequisites::default();
        }
        let before_jobs = manifests.iter().enumerate().take_while(|(_, manifest)| manifest.id.kind != "Job");
        let created: Vec<_> = before_jobs.filter(|(_, manifest)| manifest.delete() == Ok(false)).collect();
        let of_kind = |kind: &str| created.iter().filter(|(_, m)| m.id.kind == kind).map(|(p, _)| *p).collect();
        let (namespaces, mut definitions): (Vec<usize>, Vec<usize>) =
            (of_kind("Namespace"), of_kind("CustomResourceDefinition"));
        let mut users: BTreeMap<&str, usize> = BTreeMap::new();
        manifests.iter().for_each(|manifest| *users.entry(&manifest.id.group).or_default() += 1);
        definitions.sort_by_key(|position| {
            let group = manifests.get(*position).and_then(|manifest| defined_group(&manifest.id.name));
            Reverse(group.and_then(|group| users.get(group)).copied().unwrap_or(0))
        });
        Prerequisites {
            queue: namespaces.iter().chain(&definitions).copied().collect(),
            namespaces: namespaces.into_iter().collect(),
            definitions: definitions.into_iter().collect(),
            ..Prerequisites::default()
        }
    }

    /// Those to begin now.
    pub(crate) fn start(&mut self) -> Vec<usize> {
        let free = AT_ONCE.saturating_sub(self.running);
        let ready = self.queue.iter().take_while(|p| self.namespaces.is_empty() || self.namespaces.contains(p)).count();
        let started: Vec<usize> = self.queue.drain(..free.min(ready)).collect();
        self.running += started.len();
        started
    }

    /// One of them has ended: the next ones, and the node that waits for it.
    pub(crate) fn ended(&mut self, position: usize) -> (Vec<usize>, Option<usize>) {
        self.running = self.running.saturating_sub(1);
        self.namespaces.remove(&position);
        self.definitions.remove(&position);
        (self.start(), self.waiting.remove(&position))
    }

    /// Whether the nodes may start.
    pub(crate) fn are_namespaces_done(&self) -> bool {
        self.namespaces.is_empty()
    }

    /// Whether the node has to wait with this manifest. If so, it is named when that has ended.
    pub(crate) fn hold(&mut self, position: usize, node: usize) -> bool {
        let pending = self.definitions.contains(&position);
        if pending {
            self.waiting.insert(position, node);
        }
        pending
    }

    /// Whether a definition that has not ended yet brings kinds of this group.
    pub(crate) fn bring(&self, group: &str, manifests: &[Arc<Manifest>]) -> bool {
        let pending = self.definitions.iter().filter_map(|position| manifests.get(*position));
        pending.filter_map(|manifest| defined_group(&manifest.id.name)).any(|defined| defined == group)
    }
}
