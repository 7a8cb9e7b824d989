//! Events about pools and nodes: what changes for a pool, and that a node is restarted or something goes wrong there. What else
//! every update of a node brings with it is no event: a thousand nodes would mean thousands of them.
//!
//! They are found by comparing what is seen with what was seen last, so that a process that has just started tells of nothing
//! that another one has told of.

use super::reporting::OperatorView;
use super::views::{NodeView, PoolView};
use crate::machine_config::api::machine_config::{GROUP, MachineConfigPool, PoolCondition};
use crate::machine_config::drain::{Delay, Drain, Step, step};
use crate::machine_config::node::NodeState;
use crate::machine_config::operator;
use crate::machine_config::rollout::Round;
use crate::object::condition::{ConditionStatus, find};
use crate::process::events::{Events, Notice};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was seen last.
pub(super) struct Notices {
    events: Events,
    nodes: BTreeMap<String, Arc<NodeView>>,
    pools: BTreeMap<String, Arc<PoolView>>,
    deferred: BTreeMap<String, Vec<String>>,
    /// Of the drains that are under way.
    delays: BTreeMap<String, Delay>,
    operator: Option<Arc<OperatorView>>,
}

impl Notices {
    pub(super) fn new(events: Events) -> Notices {
        let (nodes, pools, deferred, delays) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        Notices { events, nodes, pools, deferred, delays, operator: None }
    }

    /// Returns when something is to be told although nothing has changed.
    pub(super) fn of_nodes(&mut self, nodes: &BTreeMap<String, Arc<NodeView>>, now: Timestamp) -> Option<Timestamp> {
        let mut delays = BTreeMap::new();
        let mut next = None;
        for (name, node) in nodes {
            let before = self.nodes.get(name);
            let mut notices = Vec::new();
            if let Some(before) = before.filter(|before| !Arc::ptr_eq(before, node)) {
                notices.extend(trouble(before, node).into_iter().chain(restart(before, node)));
            }
            if let Some(drain) = node.draining.filter(|_| matches!(step(&node.drain), Step::Cordon | Step::Evict)) {
                let delay = drain.delay(now);
                let before = self.delays.get(name).copied();
                notices.extend(before.and_then(|before| delayed(before, delay, node, drain)));
                delays.insert(name.clone(), delay);
                next = next.into_iter().chain(drain.delay_changes(now)).min();
            }
            for notice in notices {
                self.events.publish_of(notice, "v1", "Node", name, Some(node.uid.clone()));
            }
        }
        self.nodes.clone_from(nodes);
        self.delays = delays;
        next
    }

    pub(super) fn of_pools(&mut self, pools: &BTreeMap<String, Arc<PoolView>>, rounds: &[Round]) {
        for ((name, pool), round) in pools.iter().zip(rounds) {
            let mut notices = Vec::new();
            if let Some(before) = self.pools.get(name).filter(|before| !Arc::ptr_eq(before, pool)) {
                notices.extend(progress(&before.0, &pool.0));
            }
            let deferred = self.deferred.insert(name.clone(), round.deferred.clone());
            if let Some(node) = round.deferred.first().filter(|_| deferred.is_some_and(|before| before.is_empty())) {
                let note = format!("Node {node} comes last, because the controller of nodes runs there");
                notices.push(Notice::new(false, "DeferringOperatorNodeUpdate", &note));
            }
            for notice in notices {
                let uid = pool.0.metadata.uid.clone();
                self.events.publish_of(notice, &format!("{GROUP}/v1"), "MachineConfigPool", name, uid);
            }
        }
        self.deferred.retain(|name, _| pools.contains_key(name));
        self.pools.clone_from(pools);
    }

    pub(super) fn of_operator(&mut self, seen: Option<Arc<OperatorView>>) {
        if let (Some(before), Some(after)) = (&self.operator, &seen) {
            for notice in reported(before, after) {
                self.events.publish_of(
                    notice,
                    "config.openshift.io/v1",
                    "ClusterOperator",
                    operator::NAME,
                    Some(after.uid.clone()),
                );
            }
        }
        self.operator = seen;
    }
}

/// A node that failed to take its configuration, or deviates from it.
fn trouble(before: &NodeView, after: &NodeView) -> Option<Notice> {
    let (before, after) = (&before.facts, &after.facts);
    let reason = match after.state {
        NodeState::Degraded if after.current == after.desired => "ConfigDriftDetected",
        NodeState::Degraded => "NodeDegraded",
        NodeState::Unreconcilable => "FailedToReconcile",
        NodeState::Done | NodeState::Working | NodeState::Unknown => return None,
    };
    let is_new = before.state != after.state || before.reason != after.reason;
    is_new.then(|| Notice::new(true, reason, &format!("MachineConfig {}: {}", after.desired.config, after.reason)))
}

fn restart(before: &NodeView, after: &NodeView) -> Option<Notice> {
    let begins = before.facts.restarting_since.is_none() && after.facts.restarting_since.is_some();
    let note = || format!("The node is restarted for MachineConfig {}", after.facts.desired.config);
    begins.then(|| Notice::new(false, "Reboot", &note()))
}

fn delayed(before: Delay, after: Delay, node: &NodeView, drain: Drain) -> Option<Notice> {
    let cause = node.facts.drain_blocked.as_deref().unwrap_or("pods have not ended");
    let since = drain.started;
    let (reason, long) = match after {
        Delay::Usual => return None,
        Delay::Long => ("DrainThresholdExceeded", "for more than ten minutes"),
        Delay::Failed => ("DrainFailed", "for more than an hour, and is tried again for ever"),
    };
    let note = format!("The node has been being drained {long}, since {since}: {cause}");
    (after > before).then(|| Notice::new(true, reason, &note))
}

fn progress(before: &MachineConfigPool, after: &MachineConfigPool) -> Vec<Notice> {
    let mut notices = Vec::new();
    let target = &after.spec.configuration.name;
    if *target != before.spec.configuration.name && !target.is_empty() {
        let number = after.spec.configuration.source.len();
        let note = format!("{target} was rendered from {number} MachineConfigs");
        notices.push(Notice::new(false, "RenderedConfigGenerated", &note));
    }
    if begins(before, after, "Updating") {
        let updating = condition(after, "Updating").map_or("", |condition| condition.message.as_str());
        notices.push(Notice::new(false, "Updating", updating));
    }
    if begins(before, after, "Updated") {
        notices.push(Notice::new(false, "Completed", &format!("All nodes have MachineConfig {target}")));
    }
    for (type_, reason) in [("Degraded", "PoolDegraded"), ("RolloutBlocked", "RolloutBlocked")] {
        let Some(now) = condition(after, type_).filter(|condition| holds(condition)) else { continue };
        let same = condition(before, type_).is_some_and(|then| holds(then) && then.reason == now.reason);
        if !same {
            notices.push(Notice::new(true, reason, &format!("{}: {}", now.reason, now.message)));
        }
    }
    notices
}

fn condition<'a>(pool: &'a MachineConfigPool, type_: &str) -> Option<&'a PoolCondition> {
    pool.status.iter().flat_map(|status| &status.conditions).find(|condition| condition.type_ == type_)
}

fn holds(condition: &PoolCondition) -> bool {
    condition.status == ConditionStatus::True
}

fn begins(before: &MachineConfigPool, after: &MachineConfigPool, type_: &str) -> bool {
    let holds = |pool| condition(pool, type_).is_some_and(holds);
    holds(after) && !holds(before)
}

fn reported(before: &OperatorView, after: &OperatorView) -> Vec<Notice> {
    let mut notices = Vec::new();
    let version = |view: &OperatorView| {
        let mut versions = view.status.versions.iter();
        versions.find(|version| version.name == "operator").map(|version| version.version.clone())
    };
    let (was, is) = (version(before), version(after));
    if let Some(is) = is.filter(|is| was.as_ref() != Some(is)) {
        let from = was.map(|was| format!(" from {was}")).unwrap_or_default();
        notices.push(Notice::new(false, "OperatorVersionChanged", &format!("Nodes were brought{from} to {is}")));
    }
    let degraded = |view: &OperatorView| {
        let condition = find(&view.status.conditions, "Degraded");
        condition.filter(|it| it.status == ConditionStatus::True).map(|it| (it.reason.clone(), it.message.clone()))
    };
    if let Some((reason, message)) = degraded(after)
        && degraded(before).is_none_or(|(was, _)| was != reason)
    {
        notices.push(Notice::new(true, "OperatorDegraded", &format!("{reason}: {message}")));
    }
    notices
}

#[cfg(test)]
mod tests;
