//! The text format of Prometheus, version 0.0.4.

use super::summary::Summary;
use crate::error::{CAUSE, shortened};
use jiff::Timestamp;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The content type of this format.
pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Most series of one metric. Names of objects are labels, and other clients create objects.
const MAX_SERIES: usize = 10_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Counter,
    Gauge,
    Summary,
}

/// Metrics as text, in the order in which they were added.
#[derive(Debug, Default)]
pub(crate) struct Text {
    out: String,
    /// Name and meaning of all metrics, also of those without samples.
    described: BTreeMap<String, String>,
}

/// The samples of one metric by their labels. Each series stands there once, because a scrape with two samples of one
/// series is partly refused.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    series: BTreeMap<String, f64>,
}

impl Text {
    pub(crate) fn gauge(&mut self, name: &str, help: &str, samples: impl FnOnce(&mut Samples)) {
        self.add(name, Type::Gauge, help, samples);
    }

    /// `name` ends in `_total`.
    pub(crate) fn counter(&mut self, name: &str, help: &str, samples: impl FnOnce(&mut Samples)) {
        self.add(name, Type::Counter, help, samples);
    }

    pub(crate) fn summary(&mut self, name: &str, help: &str, samples: impl FnOnce(&mut Samples)) {
        self.add(name, Type::Summary, help, samples);
    }

    fn add(&mut self, name: &str, type_: Type, help: &str, samples: impl FnOnce(&mut Samples)) {
        self.described.insert(name.to_owned(), help.to_owned());
        let mut all = Samples::default();
        samples(&mut all);
        if all.series.is_empty() {
            return;
        }
        let type_ = match type_ {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Summary => "summary",
        };
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        // Writing to a string does not fail.
        let _written = writeln!(self.out, "# HELP {name} {help}\n# TYPE {name} {type_}");
        for (labels, value) in all.series {
            let _written = writeln!(self.out, "{name}{labels} {value}");
        }
    }

    pub(crate) fn finish(self) -> String {
        self.out
    }

    pub(crate) fn described(self) -> BTreeMap<String, String> {
        self.described
    }
}

impl Samples {
    /// The first sample of a series counts. What is no number is left out.
    pub(crate) fn add(&mut self, labels: &[(&str, &str)], value: f64) {
        if self.series.len() < MAX_SERIES && value.is_finite() {
            self.series.entry(encoded(labels)).or_insert(value);
        }
    }

    /// The series of one summary: its quantiles, `_count` and `_sum`.
    pub(crate) fn add_summary(&mut self, labels: &[(&str, &str)], summary: &Summary) {
        for (quantile, value) in &summary.quantiles {
            let with: Vec<(&str, &str)> = labels.iter().copied().chain([("quantile", *quantile)]).collect();
            self.add(&with, *value);
        }
        for (suffix, value) in [("_count", count(summary.count)), ("_sum", summary.sum)] {
            self.series.insert(format!("{suffix}{}", encoded(labels)), value);
        }
    }
}

/// `{name="value",…}`, or nothing without labels. Values are shortened, because another client may have written them.
fn encoded(labels: &[(&str, &str)]) -> String {
    let encode = |(name, value): &(&str, &str)| {
        let value = shortened(value, CAUSE).replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("{name}=\"{value}\"")
    };
    let all: Vec<String> = labels.iter().map(encode).collect();
    if all.is_empty() { String::new() } else { format!("{{{}}}", all.join(",")) }
}

/// Seconds since the epoch.
pub(crate) fn seconds(at: Timestamp) -> f64 {
    at.as_duration().as_secs_f64()
}

#[allow(clippy::cast_precision_loss, reason = "a sample is a float, and no count here reaches 2^53")]
pub(crate) fn count(number: u64) -> f64 {
    number as f64
}

pub(crate) fn size(number: usize) -> f64 {
    count(number as u64)
}
