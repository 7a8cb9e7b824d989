//! The progress record in ConfigMap `openshift-cluster-version/cluster-version-progress`, key `progress.json`. The lease
//! holder writes it when it changes, at most once a second; `cvo status` and `cvo page` read it.

use super::cluster_version::{HistoryEntry, Release};
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
    /// A copy of `status.history`, to restore it if the ClusterVersion is deleted.
    pub history: Vec<HistoryEntry>,
    /// How old the update advice in status is; `None` before the update service was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<Advice>,
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
    /// When the update service was asked last, and when it last answered this question with a graph.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub asked: Option<Timestamp>,
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
