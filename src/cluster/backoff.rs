//! Pauses between attempts.

use crate::rollout::doubled;
use kube::runtime::utils::Backoff;
use std::time::Duration;
use tokio::time::Instant;

/// `base` doubled for each failure after the first, at most `cap`, plus up to a quarter of jitter.
pub(crate) fn jittered(base: Duration, failures: u32, cap: Duration) -> Duration {
    with_jitter(doubled(base, failures, cap))
}

/// `pause` plus up to a quarter of it, so that not all clients come back at the same moment.
pub(crate) fn with_jitter(pause: Duration) -> Duration {
    // The uuid crate is the source of randomness that is a dependency already.
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    let share = (random % 1000) as f64 / 4000.0;
    pause.mul_f64(1.0 + share)
}

/// A random time in the last nine tenths of `period`, so that what starts together does not end together.
pub(crate) fn spread(period: Duration) -> Duration {
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    period.mul_f64(0.1 + (random % 1000) as f64 / 1111.2)
}

const FIRST: Duration = Duration::from_millis(200);
/// Much shorter than the usual 30 s, because an administrator's request goes unnoticed that long after the API server has
/// come back. There are only a handful of such watches.
const LONGEST: Duration = Duration::from_secs(10);
/// A watch that lasted this long had recovered; its end counts as the first failure again.
const RECOVERED: Duration = Duration::from_secs(10);

/// The pauses of one watch: from 0.2 s doubling up to 10 s. Only time resets them, not an answer: a watch that starts and
/// breaks at once has not recovered.
#[derive(Debug, Default)]
pub(crate) struct WatchBackoff {
    failures: u32,
    /// When the last pause ended.
    resumed: Option<Instant>,
}

impl WatchBackoff {
    /// The pause after a failure that happened now.
    pub(crate) fn pause(&mut self) -> Duration {
        let now = Instant::now();
        if self.resumed.is_some_and(|resumed| now.saturating_duration_since(resumed) > RECOVERED) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let pause = jittered(FIRST, self.failures, LONGEST);
        self.resumed = Some(now + pause);
        pause
    }
}

impl Iterator for WatchBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(self.pause())
    }
}

impl Backoff for WatchBackoff {
    fn reset(&mut self) {}
}

#[cfg(test)]
mod tests;
