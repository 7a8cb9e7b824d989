//! How much memory a process holds.

use anyhow::Context;
use e2e::harness::process;
use std::fs;
use std::time::Duration;

/// How often it is looked at.
const SAMPLE: Duration = Duration::from_secs(5);

/// In MiB.
#[derive(Clone, Copy, Debug)]
pub(super) struct Memory {
    pub peak: f64,
    pub resident: f64,
}

impl Memory {
    pub(super) fn of(pid: i32) -> anyhow::Result<Memory> {
        let (peak, resident) = process::memory(pid);
        let (peak, resident) = peak.zip(resident).context("the process has ended")?;
        Ok(Memory { peak: mebibytes(peak), resident: mebibytes(resident) })
    }
}

/// The most that the process holds in this time, in MiB.
pub(super) async fn most_resident(
    window: Duration,
    memory: impl Fn() -> anyhow::Result<Memory>,
) -> anyhow::Result<f64> {
    let (mut most, mut samples) = (0.0_f64, tokio::time::interval(SAMPLE));
    let end = tokio::time::sleep(window);
    tokio::pin!(end);
    loop {
        tokio::select! {
            () = &mut end => return Ok(most),
            _ = samples.tick() => most = most.max(memory()?.resident),
        }
    }
}

/// What is the most from now on is the peak.
pub(super) fn forget_peak(pid: i32) -> anyhow::Result<()> {
    Ok(fs::write(format!("/proc/{pid}/clear_refs"), "5")?)
}

/// Of MiB.
pub(super) fn megabytes(mebibytes: f64) -> f64 {
    mebibytes * 1.048576
}

pub(super) fn mebibytes(kib: u64) -> f64 {
    kib as f64 / 1024.0
}
