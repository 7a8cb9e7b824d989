//! Idle: the daemon's requests and memory while nothing happens.

use super::cluster::{BenchCluster, Spent};
use super::figures::{Measured, RATE, RESIDENT};
use super::machine;
use anyhow::ensure;
use jiff::Timestamp;
use std::time::Duration;

/// How often memory is measured.
const SAMPLE: Duration = Duration::from_secs(10);
/// The period in which the daemon compares all objects, to repair what no event reported.
const SAFETY_NET: Duration = Duration::from_secs(30 * 60);

/// Measures for the length of `window`. Nothing is extrapolated: the share of the period that the window covers is one
/// of the figures.
pub async fn measure(cluster: &BenchCluster, window: Duration) -> anyhow::Result<Measured> {
    machine::quiet().await;
    let process = cluster.simulated.running()?;
    let cpu = |spent: &Spent| spent.cpu_seconds.unwrap_or(f64::NAN);
    let before = Spent::by(&process);
    let begun = Timestamp::now();
    let mut resident: Vec<f64> = before.resident.into_iter().collect();
    let mut samples = tokio::time::interval(SAMPLE.min(window.max(Duration::from_secs(1))));
    let end = tokio::time::sleep(window);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = samples.tick() => resident.extend(Spent::by(&process).resident),
        }
    }
    let ended = Timestamp::now();
    let after = Spent::by(&process);
    ensure!(after.resident.is_some(), "the daemon (process {}) has ended", process.pid);
    resident.extend(after.resident);
    let requests = cluster.requests(begun, ended).await?;
    let (lease, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(|r| r.resource == "leases");
    let seconds = ended.duration_since(begun).as_secs_f64();
    let mut measured = Measured::default();
    measured.add(RATE, others.len() as f64 / seconds);
    measured.add("window, seconds", seconds);
    measured.add("share of the safety-net pass", seconds / SAFETY_NET.as_secs_f64());
    measured.add_requests(&others);
    measured.add("requests for the lease", lease.len() as f64);
    measured.add(RESIDENT, resident.iter().copied().fold(0.0, f64::max));
    measured.add_known("resident at the end, MB", after.resident);
    measured.add_known("peak memory, MB", after.peak);
    measured.add("CPU seconds / minute", (cpu(&after) - cpu(&before)) * 60.0 / seconds);
    Ok(measured)
}
