//! The query of a pool from one answer to the next: when it is asked, since when it is true or false, and how the next process
//! learns that.

use super::holds::{Answer, QUERY};
use super::node::NodeFacts;
use super::rollout::PoolFacts;
use crate::error::{CAUSE, shortened};
use crate::machine_config::api::machine_config::GROUP;
use crate::promql::key;
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::time::Duration;

/// Annotation of a pool: since when its query is true or false, while a rollout lasts.
pub(crate) const RECORD: &str = "approval-query-answer";
/// How often the query is asked: Prometheus usually learns nothing new in a shorter time.
pub(crate) const PERIOD: Duration = Duration::from_secs(15);
/// Further back the past is not asked for.
const LONGEST_PAST: SignedDuration = SignedDuration::from_hours(24);
/// The most values of the past that Prometheus computes for one question.
const STEPS: i64 = 60;

/// The annotation [`RECORD`].
#[derive(Debug, PartialEq, Deserialize, Serialize)]
struct Record {
    /// A short name of the query: an answer says nothing of another one.
    query: String,
    holds: bool,
    since: Timestamp,
}

/// The query of a pool with these annotations.
pub(crate) fn query(annotations: &BTreeMap<String, String>) -> Option<&str> {
    annotations.get(&format!("{GROUP}/{QUERY}")).map(|query| query.trim()).filter(|query| !query.is_empty())
}

/// Only the rollout needs the answer: while nodes of the pool wait or are under way. What was known before is not known any
/// more when the next rollout begins.
pub(crate) fn is_needed(pool: &PoolFacts) -> bool {
    let arrived = |node: &NodeFacts| node.is_at(&pool.target);
    !pool.target.config.is_empty() && !pool.paused && pool.nodes.iter().any(|node| node.is_managed() && !arrived(node))
}

/// What is known after one more answer. Whatever is neither true nor false ends a time of truth.
pub(crate) fn next(before: &Answer, sample: Result<bool, String>, now: Timestamp) -> Answer {
    // Whole seconds, as they are recorded.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    match (sample, before) {
        // A clock that was ahead must not make the time longer.
        (Ok(true), Answer::True { since }) => Answer::True { since: now.min(*since) },
        (Ok(false), Answer::False { since }) => Answer::False { since: now.min(*since) },
        (Ok(true), _) => Answer::True { since: now },
        (Ok(false), _) => Answer::False { since: now },
        (Err(cause), _) => Answer::Nothing(shortened(&cause, CAUSE).into_owned()),
    }
}

/// What an earlier process has found out about this query.
pub(crate) fn recorded(annotations: &BTreeMap<String, String>, query: &str) -> Answer {
    let record = annotations.get(&format!("{GROUP}/{RECORD}"));
    match record.and_then(|text| serde_json::from_str::<Record>(text).ok()) {
        Some(Record { query: of, .. }) if of != key(query) => Answer::Unknown,
        Some(Record { holds: true, since, .. }) => Answer::True { since },
        Some(Record { holds: false, since, .. }) => Answer::False { since },
        None => Answer::Unknown,
    }
}

/// The query whose answer says whether `query` has been true since then, also while no process has asked; `None` if no time
/// has passed that one could ask about.
pub(crate) fn past(query: &str, since: Timestamp, now: Timestamp) -> Option<String> {
    // The first second was true only in part.
    let seconds = now.duration_since(since).min(LONGEST_PAST).as_secs().saturating_sub(1);
    let longest = i64::try_from(PERIOD.as_secs()).unwrap_or(STEPS);
    let step = (seconds / STEPS).clamp(1, longest);
    // A query may end with a comment, which ends with its line.
    (seconds > 0).then(|| format!("min_over_time((\n{query}\n)[{seconds}s:{step}s])"))
}

/// What an earlier process has found out, with the answer to [`past`]: only what is confirmed counts, and no longer than one
/// could ask back.
pub(crate) fn confirmed(recorded: Answer, past: Option<bool>, now: Timestamp) -> Answer {
    match (recorded, past) {
        (Answer::True { since }, None | Some(true)) => {
            let earliest = now.checked_sub(LONGEST_PAST).unwrap_or(Timestamp::MIN);
            Answer::True { since: since.max(earliest) }
        }
        (Answer::True { .. }, Some(false)) => Answer::Unknown,
        (other, _) => other,
    }
}

/// The change of the pool that records the answer, if it is not recorded already. `query`: `None` while it is not asked.
pub(crate) fn record(
    version: &str,
    annotations: &BTreeMap<String, String>,
    query: Option<&str>,
    answer: &Answer,
) -> Option<Value> {
    let recorded = annotations.get(&format!("{GROUP}/{RECORD}"));
    let wanted = query.and_then(|query| {
        let (holds, since) = match answer {
            Answer::True { since } => (true, *since),
            Answer::False { since } => (false, *since),
            Answer::Unknown | Answer::Nothing(_) => return None,
        };
        serde_json::to_string(&Record { query: key(query), holds, since }).ok()
    });
    // Until the first answer what an earlier process has recorded is needed.
    let is_open = query.is_some() && *answer == Answer::Unknown;
    if is_open || wanted.as_ref() == recorded {
        return None;
    }
    let annotation = BTreeMap::from([(format!("{GROUP}/{RECORD}"), wanted)]);
    Some(json!({"metadata": {"resourceVersion": version, "annotations": annotation}}))
}

#[cfg(test)]
mod tests;
