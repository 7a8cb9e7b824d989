//! Reports ClusterOperators of components that have no operator: those with the annotation that [`reported`] names. What they report
//! follows the workloads of the component; nothing is polled.

use super::apply::Applier;
use crate::cluster::{Kind, jittered};
use crate::gate::Observed;
use crate::gate::reported::{self, Workload};
use crate::object::cluster_operator::OperatorReport;
use crate::object::manifest::{Manifest, ObjectId};
use futures::future::select_all;
use jiff::Timestamp;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A report that could not be written is tried again after longer and longer pauses.
const PAUSE: Duration = Duration::from_secs(1);
const PAUSE_CAP: Duration = Duration::from_secs(60);

/// One ClusterOperator and the workloads of its component.
#[derive(Clone, Debug)]
pub(crate) struct StandIn {
    operator: Arc<Manifest>,
    workloads: Vec<Arc<Manifest>>,
}

/// Those of a release.
pub(crate) fn stand_ins(manifests: &[Arc<Manifest>]) -> Vec<StandIn> {
    let is = |manifest: &&Arc<Manifest>| {
        let annotated = manifest.annotation(reported::ANNOTATION) == Some("true");
        manifest.id.kind == "ClusterOperator" && annotated && manifest.delete() == Ok(false)
    };
    let of = |operator: &Arc<Manifest>| {
        let workloads = workloads(manifests, operator).cloned().collect();
        StandIn { operator: operator.clone(), workloads }
    };
    manifests.iter().filter(is).map(of).collect()
}

/// The workloads of the component whose ClusterOperator this is.
pub(super) fn workloads<'a>(
    manifests: &'a [Arc<Manifest>],
    operator: &Manifest,
) -> impl Iterator<Item = &'a Arc<Manifest>> {
    let component = |manifest: &Manifest| manifest.run_level().map(|(_, component)| component.to_owned());
    let own = component(operator);
    manifests.iter().filter(move |manifest| {
        reported::is_workload(&manifest.id.group, &manifest.id.kind)
            && own.is_some()
            && component(manifest) == own
            && manifest.delete() == Ok(false)
    })
}

impl StandIn {
    /// Reports until cancelled.
    pub(crate) async fn run(self, applier: Arc<Applier>, cancel: CancellationToken) {
        let ids: Vec<(Kind, ObjectId)> = self.workloads.iter().filter_map(|it| applier.resolve(it)).collect();
        let mut changes: Vec<watch::Receiver<u64>> = ids.iter().map(|(_, id)| applier.index().subscribe(id)).collect();
        let mut reports = applier.operators().changes();
        let mut failures = 0;
        loop {
            changes.iter_mut().for_each(watch::Receiver::mark_unchanged);
            reports.mark_unchanged();
            let pause = match self.report(&applier).await {
                Ok(()) => {
                    failures = 0;
                    None
                }
                Err(error) => {
                    failures = u32::saturating_add(failures, 1);
                    if failures == 1 {
                        tracing::warn!(operator = self.operator.id.name, error, "cannot report for it; trying again");
                    }
                    Some(jittered(PAUSE, failures, PAUSE_CAP))
                }
            };
            let changed = async {
                match changes.is_empty() {
                    true => std::future::pending().await,
                    false => drop(select_all(changes.iter_mut().map(|change| Box::pin(change.changed()))).await),
                }
            };
            tokio::select! {
                () = cancel.cancelled() => return,
                () = changed => {}
                _ = reports.changed() => {}
                () = tokio::time::sleep(pause.unwrap_or_default()), if pause.is_some() => {}
            }
        }
    }

    /// Writes what is to be reported, if it differs.
    async fn report(&self, applier: &Applier) -> Result<(), String> {
        let name = &self.operator.id.name;
        let Some(before) = applier.operators().current().get(name).cloned() else { return Ok(()) };
        let observed = |manifest: &Manifest| Observed::of_manifest(manifest).map_err(|error| error.to_string());
        let mut workloads = Vec::new();
        for manifest in &self.workloads {
            let Some((kind, id)) = applier.resolve(manifest) else { continue };
            let desired = observed(manifest)?;
            let view = applier.view(&kind, &id).await.map_err(|error| error.to_string())?;
            let verdict = reported::judge(&desired, view.as_deref());
            let as_desired = applier.is_as_desired(&id, manifest);
            workloads.push(Workload { id, live: view.as_deref().cloned(), as_desired, verdict });
        }
        let next = reported::report(&before, &workloads, &observed(&self.operator)?, Timestamp::now());
        if next == *before {
            return Ok(());
        }
        let Some((kind, id)) = applier.resolve(&self.operator) else { return Ok(()) };
        let written = applier.objects().merge_patch_status::<Value>(&kind, "", &id.name, &patch(&next)).await;
        written.map(drop).map_err(|error| error.to_string())
    }
}

fn patch(report: &OperatorReport) -> Value {
    json!({"status": {"conditions": report.conditions, "versions": report.versions}})
}

#[cfg(test)]
mod tests;
