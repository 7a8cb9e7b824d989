//! The machine on which is measured: its hardware, and whether it is idle.

use serde_json::{Value, json};
use std::fs;
use std::time::Duration;

/// Time over which the use of the processors is measured.
const SAMPLE: Duration = Duration::from_secs(1);
/// The share of all processors that may be in use on an idle machine.
const QUIET: f64 = 0.15;
/// A machine that is used otherwise never becomes idle.
const SAMPLES: usize = 20;

/// Waits until the machine is idle, so that only what comes next is measured. Returns the share of the processors that
/// is in use nevertheless.
pub(super) async fn quiet() -> f64 {
    let mut busy = 1.0;
    for _ in 0..SAMPLES {
        let before = ticks();
        // There is no event for an idle machine.
        tokio::time::sleep(SAMPLE).await;
        busy = share(before, ticks());
        if busy <= QUIET {
            return busy;
        }
    }
    println!("note: the machine does not become idle, {:.0} % of its processors are in use", busy * 100.0);
    busy
}

/// Busy and all ticks of all processors since boot.
fn ticks() -> (u64, u64) {
    let text = fs::read_to_string("/proc/stat").unwrap_or_default();
    let first = text.lines().next().unwrap_or_default();
    // user nice system idle iowait irq softirq steal; the fields after these are already counted in user.
    let fields: Vec<u64> = first.split_whitespace().skip(1).take(8).filter_map(|field| field.parse().ok()).collect();
    let all: u64 = fields.iter().sum();
    let idle: u64 = fields.iter().skip(3).take(2).sum();
    (all - idle, all)
}

fn share(before: (u64, u64), after: (u64, u64)) -> f64 {
    let all = after.1.saturating_sub(before.1);
    if all == 0 { 1.0 } else { after.0.saturating_sub(before.0) as f64 / all as f64 }
}

/// The kernel's load averages.
pub(super) fn load() -> String {
    read("/proc/loadavg")
}

pub(super) fn describe() -> Value {
    let cpu = read("/proc/cpuinfo");
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    let memory = read("/proc/meminfo");
    let total = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")).unwrap_or_default();
    json!({
        "processors": std::thread::available_parallelism().map_or(0, usize::from),
        "model": model.trim_start_matches([' ', '\t', ':']),
        "memory": total.trim(),
        "kernel": read("/proc/sys/kernel/osrelease"),
    })
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default().trim().to_owned()
}
