//! What metrics tell of ClusterServiceVersions.

use super::live::Live;
use crate::olm::api::cluster_service_version::Phase;
use crate::olm::metrics::CsvFigures;
use crate::olm::source::operators::{Fit, Lifecycle, Progress};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;

/// Is asked at each scrape.
#[derive(Default)]
pub(crate) struct OperatorFigures {
    live: OnceLock<Live>,
    upgrades: AtomicU64,
    lifecycle: watch::Sender<Lifecycle>,
}

impl OperatorFigures {
    pub(super) fn show(&self, live: Live) {
        let _first = self.live.set(live);
    }

    /// How far the loop is, and whether all operators fit the next minor version of the cluster.
    pub(crate) fn lifecycle(&self) -> watch::Receiver<Lifecycle> {
        self.lifecycle.subscribe()
    }

    pub(super) fn on_fit(&self, fit: Fit) {
        self.lifecycle.send_if_modified(|known| std::mem::replace(&mut known.fit, fit.clone()) != fit);
    }

    pub(super) fn on_progress(&self, progress: Progress) {
        let progress = Some(progress);
        self.lifecycle.send_if_modified(|known| std::mem::replace(&mut known.progress, progress.clone()) != progress);
    }

    pub(super) fn on_upgrade(&self) {
        self.upgrades.fetch_add(1, Ordering::Relaxed);
    }

    /// How often one was replaced by another since the process began.
    pub(crate) fn upgrades(&self) -> u64 {
        self.upgrades.load(Ordering::Relaxed)
    }

    /// `None` before all of them are known.
    pub(crate) fn csvs(&self) -> Option<Vec<CsvFigures>> {
        let all = self.live.get()?.csvs.all()?;
        let figures = all.values().map(|view| {
            let (metadata, status) = (&view.0.metadata, view.0.status.clone().unwrap_or_default());
            CsvFigures {
                namespace: metadata.namespace.clone().unwrap_or_default(),
                name: metadata.name.clone().unwrap_or_default(),
                version: view.0.spec.version.clone(),
                succeeded: status.phase == Phase::Succeeded,
                phase: serde_json::to_value(&status.phase)
                    .ok()
                    .and_then(|phase| phase.as_str().map(str::to_owned))
                    .unwrap_or_default(),
                reason: status.reason,
            }
        });
        Some(figures.collect())
    }

    /// `namespace/name` of ClusterServiceVersions, OperatorGroups and OperatorConditions that do not have the form of their kind.
    pub(crate) fn undecodable(&self) -> Vec<(&'static str, String)> {
        let Some(live) = self.live.get() else { return Vec::new() };
        let csvs = live.csvs.undecodable().into_keys().map(|name| ("ClusterServiceVersion", name));
        let groups = live.groups.undecodable().into_keys().map(|name| ("OperatorGroup", name));
        let conditions = live.conditions.undecodable().into_keys().map(|name| ("OperatorCondition", name));
        csvs.chain(groups).chain(conditions).collect()
    }
}
