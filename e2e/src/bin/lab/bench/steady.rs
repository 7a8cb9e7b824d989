//! At rest: how many requests the daemon sends and how much memory it holds while nothing happens.

use super::cluster::{BenchCluster, megabytes};
use super::figures::{Measured, RATE, RESIDENT};
use super::machine;
use anyhow::ensure;
use e2e::simulator::daemon::Usage;
use jiff::Timestamp;
use std::time::Duration;

/// How often memory is read.
const SAMPLE: Duration = Duration::from_secs(10);
/// All watches begin anew once in this time, to repair what events did not show.
const SAFETY_NET: Duration = Duration::from_secs(30 * 60);

/// Measures for the time of the window. Nothing is extrapolated: the share of the safety net that the window covers is a
/// figure too.
pub(super) async fn measure(cluster: &BenchCluster, window: Duration) -> anyhow::Result<Measured> {
    machine::quiet().await;
    let process = cluster.daemon().await?.process;
    let cpu = |usage: &Usage| usage.cpu_seconds.unwrap_or(f64::NAN);
    let before = Usage::of(&process);
    let begun = Timestamp::now();
    let mut resident: Vec<u64> = before.resident_kib.into_iter().collect();
    let mut samples = tokio::time::interval(SAMPLE.min(window.max(Duration::from_secs(1))));
    let end = tokio::time::sleep(window);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = samples.tick() => resident.extend(Usage::of(&process).resident_kib),
        }
    }
    let ended = Timestamp::now();
    let after = Usage::of(&process);
    ensure!(after.resident_kib.is_some(), "the daemon (process {}) has ended", process.pid);
    resident.extend(after.resident_kib);
    let requests = cluster.requests(begun, ended).await?;
    let (lease, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(|r| r.resource == "leases");
    let seconds = ended.duration_since(begun).as_secs_f64();
    let mut measured = Measured::default();
    measured.add(RATE, others.len() as f64 / seconds);
    measured.add("window, seconds", seconds);
    measured.add("share of the safety-net pass", seconds / SAFETY_NET.as_secs_f64());
    measured.add_requests(&others);
    measured.add("requests for the lease", lease.len() as f64);
    measured.add_known(RESIDENT, resident.into_iter().max().map(megabytes));
    measured.add_known("resident at the end, MB", after.resident_kib.map(megabytes));
    measured.add_known("peak memory, MB", after.peak_kib.map(megabytes));
    measured.add("CPU seconds / minute", (cpu(&after) - cpu(&before)) * 60.0 / seconds);
    Ok(measured)
}
