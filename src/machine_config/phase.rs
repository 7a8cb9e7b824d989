//! How far a node is on its way to the configuration of its pool, as people are told.

use super::drain::{Drain, DrainFacts, Request};
use super::node::{NodeFacts, NodeState, Target};
use crate::machine_config::api::machine_config::{GROUP, annotation as key};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use serde::Serialize;

/// What a node does, or what is done with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Phase {
    /// It is told what to take when its turn comes.
    Waiting,
    /// It has been told, and its agent has not begun.
    Told,
    /// What can be prepared while pods run is prepared.
    Preparing,
    Draining,
    /// Files and units are written, or services are restarted.
    Applying,
    Restarting,
    /// All is done but that pods may come back.
    Uncordoning,
    /// It could not take its configuration, or deviates from it.
    Degraded,
    /// It has the configuration of the pool, and cannot run pods.
    Unavailable,
}

/// A node that is not simply done.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct NodePhase {
    pub name: String,
    pub phase: Phase,
    /// What keeps it there, as far as that is known.
    pub message: String,
    /// Since when, as far as that is known.
    pub since: Option<Timestamp>,
}

impl NodePhase {
    /// `None` if the node has the target and can run pods, or has no agent.
    pub(crate) fn of(node: &Node, target: &Target) -> Option<NodePhase> {
        let facts = NodeFacts::of(node);
        if !facts.is_managed() {
            return None;
        }
        let drain = DrainFacts::of(node);
        let draining = Drain::of(node).filter(|_| drain.is_open());
        let rebooting = annotation(node, key::POST_CONFIG_ACTION).is_some_and(|action| action == "Rebooting");
        let phase = phase(&facts, &drain, rebooting, target)?;
        let (message, since) = match phase {
            Phase::Degraded => (facts.reason.clone(), None),
            Phase::Draining => {
                (facts.drain_blocked.clone().unwrap_or_default(), draining.map(|draining| draining.started))
            }
            Phase::Unavailable | Phase::Restarting => {
                let problems: Vec<&str> = facts.problems.iter().map(|problem| problem.what.as_str()).collect();
                (problems.join(", "), facts.problems.iter().filter_map(|problem| problem.since).min())
            }
            Phase::Waiting | Phase::Told | Phase::Preparing | Phase::Applying | Phase::Uncordoning => {
                (String::new(), None)
            }
        };
        Some(NodePhase { name: facts.name, phase, message, since })
    }
}

/// The phase alone; `rebooting`: its agent has said that the node is being restarted.
pub(super) fn phase(node: &NodeFacts, drain: &DrainFacts, rebooting: bool, target: &Target) -> Option<Phase> {
    match () {
        () if node.is_degraded() => Some(Phase::Degraded),
        () if node.is_at(target) && node.problems.is_empty() => None,
        () if node.is_at(target) => Some(Phase::Unavailable),
        () if node.is_done() => Some(Phase::Waiting),
        () if rebooting => Some(Phase::Restarting),
        () if node.state == NodeState::Done => Some(Phase::Told),
        () => Some(match drain.asked.as_deref().map(Request::parse) {
            Some(Ok(Request::Drain(config))) if config == node.desired.config && drain.is_open() => Phase::Draining,
            Some(Ok(Request::Drain(config))) if config == node.desired.config => Phase::Applying,
            Some(Ok(Request::Uncordon(config))) if config == node.desired.config && drain.is_open() => {
                Phase::Uncordoning
            }
            // What is there is of an earlier update: this one asks for no drain, or has not done so yet.
            _ => Phase::Preparing,
        }),
    }
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    node.metadata.annotations.as_ref()?.get(&format!("{GROUP}/{key}")).map(String::as_str)
}

#[cfg(test)]
mod tests;
