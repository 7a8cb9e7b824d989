//! The rows of the daemon, on clusters with a real release: one for the floor, one that is installed, updated, watched at rest and
//! loses its ConfigMaps, and one whose operators report late.

use super::cluster::{BenchCluster, INSTALL, UPDATE, UPDATE_SLOW};
use super::figures::{Report, SECONDS};
use super::{Group, Run, floor, foreign, repair, steady};
use anyhow::Context;
use e2e::harness::files;
use e2e::real_payload::manifests;
use std::time::Duration;

pub(super) static FLOOR: Group = Group {
    name: "floor",
    rows: &[&floor::ROW],
    measure: |run, report| {
        Box::pin(on_a_cluster(async move |cluster| {
            run.keep(report, &floor::ROW, floor::measure(cluster).await?);
            Ok(())
        }))
    },
};

/// Operators report at once.
pub(super) static AT_ONCE: Group = Group {
    name: "at once",
    rows: &[&INSTALL, &UPDATE, &steady::ROW, &repair::ROW, &foreign::ROW],
    measure: |run, report| Box::pin(on_a_cluster(async move |cluster| at_once(run, report, cluster).await)),
};

/// Operators report late.
pub(super) static LATE: Group = Group {
    name: "late",
    rows: &[&UPDATE_SLOW],
    measure: |run, report| {
        Box::pin(on_a_cluster(async move |cluster| {
            let delay = run.bench.delay;
            cluster.install(delay, None).await?;
            run.keep(report, &UPDATE_SLOW, cluster.update(delay).await?);
            Ok(())
        }))
    },
};

/// On a new cluster, which ends with it.
async fn on_a_cluster(measure: impl AsyncFnOnce(&mut BenchCluster) -> anyhow::Result<()>) -> anyhow::Result<()> {
    let folder = manifests().context("there is no real release to measure with")?;
    let mut cluster = BenchCluster::start(&folder).await?;
    let measured = measure(&mut cluster).await;
    if let Err(error) = &measured {
        eprintln!("{error:#}\nThe end of the daemon's log:\n{}", files::tail(&cluster.simulated.daemon_log(), 20));
    }
    let ended = cluster.simulated.close().await;
    measured.and(ended)
}

async fn at_once(run: &Run<'_>, report: &mut Report, cluster: &mut BenchCluster) -> anyhow::Result<()> {
    let floor = report.value(run.number, &floor::ROW, SECONDS);
    let installed = cluster.install(Duration::ZERO, floor).await?;
    run.keep(report, &INSTALL, installed);
    let mut release = cluster.first();
    if run.measures(&UPDATE) {
        let updated = cluster.update(Duration::ZERO).await?;
        run.keep(report, &UPDATE, updated);
        release = cluster.second();
    }
    if run.measures(&steady::ROW) {
        let rested = steady::measure(cluster, Duration::from_secs(run.bench.steady_seconds)).await?;
        run.keep(report, &steady::ROW, rested);
    }
    if run.measures(&repair::ROW) {
        let repaired = repair::measure(cluster, release, run.bench.deletions).await?;
        run.keep(report, &repair::ROW, repaired);
    }
    if run.measures(&foreign::ROW) {
        run.keep(report, &foreign::ROW, foreign::measure(cluster).await?);
    }
    Ok(())
}
