use super::*;
use crate::cluster_version::status::failure::{Reason, UpdateError};
use crate::cluster_version::status::tests::{at, facts, release};
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
    unknown.rollout_mut().completed = true;
    let status = merged(list("P4.1.0"), &unknown, 5);
    assert_eq!(status.history, list("P4.1.0"));
    assert_eq!(status.desired, Release::default());
}

#[test]
fn rollback_adds_an_entry_and_closes_the_superseded_one() {
    let mut facts = facts();
    facts.actual = release("1.0.0", "a");
    facts.rollout_mut().completed = true;
    let mut status = merged(Vec::new(), &facts, 10);
    facts.actual = release("1.0.1", "b");
    facts.rollout_mut().completed = false;
    merge(&mut status, &facts, &at(20));
    facts.actual = release("1.0.0", "a");
    merge(&mut status, &facts, &at(30));
    facts.rollout_mut().completed = true;
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
    facts.rollout_mut().completed = true;
    merge(&mut status, &facts, &at(50));
    assert_eq!(status.history[0].completion_time, Some(at(100)));
}

/// A random step: which release, whether its rollout completed, is local, is verified, and has accepted risks.
#[test]
fn only_the_newest_entry_may_be_open() {
    let mut facts = facts();
    facts.actual = release("4.2.0", "image-of-4.2.0");
    let merged = merged(list("P9.9.9 P4.2.0 C4.1.0"), &facts, 50);
    let closed: Vec<bool> = merged.history.iter().map(|entry| entry.completion_time.is_some()).collect();
    assert_eq!(closed, [false, true, true, true], "{:?}", merged.history);
}

fn step() -> impl Strategy<Value = (u8, bool, bool, bool, bool)> {
    (0u8..4, any::<bool>(), any::<bool>(), any::<bool>(), any::<bool>())
}

fn facts_of((which, completed, local, verified, risky): (u8, bool, bool, bool, bool), second: i64) -> Facts {
    let mut facts = facts();
    facts.actual = match which {
        0 => Release::default(),
        n => release(&format!("1.{n}.0"), &format!("i{n}")),
    };
    (facts.local, facts.verified) = (local, verified);
    facts.rollout_mut().completed = completed;
    facts.rollout_mut().failure = risky.then(|| UpdateError::new(Reason::Other("X".into()), "x"));
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
                let may_change = new == 0 && i == 0 && facts.is_completed() && !facts.actual.image.is_empty();
                prop_assert!(entry.state == old.state || (may_change && entry.state == HistoryState::Completed));
                prop_assert!(entry.verified || !old.verified);
                prop_assert!(old.accepted_risks.is_empty() || !entry.accepted_risks.is_empty());
            }
            for entry in opened {
                prop_assert_eq!(entry.state == HistoryState::Completed, facts.is_completed());
            }
        }
    }
}
