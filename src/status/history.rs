//! `status.history`: which release was applied when, and how it ended.

use crate::api::cluster_version::{ClusterVersionStatus, HistoryEntry, HistoryState, Release};
use crate::status::{Facts, release};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// Entries kept in status.
pub(crate) const LIMIT: usize = 100;
/// The newest entries are never pruned.
const ALWAYS_KEPT: usize = 5;

/// Brings history and `desired` up to date with the release being applied.
///
/// Entries are never reordered, and only pruning removes one. An entry becomes Completed through `facts.completed` alone,
/// so a rollout that failed or was cancelled is never recorded as a success.
pub(crate) fn merge(status: &mut ClusterVersionStatus, facts: &Facts, now: &Time) {
    let actual = release::actual(facts);
    if actual.image.is_empty() {
        return;
    }
    match status.history.first_mut() {
        Some(newest) if same_release(newest, &actual) => continue_entry(newest, &actual, facts, now),
        newest => {
            if let Some(superseded) = newest {
                close(superseded, now);
            }
            status.history.insert(0, open(&actual, facts, now));
        }
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
    let (state, completion_time) = match facts.completed {
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
        accepted_risks: facts.accepted_risks.clone(),
    }
}

fn continue_entry(entry: &mut HistoryEntry, actual: &Release, facts: &Facts, now: &Time) {
    for (mine, theirs) in [(&mut entry.version, &actual.version), (&mut entry.image, &actual.image)] {
        if mine.is_empty() {
            mine.clone_from(theirs);
        }
    }
    if facts.completed {
        entry.state = HistoryState::Completed;
        close(entry, now);
    }
    // An empty text says nothing about this entry: the risks that were accepted for it stay on record.
    if !facts.local && !facts.accepted_risks.is_empty() {
        entry.accepted_risks.clone_from(&facts.accepted_risks);
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
mod tests {
    use super::*;
    use crate::status::failure::{Reason, UpdateError};
    use crate::status::tests::{at, facts, release};
    use proptest::prelude::*;

    fn entry(text: &str) -> HistoryEntry {
        let (state, version) = text.split_at(1);
        HistoryEntry {
            state: if state == "C" { HistoryState::Completed } else { HistoryState::Partial },
            started_time: at(0),
            completion_time: None,
            version: version.into(),
            image: format!("image-of-{version}"),
            verified: false,
            accepted_risks: String::new(),
        }
    }

    fn list(text: &str) -> Vec<HistoryEntry> {
        text.split_whitespace().map(entry).collect()
    }

    #[test]
    fn pruning_removes_least_informative_entry() {
        let table = [
            (
                "C4.11.0 C4.10.0 C4.9.0 C4.8.0 C4.7.0 C4.6.0 C4.5.0 C4.4.0 C4.3.0 C4.2.0 C4.1.0",
                9,
                "eleven minors: the next-to-oldest",
            ),
            ("C4.6.3 C4.5.3 C4.4.3 C4.3.3 C4.3.2 C4.3.1 C4.2.1 P4.1.4 P4.1.3 P4.1.2 C4.1.1", 9, "P4.1.2"),
            ("C4.5.3 C4.4.3 C4.4.3 C4.4.2 C4.1.10 C4.1.9 C4.1.4 P4.1.3 C4.1.2 P4.0.1 C4.0.1", 7, "P4.1.3"),
            ("C4.11.0 C4.10.0 C4.9.0 C4.8.0 C4.6.1 P4.6.1 C4.6.0 C4.4.0 P4.3.0 C4.2.0 C4.1.0", 5, "P4.6.1"),
            ("P1 P2 P3 P4 P5 P6 P7 P8 P9 C1.0.0 P11", 10 - 2, "the newest Completed is kept even when it is old"),
        ];
        for (text, gone, why) in table {
            let mut history = list(text);
            let mut expected = history.clone();
            expected.remove(gone);
            prune(&mut history, 10);
            assert_eq!(history, expected, "{why}");
        }
    }

    #[test]
    fn pruning_keeps_first_and_last_entry() {
        let mut history: Vec<_> = (0..140).map(|n| entry(&format!("P1.0.{n}"))).collect();
        prune(&mut history, LIMIT);
        assert_eq!(history.len(), LIMIT);
        assert_eq!(history.first().unwrap().version, "1.0.0");
        assert_eq!(history.last().unwrap().version, "1.0.139");
    }

    #[test]
    fn entry_matches_release_by_image_or_version() {
        // entry image, entry version, release image, release version, equal
        let table = [
            ("1", "v1", "1", "v1", true),
            ("1", "", "1", "v1", true),
            ("1", "v1", "1", "", true),
            ("1", "v1", "", "v1", false),
            ("1", "v1", "2", "v1", false),
            ("1", "v1", "1", "v2", false),
            ("", "v1", "1", "v1", true),
        ];
        for (image, version, other_image, other_version, want) in table {
            let entry = HistoryEntry { image: image.into(), version: version.into(), ..entry("P1") };
            let release = release(other_version, other_image);
            assert_eq!(same_release(&entry, &release), want, "{image}/{version} {other_image}/{other_version}");
        }
    }

    fn merged(history: Vec<HistoryEntry>, facts: &Facts, seconds: i64) -> ClusterVersionStatus {
        let mut status = ClusterVersionStatus { history, ..Default::default() };
        merge(&mut status, facts, &at(seconds));
        status
    }

    #[test]
    fn release_without_image_changes_nothing() {
        let mut unknown = facts();
        unknown.actual = Release::default();
        unknown.completed = true;
        let status = merged(list("P4.1.0"), &unknown, 5);
        assert_eq!(status.history, list("P4.1.0"));
        assert_eq!(status.desired, Release::default());
    }

    #[test]
    fn rollback_adds_an_entry_and_closes_the_superseded_one() {
        let mut facts = facts();
        facts.actual = release("1.0.0", "a");
        facts.completed = true;
        let mut status = merged(Vec::new(), &facts, 10);
        facts.actual = release("1.0.1", "b");
        facts.completed = false;
        merge(&mut status, &facts, &at(20));
        facts.actual = release("1.0.0", "a");
        merge(&mut status, &facts, &at(30));
        facts.completed = true;
        merge(&mut status, &facts, &at(40));
        let rows: Vec<_> = status
            .history
            .iter()
            .map(|e| (e.version.as_str(), e.state, e.started_time.clone(), e.completion_time.clone()))
            .collect();
        assert_eq!(
            rows,
            [
                ("1.0.0", HistoryState::Completed, at(30), Some(at(40))),
                ("1.0.1", HistoryState::Partial, at(20), Some(at(30))),
                ("1.0.0", HistoryState::Completed, at(10), Some(at(10))),
            ]
        );
    }

    #[test]
    fn accepted_risks_and_verified_are_never_erased() {
        let mut facts = facts();
        facts.accepted_risks = "the signature was missing".into();
        facts.verified = true;
        let mut status = merged(Vec::new(), &facts, 10);
        facts.accepted_risks = String::new();
        facts.verified = false;
        for local in [false, true] {
            facts.local = local;
            merge(&mut status, &facts, &at(20));
            assert_eq!(status.history[0].accepted_risks, "the signature was missing");
            assert!(status.history[0].verified);
        }
        facts.accepted_risks = "another".into();
        merge(&mut status, &facts, &at(30));
        assert_eq!(status.history[0].accepted_risks, "the signature was missing", "a local payload accepts no risks");
        facts.local = false;
        merge(&mut status, &facts, &at(30));
        assert_eq!(status.history[0].accepted_risks, "another");
        assert_eq!(status.history.len(), 1);
    }

    #[test]
    fn unknown_state_reads_as_partial_and_version_is_filled_in() {
        let json =
            r#"{"state":"","startedTime":"2026-01-01T00:00:00Z","completionTime":null,"image":"img","verified":false}"#;
        let foreign: HistoryEntry = serde_json::from_str(json).unwrap();
        let mut facts = facts();
        facts.actual = release("9.9.9", "img");
        let status = merged(vec![foreign], &facts, 10);
        assert_eq!(status.history.len(), 1);
        assert_eq!(status.history[0].state, HistoryState::Partial);
        assert_eq!(status.history[0].version, "9.9.9");
    }

    #[test]
    fn completion_is_never_before_start() {
        let mut facts = facts();
        let mut status = merged(Vec::new(), &facts, 100);
        facts.completed = true;
        merge(&mut status, &facts, &at(50));
        assert_eq!(status.history[0].completion_time, Some(at(100)));
    }

    /// A random step: which release, whether its rollout completed, is local, is verified, and has accepted risks.
    fn step() -> impl Strategy<Value = (u8, bool, bool, bool, bool)> {
        (0u8..4, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>())
    }

    fn facts_of((which, completed, local, verified, risky): (u8, bool, bool, bool, bool), second: i64) -> Facts {
        let mut facts = facts();
        facts.actual = match which {
            0 => Release::default(),
            n => release(&format!("1.{n}.0"), &format!("i{n}")),
        };
        (facts.completed, facts.local, facts.verified) = (completed, local, verified);
        facts.failure = risky.then(|| UpdateError::new(Reason::Other("X".into()), "x"));
        facts.accepted_risks = if risky { format!("risk {second}") } else { String::new() };
        facts
    }

    /// Entries of `before` that are not in `after`; panics when the order changed. An entry is known by image and start.
    fn lost(before: &[HistoryEntry], after: &[HistoryEntry]) -> usize {
        let known = |e: &HistoryEntry| (e.image.clone(), e.started_time.0);
        let mut rest = after.iter().map(known).peekable();
        let missing = before.iter().filter(|e| rest.next_if_eq(&known(e)).is_none()).count();
        assert_eq!(rest.next(), None, "an entry appeared or moved");
        missing
    }

    proptest! {
        #[test]
        fn history_is_neither_lost_nor_reordered(steps in proptest::collection::vec(step(), 1..300)) {
            let mut status = ClusterVersionStatus::default();
            for (second, step) in (1i64..).zip(steps) {
                let before = status.history.clone();
                let facts = facts_of(step, second);
                merge(&mut status, &facts, &at(second));
                let new = status.history.iter().take_while(|e| e.started_time == at(second)).count();
                let (opened, kept) = status.history.split_at(new);
                prop_assert!(new <= 1 && status.history.len() <= LIMIT);
                prop_assert_eq!(lost(&before, kept), (before.len() + new).saturating_sub(LIMIT));

                // Completed stays, and comes from `completed` alone.
                for (i, entry) in kept.iter().enumerate() {
                    let old = before.iter().find(|e| e.started_time == entry.started_time).unwrap();
                    let may_change = new == 0 && i == 0 && facts.completed && !facts.actual.image.is_empty();
                    prop_assert!(entry.state == old.state || (may_change && entry.state == HistoryState::Completed));
                    prop_assert!(entry.verified || !old.verified);
                    prop_assert!(old.accepted_risks.is_empty() || !entry.accepted_risks.is_empty());
                }
                for entry in opened {
                    prop_assert_eq!(entry.state == HistoryState::Completed, facts.completed);
                }
            }
        }
    }
}
