//! How long something took lately, and in all.

use crate::metrics::summary::Summary;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Quantiles are of what ended in this time.
const WINDOW: Duration = Duration::from_secs(600);
/// Most of it that is remembered: the last ones count.
const MOST: usize = 4096;
/// Name and share of each quantile.
const QUANTILES: [(&str, f64); 3] = [("0.9", 0.9), ("0.95", 0.95), ("0.99", 0.99)];

/// Durations in seconds.
#[derive(Clone, Debug, Default)]
pub(crate) struct Durations {
    recent: VecDeque<(Instant, f64)>,
    count: u64,
    sum: f64,
}

impl Durations {
    pub(crate) fn add(&mut self, took: Duration, now: Instant) {
        let seconds = took.as_secs_f64();
        self.count += 1;
        self.sum += seconds;
        self.forget(now);
        if self.recent.len() == MOST {
            self.recent.pop_front();
        }
        self.recent.push_back((now, seconds));
    }

    fn forget(&mut self, now: Instant) {
        while self.recent.front().is_some_and(|(at, _)| now.saturating_duration_since(*at) > WINDOW) {
            self.recent.pop_front();
        }
    }

    pub(crate) fn summary(&mut self, now: Instant) -> Summary {
        self.forget(now);
        let mut sorted: Vec<f64> = self.recent.iter().map(|(_, seconds)| *seconds).collect();
        sorted.sort_by(f64::total_cmp);
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a place among a few thousand"
        )]
        let place = |share: f64| ((sorted.len() as f64 * share).ceil() as usize).saturating_sub(1);
        let quantiles = QUANTILES.iter().filter_map(|(name, share)| Some((*name, *sorted.get(place(*share))?)));
        Summary { quantiles: quantiles.collect(), count: self.count, sum: self.sum }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_of_the_last_minutes_and_the_sum_of_all() {
        let (mut durations, begun) = (Durations::default(), Instant::now());
        assert_eq!(durations.summary(begun), Summary::default());
        for milliseconds in (1..=100).rev() {
            durations.add(Duration::from_millis(milliseconds * 10), begun);
        }
        let summary = durations.summary(begun + WINDOW);
        assert_eq!(summary.quantiles, [("0.9", 0.9), ("0.95", 0.95), ("0.99", 0.99)]);
        assert!(summary.count == 100 && (summary.sum - 50.5).abs() < 1e-9, "{summary:?}");
        let later = begun + WINDOW + Duration::from_secs(1);
        assert!(durations.summary(later).quantiles.is_empty());
        durations.add(Duration::from_secs(2), later);
        let summary = durations.summary(later);
        assert_eq!((summary.quantiles, summary.count), (vec![("0.9", 2.0), ("0.95", 2.0), ("0.99", 2.0)], 101));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut durations, begun) = (Durations::default(), Instant::now());
        for _ in 0..=MOST {
            durations.add(Duration::from_secs(1), begun);
        }
        assert_eq!((durations.recent.len(), durations.count), (MOST, MOST as u64 + 1));
    }
}
