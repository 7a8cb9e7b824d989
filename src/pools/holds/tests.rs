use super::*;
use crate::pools::node::NodeState;

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
