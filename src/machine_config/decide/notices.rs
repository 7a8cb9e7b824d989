//! Events about pools and nodes: what changes for a pool, and that a node is restarted or something goes wrong there. What else
//! every update of a node brings with it is no event: a thousand nodes would mean thousands of them.
//!
//! They are found by comparing what is seen with what was seen last, so that a process that has just started tells of nothing
//! that another one has told of.

use super::{Action, Turn};
use crate::machine_config::api::machine_config::{GROUP, MachineConfigPool, PoolCondition};
use crate::machine_config::drain::{Delay, Drain, Step, step};
use crate::machine_config::node::NodeState;
use crate::machine_config::operator;
use crate::machine_config::rollout::Round;
use crate::machine_config::views::{NodeView, OperatorView, PoolView};
use crate::object::condition::{ConditionStatus, find};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What an event says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    pub warning: bool,
    pub reason: &'static str,
    pub note: String,
}

impl Notice {
    fn new(warning: bool, reason: &'static str, note: &str) -> Notice {
        Notice { warning, reason, note: note.to_owned() }
    }
}

/// The object that an event is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct About {
    pub api_version: String,
    pub kind: &'static str,
    pub name: String,
    pub uid: Option<String>,
}

/// What was seen last.
#[derive(Debug, Default)]
pub(super) struct SeenLast {
    nodes: BTreeMap<String, Arc<NodeView>>,
    pools: BTreeMap<String, Arc<PoolView>>,
    deferred: BTreeMap<String, Vec<String>>,
    /// Of the drains that are under way.
    delays: BTreeMap<String, Delay>,
    operator: Option<Arc<OperatorView>>,
}

impl Turn<'_> {
    /// Tells what is new since the last turn.
    pub(super) fn notify(&mut self, last: &mut SeenLast, rounds: &[Round]) {
        self.notify_of_pools(last, rounds);
        self.notify_of_operator(last);
        self.notify_of_nodes(last);
    }

    fn notify_of_nodes(&mut self, last: &mut SeenLast) {
        let mut delays = BTreeMap::new();
        for (name, node) in &self.seen.nodes {
            let mut notices = Vec::new();
            if last.nodes.get(name).is_none_or(|before| !Arc::ptr_eq(before, node))
                && let Some(before) = last.nodes.insert(name.clone(), node.clone())
            {
                notices.extend(trouble(&before, node).into_iter().chain(restart(&before, node)));
            }
            if let Some(drain) = node.draining.filter(|_| matches!(step(&node.drain), Step::Cordon | Step::Evict)) {
                let delay = drain.delay(self.now);
                let before = last.delays.get(name).copied();
                notices.extend(before.and_then(|before| delayed(before, delay, node, drain)));
                delays.insert(name.clone(), delay);
                self.again(drain.delay_changes(self.now));
            }
            self.notify_all(notices, "v1", "Node", (name, Some(&node.uid)));
        }
        if last.nodes.len() > self.seen.nodes.len() {
            last.nodes.retain(|name, _| self.seen.nodes.contains_key(name));
        }
        last.delays = delays;
    }

    fn notify_of_pools(&mut self, last: &mut SeenLast, rounds: &[Round]) {
        let pools = &self.seen.pools;
        for ((name, pool), round) in pools.iter().zip(rounds) {
            let mut notices = Vec::new();
            if let Some(before) = last.pools.get(name).filter(|before| !Arc::ptr_eq(before, pool)) {
                notices.extend(progress(&before.0, &pool.0));
            }
            let deferred = last.deferred.insert(name.clone(), round.deferred.clone());
            if let Some(node) = round.deferred.first().filter(|_| deferred.is_some_and(|before| before.is_empty())) {
                let note = format!("Node {node} comes last, because the controller of nodes runs there");
                notices.push(Notice::new(false, "DeferringOperatorNodeUpdate", &note));
            }
            let uid = pool.0.metadata.uid.as_ref();
            self.notify_all(notices, &format!("{GROUP}/v1"), "MachineConfigPool", (name, uid));
        }
        last.deferred.retain(|name, _| pools.contains_key(name));
        last.pools.clone_from(pools);
    }

    fn notify_of_operator(&mut self, last: &mut SeenLast) {
        let seen = self.seen.operator.clone().flatten();
        if let (Some(before), Some(after)) = (&last.operator, &seen) {
            let of = (operator::NAME, Some(&after.uid));
            self.notify_all(reported(before, after), "config.openshift.io/v1", "ClusterOperator", of);
        }
        last.operator = seen;
    }

    fn notify_all(
        &mut self,
        notices: Vec<Notice>,
        api_version: &str,
        kind: &'static str,
        (name, uid): (&str, Option<&String>),
    ) {
        for notice in notices {
            let (api_version, name) = (api_version.to_owned(), name.to_owned());
            self.act(Action::Notify(notice, About { api_version, kind, name, uid: uid.cloned() }));
        }
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
