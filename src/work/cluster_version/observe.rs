//! What the controller tells the metrics after each turn.

use super::{ClusterVersionController, Current};
use crate::api::progress::NodeProgress;
use crate::metrics::{Counters, Observation, SeenClusterVersion, SeenRollout};
use crate::rollout::View;
use crate::status::facts::LoadStep;
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
}

fn add(sum: &mut BTreeMap<String, u64>, more: &BTreeMap<String, u64>) {
    for (kind, number) in more {
        *sum.entry(kind.clone()).or_default() += number;
    }
}

impl ClusterVersionController {
    pub(super) fn tell_metrics(&mut self, now: Timestamp) {
        let rollout = self.current.as_ref().map(|current| seen(&current.rollout.view()));
        let mut counters = Counters { repairs: self.kept.repairs.clone(), ..self.kept.counters.clone() };
        if let Some(Current { rollout, .. }) = &self.current {
            add(&mut counters.repairs, &rollout.view().repairs);
        }
        let observation = Observation {
            turn: now,
            cluster_version: self.seen_cluster_version(),
            rollout,
            durations: self.durations.clone(),
            counters,
        };
        self.parts.monitoring.observe(observation);
    }

    /// Copied only when it has changed: it may be large, and an install takes many turns.
    fn seen_cluster_version(&mut self) -> Option<Arc<SeenClusterVersion>> {
        let live = self.live.live()?;
        let text = |place: &str| live.raw.pointer(place).and_then(Value::as_str);
        let version = text("/metadata/resourceVersion").unwrap_or_default();
        if let Some((known, seen)) = &self.kept.seen
            && known == version
            && !version.is_empty()
        {
            return Some(seen.clone());
        }
        let created = text("/metadata/creationTimestamp").and_then(|text| text.parse().ok());
        let seen = SeenClusterVersion { spec: live.spec.clone(), status: live.status.clone(), created };
        let seen = Arc::new(seen);
        self.kept.seen = Some((version.to_owned(), seen.clone()));
        Some(seen)
    }
}

fn seen(rollout: &View) -> SeenRollout {
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
