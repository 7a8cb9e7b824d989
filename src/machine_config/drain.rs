//! Draining a node: what an agent asks for, which pods have to go, and when the next attempt begins.

use super::node::NodeFacts;
use crate::machine_config::api::machine_config::{GROUP, annotation as key};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use std::fmt;

/// What an agent asks for in its node's annotation `desiredDrain`. The rendered MachineConfig that it is for is part of it,
/// so that one that was granted for another is not mistaken for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Request {
    /// Cordon the node and move its pods away.
    Drain(String),
    Uncordon(String),
}

impl Request {
    pub fn parse(annotation: &str) -> Result<Request, String> {
        match annotation.split_once('-') {
            Some(("drain", config)) if !config.is_empty() => Ok(Request::Drain(config.to_owned())),
            Some(("uncordon", config)) if !config.is_empty() => Ok(Request::Uncordon(config.to_owned())),
            _ => Err(format!(
                "the annotation desiredDrain {annotation:?} is neither drain-<MachineConfig> nor uncordon-<MachineConfig>"
            )),
        }
    }
}

impl fmt::Display for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Request::Drain(config) => write!(f, "drain-{config}"),
            Request::Uncordon(config) => write!(f, "uncordon-{config}"),
        }
    }
}

/// A node as the drain controller sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DrainFacts {
    /// The annotation `desiredDrain`.
    pub asked: Option<String>,
    /// Made anew by the agent for each request, so that an answer to an earlier one, for the same MachineConfig, is no answer.
    pub asked_id: Option<String>,
    /// The annotation `lastAppliedDrain`: the request that was fulfilled last, with its id.
    pub answered: Option<String>,
    pub answered_id: Option<String>,
    pub unschedulable: bool,
    /// This controller has cordoned it.
    pub cordoned_for_update: bool,
    /// Pods that still have to go, once they have been looked at.
    pub pods: Option<usize>,
}

impl DrainFacts {
    pub(crate) fn of(node: &Node) -> Self {
        Self::with(&NodeFacts::of(node), node)
    }

    /// Of the node that these facts are of.
    pub(crate) fn with(facts: &NodeFacts, node: &Node) -> Self {
        let annotation = |key: &str| annotation(node, key).map(str::to_owned);
        DrainFacts {
            asked: annotation(key::DESIRED_DRAIN),
            asked_id: annotation(key::DESIRED_DRAIN_ID),
            answered: annotation(key::LAST_APPLIED_DRAIN),
            answered_id: annotation(key::LAST_APPLIED_DRAIN_ID),
            unschedulable: facts.unschedulable,
            cordoned_for_update: facts.cordoned_for_update,
            pods: None,
        }
    }

    /// The agent has asked for something, and has no answer yet.
    pub(crate) fn is_open(&self) -> bool {
        self.asked.is_some() && (self.answered != self.asked || self.answered_id != self.asked_id)
    }
}

/// When the drain that is under way, or is granted, began: by the API server, whose clock also dates pods. What this controller
/// has written by its own clock counts only where the API server does not tell.
pub(crate) fn begun(node: &Node) -> Option<Timestamp> {
    let written = annotation(node, key::DRAIN_STARTED)?.parse().ok();
    let entries = node.metadata.managed_fields.iter().flatten();
    let own = entries.filter(|entry| entry.manager.as_deref() == Some(MANAGER));
    own.filter_map(|entry| Some(entry.time.as_ref()?.0)).max().or(written)
}

fn annotation<'a>(node: &'a Node, key: &str) -> Option<&'a str> {
    let text = node.metadata.annotations.as_ref()?.get(&format!("{GROUP}/{key}"))?;
    Some(text.as_str()).filter(|text| !text.is_empty())
}

/// The next step for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// There is no request, or it has been answered.
    Nothing,
    /// Remove the record that this controller has cordoned it: somebody has made it schedulable since, so that whoever cordons it
    /// next does so for a reason of their own.
    ForgetCordon,
    /// Set `spec.unschedulable` and record that it was for this update. A node that somebody else has cordoned stays theirs.
    Cordon,
    /// Look at its pods, and evict those that have to go.
    Evict,
    /// Say that the request is fulfilled. `uncordon`: make it schedulable again in the same write.
    Answer { uncordon: bool },
    /// The request cannot be understood.
    Refuse(String),
}

/// What is to be done for a node now. A node that somebody makes schedulable while it is drained is cordoned and drained
/// again; one that somebody else had cordoned before the update stays cordoned after it.
pub fn step(node: &DrainFacts) -> Step {
    let at_rest = match node.cordoned_for_update && !node.unschedulable {
        true => Step::ForgetCordon,
        false => Step::Nothing,
    };
    let Some(asked) = node.asked.as_deref().filter(|asked| !asked.is_empty()) else { return at_rest };
    if !node.is_open() {
        return at_rest;
    }
    match Request::parse(asked) {
        Err(cause) => Step::Refuse(cause),
        Ok(Request::Uncordon(_)) => Step::Answer { uncordon: node.cordoned_for_update },
        Ok(Request::Drain(_)) if !node.unschedulable => Step::Cordon,
        Ok(Request::Drain(_)) if node.pods == Some(0) => Step::Answer { uncordon: false },
        Ok(Request::Drain(_)) => Step::Evict,
    }
}

/// A pod on a node that is drained.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodFacts {
    /// Kubelet runs it from a file and would start it again.
    pub mirror: bool,
    pub finished: bool,
    pub controlled: bool,
    pub daemon_set: Option<DaemonSet>,
    /// Its data is lost with it.
    pub empty_dir: bool,
    /// It came after the drain had begun, since it tolerates that the node is cordoned. Another would come in its place.
    pub came_back: bool,
}

/// The DaemonSet that controls a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DaemonSet {
    Exists,
    Gone,
    /// It is not known whether it exists, because of this error.
    Unknown(String),
}

/// What becomes of a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Stays,
    Goes {
        /// What is lost with it.
        warning: Option<&'static str>,
    },
    /// The drain fails with this cause.
    Unknown(String),
}

impl PodFacts {
    /// Pods that would come back to the node at once stay; all others go, whatever their priority or namespace.
    pub fn fate(&self) -> Fate {
        let goes = |warning| Fate::Goes { warning };
        match &self.daemon_set {
            Some(_) if self.finished => return goes(None),
            Some(DaemonSet::Exists) => return Fate::Stays,
            Some(DaemonSet::Gone) => {
                return goes(Some("its DaemonSet does not exist any more: nothing starts it again"));
            }
            Some(DaemonSet::Unknown(error)) => return Fate::Unknown(error.clone()),
            None => {}
        }
        match () {
            () if self.mirror || (self.came_back && !self.finished) => Fate::Stays,
            () if self.finished => goes(None),
            () if !self.controlled => goes(Some("no controller starts it again elsewhere")),
            () if self.empty_dir => goes(Some("the data of its emptyDir volumes is lost")),
            () => goes(None),
        }
    }
}

/// How long pods may take in one attempt.
pub const ATTEMPT: SignedDuration = SignedDuration::from_secs(90);
/// How long an eviction that a PodDisruptionBudget forbids is not tried again, unless the budget changes.
pub const EVICTION_RETRY: SignedDuration = SignedDuration::from_secs(5);
/// The field manager of the writes that begin a drain, and of no other.
pub(crate) const MANAGER: &str = "cvo-drain";
/// Between an attempt in vain and the next one, for what nothing tells of.
const PAUSE: SignedDuration = SignedDuration::from_mins(1);
const LONG_PAUSE: SignedDuration = SignedDuration::from_mins(5);
const PATIENCE: SignedDuration = SignedDuration::from_mins(10);
const LIMIT: SignedDuration = SignedDuration::from_hours(1);

/// How serious it is that a node is not drained yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Delay {
    Usual,
    /// More than ten minutes: the event `DrainThresholdExceeded`.
    Long,
    /// More than an hour: the event `DrainFailed` and the metric. It is tried for ever.
    Failed,
}

/// Both times are kept at the node, so that they outlive the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drain {
    pub started: Timestamp,
    /// When the last attempt ended in vain.
    pub failed: Option<Timestamp>,
}

impl Drain {
    /// The one that was begun last.
    pub(crate) fn of(node: &Node) -> Option<Drain> {
        let time = |key: &str| annotation(node, key).and_then(|text| text.parse::<Timestamp>().ok());
        Some(Drain { started: time(key::DRAIN_STARTED)?, failed: time(key::DRAIN_FAILED) })
    }

    pub fn delay(&self, now: Timestamp) -> Delay {
        let elapsed = now.duration_since(self.started);
        match () {
            () if elapsed > LIMIT => Delay::Failed,
            () if elapsed > PATIENCE => Delay::Long,
            () => Delay::Usual,
        }
    }

    /// When [`Drain::delay`] will be another one.
    pub fn delay_changes(&self, now: Timestamp) -> Option<Timestamp> {
        let limit = match self.delay(now) {
            Delay::Usual => PATIENCE,
            Delay::Long => LIMIT,
            Delay::Failed => return None,
        };
        // It is over when the time has passed.
        self.started.checked_add(limit).and_then(|at| at.checked_add(SignedDuration::from_millis(1))).ok()
    }

    /// When the next attempt begins. A clock that went backwards does not put it off.
    pub fn next_attempt(&self, now: Timestamp) -> Timestamp {
        let Some(failed) = self.failed else { return now };
        let pause = if self.delay(failed) == Delay::Usual { PAUSE } else { LONG_PAUSE };
        let next = failed.checked_add(pause).unwrap_or(now);
        if failed > now { now } else { next.max(now) }
    }
}

#[cfg(test)]
mod tests;
