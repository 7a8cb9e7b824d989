//! What people have written on a pool to let its rollout begin and go on only when they want: maintenance windows, a pause
//! after the first nodes, and a query that has to be true.

use super::node::{NodeFacts, Target};
use super::rollout::{BlockedReason, Hold};
use super::windows::{Opening, Windows};
use crate::error::shortened;
use crate::machine_config::api::machine_config::GROUP;
use jiff::{SignedDuration, Timestamp};
use std::collections::BTreeMap;

/// Days and hours, such as `Mon-Fri 22:00-04:00; Sat,Sun 00:00-24:00`.
pub const WINDOWS: &str = "maintenance-windows";
/// Their time zone, such as `Europe/Berlin`; without it UTC.
pub const TIME_ZONE: &str = "maintenance-time-zone";
/// So many nodes begin, and the others wait until somebody approves, or the query does.
pub const PAUSE_AFTER: &str = "pause-after";
/// The name of the rendered MachineConfig that may go to all nodes.
pub const APPROVED: &str = "approved";
/// A PromQL query: the rollout goes on while it is true, that is, 1.
pub const QUERY: &str = "approval-query";
/// How long the query has to have been true after the first nodes are done, such as `10m`; without it ten minutes.
pub const QUERY_FOR: &str = "approval-for";

const QUERY_TIME: SignedDuration = SignedDuration::from_mins(10);
/// Most bytes of an annotation in a message.
pub(crate) const QUOTED: usize = 200;

/// What is known of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Answer {
    /// It has not been asked yet.
    #[default]
    Unknown,
    True {
        since: Timestamp,
    },
    False {
        since: Timestamp,
    },
    /// There is no answer that says either, for this reason.
    Nothing(String),
}

/// The wishes of the pool's annotations. What cannot be read holds everything, with the reason: to guess would be to begin
/// nodes that somebody wants to be left alone.
pub fn holds(
    annotations: &BTreeMap<String, String>,
    target: &Target,
    nodes: &[NodeFacts],
    answer: &Answer,
    now: Timestamp,
) -> Vec<Hold> {
    let text =
        |key: &str| annotations.get(&format!("{GROUP}/{key}")).map(|text| text.trim()).filter(|text| !text.is_empty());
    let window = text(WINDOWS).and_then(|windows| window(windows, text(TIME_ZONE).unwrap_or_default(), now));
    let approved = text(APPROVED) == Some(target.config.as_str());
    let first = text(PAUSE_AFTER)
        .map(|number| number.parse::<usize>().map_err(|_| invalid(PAUSE_AFTER, number, "a number of nodes")));
    let time = text(QUERY_FOR).map_or(Ok(QUERY_TIME), |text| {
        text.parse::<SignedDuration>().map_err(|_| invalid(QUERY_FOR, text, "a time such as 10m"))
    });
    let approval = match (first.transpose(), text(QUERY), time) {
        (Err(hold), _, _) | (_, Some(_), Err(hold)) => Some(hold),
        (Ok(first), Some(query), Ok(time)) => {
            by_query(query, answer, first.filter(|_| !approved), time, (target, nodes), now)
        }
        (Ok(first), None, _) => first.filter(|_| !approved).map(|first| by_person(first, target)),
    };
    window.into_iter().chain(approval).collect()
}

fn invalid(key: &str, text: &str, wanted: &str) -> Hold {
    let message = format!("its annotation {GROUP}/{key} is {:?}: write {wanted}", shortened(text, QUOTED));
    Hold { reason: BlockedReason::InvalidPool, message, nodes: 0, until: None }
}

fn window(windows: &str, zone: &str, now: Timestamp) -> Option<Hold> {
    let windows = match Windows::parse(windows, zone) {
        Ok(windows) => windows,
        Err(error) => {
            let message = format!("its annotations {GROUP}/{WINDOWS} and {TIME_ZONE} cannot be read: {error}");
            return Some(Hold { reason: BlockedReason::InvalidPool, message, nodes: 0, until: None });
        }
    };
    let Opening::Closed { until } = windows.at(now) else { return None };
    let message = match until {
        Some(until) => format!("no maintenance window is open before {until}"),
        None => "it has no maintenance window that ever opens".to_owned(),
    };
    Some(Hold { reason: BlockedReason::OutsideMaintenanceWindow, message, nodes: 0, until })
}

fn by_person(first: usize, target: &Target) -> Hold {
    let message = format!(
        "it pauses after {first} nodes: annotate it with {GROUP}/{APPROVED}={} to let the others have it too",
        target.config
    );
    Hold { reason: BlockedReason::AwaitingApproval, message, nodes: first, until: None }
}

/// `first`: how many nodes begin before the query has to have been true for a time.
fn by_query(
    query: &str,
    answer: &Answer,
    first: Option<usize>,
    time: SignedDuration,
    (target, nodes): (&Target, &[NodeFacts]),
    now: Timestamp,
) -> Option<Hold> {
    let hold = |reason, nodes, until, message: String| Some(Hold { reason, message, nodes, until });
    let query = shortened(query, QUOTED);
    let since = match answer {
        // Also with an approval: what it was given for has changed.
        Answer::False { since } => {
            return hold(BlockedReason::AwaitingHealth, 0, None, format!("the query {query} is false since {since}"));
        }
        Answer::Nothing(cause) => {
            let message = format!("the query {query} says neither true nor false: {cause}");
            return hold(BlockedReason::AwaitingHealth, 0, None, message);
        }
        Answer::Unknown => {
            return hold(
                BlockedReason::AwaitingHealth,
                0,
                None,
                format!("the query {query} has not been answered yet"),
            );
        }
        Answer::True { since } => *since,
    };
    let first = first?;
    // Of one that has just arrived it is written after this.
    let mut done: Vec<Timestamp> =
        nodes.iter().filter(|node| node.is_at(target)).map(|node| node.done_since.unwrap_or(now)).collect();
    done.sort_unstable();
    let Some(last) = first.checked_sub(1).map_or(Some(Timestamp::MIN), |last| done.get(last).copied()) else {
        let message =
            format!("it waits for its first {first} nodes and then for the query {query} to be true for a time");
        return hold(BlockedReason::AwaitingApproval, first, None, message);
    };
    let until = since.max(last).checked_add(time).unwrap_or(Timestamp::MAX);
    let message = format!("the query {query} has to stay true until {until}");
    (until > now).then_some(Hold { reason: BlockedReason::AwaitingApproval, message, nodes: first, until: Some(until) })
}

#[cfg(test)]
mod tests;
