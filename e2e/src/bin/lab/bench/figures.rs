//! Figures of one run of one row, their targets, and the summary of several runs, as a table and as JSON.

use super::machine;
use super::timeline::{self, Second};
use anyhow::Context;
use e2e::harness::audit::{Request, by_verb};
use e2e::harness::files;
use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use serde_json::json;
use std::collections::BTreeMap;
use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// Something that is measured. The module that measures it says what it is.
#[derive(Debug)]
pub(super) struct Row {
    /// As `--row` names it.
    pub name: &'static str,
    /// What `--help` says.
    pub about: &'static str,
    /// What has to be measured before.
    pub needs: &'static [&'static Row],
    /// Upper limits of figures. A megabyte is 10^6 bytes.
    pub targets: &'static [(&'static str, f64)],
}

impl PartialEq for Row {
    fn eq(&self, other: &Row) -> bool {
        self.name == other.name
    }
}

impl Serialize for Row {
    fn serialize<S: serde::Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(self.name)
    }
}

// Names of figures that are used in several places.
pub(super) const SECONDS: &str = "seconds";
const LAST: &str = "seconds to the last object";
pub(super) const TIMES_FLOOR: &str = "seconds / floor";
pub(super) const REQUESTS: &str = "requests";
pub(super) const PER_DOCUMENT: &str = "requests / document";
pub(super) const CPU: &str = "CPU seconds";
pub(super) const PEAK: &str = "peak memory, MB";
pub(super) const RESIDENT: &str = "resident memory, MB";
pub(super) const RATE: &str = "requests / s beside the lease";
pub(super) const STATUS_WRITES: &str = "writes to the ClusterVersion, a restart included";
pub(super) const P50: &str = "p50, seconds";
pub(super) const P99: &str = "p99, seconds";
pub(super) const OF_A_CORE: &str = "% of a core";
pub(super) const TIMES_WITHOUT: &str = "resident / without";
pub(super) const TIMES_WITHOUT_RESTARTED: &str = "the same, started among them";
pub(super) const TIMES_IDEAL: &str = "seconds / ideal schedule";
pub(super) const WRITES_PER_NODE: &str = "writes / node";
pub(super) const FIRST_REPAIR: &str = "seconds to the first repair";

/// One run of one row.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    /// By name, in the order in which they are shown.
    figures: Vec<(String, f64)>,
    /// The daemon's requests and how often it made them: `update apps/deployments/`, refused ones as `create
    /// /configmaps/ 404`.
    asked: BTreeMap<String, usize>,
    /// Each second since the start.
    timeline: Vec<Second>,
    /// Figures that could not be measured here, so that their targets are not missed.
    skipped: Vec<&'static str>,
}

impl Measured {
    pub(super) fn add(&mut self, name: impl Into<String>, value: f64) {
        self.figures.push((name.into(), value));
    }

    /// Adds the figure if it is known.
    pub(super) fn add_known(&mut self, name: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.add(name, value);
        }
    }

    /// There are none of these figures, because something that is not needed otherwise is not there.
    pub(super) fn skip(&mut self, names: impl IntoIterator<Item = &'static str>) {
        self.skipped.extend(names);
    }

    /// Adds the number of requests in all and by verb, and for the JSON by resource.
    pub(super) fn add_requests(&mut self, requests: &[Request]) {
        self.add(REQUESTS, requests.len() as f64);
        for (verb, number) in by_verb(requests) {
            self.add(format!("{REQUESTS}: {verb}"), number as f64);
        }
        let refused = requests.iter().filter(|r| r.code >= 400).count();
        self.add("requests refused", refused as f64);
        for request in requests {
            let object = request.object();
            let resource = object.split(' ').next().unwrap_or_default();
            let refused = if request.code >= 400 { format!(" {}", request.code) } else { String::new() };
            *self.asked.entry(format!("{} {resource}{refused}", request.verb)).or_default() += 1;
        }
    }

    /// Adds when the last object was created, and for the JSON what happened in each second.
    pub(super) fn add_creations(&mut self, requests: &[Request], start: Timestamp) {
        let created = requests.iter().filter(|r| r.effect() == "create" && r.code == 201);
        let after: Vec<SignedDuration> = created.map(|r| r.at.duration_since(start)).collect();
        self.add_known(LAST, after.iter().max().map(SignedDuration::as_secs_f64));
        self.timeline = timeline::of(requests, start);
    }

    /// The most frequent requests, one on each line, and what happened in each second.
    pub(super) fn details(&self, lines: usize) -> String {
        let mut asked: Vec<(&String, &usize)> = self.asked.iter().collect();
        asked.sort_by_key(|(_, number)| std::cmp::Reverse(**number));
        let lines = asked.iter().take(lines).map(|(what, number)| format!("  {number:>5} x {what}\n"));
        lines.collect::<String>() + &timeline::text(&self.timeline)
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(known, _)| known == name).map(|(_, value)| *value)
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts: Vec<String> = self.figures.iter().map(|(name, value)| format!("{name} {}", short(*value))).collect();
        f.write_str(&parts.join(", "))
    }
}

/// Such a measurement has about three significant digits.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        small if small < 0.01 => format!("{value:.4}"),
        small if small < 1.0 => format!("{value:.3}"),
        _ if value.fract() == 0.0 => format!("{value:.0}"),
        large if large < 100.0 => format!("{value:.2}"),
        _ => format!("{value:.1}"),
    }
}

/// One figure over all runs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(super) struct Line {
    row: &'static Row,
    figure: String,
    runs: usize,
    min: f64,
    median: f64,
    max: f64,
    /// Upper limit.
    target: Option<f64>,
    /// The median is within the target.
    met: Option<bool>,
}

impl Line {
    fn of(row: &'static Row, figure: &str, mut values: Vec<f64>) -> Option<Line> {
        values.sort_by(f64::total_cmp);
        let (min, max) = (*values.first()?, *values.last()?);
        let median = median(&values)?;
        let target = row.targets.iter().find(|(name, _)| *name == figure).map(|(_, limit)| *limit);
        let met = target.map(|limit| median <= limit);
        Some(Line { row, figure: figure.to_owned(), runs: values.len(), min, median, max, target, met })
    }
}

/// The median of values in ascending order; of an even number the mean of the middle two.
fn median(sorted: &[f64]) -> Option<f64> {
    let upper = *sorted.get(sorted.len() / 2)?;
    if sorted.len() % 2 == 1 {
        return Some(upper);
    }
    Some((sorted.get(sorted.len() / 2 - 1)? + upper) / 2.0)
}

/// Percentile by nearest rank of values in ascending order.
pub(super) fn percentile(sorted: &[f64], share: f64) -> Option<f64> {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

/// All measurements.
#[derive(Debug)]
pub(super) struct Report {
    at: Timestamp,
    commit: String,
    /// In the order in which they are shown.
    rows: Vec<&'static Row>,
    load: String,
    found: Vec<(u32, &'static Row, Measured)>,
}

impl Report {
    pub(super) fn new(commit: &str, rows: &[&'static Row]) -> Report {
        let (at, load) = (Timestamp::now(), machine::load());
        Report { at, commit: commit.to_owned(), rows: rows.to_vec(), load, found: Vec::new() }
    }

    pub(super) fn add(&mut self, run: u32, row: &'static Row, measured: Measured) {
        self.found.push((run, row, measured));
    }

    /// A figure of one run.
    pub(super) fn value(&self, run: u32, row: &Row, name: &str) -> Option<f64> {
        self.found.iter().find(|(r, of, _)| *r == run && *of == row)?.2.value(name)
    }

    /// By row, figures in the order in which they were first added.
    fn lines(&self) -> Vec<Line> {
        let mut lines = Vec::new();
        for row in self.rows.iter().copied() {
            let runs: Vec<&Measured> = self.found.iter().filter(|(_, of, _)| *of == row).map(|(_, _, m)| m).collect();
            let mut names: Vec<&str> = Vec::new();
            for (name, _) in runs.iter().flat_map(|m| &m.figures) {
                if !names.contains(&name.as_str()) {
                    names.push(name);
                }
            }
            let values = |name: &str| runs.iter().filter_map(|m| m.value(name)).collect();
            lines.extend(names.iter().filter_map(|name| Line::of(row, name, values(name))));
        }
        lines
    }

    /// How many targets are missed. A target also counts as missed when a selected row lacks its figure.
    pub(super) fn missed(&self) -> usize {
        let lines = self.lines();
        let met =
            |row: &Row, figure: &str| lines.iter().any(|l| l.row == row && l.figure == figure && l.met == Some(true));
        let targets = self.rows.iter().flat_map(|row| row.targets.iter().map(move |(figure, _)| (row, figure)));
        let skipped = |row: &Row, figure: &str| {
            self.found.iter().any(|(_, of, measured)| *of == row && measured.skipped.contains(&figure))
        };
        targets.filter(|(row, figure)| !met(row, figure) && !skipped(row, figure)).count()
    }

    pub(super) fn table(&self) -> String {
        let mut table = String::new();
        // Writing to a string cannot fail.
        let _ = writeln!(
            table,
            "{:<12} {:<32} {:>10} {:>10} {:>10}  {:>8}",
            "ROW", "FIGURE", "MIN", "MEDIAN", "MAX", "TARGET"
        );
        let mut last = None;
        for line in self.lines() {
            let row = if last.replace(line.row) == Some(line.row) { "" } else { line.row.name };
            let target = line.target.map(|limit| format!("<= {}", short(limit))).unwrap_or_default();
            let verdict = line.met.map_or("", |met| if met { "ok" } else { "MISSED" });
            let [min, median, max] = [line.min, line.median, line.max].map(short);
            let text =
                format!("{row:<12} {:<32} {min:>10} {median:>10} {max:>10}  {target:>8}  {verdict}", line.figure);
            let _ = writeln!(table, "{}", text.trim_end());
        }
        table
    }

    /// Writes a file named after the time, and the same as `latest.json`.
    pub(super) fn write(&self, folder: &Path) -> anyhow::Result<PathBuf> {
        let runs = self.found.iter().map(|(run, row, measured)| {
            let figures: serde_json::Map<_, _> = measured.figures.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
            json!({"run": run, "row": row, "figures": figures, "requests": measured.asked,
                "timeline": measured.timeline})
        });
        let runs: Vec<_> = runs.collect();
        let report = json!({
            "schema": 1, "at": self.at, "commit": self.commit, "machine": machine::describe(),
            "loadAtStart": self.load, "runs": runs, "summary": self.lines(),
        });
        let file = folder.join(format!("{}.json", self.at.strftime("%Y%m%dT%H%M%SZ")));
        for path in [folder.join("latest.json"), file.clone()] {
            files::write_json(&path, &report)
                .with_context(|| format!("cannot write the figures to {}", path.display()))?;
        }
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static UPDATE: Row = Row { name: "update", about: "", needs: &[], targets: &[(SECONDS, 4.0), (REQUESTS, 200.0)] };
    static REPAIR: Row = Row { name: "repair", about: "", needs: &[], targets: &[(P50, 0.1), (P99, 1.0)] };

    fn report(rows: &[&'static Row], seconds: &[f64]) -> Report {
        let mut report = Report::new("", rows);
        for (run, value) in (1..).zip(seconds) {
            let mut measured = Measured::default();
            measured.add(SECONDS, *value);
            measured.add(REQUESTS, 200.0);
            report.add(run, &UPDATE, measured);
        }
        report
    }

    #[test]
    fn target_is_compared_with_the_median() {
        let met = report(&[&UPDATE], &[3.0, 9.0, 4.0]);
        let line = &met.lines()[0];
        assert_eq!((line.min, line.median, line.max, line.target, line.met), (3.0, 4.0, 9.0, Some(4.0), Some(true)));
        assert_eq!(met.missed(), 0);
        let missed = report(&[&UPDATE], &[3.0, 9.0, 4.1]);
        assert_eq!((missed.missed(), missed.lines()[0].met), (1, Some(false)));
        assert!(missed.table().contains("MISSED"));
        assert_eq!(median(&[1.0, 2.0, 4.0, 8.0]), Some(3.0));
    }

    #[test]
    fn requests_are_counted_by_verb_and_resource() {
        let request = |verb: &str, resource: &str, code| Request {
            at: Timestamp::UNIX_EPOCH + SignedDuration::from_millis(1500),
            verb: verb.to_owned(),
            resource: resource.to_owned(),
            namespace: "n".to_owned(),
            name: "a".to_owned(),
            code,
            ..Request::default()
        };
        let requests = [
            request("create", "configmaps", 404),
            request("create", "configmaps", 201),
            request("create", "configmaps", 201),
            request("get", "", 200),
        ];
        let mut measured = Measured::default();
        measured.add_requests(&requests);
        measured.add_creations(&requests, Timestamp::UNIX_EPOCH);
        let value = |name: &str| measured.value(name).unwrap();
        assert_eq!((value(REQUESTS), value("requests: create"), value("requests refused")), (4.0, 3.0, 1.0));
        assert!(measured.details(1).starts_with("      2 x create /configmaps/\n"), "{}", measured.details(1));
        assert_eq!(measured.asked.get("create /configmaps/ 404"), Some(&1));
        assert_eq!((measured.timeline.len(), value(LAST)), (2, 1.5));
    }

    #[test]
    fn target_without_a_figure_is_missed() {
        assert_eq!(report(&[&UPDATE, &REPAIR], &[1.0]).missed(), 2);
        assert_eq!(report(&[&UPDATE], &[]).missed(), 2);
        let mut report = report(&[&REPAIR], &[]);
        let mut measured = Measured::default();
        measured.skip([P50]);
        report.add(1, &REPAIR, measured);
        assert_eq!(report.missed(), 1);
    }

    #[test]
    fn percentiles_are_values_of_the_sample() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        assert_eq!((percentile(&values, 0.5), percentile(&values, 0.99)), (Some(100.0), Some(198.0)));
        assert_eq!((percentile(&[7.0], 0.99), percentile(&[], 0.5)), (Some(7.0), None));
    }
}
