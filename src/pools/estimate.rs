//! How long the rest of a pool's rollout takes, by how long nodes have taken before.

use jiff::SignedDuration;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// So many of the last durations are kept.
const KEPT: usize = 32;

/// How long nodes of a pool took lately, from the moment they were told until they were done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Durations {
    seconds: Vec<i64>,
}

impl Durations {
    /// From the newest to the oldest.
    pub fn new(seconds: impl IntoIterator<Item = i64>) -> Self {
        Durations { seconds: seconds.into_iter().filter(|seconds| *seconds >= 0).take(KEPT).collect() }
    }

    pub fn add(&mut self, duration: SignedDuration) {
        self.seconds.insert(0, duration.as_secs().max(0));
        self.seconds.truncate(KEPT);
    }

    pub fn seconds(&self) -> &[i64] {
        &self.seconds
    }

    /// That of half of the nodes, or of nine in ten; `None` before any is known.
    pub fn quantile(&self, percent: usize) -> Option<SignedDuration> {
        let mut sorted = self.seconds.clone();
        sorted.sort_unstable();
        let at = (sorted.len() * percent.min(100)).div_ceil(100).saturating_sub(1);
        sorted.get(at).map(|seconds| SignedDuration::from_secs(*seconds))
    }
}

/// Until the last node is done, if each takes `each`: `under_way` are being updated for so long already, `waiting` follow, and
/// never more than `limit` at the same time.
pub fn remaining(under_way: &[SignedDuration], waiting: usize, limit: usize, each: SignedDuration) -> SignedDuration {
    // One that takes longer than the others may be done at any moment.
    let ends = under_way.iter().map(|elapsed| Reverse(each.saturating_sub(*elapsed).max(SignedDuration::ZERO)));
    let mut running: BinaryHeap<Reverse<SignedDuration>> = ends.collect();
    let mut last = running.iter().map(|Reverse(end)| *end).max().unwrap_or_default();
    for _ in 0..waiting {
        let begins = if running.len() < limit.max(1) {
            SignedDuration::ZERO
        } else {
            running.pop().map_or(last, |Reverse(end)| end)
        };
        let end = begins.saturating_add(each);
        last = last.max(end);
        running.push(Reverse(end));
    }
    last
}

#[cfg(test)]
mod tests;
