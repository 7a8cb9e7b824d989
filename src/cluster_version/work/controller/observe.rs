//! What the controller tells the metrics after each turn.

use super::ClusterVersionController;
use super::live::Live;
use super::seen::Seen;
use crate::cluster_version::metrics::{Counters, Observation, SeenClusterVersion, SeenRollout};
use crate::cluster_version::progress::NodeProgress;
use crate::cluster_version::rollout::View;
use crate::cluster_version::status::facts::LoadStep;
use jiff::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What is kept from turn to turn.
#[derive(Debug, Default)]
pub(super) struct Kept {
    counters: Counters,
    /// Repairs of rollouts that have ended.
    repairs: BTreeMap<String, u64>,
    /// The ClusterVersion in this resourceVersion.
    seen: Option<(String, Arc<SeenClusterVersion>)>,
}

impl Kept {
    pub(super) fn on_load_ended(&mut self, step: LoadStep, accepted: bool) {
        let outcome = if accepted { "accepted" } else { "failed" };
        *self.counters.loads.entry((step.reason(), outcome)).or_default() += 1;
    }

    pub(super) fn on_rollout_ended(&mut self, rollout: &View) {
        add(&mut self.repairs, &rollout.repairs);
    }

    /// Copied only when it has changed: it may be large, and an install takes many turns.
    fn cluster_version(&mut self, live: &Live) -> Arc<SeenClusterVersion> {
        let text = |place: &str| live.raw.pointer(place).and_then(Value::as_str);
        let version = text("/metadata/resourceVersion").unwrap_or_default();
        if let Some((known, seen)) = &self.seen
            && known == version
            && !version.is_empty()
        {
            return seen.clone();
        }
        let created = text("/metadata/creationTimestamp").and_then(|text| text.parse().ok());
        let seen = SeenClusterVersion { spec: live.spec.clone(), status: live.status.clone(), created };
        let seen = Arc::new(seen);
        self.seen = Some((version.to_owned(), seen.clone()));
        seen
    }
}

fn add(sum: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (kind, number) in more {
        *sum.entry(kind.clone()).or_default() += number;
    }
}

impl ClusterVersionController {
    /// `seen`: `None` without a ClusterVersion.
    pub(super) fn tell_metrics(&mut self, seen: Option<&Seen>, now: Timestamp) {
        let view = seen.and_then(|seen| seen.rollout.as_ref());
        let mut counters = Counters { repairs: self.kept.repairs.clone(), ..self.kept.counters.clone() };
        if let Some(view) = view {
            add(&mut counters.repairs, &view.repairs);
        }
        let observation = Observation {
            turn: now,
            cluster_version: seen.map(|seen| self.kept.cluster_version(&seen.live)),
            rollout: view.map(|view| seen_rollout(view)),
            durations: self.durations.clone(),
            counters,
        };
        self.parts.monitoring.observe(observation);
    }
}

fn seen_rollout(rollout: &View) -> SeenRollout {
    let waits = |node: &&NodeProgress| !node.waiting.is_empty();
    SeenRollout {
        version: rollout.plan.release.version.clone(),
        done: rollout.done,
        total: rollout.plan.manifests.len(),
        errors: rollout.errors,
        waiting: rollout.nodes.iter().filter(waits).cloned().collect(),
        conflicts: rollout.conflicts.clone(),
    }
}
