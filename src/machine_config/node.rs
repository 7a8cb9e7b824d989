//! What the rollout has to know of a node: the configuration it has and should have, and whether it can do without it.

use crate::error::shortened;
use crate::machine_config::api::machine_config::{GROUP, annotation as key};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Node, NodeCondition, NodeSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Nodes in the same zone fail together, so that one zone is done before the next is begun.
pub(crate) const ZONE_LABEL: &str = "topology.kubernetes.io/zone";

/// A node that takes longer to restart needs somebody to look at it.
const RESTART: SignedDuration = SignedDuration::from_mins(10);

/// Most bytes of what a node says of itself. Its agent says less, and whoever else writes there may be anybody.
const SAID: usize = 2000;

/// What a node says of itself as it is passed on: bounded, on one line, and without the characters that JSON writes with six.
/// What is so already stays as it is.
pub(crate) fn said(text: &str) -> String {
    shortened(text, SAID).chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A rendered MachineConfig by name, and the image of a pool whose operating system is built for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Target {
    pub config: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
}

impl Target {
    /// Without an image of its own.
    pub fn new(config: &str) -> Self {
        Target { config: config.to_owned(), image: None }
    }
}

/// The annotation `state`, which the node's agent writes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NodeState {
    /// Nothing is being done; or not begun yet, where current and desired configuration differ.
    Done,
    Working,
    /// The last attempt failed; it is tried again.
    Degraded,
    /// The desired configuration cannot be reached from the current one.
    Unreconcilable,
    /// Absent or unknown: no agent has been there.
    #[default]
    Unknown,
}

/// Something that keeps pods away from a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The condition's type with its reason, such as `Ready (KubeletNotReady)`.
    pub what: String,
    pub since: Option<Timestamp>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct NodeFacts {
    pub name: String,
    pub zone: Option<String>,
    pub created: Option<Timestamp>,
    pub current: Target,
    pub desired: Target,
    pub state: NodeState,
    /// Why it is Degraded or Unreconcilable.
    pub reason: String,
    pub unschedulable: bool,
    /// It was this controller that cordoned it, for an update.
    pub cordoned_for_update: bool,
    /// Conditions that say that it cannot run pods.
    pub problems: Vec<Problem>,
    /// When it was uncordoned with its present configuration.
    pub done_since: Option<Timestamp>,
    /// The claim that it was told for last.
    pub told_for: Option<String>,
    /// When its agent asked for the restart that it has not come back from.
    pub restarting_since: Option<Timestamp>,
    /// Which pods have kept it from being drained, and for how long, once that is too long.
    pub drain_blocked: Option<String>,
    /// The rendered MachineConfig that it prepares before it is told to take it.
    pub stage_ahead: Option<String>,
    /// The folder whose files its kubelet merges into its configuration, or `none`; `None` if its agent has not told.
    pub kubelet_config_dir: Option<String>,
}

impl NodeFacts {
    pub fn of(node: &Node) -> Self {
        let metadata = &node.metadata;
        let annotations = metadata.annotations.as_ref();
        let text = |key: &str| annotations?.get(&format!("{GROUP}/{key}")).filter(|text| !text.is_empty());
        // No name, time or path is longer.
        let annotation = |key: &str| text(key).filter(|text| text.len() <= SAID).cloned();
        let target = |config: &str, image: &str| Target {
            config: annotation(config).unwrap_or_default(),
            image: annotation(image),
        };
        let labels = metadata.labels.as_ref();
        let zone = labels.and_then(|labels| labels.get(ZONE_LABEL)).cloned();
        let conditions = node.status.as_ref().and_then(|status| status.conditions.as_deref()).unwrap_or_default();
        NodeFacts {
            name: metadata.name.clone().unwrap_or_default(),
            zone,
            created: metadata.creation_timestamp.as_ref().map(|time| time.0),
            current: target(key::CURRENT_CONFIG, key::CURRENT_IMAGE),
            desired: target(key::DESIRED_CONFIG, key::DESIRED_IMAGE),
            state: state(annotation(key::STATE).as_deref()),
            reason: text(key::REASON).map(|reason| said(reason)).unwrap_or_default(),
            unschedulable: node
                .spec
                .as_ref()
                .and_then(|NodeSpec { unschedulable, .. }| *unschedulable)
                .unwrap_or_default(),
            cordoned_for_update: annotation(key::CORDONED_FOR).is_some(),
            problems: conditions.iter().filter_map(problem).collect(),
            done_since: annotation(key::DONE_SINCE).and_then(|text| text.parse().ok()),
            told_for: annotation(key::TOLD_FOR),
            restarting_since: annotation(key::POST_CONFIG_ACTION)
                .and_then(|_| annotation(key::REBOOT_STARTED)?.parse().ok()),
            drain_blocked: text(key::DRAIN_BLOCKED).map(|why| said(why)),
            stage_ahead: annotation(key::STAGE_AHEAD),
            kubelet_config_dir: annotation(key::KUBELET_CONFIG_DIR),
        }
    }

    /// It has the configuration that it should have, whatever the pool wants.
    pub fn is_done(&self) -> bool {
        self.state == NodeState::Done && !self.current.config.is_empty() && self.current == self.desired
    }

    pub fn is_at(&self, target: &Target) -> bool {
        self.is_done() && self.desired == *target
    }

    /// It could not reach another configuration. One that deviates from the configuration it has reached is not meant.
    pub fn is_failing(&self) -> bool {
        self.is_degraded() && self.current != self.desired
    }

    pub fn is_degraded(&self) -> bool {
        matches!(self.state, NodeState::Degraded | NodeState::Unreconcilable)
    }

    /// On its way to another configuration, whether the agent has begun or not. One that was never told any is not.
    pub fn is_changing(&self) -> bool {
        let never_told = self.desired.config.is_empty() && self.state == NodeState::Done;
        !self.is_done() && !self.is_degraded() && !never_told
    }

    /// When it is to be back from the restart that is under way.
    pub fn back_by(&self) -> Option<Timestamp> {
        let since = self.restarting_since.filter(|_| self.is_changing())?;
        Some(since.checked_add(RESTART).unwrap_or(since))
    }

    /// Pods can run on it.
    pub fn is_ready(&self) -> bool {
        self.problems.is_empty() && !self.unschedulable
    }

    /// An agent has recorded its first state. Before that nothing is known that could be changed.
    pub fn is_managed(&self) -> bool {
        !self.current.config.is_empty()
    }

    pub fn labels(node: &Node) -> BTreeMap<String, String> {
        node.metadata.labels.clone().unwrap_or_default()
    }
}

fn state(annotation: Option<&str>) -> NodeState {
    match annotation {
        Some("Done") => NodeState::Done,
        // Nobody writes the latter so far, but readers of the annotation know it.
        Some("Working" | "Rebooting") => NodeState::Working,
        Some("Degraded") => NodeState::Degraded,
        Some("Unreconcilable") => NodeState::Unreconcilable,
        _ => NodeState::Unknown,
    }
}

/// A condition that is missing is fine: a cluster without a cloud provider has no `NetworkUnavailable`.
fn problem(condition: &NodeCondition) -> Option<Problem> {
    let good = match condition.type_.as_str() {
        "Ready" => "True",
        "DiskPressure" | "NetworkUnavailable" => "False",
        _ => return None,
    };
    let since = condition.last_transition_time.as_ref().map(|time| time.0);
    let reason = condition.reason.as_deref().map(|reason| format!(" ({reason})")).unwrap_or_default();
    let what = format!("{}={}{reason}", condition.type_, condition.status);
    (condition.status != good).then(|| Problem { what: said(&what), since })
}

#[cfg(test)]
mod tests;
