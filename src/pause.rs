//! Pauses between attempts.

use std::time::Duration;

/// `base`, doubled for each failure after the first, at most `cap`.
pub(crate) fn doubled(base: Duration, failures: u32, cap: Duration) -> Duration {
    base.saturating_mul(1u32 << failures.saturating_sub(1).min(16)).min(cap)
}

/// `pause` plus up to a quarter of it, so that not all clients come back at the same moment. `random` is from 0 to 1.
pub(crate) fn jittered(pause: Duration, random: f64) -> Duration {
    pause.mul_f64(1.0 + random.clamp(0.0, 1.0) / 4.0)
}

#[cfg(test)]
mod tests;
