//! Pauses between attempts.

use crate::pause::{self, doubled};
use kube::runtime::utils::Backoff;
use std::time::Duration;
use tokio::time::Instant;

/// `base` doubled for each failure after the first, at most `cap`, plus up to a quarter of jitter.
pub(crate) fn jittered(base: Duration, failures: u32, cap: Duration) -> Duration {
    with_jitter(doubled(base, failures, cap))
}

/// `pause` plus up to a quarter of it.
pub(crate) fn with_jitter(pause: Duration) -> Duration {
    pause::jittered(pause, random())
}

/// A random share of `base` doubled for each failure after the first, at most of `cap`: for what each node does. Thousands of
/// them lose the same server at the same moment, and a quarter of jitter would have them come back almost together.
pub(crate) fn scattered(base: Duration, failures: u32, cap: Duration) -> Duration {
    doubled(base, failures, cap).mul_f64(random())
}

/// Evenly from 0 to 1.
fn random() -> f64 {
    // The uuid crate is the source of randomness that is a dependency already.
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    (random % 1_000_000) as f64 / 1e6
}

/// A random time in the last nine tenths of `period`, so that what starts together does not end together.
pub(crate) fn spread(period: Duration) -> Duration {
    period.mul_f64(0.1 + random() * 0.9)
}

const FIRST: Duration = Duration::from_millis(200);
/// Much shorter than the usual 30 s, because an administrator's request goes unnoticed that long after the API server has
/// come back. There are only a handful of such watches.
const LONGEST: Duration = Duration::from_secs(10);
/// Of watches that each node has.
const LONGEST_OF_NODES: Duration = Duration::from_secs(60);
/// A watch that lasted this long had recovered; its end counts as the first failure again.
const RECOVERED: Duration = Duration::from_secs(10);

/// The pauses of one watch: from 0.2 s doubling up to 10 s. Only time resets them, not an answer: a watch that starts and
/// breaks at once has not recovered.
#[derive(Debug, Default)]
pub(crate) struct WatchBackoff {
    /// Each node has such a watch.
    of_nodes: bool,
    failures: u32,
    /// When the last pause ended.
    resumed: Option<Instant>,
}

impl WatchBackoff {
    /// For a watch that each node has: a random share of up to a minute.
    pub(crate) fn of_nodes() -> Self {
        WatchBackoff { of_nodes: true, ..WatchBackoff::default() }
    }

    /// The pause after a failure that happened now.
    pub(crate) fn pause(&mut self) -> Duration {
        let now = Instant::now();
        // An attempt that nobody answers takes long as well.
        let recovered = if self.of_nodes { LONGEST_OF_NODES } else { RECOVERED };
        if self.resumed.is_some_and(|resumed| now.saturating_duration_since(resumed) > recovered) {
            self.failures = 0;
        }
        self.failures = self.failures.saturating_add(1);
        let pause = match self.of_nodes {
            true => scattered(FIRST, self.failures, LONGEST_OF_NODES),
            false => jittered(FIRST, self.failures, LONGEST),
        };
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
