//! `status.history`: which release was applied when, and how it ended.

use crate::cluster_version::api::{ClusterVersionStatus, HistoryEntry, HistoryState};
use crate::cluster_version::status::failure::MESSAGE;
use crate::cluster_version::status::{Facts, release};
use crate::error::shortened;
use crate::release::api::Release;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Entries kept in status.
pub(crate) const LIMIT: usize = 100;
/// The newest entries are never pruned.
const ALWAYS_KEPT: usize = 5;

/// Brings history and `desired` up to date with the release being applied.
///
/// Entries are never reordered, and only pruning removes one. An entry becomes Completed through a completed rollout alone,
/// so a rollout that failed or was cancelled is never recorded as a success.
pub(crate) fn merge(status: &mut ClusterVersionStatus, facts: &Facts, now: &Time) {
    let mut actual = release::actual(facts);
    if actual.image.is_empty() {
        return;
    }
    release::keep_metadata(&mut actual, &status.desired, facts);
    match status.history.first_mut() {
        Some(newest) if same_release(newest, &actual) => continue_entry(newest, &actual, facts, now),
        _ => status.history.insert(0, open(&actual, facts, now)),
    }
    // Also one that another client has put an entry before.
    for superseded in status.history.iter_mut().skip(1) {
        close(superseded, now);
    }
    if facts.verified
        && let Some(newest) = status.history.first_mut()
    {
        newest.verified = true;
    }
    prune(&mut status.history, LIMIT);
    status.desired = actual;
}

fn open(actual: &Release, facts: &Facts, now: &Time) -> HistoryEntry {
    let (state, completion_time) = match facts.is_completed() {
        true => (HistoryState::Completed, Some(now.clone())),
        false => (HistoryState::Partial, None),
    };
    HistoryEntry {
        state,
        started_time: now.clone(),
        completion_time,
        version: actual.version.clone(),
        image: actual.image.clone(),
        verified: false,
        accepted_risks: shortened(&facts.accepted_risks, MESSAGE).into_owned(),
    }
}

fn continue_entry(entry: &mut HistoryEntry, actual: &Release, facts: &Facts, now: &Time) {
    for (mine, theirs) in [(&mut entry.version, &actual.version), (&mut entry.image, &actual.image)] {
        if mine.is_empty() {
            mine.clone_from(theirs);
        }
    }
    if facts.is_completed() {
        entry.state = HistoryState::Completed;
        close(entry, now);
    }
    // An empty text says nothing about this entry: the risks that were accepted for it stay on record.
    if !facts.local && !facts.accepted_risks.is_empty() {
        entry.accepted_risks = shortened(&facts.accepted_risks, MESSAGE).into_owned();
    }
}

/// Sets the completion time if there is none; never before the start, even when the clocks of two nodes disagree.
fn close(entry: &mut HistoryEntry, now: &Time) {
    if entry.completion_time.is_none() {
        let end = if now.0 < entry.started_time.0 { &entry.started_time } else { now };
        entry.completion_time = Some(end.clone());
    }
}

/// Whether the entry is about that release: same image and no other version, or same version and an entry without image.
fn same_release(entry: &HistoryEntry, release: &Release) -> bool {
    let agree = |a: &str, b: &str| a.is_empty() || b.is_empty() || a == b;
    let same = |a: &str, b: &str| !a.is_empty() && a == b;
    (same(&entry.image, &release.image) && agree(&entry.version, &release.version))
        || (same(&entry.version, &release.version) && entry.image.is_empty())
}

/// Removes the entries that say least about the way the cluster has come, until `limit` are left. Kept longest are the first
/// entry, the newest ones, and those where the minor version changed.
pub(crate) fn prune(history: &mut Vec<HistoryEntry>, limit: usize) {
    while history.len() > limit {
        let ranks = (0..history.len()).map(|index| (rank(history, index), index));
        let Some((_, least)) = ranks.min() else { return };
        history.remove(least);
    }
}

/// The entry of lowest rank is removed first: weight minus 1.01 times the index, in hundredths, so that of equal weights the
/// oldest goes first.
fn rank(history: &[HistoryEntry], index: usize) -> i64 {
    weight(history, index) * 100 - 101 * i64::try_from(index).unwrap_or(i64::MAX / 101)
}

fn weight(history: &[HistoryEntry], index: usize) -> i64 {
    let completed = |entry: &&HistoryEntry| entry.state == HistoryState::Completed;
    let Some(entry) = history.get(index) else { return 0 };
    let newer = history.iter().take(index).rfind(completed);
    let older = history.iter().skip(index + 1).find(completed);
    let oldest_of_all = index + 1 == history.len();
    let newest_completed = completed(&entry) && newer.is_none();
    if oldest_of_all || index < ALWAYS_KEPT || newest_completed {
        return 1000;
    }
    let differs = |a: &HistoryEntry, b: &HistoryEntry, part| version_part(a, part) != version_part(b, part);
    let other_minor = |neighbour: Option<&HistoryEntry>| neighbour.is_none_or(|n| differs(n, entry, MINOR));
    match (entry.state, newer, older) {
        (HistoryState::Completed, newer, older) if other_minor(newer) || other_minor(older) => 30,
        (HistoryState::Partial, Some(newer), Some(older)) if differs(newer, older, MINOR) => 20,
        (HistoryState::Partial, Some(newer), Some(older)) if differs(newer, older, PATCH) => -20,
        _ => 0,
    }
}

const MINOR: usize = 1;
const PATCH: usize = 2;

/// A dot-separated part of the version; the patch includes a pre-release up to the next dot.
fn version_part(entry: &HistoryEntry, part: usize) -> &str {
    entry.version.split('.').nth(part).unwrap_or("")
}

#[cfg(test)]
mod tests;
