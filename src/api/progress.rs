//! The progress record: ConfigMap `openshift-cluster-version/cluster-version-progress`, key `progress.json`
//! (architecture §4). Written by the lease holder, read from outside by `cvo status`.

use super::cluster_version::{HistoryEntry, Release};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const CONFIG_MAP: &str = "cluster-version-progress";
pub const KEY: &str = "progress.json";
pub const SCHEMA: u32 = 1;

/// Where the current pass stands and the clocks that must outlive a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Progress {
    /// Always [`SCHEMA`]; a reader refuses what it does not know.
    pub schema: u32,
    pub release: Release,
    pub pass: Pass,
    /// In graph order.
    pub nodes: Vec<NodeProgress>,
    /// Clocks by subject (`clusteroperator/<name>` and the like): when the daemon began to wait for it in this release.
    pub clocks: BTreeMap<String, Timestamp>,
    /// Seconds that a node took when it last completed, by component: what estimates are made of.
    pub durations: BTreeMap<String, f64>,
    /// Extracted payloads that may be used again: release digest to tree hash of the folder.
    pub payloads: BTreeMap<String, String>,
    /// A copy of `status.history`, in case the ClusterVersion is lost.
    pub history: Vec<HistoryEntry>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Pass {
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
    /// The last error, while the node waits to try again.
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

/// What a parked node waits for, and since when.
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
