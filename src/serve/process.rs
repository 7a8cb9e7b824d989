//! What the kernel says about this process.

use crate::metrics::process::ProcessFigures;
use std::fs;

/// Reads /proc. What cannot be read or understood is left out.
pub(crate) fn read() -> ProcessFigures {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let system = fs::read_to_string("/proc/stat").unwrap_or_default();
    let limits = fs::read_to_string("/proc/self/limits").unwrap_or_default();
    let open_files = fs::read_dir("/proc/self/fd").ok().map(|entries| number(entries.count() as u64));
    let units = Units { ticks: rustix::param::clock_ticks_per_second(), page: rustix::param::page_size() as u64 };
    ProcessFigures { open_files, ..parse(&stat, &system, &limits, &units) }
}

/// Of the numbers in /proc.
struct Units {
    /// A second has this many.
    ticks: u64,
    /// Bytes of a page.
    page: u64,
}

fn parse(stat: &str, system: &str, limits: &str, units: &Units) -> ProcessFigures {
    // The name of the program, in parentheses, may contain anything.
    let fields: Vec<&str> = stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_ascii_whitespace().collect();
    // proc(5) counts fields from 1; the state behind the name is the third.
    let field = |position: usize| fields.get(position - 3).and_then(|text| text.parse::<u64>().ok()).map(number);
    let ticks = number(units.ticks.max(1));
    let cpu = field(14).zip(field(15)).map(|(user, system)| (user + system) / ticks);
    let boot = system.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<u64>().ok()).map(number);
    let max = limits.lines().find_map(|line| line.strip_prefix("Max open files")?.split_ascii_whitespace().next());
    ProcessFigures {
        cpu_seconds: cpu,
        resident_bytes: field(24).map(|pages| pages * number(units.page)),
        virtual_bytes: field(23),
        started: boot.zip(field(22)).map(|(boot, after)| boot + after / ticks),
        open_files: None,
        max_open_files: max.and_then(|text| text.parse::<u64>().ok()).map(number),
        threads: field(20),
    }
}

#[allow(clippy::cast_precision_loss, reason = "a sample is a float")]
fn number(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests;
