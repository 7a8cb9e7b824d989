//! What monitoring sees: a snapshot of what the daemon knows becomes samples in the text format of Prometheus.
//!
//! The names that begin with `cluster_version_operator_` are ours, except that of the retrieval time. All others, with their
//! labels and meanings, are those of the upstream operator, because dashboards and alerts of other projects use them.
//!
//! A snapshot is read anew for each scrape, so nothing here registers or changes metrics. That, and that series have to
//! disappear with what they are about, is why the few lines of `encoder` stand in place of a library that models metrics as
//! long-lived objects.

mod cluster_version;
mod daemon;
mod operators;

use crate::cluster_version::api::{ClusterVersionSpec, ClusterVersionStatus};
use crate::cluster_version::progress::NodeProgress;
use crate::cluster_version::status::facts::Conflict;
use crate::metrics::encoder::Text;
use crate::metrics::process::ProcessFigures;
use crate::object::cluster_operator::OperatorReport;
use crate::release::api::Release;
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The name under which the ClusterVersion stands beside the ClusterOperators.
const CLUSTER_VERSION: &str = "version";

/// The ClusterVersion as it was seen last.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenClusterVersion {
    pub spec: ClusterVersionSpec,
    pub status: ClusterVersionStatus,
    /// Of the object.
    pub created: Option<Timestamp>,
}

/// The rollout under way, or the one that has completed.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenRollout {
    pub version: String,
    /// Manifests in place, and all of them.
    pub done: usize,
    pub total: usize,
    /// Failed attempts at manifests.
    pub errors: u64,
    /// Nodes that wait for an object.
    pub waiting: Vec<NodeProgress>,
    pub conflicts: Vec<Conflict>,
}

/// Events that were counted since the process started.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counters {
    /// Ended attempts to load a release, by the step they ended in and how.
    pub loads: BTreeMap<(&'static str, &'static str), u64>,
    /// Objects that were brought back after another client had changed them, by kind.
    pub repairs: BTreeMap<String, u64>,
}

/// What the controller knows after a turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct Observation {
    /// When the turn ended.
    pub turn: Timestamp,
    /// `None` if there is none in the cluster.
    pub cluster_version: Option<Arc<SeenClusterVersion>>,
    pub rollout: Option<SeenRollout>,
    /// Seconds that each component took when it last completed.
    pub durations: BTreeMap<String, f64>,
    pub counters: Counters,
}

/// Who installed the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Installer {
    pub type_: String,
    pub version: String,
    pub invoker: String,
}

/// What came of asking the update service.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetrievalFigures {
    /// When it confirmed the updates, or was asked for the first time or in another way.
    pub retrieved: Option<Timestamp>,
    /// Failures by reason.
    pub failures: BTreeMap<String, u64>,
}

/// Everything that one scrape shows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Snapshot {
    /// The release of this process, and when it was built.
    pub own: Release,
    pub built: Option<Timestamp>,
    /// `--update-service`.
    pub update_service: Option<String>,
    /// `None` before the first turn: while another process holds the lease.
    pub observation: Option<Arc<Observation>>,
    /// `None` before all have been read.
    pub operators: Option<Arc<BTreeMap<String, Arc<OperatorReport>>>>,
    /// How often the status of a condition changed, by operator and condition type.
    pub transitions: BTreeMap<(String, String), u64>,
    /// `None` where it could not be read.
    pub installer: Option<Installer>,
    /// The kinds that the daemon follows, as `<plural>.<group>`, and whether their changes are noticed at once.
    pub kinds: BTreeMap<String, bool>,
    /// Requests to the API server by verb and status code.
    pub requests: BTreeMap<(&'static str, String), u64>,
    pub retrieval: RetrievalFigures,
    pub process: ProcessFigures,
}

/// The samples as text.
pub(crate) fn text(snapshot: &Snapshot, now: Timestamp) -> String {
    let mut text = Text::default();
    cluster_version::write(&mut text, snapshot);
    operators::write(&mut text, snapshot);
    daemon::write(&mut text, snapshot, now);
    text.finish()
}

/// Name and meaning of each metric.
pub(crate) fn described() -> BTreeMap<String, String> {
    let mut text = Text::default();
    let (cluster_version, rollout) = (Some(Arc::default()), Some(SeenRollout::default()));
    let observation = Some(Arc::new(Observation { cluster_version, rollout, ..Observation::default() }));
    let snapshot = Snapshot { observation, operators: Some(Arc::default()), ..Snapshot::default() };
    cluster_version::write(&mut text, &snapshot);
    operators::write(&mut text, &snapshot);
    daemon::write(&mut text, &snapshot, Timestamp::UNIX_EPOCH);
    text.described()
}

#[cfg(test)]
mod tests;
