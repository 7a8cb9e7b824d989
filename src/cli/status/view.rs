//! What there is to say about an update: the cluster's objects joined into one value, which text, lines and JSON show.

use super::State;
use crate::api::condition::find;
use crate::api::progress::{NodeProgress, NodeState, Pass, Progress};
use crate::api::{
    ClusterOperator, ClusterVersionStatus, Condition, ConditionStatus, HistoryEntry, HistoryState, Release,
};
use crate::status::conditions::{
    AVAILABLE, CONTESTED, FAILING, INVALID, PROGRESSING, RELEASE_ACCEPTED, RETRIEVED_UPDATES,
};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that is shown. This is what `-o json` prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct View {
    pub phase: Phase,
    /// The last release that was completed; empty before the first one is.
    pub version: String,
    /// The release the cluster is on its way to, or stays at.
    pub target: Release,
    /// When the phase began.
    pub since: Option<Timestamp>,
    /// What the daemon says in one line (condition Progressing).
    pub message: String,
    /// Counts of manifests; `null` without a progress record of this release.
    pub pass: Option<Pass>,
    /// In graph order; empty without a progress record of this release.
    pub components: Vec<NodeProgress>,
    /// Estimated from how long components took the last time; `null` when nothing is known of those that remain.
    pub remaining_seconds: Option<u64>,
    /// Conditions that an administrator should look at.
    pub concerns: Vec<Concern>,
    pub operators: Vec<OperatorConcern>,
    /// Recommended versions to update to.
    pub available_updates: Vec<String>,
    /// Newest first.
    pub history: Vec<HistoryEntry>,
    /// What could not be read and why.
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// There is no ClusterVersion, or nothing is said in it yet.
    #[default]
    Unknown,
    Installing,
    Updating,
    /// At a release, looking after it.
    Running,
}

/// A condition of ClusterVersion that is not as it should be.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Concern {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
}

/// An operator that is not available or degraded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorConcern {
    pub name: String,
    /// `Degraded`, `NotAvailable` or `NotReported`.
    pub state: &'static str,
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
}

type Test = fn(&Condition) -> bool;

/// When a condition is of concern.
const CONCERNS: [(&str, Test); 5] = [
    (FAILING, |c| c.status != ConditionStatus::False),
    (INVALID, |c| c.status == ConditionStatus::True),
    (RELEASE_ACCEPTED, |c| c.status != ConditionStatus::True),
    (CONTESTED, |c| c.status == ConditionStatus::True),
    // Without a channel nobody has asked for updates.
    (RETRIEVED_UPDATES, |c| c.status == ConditionStatus::False && !matches!(c.reason.as_str(), "" | "NoChannel")),
];

impl View {
    pub fn of(state: &State, now: Timestamp) -> View {
        let mut view = View { remarks: state.remarks.clone(), ..View::default() };
        view.operators = state.operators.iter().filter_map(operator_concern).collect();
        view.operators.sort_by(|a, b| a.name.cmp(&b.name));
        let Some(status) = state.cluster_version.as_ref().and_then(|cv| cv.status.as_ref()) else { return view };
        view.take_status(status);
        match &state.progress {
            Some(progress) if progress.release.image == view.target.image || belongs(progress, status) => {
                view.take_progress(progress, now);
            }
            Some(progress) => view.remarks.push(format!(
                "Components are not shown: the progress record is of another release ({}); the daemon has yet to write one of this",
                progress.release.version
            )),
            None => {}
        }
        view
    }

    fn take_status(&mut self, status: &ClusterVersionStatus) {
        let completed = status.history.iter().find(|entry| entry.state == HistoryState::Completed);
        self.version = completed.map(|entry| entry.version.clone()).unwrap_or_default();
        self.target = status.desired.clone();
        self.history.clone_from(&status.history);
        let updates = status.available_updates.iter().flatten();
        self.available_updates = updates.map(|release| release.version.clone()).collect();
        if let Some(progressing) = find(&status.conditions, PROGRESSING) {
            self.message.clone_from(&progressing.message);
            self.phase = match (progressing.status, completed) {
                (ConditionStatus::True, None) => Phase::Installing,
                (ConditionStatus::True, Some(_)) => Phase::Updating,
                (_, Some(_)) => Phase::Running,
                (_, None) => Phase::Unknown,
            };
            self.since = Some(progressing.last_transition_time.0);
        }
        // From one release straight to the next Progressing does not move; history does.
        let newest = status.history.first();
        if let (Phase::Installing | Phase::Updating, Some(entry)) = (self.phase, newest) {
            self.since = Some(entry.started_time.0);
        }
        let concerns =
            CONCERNS.iter().filter_map(|(type_, holds)| find(&status.conditions, type_).filter(|c| holds(c)));
        self.concerns = concerns.map(concern).collect();
    }

    fn take_progress(&mut self, progress: &Progress, now: Timestamp) {
        // Written a moment before the status that says that all is done.
        let late = progress.pass.mode != "reconcile" && progress.pass.done < progress.pass.total;
        if self.phase == Phase::Running && late {
            return;
        }
        self.pass = Some(progress.pass.clone());
        self.components.clone_from(&progress.nodes);
        self.remaining_seconds = remaining(&progress.nodes, &progress.durations, now);
    }

    /// Nodes that are done.
    pub fn components_done(&self) -> usize {
        self.components.iter().filter(|node| node.state == NodeState::Done).count()
    }
}

/// The record is of the release being applied, which `desired` already has left when another one is being retrieved.
fn belongs(progress: &Progress, status: &ClusterVersionStatus) -> bool {
    status.history.first().is_some_and(|entry| entry.image == progress.release.image)
}

fn concern(condition: &Condition) -> Concern {
    Concern {
        type_: condition.type_.clone(),
        status: condition.status,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: condition.last_transition_time.0,
    }
}

/// Degraded weighs less than not available, which includes it for the reader.
fn operator_concern(operator: &ClusterOperator) -> Option<OperatorConcern> {
    let name = operator.metadata.name.clone().unwrap_or_default();
    let conditions = operator.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
    let of = |condition: &Condition, state| {
        Some(OperatorConcern {
            name: name.clone(),
            state,
            reason: condition.reason.clone(),
            message: condition.message.clone(),
            since: Some(condition.last_transition_time.0),
        })
    };
    match (find(conditions, AVAILABLE), find(conditions, "Degraded")) {
        (Some(available), _) if available.status != ConditionStatus::True => of(available, "NotAvailable"),
        (_, Some(degraded)) if degraded.status == ConditionStatus::True => of(degraded, "Degraded"),
        (Some(_), _) => None,
        (None, _) => Some(OperatorConcern {
            name,
            state: "NotReported",
            reason: String::new(),
            message: "its operator has not said yet whether it is available".to_owned(),
            since: None,
        }),
    }
}

/// The component of a node's id `stage/level/component`.
pub fn component(id: &str) -> &str {
    id.splitn(3, '/').nth(2).unwrap_or(id)
}

/// The level of a node's id, without leading zeros.
pub fn level(id: &str) -> &str {
    let level = id.split('/').nth(1).unwrap_or_default();
    let short = level.trim_start_matches('0');
    if short.is_empty() && !level.is_empty() { "0" } else { short }
}

/// Stages run one after the other and their nodes side by side, so the slowest node of each stage counts. A node that
/// takes longer than the last time is taken to end any moment. `None` if nothing is known of any node that remains.
fn remaining(nodes: &[NodeProgress], durations: &BTreeMap<String, f64>, now: Timestamp) -> Option<u64> {
    let mut by_stage: BTreeMap<&str, f64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.state != NodeState::Done) {
        let Some(took) = durations.get(component(&node.id)).filter(|took| took.is_finite()) else { continue };
        let spent = node.started.map_or(0.0, |started| now.duration_since(started).as_secs_f64().max(0.0));
        let stage = by_stage.entry(node.id.split('/').next().unwrap_or_default()).or_default();
        *stage = stage.max((took - spent).max(0.0));
    }
    let seconds: f64 = by_stage.values().sum();
    // A cast saturates; a year is beyond any honest estimate.
    (!by_stage.is_empty()).then_some(seconds.clamp(0.0, 3.2e7).ceil() as u64)
}
