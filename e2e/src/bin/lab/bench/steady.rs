//! At rest: how many requests the daemon sends and how much memory it holds while nothing happens but that its metrics are
//! scraped; and what it writes to the ClusterVersion in that time, in a restart and in the time after it.

use super::cluster::{BenchCluster, megabytes};
use super::figures::{Measured, RATE, RESIDENT, Row, STATUS_WRITES};
use super::machine;
use anyhow::ensure;
use e2e::harness::audit;
use e2e::simulator::daemon::Usage;
use e2e::simulator::requests;
use jiff::Timestamp;
use std::time::{Duration, Instant};

pub(super) static ROW: Row = Row {
    name: "steady",
    about: "400 s in which nothing happens but a scrape of the metrics every 30 s, then a restart and 200 s more",
    needs: &[],
    targets: &[(RATE, 0.1), (RESIDENT, 45.0), (STATUS_WRITES, 0.0)],
};

const CLUSTER_VERSIONS: &str = "clusterversions";
/// How often memory is read.
const SAMPLE: Duration = Duration::from_secs(10);
/// How often Prometheus scrapes the operators of a cluster.
const SCRAPE: Duration = Duration::from_secs(30);
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
    let (mut scrapes, mut slowest, mut scraped) = (tokio::time::interval(SCRAPE), Duration::ZERO, 0);
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let client = client.identity(reqwest::Identity::from_pem(cluster.prometheus.identity().as_bytes())?).build()?;
    let end = tokio::time::sleep(window);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => break,
            _ = samples.tick() => resident.extend(Usage::of(&process).resident_kib),
            _ = scrapes.tick() => {
                slowest = slowest.max(scrape(&client, &cluster.metrics).await?);
                scraped += 1;
            }
        }
    }
    let ended = Timestamp::now();
    let after = Usage::of(&process);
    ensure!(after.resident_kib.is_some(), "the daemon (process {}) has ended", process.pid);
    resident.extend(after.resident_kib);
    let requests = cluster.requests(begun, ended).await?;
    let (lease, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(|r| r.resource == "leases");
    let seconds = seconds(begun, ended);
    let mut measured = Measured::default();
    measured.add(RATE, others.len() as f64 / seconds);
    measured.add("window, seconds", seconds);
    measured.add("share of the safety-net pass", seconds / SAFETY_NET.as_secs_f64());
    measured.add_requests(&others);
    measured.add("requests for the lease", lease.len() as f64);
    measured.add_known(RESIDENT, resident.into_iter().max().map(megabytes));
    measured.add_known("resident at the end, MB", after.resident_kib.map(megabytes));
    measured.add_known("peak memory, MB", after.peak_kib.map(megabytes));
    measured.add("scrapes", f64::from(scraped));
    measured.add("slowest scrape, seconds", slowest.as_secs_f64());
    measured.add("CPU seconds / minute", (cpu(&after) - cpu(&before)) * 60.0 / seconds);
    restart(cluster, window / 2, begun, &mut measured).await?;
    Ok(measured)
}

async fn scrape(client: &reqwest::Client, url: &str) -> anyhow::Result<Duration> {
    let begun = Instant::now();
    let text = client.get(url).send().await?.error_for_status()?.text().await?;
    ensure!(text.contains("\ncluster_version{"), "{url} does not show the ClusterVersion");
    Ok(begun.elapsed())
}

/// A new process finds everything in place and rests for this time; what it has asked for by then, and what has been written to
/// the ClusterVersion since `begun`.
async fn restart(
    cluster: &BenchCluster,
    rest: Duration,
    begun: Timestamp,
    measured: &mut Measured,
) -> anyhow::Result<()> {
    let restarted = Timestamp::now();
    cluster.simulated.node.restart().await?;
    cluster.simulated.rolled_out(cluster.running().await?, restarted).await?;
    let found = Timestamp::now();
    tokio::time::sleep(rest).await;
    let all = cluster.requests(begun, Timestamp::now()).await?;
    let writes = requests::writes(&all).into_iter().filter(|request| request.resource == CLUSTER_VERSIONS);
    measured.add(STATUS_WRITES, writes.count() as f64);
    measured.add("seconds until the restarted one has found everything in place", seconds(restarted, found));
    measured.add("requests of a restart", audit::within(&all, restarted..found).len() as f64);
    measured.add("seconds observed in all", seconds(begun, Timestamp::now()));
    Ok(())
}

fn seconds(from: Timestamp, to: Timestamp) -> f64 {
    to.duration_since(from).as_secs_f64()
}
