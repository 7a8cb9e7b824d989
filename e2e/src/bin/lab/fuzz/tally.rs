//! Counts the inputs that were run, and what they cost at worst.

use super::targets::TARGETS;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write;
use std::time::Duration;

/// Counts of one reader.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Count {
    inputs: u64,
    /// Those that the reader accepted.
    useful: u64,
    time: Duration,
    /// Longest time, and the input that took it.
    slowest: (Duration, u64),
    /// Most memory in KiB, and the input that needed it.
    largest: (u64, u64),
}

/// Counts by the position of the target, and descriptions of findings.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Tally {
    counts: Vec<Count>,
    /// The most memory that a process ever had, in KiB.
    pub peak: u64,
    pub findings: Vec<String>,
}

impl Tally {
    fn of(&mut self, position: usize) -> Option<&mut Count> {
        if self.counts.len() <= position {
            self.counts.resize(position + 1, Count::default());
        }
        self.counts.get_mut(position)
    }

    /// One more input. `memory` is in KiB.
    pub(super) fn count(&mut self, position: usize, number: u64, time: Duration, memory: u64, useful: bool) {
        let Some(count) = self.of(position) else { return };
        count.inputs += 1;
        count.useful += u64::from(useful);
        count.time += time;
        count.slowest = count.slowest.max((time, number));
        count.largest = count.largest.max((memory, number));
    }

    /// Adds the counts of another process.
    pub(super) fn add(&mut self, other: Tally) {
        for (position, theirs) in other.counts.into_iter().enumerate() {
            let Some(count) = self.of(position) else { continue };
            count.inputs += theirs.inputs;
            count.useful += theirs.useful;
            count.time += theirs.time;
            count.slowest = count.slowest.max(theirs.slowest);
            count.largest = count.largest.max(theirs.largest);
        }
        self.peak = self.peak.max(other.peak);
        self.findings.extend(other.findings);
    }

    pub(super) fn inputs(&self) -> u64 {
        self.counts.iter().map(|count| count.inputs).sum()
    }

    /// A table with one line for each target.
    pub(super) fn table(&self, took: Duration, processes: u64) -> String {
        let mut text = format!(
            "{:14} {:>9} {:>9} {:>11} {:>11} {:>9} {:>12} {:>9}\n",
            "target", "inputs", "read", "per second", "slowest", "input", "most memory", "input"
        );
        for (target, count) in TARGETS.iter().zip(&self.counts).filter(|(_, count)| count.inputs > 0) {
            let rate = count.inputs as f64 / count.time.as_secs_f64().max(1e-9);
            let (slowest, slow) = count.slowest;
            let (largest, large) = count.largest;
            let _ = writeln!(
                text,
                "{:14} {:>9} {:>9} {rate:>11.0} {:>8.1} ms {slow:>9} {largest:>8} KiB {large:>9}",
                target.name,
                count.inputs,
                count.useful,
                slowest.as_secs_f64() * 1000.0
            );
        }
        let inputs = self.inputs();
        let rate = inputs as f64 / took.as_secs_f64().max(1e-9);
        let _ = writeln!(
            text,
            "{inputs} inputs in {:.1} s, {rate:.0} a second with {processes} processes of at most {} MiB, {} findings",
            took.as_secs_f64(),
            self.peak.div_ceil(1024),
            self.findings.len()
        );
        text
    }
}

#[cfg(test)]
impl Tally {
    pub(super) fn slowest(&self) -> Duration {
        self.counts.iter().map(|count| count.slowest.0).max().unwrap_or_default()
    }

    /// Each reader got inputs and accepted some of them: only those test what comes after parsing.
    pub(super) fn assert_each_target_was_tested(&self) {
        assert_eq!(self.counts.len(), TARGETS.len());
        for (target, count) in TARGETS.iter().zip(&self.counts) {
            assert!(
                count.inputs >= 20 && count.useful > 0 && count.useful < count.inputs,
                "{}: {count:?}",
                target.name
            );
        }
    }
}

/// How much the memory of the process has grown since a moment, as the kernel counts it.
#[derive(Debug)]
pub(super) struct Memory {
    /// Resets the peak; absent where the kernel does not support that.
    reset: Option<File>,
    before: u64,
    /// The most so far, in KiB.
    pub peak: u64,
}

impl Memory {
    pub(super) fn watch() -> Self {
        Memory { reset: File::options().write(true).open("/proc/self/clear_refs").ok(), before: 0, peak: 0 }
    }

    pub(super) fn begin(&mut self) {
        if let Some(file) = &mut self.reset {
            if file.write_all(b"5").is_err() {
                self.reset = None;
            }
            self.before = status("VmRSS:");
        }
    }

    /// KiB of the peak since [`Self::begin`] above the memory at that time; 0 if it cannot be measured.
    pub(super) fn grown(&mut self) -> u64 {
        if self.reset.is_none() {
            return 0;
        }
        let most = status("VmHWM:");
        self.peak = self.peak.max(most);
        most.saturating_sub(self.before)
    }
}

/// A line of `/proc/self/status`, in KiB.
fn status(field: &str) -> u64 {
    let text = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    line.and_then(|rest| rest.split_whitespace().next()?.parse().ok()).unwrap_or_default()
}
