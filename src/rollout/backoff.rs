//! Pauses between attempts.

use std::time::Duration;

/// `base`, doubled for each failure after the first, at most `cap`.
pub(crate) fn doubled(base: Duration, failures: u32, cap: Duration) -> Duration {
    base.saturating_mul(1u32 << failures.saturating_sub(1).min(16)).min(cap)
}

#[cfg(test)]
mod tests;
