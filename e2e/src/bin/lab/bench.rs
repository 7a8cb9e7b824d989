//! `lab bench`: what installing, updating, resting and repairing a real release costs, beside the floor of what the API
//! server itself needs for as many objects; several runs with minimum, median and maximum, as a table and as JSON.
//!
//! Each run has clusters of its own: one for the floor, one that is installed, updated, watched at rest and robbed of its
//! ConfigMaps, and one whose operators answer late. Seconds are those of the events themselves: when the stage hand starts
//! the process, when the watch shows the history entry Completed.

mod figures;
mod floor;
mod machine;
mod release;
mod repair;
mod scene;
mod steady;

use super::interrupt::interrupted;
use anyhow::{Context, bail};
use e2e::harness::Programs;
use e2e::real_payload::manifests;
use figures::{Measured, Report, Row};
use scene::Scene;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Lines of `--details`.
const DETAILS: usize = 25;

/// `lab bench`; `hack/bench` builds it optimised and calls it.
#[derive(clap::Args, Clone, Debug)]
pub struct Bench {
    /// What to measure: all when absent. `install` brings `floor` with it.
    #[arg(long = "row", value_enum, value_delimiter = ',', value_name = "ROW")]
    rows: Vec<Row>,
    /// How often; each run has clusters of its own.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// How long the cluster is watched at rest, in seconds.
    #[arg(long, default_value_t = 400, value_name = "SECONDS")]
    steady_seconds: u64,
    /// How many ConfigMaps are deleted.
    #[arg(long, default_value_t = 200, value_name = "NUMBER")]
    deletions: usize,
    /// How long after its Deployment each operator answers, in the row `update-slow`, in seconds.
    #[arg(long, default_value = "5", value_name = "SECONDS", value_parser = delay)]
    delay: Duration,
    /// Say of each row what was asked for most often; the JSON has it all.
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

/// Judged before anything is measured: the row that needs it is the last one. More than an hour would outlast every limit.
fn delay(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "a number of seconds is wanted".to_owned())?;
    if (0.0..=3600.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("0 to 3600 seconds are possible".to_owned())
    }
}

/// Runs it; an interrupt ends the clusters as well.
pub async fn run(mut bench: Bench) -> anyhow::Result<()> {
    if bench.rows.is_empty() {
        bench.rows = Row::ALL.to_vec();
    }
    if bench.wants(Row::Install) && !bench.wants(Row::Floor) {
        bench.rows.push(Row::Floor);
    }
    tokio::select! {
        ended = measure(&bench) => ended,
        heard = interrupted() => {
            heard?;
            bail!("interrupted; the clusters are ended")
        }
    }
}

async fn measure(bench: &Bench) -> anyhow::Result<()> {
    let folder = manifests().context("there is no real release to measure with")?;
    let programs = Programs::find()?;
    let begun = Instant::now();
    let mut report = Report::new(&bench.commit, &bench.rows);
    let mut failures = Vec::new();
    for run in 1..=bench.runs {
        println!("\n== run {run} of {}", bench.runs);
        let session = Session { bench, run, folder: &folder, programs: &programs };
        for act in Act::ALL {
            if !act.rows().iter().any(|row| bench.wants(*row)) {
                continue;
            }
            if let Err(error) = session.play(act, &mut report).await {
                eprintln!("error: {act:?} of run {run}: {error:#}");
                failures.push(format!("{act:?} of run {run}"));
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
    fn wants(&self, row: Row) -> bool {
        self.rows.contains(&row)
    }
}

/// What shares one cluster.
#[derive(Clone, Copy, Debug)]
enum Act {
    Floor,
    /// Operators answer at once.
    AtOnce,
    /// Operators answer late.
    Late,
}

impl Act {
    const ALL: [Act; 3] = [Act::Floor, Act::AtOnce, Act::Late];

    fn rows(self) -> &'static [Row] {
        match self {
            Act::Floor => &[Row::Floor],
            Act::AtOnce => &[Row::Install, Row::Update, Row::Steady, Row::Repair],
            Act::Late => &[Row::UpdateSlow],
        }
    }
}

/// One run.
struct Session<'a> {
    bench: &'a Bench,
    run: u32,
    folder: &'a Path,
    programs: &'a Programs,
}

impl Session<'_> {
    async fn play(&self, act: Act, report: &mut Report) -> anyhow::Result<()> {
        let scene = Scene::build(self.programs.clone(), self.folder).await?;
        let played = match act {
            Act::Floor => self.floor(&scene, report).await,
            Act::AtOnce => self.at_once(&scene, report).await,
            Act::Late => self.late(&scene, report).await,
        };
        if let Err(error) = &played {
            eprintln!("{error:#}\nThe end of the daemon's log:\n{}", scene.daemon_log());
        }
        let ended = scene.stage.cluster.down().await;
        played.and(Ok(ended?))
    }

    async fn floor(&self, scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
        let floor = floor::measure(scene).await?;
        self.keep(report, Row::Floor, floor);
        Ok(())
    }

    async fn at_once(&self, scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
        let floor = report.value(self.run, Row::Floor, figures::SECONDS);
        let installed = scene.install(Duration::ZERO, floor).await?;
        self.keep(report, Row::Install, installed);
        let mut release = scene.first();
        if self.bench.wants(Row::Update) {
            let updated = scene.update(Duration::ZERO).await?;
            self.keep(report, Row::Update, updated);
            release = scene.second();
        }
        if self.bench.wants(Row::Steady) {
            let rested = steady::measure(scene, Duration::from_secs(self.bench.steady_seconds)).await?;
            self.keep(report, Row::Steady, rested);
        }
        if self.bench.wants(Row::Repair) {
            let repaired = repair::measure(scene, release, self.bench.deletions).await?;
            self.keep(report, Row::Repair, repaired);
        }
        Ok(())
    }

    async fn late(&self, scene: &Scene, report: &mut Report) -> anyhow::Result<()> {
        let delay = self.bench.delay;
        scene.install(delay, None).await?;
        let updated = scene.update(delay).await?;
        self.keep(report, Row::UpdateSlow, updated);
        Ok(())
    }

    /// Takes a row in, if it is wanted, and says at once what it showed.
    fn keep(&self, report: &mut Report, row: Row, measured: Measured) {
        if self.bench.wants(row) {
            println!("{row}: {measured}");
            if self.bench.details {
                print!("{}", measured.details(DETAILS));
            }
            report.add(self.run, row, measured);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delay_is_a_finite_number_of_seconds_within_an_hour() {
        for (text, milliseconds) in [("0", 0), ("5", 5000), ("0.25", 250), ("3600", 3_600_000)] {
            assert_eq!(delay(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
        for text in ["nan", "inf", "-inf", "1e300", "-1", "3600.1", "", "5s"] {
            assert!(delay(text).is_err(), "{text}");
        }
    }
}
