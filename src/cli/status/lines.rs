//! The differences between two states of an update, a line each: what `--watch` writes to a file or a log.

use super::State;
use super::installed;
use super::pools::{self, PoolState};
use super::text::{awaited, cause, headline, operator_line, state_word};
use super::view::{Concern, Phase, View, component};
use crate::cli::layout::{ago, clean, dated};
use crate::cluster_version::api::{HistoryEntry, HistoryState};
use crate::cluster_version::progress::{NodeProgress, NodeState};
use crate::object::read::Read;
use jiff::Timestamp;

/// One line for each change from `before` to `after`, with the time of day (UTC) in front. `state`: what `after` was made of.
pub(crate) fn lines(before: &View, after: &View, state: &State, now: Timestamp) -> Vec<String> {
    let mut changes = Vec::new();
    let (old, new) = (headline(before), headline(after));
    if old != new {
        changes.push(new);
    }
    for silence in &after.silences {
        if !before.silences.iter().any(|old| old.message == silence.message) {
            changes.push(format!("not up to date: {}", clean(&silence.message)));
        }
        let known = before.silences.iter().find(|old| old.lease == silence.lease);
        let known = known.map(|old| old.causes.as_slice()).unwrap_or_default();
        let new = silence.causes.iter().filter(|cause| !known.contains(cause));
        changes.extend(new.map(|cause| clean(&format!("{}: {}", cause.object, cause.message)).into_owned()));
    }
    for gone in before.silences.iter().filter(|old| !after.silences.iter().any(|new| new.lease == old.lease)) {
        changes.push(format!("{} is renewed again", gone.lease));
    }
    // With a new release all components start again.
    let known = if before.target.image == after.target.image { before.components.as_slice() } else { &[] };
    for node in &after.components {
        let old = known.iter().find(|old| old.id == node.id);
        changes.extend(node_line(old, node, after.phase));
    }
    for concern in &after.concerns {
        let old = before.concerns.iter().find(|old| old.type_ == concern.type_);
        if old != Some(concern) {
            changes.push(concern_line(concern));
        }
    }
    for operator in &after.operators {
        let line = operator_line(operator, None);
        if !before.operators.iter().any(|old| operator_line(old, None) == line) {
            changes.push(format!("operator {line}"));
        }
    }
    changes.extend(gone(before, after, state));
    changes.extend(installed::changes(before.installed_operators.as_ref(), after.installed_operators.as_ref()));
    let homes = pools::homes(&state.pools, &state.nodes);
    for pool in &after.pools {
        let old = before.pools.iter().find(|old| old.name == pool.name);
        changes.extend(pools::changes(old, pool, &homes, now));
    }
    changes.extend(after.history.iter().rev().filter_map(|entry| completed(entry, &before.history)));
    changes
        .extend(after.remarks.iter().filter(|remark| !before.remarks.contains(remark)).map(|r| clean(r).into_owned()));
    changes.into_iter().map(|line| dated(now, &line)).collect()
}

/// What is not told of any more, because it is well or because it does not exist any more.
fn gone(before: &View, after: &View, state: &State) -> Vec<String> {
    let mut lines = Vec::new();
    // Without a status nothing is over: the headline says that there is none.
    if state.cluster_version.as_ref().is_some_and(|version| version.status.is_some()) {
        let over = before.concerns.iter().filter(|old| !after.concerns.iter().any(|new| new.type_ == old.type_));
        lines.extend(over.map(|old| format!("{}: over", clean(&old.type_))));
    }
    // Nothing is known of operators that cannot be listed.
    if !matches!(state.operators, Read::Failed(_)) {
        let exists = |name: &str| state.operators().iter().any(|it| it.metadata.name.as_deref() == Some(name));
        let silent = before.operators.iter().filter(|old| !after.operators.iter().any(|new| new.name == old.name));
        let what = |name: &str| if exists(name) { "healthy" } else { "gone" };
        lines.extend(silent.map(|old| format!("operator {} is {}", clean(&old.name), what(&old.name))));
    }
    let exists = |pool: &&PoolState| after.pools.iter().any(|new| new.name == pool.name);
    lines.extend(
        before.pools.iter().filter(|pool| !exists(pool)).map(|old| format!("pool {} is gone", clean(&old.name))),
    );
    lines
}

fn node_line(old: Option<&NodeProgress>, node: &NodeProgress, phase: Phase) -> Option<String> {
    let name = clean(component(&node.id));
    let since_known = old.map_or(NodeState::Pending, |old| old.state);
    match node.state {
        NodeState::Pending => None,
        // While a release is kept applied everything is done from the start, which is not a change.
        NodeState::Done if since_known == NodeState::Done || (old.is_none() && phase == Phase::Running) => None,
        NodeState::Done => {
            let took = node.started.zip(node.finished).map(|(from, to)| format!(" after {}", ago(from, to)));
            Some(format!("{name}: done{} ({})", took.unwrap_or_default(), manifests(node.total)))
        }
        NodeState::Running if old.is_some_and(|old| old.state != NodeState::Pending) => None,
        NodeState::Running => Some(format!("{name}: applying {}", manifests(node.total))),
        NodeState::Waiting | NodeState::Failing => {
            let line = parked(node);
            (old.filter(|old| old.state == node.state).map(parked).as_ref() != Some(&line))
                .then(|| format!("{name}: {line}"))
        }
    }
}

fn manifests(count: usize) -> String {
    if count == 1 { "1 manifest".to_owned() } else { format!("{count} manifests") }
}

/// `waiting for ...; ...`, with the error if it says something else.
fn parked(node: &NodeProgress) -> String {
    let waits: Vec<String> = node.waiting.iter().map(awaited).collect();
    let error =
        Some(clean(&node.error)).filter(|error| !error.is_empty() && !waits.iter().any(|w| w.contains(&**error)));
    let state = state_word(node.state);
    let lead = if waits.is_empty() { state.to_owned() } else { format!("{state} for {}", waits.join("; ")) };
    match error {
        Some(error) => format!("{lead}: {error}"),
        None => lead,
    }
}

fn concern_line(concern: &Concern) -> String {
    let cause = cause(&concern.reason, &concern.message);
    clean(&format!("{}{}: {cause}", concern.type_, concern.status_text())).into_owned()
}

/// The line for an entry that has become completed.
fn completed(entry: &HistoryEntry, before: &[HistoryEntry]) -> Option<String> {
    let end = entry.completion_time.as_ref().filter(|_| entry.state == HistoryState::Completed)?;
    let old = before.iter().find(|old| old.image == entry.image && old.started_time == entry.started_time);
    if old.is_some_and(|old| old.state == HistoryState::Completed) {
        return None;
    }
    let verified = if entry.verified { "verified" } else { "not verified" };
    Some(format!("{} completed after {}, {verified}", clean(&entry.version), ago(entry.started_time.0, end.0)))
}
