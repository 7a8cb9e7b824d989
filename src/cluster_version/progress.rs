//! The progress record in ConfigMap `openshift-cluster-version/cluster-version-progress`, key `progress.json`. The lease
//! holder writes it when it changes, at most once a second; `cvo status` and `cvo page` read it.

use super::api::HistoryEntry;
use crate::release::api::Release;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const CONFIG_MAP: &str = "cluster-version-progress";
pub const KEY: &str = "progress.json";
pub(crate) const SCHEMA: u32 = 1;

/// The state of the current rollout, and the times that must survive a restart of the daemon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// Always [`SCHEMA`]; readers refuse any other.
    pub schema: u32,
    pub release: Release,
    #[serde(rename = "pass")]
    pub rollout: Rollout,
    /// In graph order.
    pub nodes: Vec<NodeProgress>,
    /// How many nodes are left out, because the record would be too large.
    #[serde(skip_serializing_if = "is_zero")]
    pub nodes_left_out: usize,
    /// Since when the daemon waits for an object in this release, by its key (such as `clusteroperator/<name>`).
    pub clocks: BTreeMap<String, Timestamp>,
    /// Seconds that each component took when it last completed, for estimates.
    pub durations: BTreeMap<String, f64>,
    /// Extracted payloads that may be reused: release digest to tree hash of the folder.
    pub payloads: BTreeMap<String, String>,
    /// Objects that earlier releases created and this one does not contain, unless they are known to be gone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dropped: Vec<DroppedObject>,
    /// A copy of `status.history`, with which a ClusterVersion that is made anew goes on.
    pub history: Vec<HistoryEntry>,
    /// How old the update advice in status is; `None` before the update service was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
    /// The release that is asked for and was not accepted, until it is, or another one is asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedRelease>,
    /// The course of this update and of those before it, newest first, at most ten.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub updates: Vec<UpdateRecord>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rollout {
    /// `install`, `update` or `reconcile`.
    pub mode: String,
    pub started: Option<Timestamp>,
    pub done: usize,
    pub total: usize,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeProgress {
    /// `stage/level/component`.
    pub id: String,
    pub state: NodeState,
    pub done: usize,
    pub total: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingFor>,
    /// The last error, while the node waits for its next attempt.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub error: String,
    /// Failed attempts at its manifests so far.
    #[serde(skip_serializing_if = "is_none")]
    pub retries: u32,
    /// The longest wait that is over.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<LongestWait>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde calls it with a reference")]
fn is_none(count: &u32) -> bool {
    *count == 0
}

impl NodeProgress {
    /// What it waits for, and for how long by now.
    pub(crate) fn wait(&self, now: Timestamp) -> Option<LongestWait> {
        let waiting = self.waiting.first()?;
        let millis = now.duration_since(waiting.since?).as_millis();
        Some(LongestWait {
            object: waiting.object(),
            reason: waiting.reason.clone(),
            millis: u64::try_from(millis).unwrap_or_default(),
        })
    }

    /// Remembers the wait that is over, if it was the longest.
    pub(crate) fn wait_ended(&mut self, now: Timestamp) {
        self.longest = self.longest.take().into_iter().chain(self.wait(now)).max_by_key(|wait| wait.millis);
    }
}

impl WaitingFor {
    /// `Kind namespace/name`.
    pub(crate) fn object(&self) -> String {
        let place = if self.namespace.is_empty() { String::new() } else { format!("{}/", self.namespace) };
        format!("{} {place}{}", self.kind, self.name)
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum NodeState {
    #[default]
    Pending,
    Running,
    Waiting,
    Failing,
    Done,
}

/// The age of the update advice: what ClusterVersion.status does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Advice {
    /// URL of the update service, channel and architecture in the question.
    pub service: String,
    pub channel: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    /// When the update service last answered this question with a graph: at most half an hour before the last answer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answered: Option<Timestamp>,
    /// What the queries of published risks said last, by a hash of the query.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub verdicts: BTreeMap<String, RecordedVerdict>,
}

/// What a query of a published risk said.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RecordedVerdict {
    pub matches: bool,
    pub evaluated: Timestamp,
}

/// An object that the release no longer contains.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DroppedObject {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub group: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

/// An object that a parked node waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WaitingFor {
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
    pub reason: String,
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
}

/// What a component waited for longest.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct LongestWait {
    /// `Kind namespace/name`.
    pub object: String,
    pub reason: String,
    pub millis: u64,
}

/// A release that was not accepted, and is tried again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RefusedRelease {
    pub version: String,
    pub image: String,
    /// When it is tried again, if nothing changes before.
    pub again: Option<Timestamp>,
}

/// The course of an installation or update: one entry of the history, with the times of its components.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateRecord {
    /// `install` or `update`.
    pub mode: String,
    /// The version that was completed before; empty for an installation.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub from: String,
    pub version: String,
    pub image: String,
    pub started: Timestamp,
    /// `None` while it is under way, and if another release replaced it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished: Option<Timestamp>,
    /// In graph order.
    pub components: Vec<ComponentRecord>,
    /// How many components were left out because the record would be too large: those that took least.
    #[serde(skip_serializing_if = "is_zero")]
    pub components_left_out: usize,
    /// How often the rollout was begun: by another process of the daemon, or because the configuration changed.
    pub rollouts: u32,
}

/// When a component was applied. Times are in milliseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ComponentRecord {
    /// `stage/level/component`.
    pub id: String,
    /// Since the update started.
    pub begin: u64,
    /// Since the update started; `None` if it did not end.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<u64>,
    #[serde(skip_serializing_if = "is_none")]
    pub retries: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longest: Option<LongestWait>,
}
