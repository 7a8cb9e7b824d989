//! Pauses between attempts.

use std::time::Duration;

/// `base`, doubled for each failure after the first, at most `cap`.
pub(crate) fn doubled(base: Duration, failures: u32, cap: Duration) -> Duration {
    base.saturating_mul(1u32 << failures.saturating_sub(1).min(16)).min(cap)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pause_doubles_up_to_its_cap() {
        let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
        for (failures, seconds) in [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (u32::MAX, 30.0)] {
            assert_eq!(doubled(base, failures, cap).as_secs_f64(), seconds, "{failures} failures");
        }
    }
}
