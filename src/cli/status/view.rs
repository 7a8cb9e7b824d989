//! The state of an update as one value, computed from the objects of the cluster, for text, lines and JSON.

use super::State;
use super::installed::InstalledOperators;
use super::next_step;
use super::pools::{PoolState, left_alone, pools};
use crate::cluster_version::api::{ClusterVersionStatus, HistoryEntry, HistoryState};
use crate::cluster_version::progress::{NodeProgress, NodeState, Progress, RefusedRelease, Rollout};
use crate::cluster_version::status::conditions::{
    AVAILABLE, CONTESTED, DROPPED_OBJECTS, FAILING, FIELDS_NOT_ACCEPTED, INVALID, KINDS_NOT_WATCHED, PROGRESSING,
    RELEASE_ACCEPTED, RETRIEVED_UPDATES, UPGRADEABLE,
};
use crate::cluster_version::updates::risks::RECOMMENDED;
use crate::cluster_version::updates::timeline;
use crate::cluster_version::updates::timeline::{Slow, Told};
use crate::diagnosis::lease::Silence;
use crate::diagnosis::pods::Detail;
use crate::object::cluster_operator::ClusterOperator;
use crate::object::condition::find;
use crate::object::condition::{Condition, ConditionStatus};
use crate::object::read::Read;
use crate::olm::cli::status as olm;
use crate::release::api::Release;
use crate::release::api::{ConditionalUpdate, ConditionalUpdateRisk};
use jiff::Timestamp;
use serde::Serialize;
use std::collections::BTreeMap;

/// Everything that is shown; `-o json` prints it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct View {
    pub phase: Phase,
    /// Version of the last completed release; empty if there is none.
    pub version: String,
    /// The release that is being applied or is kept applied.
    pub target: Release,
    /// When the phase began.
    pub since: Option<Timestamp>,
    /// The message of condition Progressing.
    pub message: String,
    /// Counts of manifests; `null` without a progress record of this release.
    pub pass: Option<Rollout>,
    /// In graph order; empty without a progress record of this release.
    pub components: Vec<NodeProgress>,
    /// Estimated from how long components took last time; `null` if nothing is known about the remaining ones.
    pub remaining_seconds: Option<u64>,
    /// Components that take longer than in the updates before.
    pub slow: Vec<Slow>,
    /// The components that everything else waited for, or waits for, first to last.
    pub critical_path: Vec<String>,
    /// Processes that do not renew their Leases: what is shown is as old as that.
    pub silences: Vec<Silence>,
    /// What is behind what is waited for: pods that do not work.
    pub details: Vec<Detail>,
    /// Conditions that need attention.
    pub concerns: Vec<Concern>,
    /// ClusterOperators that are not well: the operators of the release.
    pub operators: Vec<OperatorConcern>,
    /// The operators that were installed; `null` where there are none.
    pub installed_operators: Option<InstalledOperators>,
    /// Pools of nodes, in the order of their names; empty where nodes are not configured by pools.
    pub pools: Vec<PoolState>,
    /// Nodes that no pool selects, and what to do about it.
    pub nodes_without_pool: Vec<String>,
    /// Recommended versions to update to.
    pub available_updates: Vec<String>,
    /// Where releases that can be updated to are described, by their versions.
    pub update_urls: BTreeMap<String, String>,
    /// Updates that are published with risks of which not all are known not to apply.
    pub risky_updates: Vec<RiskyUpdate>,
    /// What of the published updates is not offered, and why; empty if everything is.
    pub left_out: String,
    /// The release that was asked for and not accepted, and when it is tried again.
    pub refused: Option<RefusedRelease>,
    /// Newest first.
    pub history: Vec<HistoryEntry>,
    /// The course of the last updates, newest first.
    pub updates: Vec<Told>,
    /// What could not be read and why.
    pub remarks: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) enum Phase {
    /// There is no ClusterVersion, or it has no conditions yet.
    #[default]
    Unknown,
    Installing,
    Updating,
    /// A release is applied, and kept applied.
    Running,
}

/// A condition of ClusterVersion that needs attention.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Concern {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    pub since: Timestamp,
    /// What a person can do about it.
    pub next_step: String,
}

/// An operator that is not available or degraded.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct OperatorConcern {
    pub name: String,
    /// `Degraded`, `NotAvailable` or `NotReported`.
    pub state: &'static str,
    pub reason: String,
    pub message: String,
    pub since: Option<Timestamp>,
    /// What a person can do about it.
    pub next_step: String,
}

/// An update that is not recommended, or of which that is not known.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct RiskyUpdate {
    pub version: String,
    /// False: a risk applies. Unknown: that cannot be found out.
    pub recommended: ConditionStatus,
    pub reason: String,
    pub message: String,
    /// What was published about it.
    pub risks: Vec<Risk>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Risk {
    pub name: String,
    pub message: String,
    pub url: String,
}

impl Concern {
    /// The status as it follows the type; nothing for the usual one, True.
    pub(crate) fn status_text(&self) -> &'static str {
        match self.status {
            ConditionStatus::True => "",
            ConditionStatus::False => "=False",
            ConditionStatus::Unknown => "=Unknown",
        }
    }
}

type Test = fn(&Condition) -> bool;

/// When a condition needs attention.
const CONCERNS: [(&str, Test); 9] = [
    (FAILING, |c| c.status != ConditionStatus::False),
    (INVALID, |c| c.status == ConditionStatus::True),
    (RELEASE_ACCEPTED, |c| c.status != ConditionStatus::True),
    (CONTESTED, |c| c.status == ConditionStatus::True),
    (DROPPED_OBJECTS, |c| c.status == ConditionStatus::True),
    (KINDS_NOT_WATCHED, |c| c.status == ConditionStatus::True),
    (FIELDS_NOT_ACCEPTED, |c| c.status == ConditionStatus::True),
    (UPGRADEABLE, |c| c.status == ConditionStatus::False),
    // Without a channel no updates are expected.
    (RETRIEVED_UPDATES, |c| c.status == ConditionStatus::False && !matches!(c.reason.as_str(), "" | "NoChannel")),
];

impl View {
    pub(crate) fn of(state: &State, now: Timestamp) -> View {
        let mut view = View { remarks: state.remarks.clone(), details: state.details.clone(), ..View::default() };
        view.silences.clone_from(&state.silences);
        view.operators = state.operators().iter().filter_map(operator_concern).collect();
        view.operators.sort_by(|a, b| a.name.cmp(&b.name));
        view.take_installed(state);
        view.pools = pools(&state.pools, &state.nodes);
        view.nodes_without_pool = left_alone(&state.pools, &state.nodes);
        let Some(status) = state.cluster_version.as_ref().and_then(|cv| cv.status.as_ref()) else { return view };
        view.take_status(status);
        if let Some(progress) = &state.progress {
            view.updates = updates(progress, status);
            // One that was accepted or replaced since is no news; the record is written after the status.
            let refused = find(&status.conditions, RELEASE_ACCEPTED).is_some_and(|c| c.status != ConditionStatus::True);
            view.refused = progress.refused.clone().filter(|_| refused);
        }
        match &state.progress {
            Some(progress) if progress.release.image == view.target.image || belongs(progress, status) => {
                view.take_progress(progress, now);
            }
            Some(progress) => view.remarks.push(format!(
                "Components are not shown: the progress record is about another release ({}); the daemon has not written one about this release yet",
                progress.release.version
            )),
            None => {}
        }
        view
    }

    fn take_installed(&mut self, state: &State) {
        match &state.installed {
            Read::Absent => {}
            Read::Failed(error) => self.remarks.push(format!("Installed operators are not shown: {error}")),
            Read::Value(objects) => {
                let olm::View { rows, undecodable, remarks, .. } = olm::View::of(objects, None);
                self.installed_operators = InstalledOperators::of(&rows, objects, state.cluster_version.as_ref());
                self.remarks.extend(undecodable.into_iter().chain(remarks));
            }
        }
    }

    fn take_status(&mut self, status: &ClusterVersionStatus) {
        let completed = status.history.iter().find(|entry| entry.state == HistoryState::Completed);
        self.version = completed.map(|entry| entry.version.clone()).unwrap_or_default();
        self.target = status.desired.clone();
        self.history.clone_from(&status.history);
        let updates = status.available_updates.iter().flatten();
        self.available_updates = updates.map(|release| release.version.clone()).collect();
        let releases = status.available_updates.iter().flatten();
        let releases = releases.chain(status.conditional_updates.iter().map(|update| &update.release));
        let described = releases.filter(|release| !release.url.is_empty());
        self.update_urls = described.map(|release| (release.version.clone(), release.url.clone())).collect();
        self.risky_updates = status.conditional_updates.iter().filter_map(risky).collect();
        // When updates were retrieved, the message says what was left out of them.
        let retrieved = find(&status.conditions, RETRIEVED_UPDATES).filter(|c| c.status == ConditionStatus::True);
        self.left_out = retrieved.map(|condition| condition.message.clone()).unwrap_or_default();
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
        // An update that replaces another one starts a history entry, but Progressing stays True.
        let newest = status.history.first();
        if let (Phase::Installing | Phase::Updating, Some(entry)) = (self.phase, newest) {
            self.since = Some(entry.started_time.0);
        }
        // During an update nothing can be updated further, which is no news.
        let is_news = |type_: &str| type_ != UPGRADEABLE || self.phase == Phase::Running;
        let concerns = CONCERNS.iter().filter(|(type_, _)| is_news(type_));
        let concerns = concerns.filter_map(|(type_, holds)| find(&status.conditions, type_).filter(|c| holds(c)));
        self.concerns = concerns.map(|condition| concern(condition, &self.operators)).collect();
    }

    fn take_progress(&mut self, progress: &Progress, now: Timestamp) {
        // The record may be older than the status, which already says that everything is done.
        let late = progress.rollout.mode != "reconcile" && progress.rollout.done < progress.rollout.total;
        if self.phase == Phase::Running && late {
            return;
        }
        if progress.nodes_left_out > 0 {
            self.remarks
                .push(format!("The progress record has no room for {} more components", progress.nodes_left_out));
        }
        self.pass = Some(progress.rollout.clone());
        self.components.clone_from(&progress.nodes);
        self.slow = timeline::slow(&progress.nodes, &progress.updates, now);
        let current = progress.updates.first().filter(|record| record.image == progress.release.image);
        let path = current.map(timeline::critical_path).unwrap_or_default();
        self.critical_path = path.into_iter().map(|step| step.id).collect();
        // How long something takes that never took so long is not known.
        let known = self.slow.is_empty();
        self.remaining_seconds = remaining(&progress.nodes, &progress.durations, now).filter(|_| known);
    }

    /// Nodes that are done.
    pub(crate) fn components_done(&self) -> usize {
        self.components.iter().filter(|node| node.state == NodeState::Done).count()
    }
}

/// The course of the last updates, with what the history knows of each.
fn updates(progress: &Progress, status: &ClusterVersionStatus) -> Vec<Told> {
    let mut told = timeline::told(&progress.updates);
    for update in &mut told {
        // Times in the history are whole seconds.
        let is = |entry: &&HistoryEntry| {
            entry.image == update.image && entry.started_time.0.duration_since(update.started).abs().as_secs() <= 60
        };
        let entry = status.history.iter().find(is);
        update.accepted_risks = entry.map(|entry| entry.accepted_risks.clone()).unwrap_or_default();
        // The end is recorded a moment after the history has it.
        let completed = entry.filter(|entry| entry.state == HistoryState::Completed && update.state != "Completed");
        if let Some((entry, end)) = completed.and_then(|entry| Some((entry, entry.completion_time.as_ref()?))) {
            update.state = "Completed";
            update.seconds = end.0.duration_since(entry.started_time.0).as_secs_f64();
        }
    }
    told
}

/// Whether the record is about the release of the newest history entry: `desired` may already name the next release.
fn belongs(progress: &Progress, status: &ClusterVersionStatus) -> bool {
    status.history.first().is_some_and(|entry| entry.image == progress.release.image)
}

fn concern(condition: &Condition, operators: &[OperatorConcern]) -> Concern {
    // What the API server says is closer to the cause.
    let by_message = next_step::of_message(&condition.message).filter(|_| condition.type_ == FAILING);
    // A release that is being retrieved or checked needs nothing.
    let under_way = condition.type_ == RELEASE_ACCEPTED && condition.status == ConditionStatus::Unknown;
    let step = by_message.or_else(|| next_step::of_condition(&condition.type_, &condition.reason));
    let step = step.filter(|_| !under_way).unwrap_or_default();
    // Those that the message is about.
    let words = || condition.message.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
    let names = operators.iter().map(|operator| operator.name.as_str());
    let names: Vec<&str> = names.filter(|name| words().any(|word| word == *name)).collect();
    Concern {
        type_: condition.type_.clone(),
        status: condition.status,
        reason: condition.reason.clone(),
        message: condition.message.clone(),
        since: condition.last_transition_time.0,
        next_step: next_step::with_image(&next_step::with_names(step, &names), &condition.message),
    }
}

fn risky(update: &ConditionalUpdate) -> Option<RiskyUpdate> {
    let verdict = update.conditions.iter().find(|condition| condition.type_ == RECOMMENDED);
    let (recommended, reason, message) = match verdict {
        Some(verdict) => {
            let status = match verdict.status.as_str() {
                "True" => ConditionStatus::True,
                "False" => ConditionStatus::False,
                _ => ConditionStatus::Unknown,
            };
            (status, verdict.reason.clone(), verdict.message.clone())
        }
        None => (ConditionStatus::Unknown, String::new(), "its risks have not been evaluated yet".to_owned()),
    };
    let version = update.release.version.clone();
    let risk = |risk: &ConditionalUpdateRisk| Risk {
        name: risk.name.clone(),
        message: risk.message.clone(),
        url: risk.url.clone(),
    };
    let risks = update.risks.iter().map(risk).collect();
    (recommended != ConditionStatus::True).then_some(RiskyUpdate { version, recommended, reason, message, risks })
}

/// An operator that is not available is reported as such even if it is degraded, too.
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
            next_step: next_step::of_operators(&[&name]),
        })
    };
    match (find(conditions, AVAILABLE), find(conditions, "Degraded")) {
        (Some(available), _) if available.status != ConditionStatus::True => of(available, "NotAvailable"),
        (_, Some(degraded)) if degraded.status == ConditionStatus::True => of(degraded, "Degraded"),
        (Some(_), _) => None,
        (None, _) => Some(OperatorConcern {
            next_step: next_step::of_operators(&[&name]),
            name,
            state: "NotReported",
            reason: String::new(),
            message: "condition Available is missing".to_owned(),
            since: None,
        }),
    }
}

/// The component of a node's id `stage/level/component`.
pub(crate) fn component(id: &str) -> &str {
    id.splitn(3, '/').nth(2).unwrap_or(id)
}

/// The level of a node's id, without leading zeros.
pub(crate) fn level(id: &str) -> &str {
    let level = id.split('/').nth(1).unwrap_or_default();
    let short = level.trim_start_matches('0');
    if short.is_empty() && !level.is_empty() { "0" } else { short }
}

/// Stages run one after the other and their nodes in parallel, so the slowest node of each stage counts. A node that takes
/// longer than last time counts as almost done. `None` if nothing is known about the remaining nodes.
fn remaining(nodes: &[NodeProgress], durations: &BTreeMap<String, f64>, now: Timestamp) -> Option<u64> {
    let mut by_stage: BTreeMap<&str, f64> = BTreeMap::new();
    for node in nodes.iter().filter(|node| node.state != NodeState::Done) {
        let Some(took) = durations.get(component(&node.id)).filter(|took| took.is_finite()) else { continue };
        let spent = node.started.map_or(0.0, |started| now.duration_since(started).as_secs_f64().max(0.0));
        let stage = by_stage.entry(node.id.split('/').next().unwrap_or_default()).or_default();
        *stage = stage.max((took - spent).max(0.0));
    }
    let seconds: f64 = by_stage.values().sum();
    // At most a year: durations come from a record that anybody may have edited.
    (!by_stage.is_empty()).then_some(seconds.clamp(0.0, 3.2e7).ceil() as u64)
}
