//! `lab bench`: what installing, updating, idling and repairing a real release costs, compared with a floor: what the API
//! server itself needs for as many objects. Several runs with minimum, median and maximum, as a table and as JSON.
//!
//! Each run has clusters of its own: one for the floor, one that is installed, updated, watched at rest and loses its
//! ConfigMaps, and one whose operators report late. Seconds are those of the events themselves: when the daemon's process
//! is started, when the watch shows the history entry Completed.

mod cluster;
mod figures;
mod floor;
mod foreign;
mod machine;
mod nodes;
mod release;
mod repair;
mod steady;
mod timeline;

use super::interrupt::interrupted;
use anyhow::{Context, bail};
use cluster::BenchCluster;
use e2e::harness::files;
use e2e::real_payload::manifests;
use figures::{Measured, Report, Row};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Lines of `--details`.
const DETAILS: usize = 25;

/// `lab bench`; `hack/bench` builds it optimized and calls it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Bench {
    /// What to measure: all when absent. `install` includes `floor`.
    #[arg(long = "row", value_enum, value_delimiter = ',', value_name = "ROW")]
    rows: Vec<Row>,
    /// Number of runs, each on new clusters.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How long the idle cluster is observed, in seconds.
    #[arg(long, default_value_t = 400, value_name = "SECONDS")]
    steady_seconds: u64,
    /// How many ConfigMaps are deleted.
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    deletions: usize,
    /// How long after its Deployment each operator reports, in the row `update-slow`, in seconds.
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = delay)]
    delay: Duration,
    /// Print the most frequent requests of each row; the JSON has all of them.
    #[arg(long)]
    details: bool,
    /// Fail when a target is missed.
    #[arg(long)]
    strict: bool,
    /// Folder for the JSON.
    #[arg(long, default_value = "target/bench", value_name = "DIR")]
    out: PathBuf,
    /// What is measured, for the JSON: the output of `git describe`.
    #[arg(long, default_value = "", value_name = "TEXT")]
    commit: String,
}

/// Checked before anything is measured, because the row that needs it is the last one. More than an hour would exceed every
/// limit.
fn delay(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    if (0.0..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("expected 0 to 3600 seconds".to_owned())
    }
}

/// Runs the benchmark; an interrupt removes the clusters as well.
pub(crate) async fn run(mut bench: Bench) -> anyhow::Result<()> {
    if bench.rows.is_empty() {
        bench.rows = Row::ALL.to_vec();
    }
    if bench.measures(Row::Install) && !bench.measures(Row::Floor) {
        bench.rows.push(Row::Floor);
    }
    tokio::select! {
        ended = measure(&bench) => ended,
        signal = interrupted() => {
            signal?;
            bail!("interrupted; the clusters are removed")
        }
    }
}

async fn measure(bench: &Bench) -> anyhow::Result<()> {
    let folder = manifests().context("there is no real release to measure with")?;
    let begun = Instant::now();
    let mut report = Report::new(&bench.commit, &bench.rows);
    let mut failures = Vec::new();
    for run in 1..=bench.runs {
        println!("\n== run {run} of {}", bench.runs);
        let one = Run { bench, number: run, folder: &folder };
        for group in Group::ALL {
            if !group.rows().iter().any(|row| bench.measures(*row)) {
                continue;
            }
            if let Err(error) = one.measure(group, &mut report).await {
                eprintln!("error: {group:?} of run {run}: {error:#}");
                failures.push(format!("{group:?} of run {run}"));
            }
        }
    }
    println!("\n{}", report.table());
    let file = report.write(&bench.out)?;
    println!("{} ({:.0} s for all)", file.display(), begun.elapsed().as_secs_f64());
    match (failures.is_empty(), bench.strict && report.missed() > 0) {
        (false, _) => bail!("not measured: {}", failures.join(", ")),
        (true, true) => bail!("{} targets are missed", report.missed()),
        (true, false) => Ok(()),
    }
}

impl Bench {
    fn measures(&self, row: Row) -> bool {
        self.rows.contains(&row)
    }
}

/// Rows that are measured on one cluster.
#[derive(Clone, Copy, Debug)]
enum Group {
    Floor,
    /// Operators report at once.
    AtOnce,
    /// Operators report late.
    Late,
    /// Nodes are configured, without a release.
    Nodes,
}

impl Group {
    const ALL: [Group; 4] = [Group::Floor, Group::AtOnce, Group::Late, Group::Nodes];

    fn rows(self) -> &'static [Row] {
        match self {
            Group::Floor => &[Row::Floor],
            Group::AtOnce => &[Row::Install, Row::Update, Row::Steady, Row::Repair, Row::Foreign],
            Group::Late => &[Row::UpdateSlow],
            Group::Nodes => &[Row::Nodes],
        }
    }
}

/// One run.
struct Run<'a> {
    bench: &'a Bench,
    number: u32,
    folder: &'a Path,
}

impl Run<'_> {
    async fn measure(&self, group: Group, report: &mut Report) -> anyhow::Result<()> {
        if matches!(group, Group::Nodes) {
            self.keep(report, Row::Nodes, nodes::measure().await?);
            return Ok(());
        }
        let mut cluster = BenchCluster::start(self.folder).await?;
        let measured = match group {
            Group::Floor => self.floor(&cluster, report).await,
            Group::AtOnce => self.at_once(&mut cluster, report).await,
            Group::Late | Group::Nodes => self.late(&mut cluster, report).await,
        };
        if let Err(error) = &measured {
            eprintln!("{error:#}\nThe end of the daemon's log:\n{}", files::tail(&cluster.simulated.daemon_log(), 20));
        }
        let ended = cluster.simulated.close().await;
        measured.and(ended)
    }

    async fn floor(&self, cluster: &BenchCluster, report: &mut Report) -> anyhow::Result<()> {
        let floor = floor::measure(cluster).await?;
        self.keep(report, Row::Floor, floor);
        Ok(())
    }

    async fn at_once(&self, cluster: &mut BenchCluster, report: &mut Report) -> anyhow::Result<()> {
        let floor = report.value(self.number, Row::Floor, figures::SECONDS);
        let installed = cluster.install(Duration::ZERO, floor).await?;
        self.keep(report, Row::Install, installed);
        let mut release = cluster.first();
        if self.bench.measures(Row::Update) {
            let updated = cluster.update(Duration::ZERO).await?;
            self.keep(report, Row::Update, updated);
            release = cluster.second();
        }
        if self.bench.measures(Row::Steady) {
            let rested = steady::measure(cluster, Duration::from_secs(self.bench.steady_seconds)).await?;
            self.keep(report, Row::Steady, rested);
        }
        if self.bench.measures(Row::Repair) {
            let repaired = repair::measure(cluster, release, self.bench.deletions).await?;
            self.keep(report, Row::Repair, repaired);
        }
        if self.bench.measures(Row::Foreign) {
            let beside = foreign::measure(cluster).await?;
            self.keep(report, Row::Foreign, beside);
        }
        Ok(())
    }

    async fn late(&self, cluster: &mut BenchCluster, report: &mut Report) -> anyhow::Result<()> {
        let delay = self.bench.delay;
        cluster.install(delay, None).await?;
        let updated = cluster.update(delay).await?;
        self.keep(report, Row::UpdateSlow, updated);
        Ok(())
    }

    /// Adds a row to the report, if it was asked for, and prints it.
    fn keep(&self, report: &mut Report, row: Row, measured: Measured) {
        if self.bench.measures(row) {
            println!("{row}: {measured}");
            if self.bench.details {
                print!("{}", measured.details(DETAILS));
            }
            report.add(self.number, row, measured);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delay_is_limited_to_an_hour() {
        for (text, milliseconds) in [("0", 0), ("5", 5000), ("0.25", 250), ("3600", 3_600_000)] {
            assert_eq!(delay(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["nan", "inf", "-inf", "1e300", "-1", "3600.1", "", "5s"] {
            assert!(delay(text).is_err(), "{text}");
        }
    }
}
