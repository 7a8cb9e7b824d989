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
        let all = self.live.get()?.originals()?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cluster::watcher::Event;
    use crate::olm::api::cluster_service_version::ClusterServiceVersion;
    use crate::olm::api::keys::annotation;
    use crate::olm::metrics::{OperatorsSnapshot, text};
    use serde_json::json;

    fn csv(name: &str, version: u64, phase: &str, reason: &str) -> ClusterServiceVersion {
        let metadata = json!({"name": name, "namespace": "shop", "uid": name, "resourceVersion": version.to_string()});
        let status = json!({"phase": phase, "reason": reason});
        serde_json::from_value(json!({"metadata": metadata, "spec": {"version": "1.0.0"}, "status": status})).unwrap()
    }

    /// What a scrape shows of them.
    fn samples(figures: &OperatorFigures) -> Vec<String> {
        let snapshot =
            OperatorsSnapshot { csvs: figures.csvs(), upgrades: figures.upgrades(), ..OperatorsSnapshot::default() };
        text(&snapshot).lines().filter(|line| line.starts_with("csv_")).map(str::to_owned).collect()
    }

    #[test]
    fn series_are_those_of_the_present_phase_and_end_with_the_version() {
        let (figures, live) = (OperatorFigures::default(), Live::detached());
        let count = |upgrades: u64| format!("csv_upgrade_count {upgrades}");
        assert_eq!(samples(&figures), [count(0)]);
        figures.show(live.clone());
        let tell = |event: Event<ClusterServiceVersion>| live.csvs.on_event(Ok(event));
        tell(Event::Init);
        tell(Event::InitApply(csv("a", 1, "Pending", "RequirementsNotMet")));
        assert_eq!(samples(&figures), [count(0)], "there may be more of them");
        tell(Event::InitDone);
        let of = |name: &str| format!("namespace=\"shop\",name=\"{name}\",version=\"1.0.0\"");
        let succeeded = |name: &str, value: u8| format!("csv_succeeded{{{}}} {value}", of(name));
        let abnormal = |name: &str, phase: &str, reason: &str| {
            format!("csv_abnormal{{{},phase=\"{phase}\",reason=\"{reason}\"}} 1", of(name))
        };
        let one = || "csv_count 1".to_owned();
        let waits = abnormal("a", "Pending", "RequirementsNotMet");
        assert_eq!(samples(&figures), [one(), succeeded("a", 0), waits, count(0)]);
        // Neither the former phase nor the former reason stays.
        tell(Event::Apply(csv("a", 2, "Failed", "InstallCheckFailed")));
        let failed = abnormal("a", "Failed", "InstallCheckFailed");
        assert_eq!(samples(&figures), [one(), succeeded("a", 0), failed, count(0)]);
        tell(Event::Apply(csv("a", 3, "Succeeded", "InstallSucceeded")));
        assert_eq!(samples(&figures), [one(), succeeded("a", 1), count(0)]);
        tell(Event::Apply(csv("b", 4, "Installing", "InstallWaiting")));
        tell(Event::Apply(csv("a", 5, "Replacing", "BeingReplaced")));
        figures.on_upgrade();
        let (a, b) = (abnormal("a", "Replacing", "BeingReplaced"), abnormal("b", "Installing", "InstallWaiting"));
        let expected = ["csv_count 2".to_owned(), succeeded("a", 0), succeeded("b", 0), a, b, count(1)];
        assert_eq!(samples(&figures), expected);
        tell(Event::Delete(csv("a", 6, "Deleting", "Replaced")));
        tell(Event::Apply(csv("b", 7, "Succeeded", "InstallSucceeded")));
        assert_eq!(samples(&figures), [one(), succeeded("b", 1), count(1)]);
        // A watch that begins anew does not tell of what has gone meanwhile.
        tell(Event::Init);
        tell(Event::InitDone);
        assert_eq!(samples(&figures), ["csv_count 0".to_owned(), count(1)]);
    }

    /// Its original has one already.
    #[test]
    fn copy_without_its_label_has_no_series() {
        let (figures, live) = (OperatorFigures::default(), Live::detached());
        figures.show(live.clone());
        let mut copy = csv("a", 1, "Succeeded", "Copied");
        let annotations = [(annotation::OPERATOR_NAMESPACE.to_owned(), "mall".to_owned())];
        copy.metadata.annotations = Some(annotations.into());
        for event in [Event::Init, Event::InitApply(copy), Event::InitDone] {
            live.csvs.on_event(Ok(event));
        }
        assert_eq!(samples(&figures), ["csv_count 0", "csv_upgrade_count 0"]);
    }
}
