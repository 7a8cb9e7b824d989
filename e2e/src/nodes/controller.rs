//! A process that configures nodes: what it knows, what it has begun, and the tasks that drain nodes for it.

use cvo::testing::pools::decide::{Action, Content, Decision, Key, Overrides, Pods, Remembered, Room};
use cvo::testing::pools::views::NodeView;
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Nodes by their names.
pub type Nodes = BTreeMap<String, Arc<NodeView>>;

/// What the agent of a node has asked for, with the id of that.
type Request = (Option<String>, Option<String>);

#[derive(Debug, Default)]
pub struct Controller {
    pub remembered: Remembered,
    /// Writes that are under way.
    pub begun: Vec<Begun>,
    /// The drains of nodes, by their names.
    pub drains: BTreeMap<String, Drain>,
    /// MachineConfigs that were read since it has looked last.
    pub contents: BTreeMap<String, Content>,
    /// When it has written the status of the pool.
    pub reported: Option<Timestamp>,
    follows_overrides: bool,
    /// The changes of the cluster that it has seen, and when it looks again without one.
    seen: Option<u64>,
    next: Option<Timestamp>,
    /// Something has come of what it has begun.
    pub woken: bool,
}

/// A write that is under way.
#[derive(Debug)]
pub struct Begun {
    pub action: Action,
    /// What was known when it was decided: the resourceVersion of the node that it is about, and the exceptions.
    pub version: Option<String>,
    pub overrides: Overrides,
}

/// What is done about the pods of a node.
#[derive(Debug)]
pub struct Drain {
    request: Request,
    pub evicts: bool,
    /// How many were left when they were counted last.
    pub left: Option<usize>,
}

fn request(node: &NodeView) -> Request {
    (node.drain.asked.clone(), node.drain.asked_id.clone())
}

impl Controller {
    /// Whether it has anything to look at: it waits for a change or a time.
    pub fn is_due(&self, revision: u64, now: Timestamp) -> bool {
        self.woken || self.seen != Some(revision) || self.next.is_some_and(|next| next <= now)
    }

    pub fn room(&self) -> Room {
        let busy: BTreeSet<Key> = self.begun.iter().filter_map(|begun| begun.action.key()).collect();
        Room { under_way: busy.len(), busy }
    }

    /// What it knows of the exceptions that administrators make.
    pub fn overrides(&self, made: &Overrides) -> Overrides {
        if self.follows_overrides { made.clone() } else { Overrides::default() }
    }

    /// How many pods are left, where that is known for what the agent asks for.
    pub fn pods(&self, nodes: &Nodes) -> BTreeMap<String, usize> {
        let known = |(name, drain): (&String, &Drain)| {
            let node = nodes.get(name)?;
            let left = drain.left.filter(|_| drain.evicts && drain.request == request(node))?;
            Some((name.clone(), left))
        };
        self.drains.iter().filter_map(known).collect()
    }

    /// Begins what it has decided by these nodes.
    pub fn begin(&mut self, decision: Decision, nodes: &Nodes, overrides: &Overrides) {
        for action in decision.actions.into_iter().filter(|action| action.key().is_some()) {
            let version = match &action {
                Action::WriteNode { name, .. } => nodes.get(name).map(|node| node.version.clone()),
                _ => None,
            };
            self.begun.push(Begun { action, version, overrides: overrides.clone() });
        }
        self.drains.retain(|name, _| decision.pods.contains_key(name));
        for (name, pods) in decision.pods {
            let Some(node) = nodes.get(&name).filter(|_| pods != Pods::Keep) else { continue };
            let evicts = matches!(pods, Pods::Evict(_));
            let request = request(node);
            match self.drains.get_mut(&name) {
                Some(drain) if drain.request == request || !evicts => drain.evicts |= evicts,
                _ => _ = self.drains.insert(name, Drain { request, evicts, left: None }),
            }
        }
        self.woken |= self.follows_overrides != decision.overrides;
        self.follows_overrides = decision.overrides;
        self.next = decision.next;
    }

    /// It looks at the cluster, which has changed so often.
    pub fn looks(&mut self, revision: u64) {
        (self.seen, self.woken) = (Some(revision), false);
    }
}
