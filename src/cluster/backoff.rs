//! How long a watch that failed waits before it begins again.

use super::jittered;
use kube::runtime::utils::Backoff;
use std::time::Duration;
use tokio::time::Instant;

const FIRST: Duration = Duration::from_millis(200);
/// Much below the 30 s that are usual: after the API server was away an administrator's request would go unheard for as
/// long. There are a handful of such watches, so this is no load.
const LONGEST: Duration = Duration::from_secs(10);
/// A watch that held so long was well, and what fails then is another matter.
const WELL: Duration = Duration::from_secs(10);

/// The pauses of one watch: from 0.2 s doubling up to 10 s. Time starts them afresh, not an answer: a watch that begins
/// and breaks at once has not recovered.
#[derive(Debug, Default)]
pub struct WatchBackoff {
    failures: u32,
    /// When the last pause ended.
    resumed: Option<Instant>,
}

impl WatchBackoff {
    /// The pause after a failure that is seen now.
    pub fn pause(&mut self) -> Duration {
        let now = Instant::now();
        if self.resumed.is_some_and(|resumed| now.saturating_duration_since(resumed) > WELL) {
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
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn pauses_grow_to_ten_seconds_and_start_afresh_after_a_watch_that_held() {
        let mut backoff = WatchBackoff::default();
        let mut pauses = Vec::new();
        for _ in 0..8 {
            let pause = backoff.pause();
            pauses.push(pause.as_secs_f64());
            tokio::time::sleep(pause).await;
            // It begins, says what is there, and breaks.
            backoff.reset();
        }
        for (pause, seconds) in pauses.iter().zip([0.2, 0.4, 0.8, 1.6, 3.2, 6.4, 10.0, 10.0]) {
            assert!((seconds..seconds * 1.25).contains(pause), "{pauses:?}");
        }
        tokio::time::sleep(WELL + Duration::from_millis(1)).await;
        assert!(backoff.pause() < FIRST.mul_f64(1.25));
    }
}
