use super::*;
use crate::machine_config::api::machine_config::MachineConfigPool;
use crate::machine_config::facts::pool_facts;
use crate::machine_config::node::NodeState;
use crate::machine_config::rollout::{Round, rounds};

fn at(minutes: i64) -> Timestamp {
    // A Monday.
    "2026-11-23T00:00:00Z".parse::<Timestamp>().unwrap() + SignedDuration::from_mins(minutes)
}

fn annotations(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| (format!("{GROUP}/{key}"), (*value).to_owned())).collect()
}

/// Nodes that reached the target at these minutes.
fn nodes(done: &[i64]) -> Vec<NodeFacts> {
    let node = |minute: &i64| NodeFacts {
        current: Target::new("v1"),
        desired: Target::new("v1"),
        state: NodeState::Done,
        done_since: Some(at(*minute)),
        ..NodeFacts::default()
    };
    done.iter().map(node).collect()
}

fn of(pairs: &[(&str, &str)], done: &[i64], answer: &Answer, now: i64) -> Vec<Hold> {
    holds(&annotations(pairs), &Target::new("v1"), &nodes(done), answer, at(now))
}

/// Reason, nodes, and minutes until it ends by itself.
fn only(
    pairs: &[(&str, &str)],
    done: &[i64],
    answer: &Answer,
    now: i64,
) -> Option<(BlockedReason, usize, Option<i64>)> {
    let found = of(pairs, done, answer, now);
    assert!(found.len() <= 1, "{found:?}");
    found.first().map(|hold| (hold.reason, hold.nodes, hold.until.map(|until| until.duration_since(at(0)).as_mins())))
}

#[test]
fn pool_without_wishes_is_held_by_nothing() {
    assert_eq!(of(&[], &[], &Answer::Unknown, 0), []);
    assert_eq!(of(&[(WINDOWS, " "), (PAUSE_AFTER, "")], &[], &Answer::Unknown, 0), []);
}

#[test]
fn window_that_is_closed_holds_all_nodes_until_it_opens() {
    let windows = [(WINDOWS, "Mon 02:00-03:00"), (TIME_ZONE, "Europe/Berlin")];
    assert_eq!(only(&windows, &[], &Answer::Unknown, 0), Some((BlockedReason::OutsideMaintenanceWindow, 0, Some(60))));
    assert_eq!(only(&windows, &[], &Answer::Unknown, 60), None);
    assert_eq!(only(&windows, &[], &Answer::Unknown, 119), None);
    let week = 7 * 24 * 60;
    assert_eq!(only(&windows, &[], &Answer::Unknown, 120).unwrap().2, Some(60 + week));
}

#[test]
fn wish_that_cannot_be_read_holds_everything_and_says_what_to_write() {
    for (pairs, words) in [
        (vec![(WINDOWS, "tonight")], "\"tonight\" is not a window"),
        (vec![(WINDOWS, "Mon 00:00-01:00"), (TIME_ZONE, "Mars")], "\"Mars\" is not a time zone"),
        (vec![(PAUSE_AFTER, "some")], "write a number of nodes"),
        (vec![(PAUSE_AFTER, "-1"), (QUERY, "up")], "write a number of nodes"),
        (vec![(QUERY, "up"), (QUERY_FOR, "long")], "write a time such as 10m"),
    ] {
        let found = of(&pairs, &[], &Answer::Unknown, 0);
        assert_eq!((found[0].reason, found[0].nodes), (BlockedReason::InvalidPool, 0), "{found:?}");
        assert!(found[0].message.contains(words), "{found:?}");
    }
}

#[test]
fn pause_after_the_first_nodes_ends_with_the_approval_of_this_configuration() {
    let pause = |approved| [(PAUSE_AFTER, "2"), (APPROVED, approved)];
    let waits = Some((BlockedReason::AwaitingApproval, 2, None));
    assert_eq!(only(&pause(""), &[], &Answer::Unknown, 0), waits);
    assert_eq!(only(&pause("v0"), &[0, 0], &Answer::Unknown, 5), waits, "that was another one");
    assert_eq!(only(&pause("v1"), &[], &Answer::Unknown, 0), None);
    let found = of(&pause(""), &[], &Answer::Unknown, 0);
    assert!(found[0].message.contains("machineconfiguration.openshift.io/approved=v1"), "{found:?}");
}

#[test]
fn query_approves_when_it_has_been_true_for_a_time_after_the_first_nodes() {
    let wish = [(PAUSE_AFTER, "2"), (QUERY, "up"), (QUERY_FOR, "30m")];
    let yes = Answer::True { since: at(0) };
    assert_eq!(only(&wish, &[1], &yes, 5), Some((BlockedReason::AwaitingApproval, 2, None)), "one is not done");
    assert_eq!(only(&wish, &[1, 4, 9], &yes, 9), Some((BlockedReason::AwaitingApproval, 2, Some(34))));
    assert_eq!(only(&wish, &[1, 4], &yes, 34), None);
    let later = Answer::True { since: at(20) };
    assert_eq!(only(&wish, &[1, 4], &later, 34), Some((BlockedReason::AwaitingApproval, 2, Some(50))));
    assert_eq!(only(&wish[..2], &[1, 4], &yes, 13).unwrap().2, Some(14), "ten minutes where nothing is said");
    assert_eq!(only(&[wish[0], wish[1], (APPROVED, "v1")], &[], &yes, 0), None, "somebody was faster");
    assert_eq!(
        only(&[(PAUSE_AFTER, "0"), (QUERY, "up")], &[], &yes, 3).unwrap(),
        (BlockedReason::AwaitingApproval, 0, Some(10))
    );
}

#[test]
fn query_that_is_not_true_stops_the_rollout_also_after_an_approval() {
    let wish = [(QUERY, "up"), (PAUSE_AFTER, "2"), (APPROVED, "v1")];
    let stops = Some((BlockedReason::AwaitingHealth, 0, None));
    for answer in [Answer::False { since: at(3) }, Answer::Nothing("no data".into()), Answer::Unknown] {
        assert_eq!(only(&wish, &[0, 0], &answer, 60), stops);
        assert_eq!(only(&wish[..1], &[0, 0], &answer, 60), stops);
    }
    let found = of(&wish, &[], &Answer::Nothing("no data".into()), 0);
    assert_eq!(found[0].message, "the query up says neither true nor false: no data");
    assert_eq!(only(&wish[..1], &[], &Answer::True { since: at(0) }, 0), None);
}

/// What is done in a pool of these nodes, one at a time, when it wishes this at this minute.
fn round(pairs: &[(&str, &str)], nodes: Vec<NodeFacts>, answer: &Answer, now: i64) -> Round {
    let mut pool = MachineConfigPool::new("worker", Default::default());
    pool.metadata.annotations = Some(annotations(pairs));
    pool.spec.configuration.name = "v1".to_owned();
    let facts = pool_facts(&pool, nodes, answer, &[], at(now));
    rounds(&[facts], None, at(now)).remove(0)
}

fn node(name: &str, current: &str, desired: &str, done: Option<i64>) -> NodeFacts {
    NodeFacts {
        name: name.to_owned(),
        current: Target::new(current),
        desired: Target::new(desired),
        state: NodeState::Done,
        done_since: done.map(at),
        ..NodeFacts::default()
    }
}

/// A node waits; the one before it waits, is under way, or is done.
fn two(first: (&str, &str)) -> Vec<NodeFacts> {
    vec![node("a", first.0, first.1, Some(0)), node("b", "v0", "v0", None)]
}

fn reason(round: &Round) -> Option<BlockedReason> {
    round.blocked.as_ref().map(|(reason, _)| *reason)
}

#[test]
fn window_that_ends_in_the_middle_of_a_node_lets_that_one_finish_and_no_other_begin() {
    let windows = [(WINDOWS, "Mon 01:00-02:00")];
    let closed = Some(BlockedReason::OutsideMaintenanceWindow);
    let before = round(&windows, two(("v0", "v0")), &Answer::Unknown, 59);
    assert_eq!((before.claim.len(), reason(&before), before.again), (0, closed, Some(at(60))));
    let open = round(&windows, two(("v0", "v0")), &Answer::Unknown, 60);
    assert_eq!((open.claim.as_slice(), reason(&open)), (["a".to_owned()].as_slice(), None));
    // The window ends. The node under way is waited for, and may get a corrected configuration.
    let middle = round(&windows, two(("v0", "v1")), &Answer::Unknown, 120);
    assert_eq!((middle.begin.len(), middle.claim.len(), reason(&middle)), (0, 0, None));
    let corrected = round(&windows, two(("v0", "v0.9")), &Answer::Unknown, 120);
    assert_eq!((corrected.begin.as_slice(), corrected.claim.len()), (["a".to_owned()].as_slice(), 0));
    let after = round(&windows, two(("v1", "v1")), &Answer::Unknown, 121);
    assert_eq!((after.begin.len(), after.claim.len(), after.waiting, reason(&after)), (0, 0, 1, closed));
    assert_eq!(after.again, Some(at(60 + 7 * 24 * 60)), "the window of the next week");
}

#[test]
fn query_that_turns_false_or_gives_nothing_in_the_middle_of_a_node_lets_no_other_begin() {
    let wish = [(QUERY, "up")];
    let yes = Answer::True { since: at(0) };
    for stopped in [Answer::False { since: at(3) }, Answer::Nothing("no data".into()), Answer::Unknown] {
        assert_eq!(round(&wish, two(("v0", "v0")), &yes, 2).claim, ["a"]);
        let middle = round(&wish, two(("v0", "v1")), &stopped, 3);
        assert_eq!((middle.begin.len(), middle.claim.len(), reason(&middle)), (0, 0, None), "{stopped:?}");
        let after = round(&wish, two(("v1", "v1")), &stopped, 4);
        assert_eq!((after.claim.len(), after.waiting), (0, 1), "{stopped:?}");
        assert_eq!(reason(&after), Some(BlockedReason::AwaitingHealth), "{stopped:?}");
        let again = round(&wish, two(("v1", "v1")), &Answer::True { since: at(5) }, 5);
        assert_eq!((again.claim.as_slice(), reason(&again)), (["b".to_owned()].as_slice(), None), "{stopped:?}");
    }
}

#[test]
fn node_whose_end_is_not_recorded_yet_has_only_just_ended() {
    let wish = [(PAUSE_AFTER, "1"), (QUERY, "up"), (QUERY_FOR, "5m")];
    let yes = Answer::True { since: at(0) };
    let nodes = |done| vec![node("a", "v1", "v1", done), node("b", "v0", "v0", None)];
    let found = round(&wish, nodes(None), &yes, 60);
    assert_eq!((found.claim.len(), found.again), (0, Some(at(65))));
    assert_eq!(round(&wish, nodes(Some(60)), &yes, 64).claim.len(), 0);
    assert_eq!(round(&wish, nodes(Some(60)), &yes, 65).claim, ["b"]);
}

#[test]
fn annotation_of_any_length_gives_a_message_that_people_read() {
    let long = "x".repeat(200_000);
    for pairs in [vec![(QUERY, long.as_str())], vec![(PAUSE_AFTER, long.as_str())]] {
        let found = of(&pairs, &[], &Answer::Unknown, 0);
        assert!(!found.is_empty() && found.iter().all(|hold| hold.message.len() < 500), "{}", found.len());
    }
}
