//! What the MachineConfigNode of a node says: the way to its configuration as conditions, one for each thing that happens on it.

use super::drain::DrainFacts;
use super::node::NodeFacts;
use super::phase::{Phase, phase};
use crate::machine_config::api::machine_config_node::{
    DesiredVersion, MachineConfigNodeSpec, MachineConfigNodeStatus, NOT_YET_SET, Named, Versions,
};
use crate::object::condition::{Condition, ConditionStatus, find};
use ConditionStatus::{False, True, Unknown};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The reason of a condition that has not been reached.
const NOT_YET: &str = "NotYetOccurred";

pub(crate) fn spec(node: &NodeFacts, pool: &str) -> MachineConfigNodeSpec {
    MachineConfigNodeSpec {
        node: Named { name: node.name.clone() },
        pool: Named { name: pool.to_owned() },
        config_version: DesiredVersion { desired: known(&node.desired.config) },
    }
}

fn known(config: &str) -> String {
    if config.is_empty() { NOT_YET_SET.to_owned() } else { config.to_owned() }
}

/// What happens on the way, in its order; then what went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Way {
    updated: bool,
    degraded: bool,
    prepared: Option<ConditionStatus>,
    executed: Option<ConditionStatus>,
    cordoned: Option<ConditionStatus>,
    drained: Option<ConditionStatus>,
    applied: Option<ConditionStatus>,
    rebooted: Option<ConditionStatus>,
    complete: Option<ConditionStatus>,
    uncordoned: Option<ConditionStatus>,
}

impl Way {
    fn of(node: &NodeFacts, drain: &DrainFacts, rebooted: Option<ConditionStatus>) -> Way {
        // That another configuration may be coming does not count before the node is told to take it.
        let phase = phase(node, drain, node.restarting_since.is_some(), &node.desired);
        let cordoned = Some(if node.unschedulable { True } else { Unknown });
        let told = Way { prepared: Some(Unknown), ..Way::default() };
        let drains = Way { prepared: Some(True), executed: Some(Unknown), cordoned, ..told };
        match phase {
            None | Some(Phase::Waiting | Phase::Unavailable) => Way { updated: true, ..Way::default() },
            Some(Phase::Degraded) => Way { updated: node.current == node.desired, degraded: true, ..Way::default() },
            Some(Phase::Told | Phase::Preparing) => told,
            Some(Phase::Draining) => Way { drained: Some(Unknown), ..drains },
            Some(Phase::Applying) => Way { drained: Some(True), applied: Some(Unknown), ..drains },
            Some(Phase::Restarting) => {
                let done = Way { executed: Some(True), drained: Some(True), applied: Some(True), ..drains };
                Way { rebooted: Some(Unknown), ..done }
            }
            Some(Phase::Uncordoning) => {
                let done = Way { executed: Some(True), drained: Some(True), applied: Some(True), ..drains };
                // Once it was restarted, which only its past says.
                let rebooted = rebooted.filter(|status| *status != False).map(|_| True);
                Way { rebooted, complete: Some(Unknown), uncordoned: Some(Unknown), ..done }
            }
        }
    }

    /// Type, status, and the reason where something has happened.
    fn conditions(self) -> [(&'static str, Option<ConditionStatus>, &'static str); 12] {
        let flag = |is: bool| if is { Some(True) } else { None };
        [
            ("Updated", flag(self.updated), "Updated"),
            ("UpdatePrepared", self.prepared, "UpdatePrepared"),
            ("UpdateExecuted", self.executed, "UpdateExecuted"),
            ("Cordoned", self.cordoned, "UpdateExecutedCordoned"),
            ("Drained", self.drained, "UpdateExecutedDrained"),
            ("AppliedFilesAndOS", self.applied, "UpdateExecutedAppliedFilesAndOS"),
            ("UpdatePostActionComplete", None, "UpdatePostActionComplete"),
            ("RebootedNode", self.rebooted, "RebootedNode"),
            ("UpdateComplete", self.complete, "UpdateComplete"),
            ("Uncordoned", self.uncordoned, "UpdateCompleteUncordoned"),
            ("Resumed", None, "Resumed"),
            ("NodeDegraded", flag(self.degraded), "NodeDegraded"),
        ]
    }
}

/// The status of the object with this generation. Times of conditions that stay as they are do not change.
pub(crate) fn status(
    before: &MachineConfigNodeStatus,
    generation: i64,
    (node, drain): (&NodeFacts, &DrainFacts),
    now: Timestamp,
) -> MachineConfigNodeStatus {
    let past = |type_: &str| find(&before.conditions, type_);
    let way = Way::of(node, drain, past("RebootedNode").map(|rebooted| rebooted.status));
    let condition = |(type_, status, reason): (&str, Option<ConditionStatus>, &str)| {
        let status = status.unwrap_or(False);
        let same = past(type_).filter(|past| past.status == status).map(|past| past.last_transition_time.clone());
        Condition {
            type_: type_.to_owned(),
            status,
            last_transition_time: same.unwrap_or(Time(whole_seconds(now))),
            reason: if status == False { NOT_YET } else { reason }.to_owned(),
            message: message(type_, status, node),
        }
    };
    MachineConfigNodeStatus {
        observed_generation: generation,
        config_version: Some(Versions { current: known(&node.current.config), desired: known(&node.desired.config) }),
        conditions: way.conditions().into_iter().map(condition).collect(),
    }
}

fn message(type_: &str, status: ConditionStatus, node: &NodeFacts) -> String {
    match (type_, status) {
        ("Updated", True) => format!("The node has MachineConfig {}", node.current.config),
        ("Updated", _) => format!("The node is taken to MachineConfig {}", node.desired.config),
        ("NodeDegraded", True) => node.reason.clone(),
        ("Drained", Unknown) if node.drain_blocked.is_some() => node.drain_blocked.clone().unwrap_or_default(),
        // The schema demands a text.
        (_, True) => "It is done".to_owned(),
        (_, Unknown) => "It is under way".to_owned(),
        (_, False) => "It has not happened in this update".to_owned(),
    }
}

/// Whether nothing is under way: such a status is worth being told at once.
pub(crate) fn is_at_rest(status: &MachineConfigNodeStatus) -> bool {
    ["Updated", "NodeDegraded"]
        .iter()
        .any(|type_| find(&status.conditions, type_).is_some_and(|condition| condition.status == True))
}

fn whole_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

#[cfg(test)]
mod tests;
