//! `lab bench`: what installing, updating, idling and repairing a real release costs, compared with a floor: what the API
//! server itself needs for as many objects. Several runs with minimum, median and maximum, as a table and as JSON.
//!
//! Each run has clusters of its own, one for each group of rows. Seconds are those of the events themselves: when the daemon's
//! process is started, when the watch shows the history entry Completed.

mod catalog;
mod cluster;
mod figures;
mod floor;
mod foreign;
mod machine;
mod memory;
mod nodes;
mod operators;
mod release;
mod repair;
mod resolve;
mod steady;
mod timeline;
mod updates;
mod world;

use super::interrupt::interrupted;
use anyhow::bail;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use figures::{Measured, Report, Row};
use futures::future::LocalBoxFuture;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What is measured, in the order in which it is shown. Whoever measures something else adds a group.
static GROUPS: [&Group; 7] = [
    &updates::FLOOR,
    &updates::AT_ONCE,
    &updates::LATE,
    &nodes::GROUP,
    &catalog::GROUP,
    &resolve::GROUP,
    &operators::GROUP,
];

/// Rows that are measured on one cluster.
struct Group {
    /// For errors.
    name: &'static str,
    rows: &'static [&'static Row],
    /// Measures those of the rows that were asked for, and keeps them.
    measure: for<'a> fn(&'a Run<'a>, &'a mut Report) -> LocalBoxFuture<'a, anyhow::Result<()>>,
}

/// Lines of `--details`.
const DETAILS: usize = 25;

/// `lab bench`; `hack/bench` builds it optimized and calls it.
#[derive(clap::Args, Clone, Debug)]
pub(crate) struct Bench {
    /// What to measure: all when absent. `install` includes `floor`.
    #[arg(long = "row", value_parser = row_parser(), value_delimiter = ',', value_name = "ROW")]
    rows: Vec<&'static Row>,
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

fn all_rows() -> impl Iterator<Item = &'static Row> {
    GROUPS.iter().flat_map(|group| group.rows).copied()
}

fn row_parser() -> impl TypedValueParser<Value = &'static Row> {
    let values = all_rows().map(|row| PossibleValue::new(row.name).help(row.about));
    PossibleValuesParser::new(values)
        .try_map(|name| all_rows().find(|row| row.name == name).ok_or("there is no such row"))
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
    let asked = std::mem::take(&mut bench.rows);
    let wanted = |row: &&Row| asked.is_empty() || asked.iter().any(|it| it == row || it.needs.contains(row));
    bench.rows = all_rows().filter(wanted).collect();
    tokio::select! {
        ended = measure(&bench) => ended,
        signal = interrupted() => {
            signal?;
            bail!("interrupted; the clusters are removed")
        }
    }
}

async fn measure(bench: &Bench) -> anyhow::Result<()> {
    let begun = Instant::now();
    let mut report = Report::new(&bench.commit, &bench.rows);
    let mut failures = Vec::new();
    for run in 1..=bench.runs {
        println!("\n== run {run} of {}", bench.runs);
        let one = Run { bench, number: run };
        for group in GROUPS.iter().filter(|group| group.rows.iter().any(|row| one.measures(row))) {
            if let Err(error) = (group.measure)(&one, &mut report).await {
                let what = format!("{} of run {run}", group.name);
                eprintln!("error: {what}: {error:#}");
                failures.push(what);
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

/// One run.
struct Run<'a> {
    bench: &'a Bench,
    number: u32,
}

impl Run<'_> {
    fn measures(&self, row: &Row) -> bool {
        self.bench.rows.contains(&row)
    }

    /// Adds a row to the report, if it was asked for, and prints it.
    fn keep(&self, report: &mut Report, row: &'static Row, measured: Measured) {
        if self.measures(row) {
            println!("{}: {measured}", row.name);
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

    #[test]
    fn rows_are_named_once_and_come_with_what_they_need() {
        let names: Vec<&str> = all_rows().map(|row| row.name).collect();
        let mut once = names.clone();
        once.sort_unstable();
        once.dedup();
        assert_eq!(once.len(), names.len(), "{names:?}");
        for row in all_rows() {
            assert!(!row.about.is_empty() && row.needs.iter().all(|needed| names.contains(&needed.name)), "{row:?}");
        }
    }
}
