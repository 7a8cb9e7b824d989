//! How long the rest of a pool's rollout takes, by how long nodes have taken before.

use super::node::NodeFacts;
use super::rollout::{PoolFacts, Round, limit};
use crate::machine_config::api::machine_config::GROUP;
use jiff::{SignedDuration, Timestamp};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

/// Annotation of a pool: how many seconds its last nodes took, from the newest to the oldest.
pub(crate) const RECORD: &str = "node-durations";

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

/// What a process has learned of a pool by looking at its nodes again and again.
#[derive(Clone, Debug, Default)]
pub(crate) struct Learned {
    durations: Durations,
    under_way: BTreeMap<String, UnderWay>,
    /// The nodes have been looked at before, so that one that is under way now has just begun.
    has_looked: bool,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    since: Timestamp,
    /// It was seen to begin: from then until its end is how long it takes.
    from_the_beginning: bool,
}

impl Learned {
    /// With what an earlier process has written to the pool.
    pub(crate) fn of(annotations: &BTreeMap<String, String>) -> Self {
        let text = annotations.get(&format!("{GROUP}/{RECORD}")).map_or("", String::as_str);
        let seconds = text.split(',').filter_map(|seconds| seconds.trim().parse().ok());
        Learned { durations: Durations::new(seconds), ..Learned::default() }
    }

    /// What the next process has to know.
    pub(crate) fn record(&self) -> Option<String> {
        let seconds: Vec<String> = self.durations.seconds().iter().map(i64::to_string).collect();
        (!seconds.is_empty()).then(|| seconds.join(","))
    }

    /// To be called whenever something has changed. Only a node that reaches its configuration teaches something.
    pub(crate) fn look(&mut self, nodes: &[NodeFacts], now: Timestamp) {
        let from_the_beginning = self.has_looked;
        let mut before = std::mem::take(&mut self.under_way);
        for node in nodes {
            let known = before.remove(&node.name);
            if node.is_changing() {
                let begun = known.unwrap_or(UnderWay { since: now, from_the_beginning });
                self.under_way.insert(node.name.clone(), begun);
            } else if let Some(begun) = known.filter(|begun| begun.from_the_beginning && node.is_done()) {
                self.durations.add(now.duration_since(begun.since));
            }
        }
        self.has_looked = true;
    }

    /// Until all nodes have the pool's configuration, if they take as long as half of the last ones did. `None` while nothing
    /// is known, or the rollout waits for something that takes nobody knows how long.
    pub(crate) fn remaining(&self, pool: &PoolFacts, round: &Round, now: Timestamp) -> Option<SignedDuration> {
        let each = self.durations.quantile(50)?.saturating_add(pool.soak);
        let limit = limit(&pool.name, pool.max_unavailable.as_ref(), pool.nodes.len()).ok()?;
        let behind = |node: &&NodeFacts| node.is_managed() && !node.is_at(&pool.target) && !node.is_degraded();
        let behind = pool.nodes.iter().filter(behind).count();
        let under_way: Vec<SignedDuration> =
            self.under_way.values().map(|begun| now.duration_since(begun.since)).collect();
        let waiting = behind.saturating_sub(under_way.len());
        let goes_on = behind > 0 && round.blocked.is_none() && !pool.paused;
        goes_on.then(|| remaining(&under_way, waiting, limit, each))
    }
}

/// Such as `about 5 minutes left`.
pub(crate) fn left(remaining: SignedDuration) -> String {
    match remaining.as_mins() {
        0 => "less than a minute left".to_owned(),
        1 => "about 1 minute left".to_owned(),
        minutes => format!("about {minutes} minutes left"),
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
