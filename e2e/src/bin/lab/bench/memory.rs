//! How much memory a process holds.

use anyhow::Context;
use e2e::harness::process;
use std::fs;

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
