use super::*;
use crate::machine_config::node::{NodeState, Target};
use crate::machine_config::rollout::BlockedReason;

fn seconds(seconds: i64) -> SignedDuration {
    SignedDuration::from_secs(seconds)
}

#[test]
fn quantiles_are_of_the_last_durations() {
    assert_eq!(Durations::default().quantile(50), None);
    let mut durations = Durations::new([30, 10, 20, -5]);
    assert_eq!((durations.quantile(50), durations.quantile(90)), (Some(seconds(20)), Some(seconds(30))));
    assert_eq!((durations.quantile(0), durations.quantile(1000)), (Some(seconds(10)), Some(seconds(30))));
    for number in 0..100 {
        durations.add(seconds(number));
    }
    assert_eq!(durations.seconds().len(), KEPT);
    assert_eq!((durations.seconds()[0], durations.quantile(0)), (99, Some(seconds(68))));
    durations.add(seconds(-1));
    assert_eq!(durations.seconds()[0], 0, "a clock was put back");
}

#[test]
fn rest_is_that_of_a_schedule_with_so_many_at_a_time() {
    let each = seconds(60);
    assert_eq!(remaining(&[], 0, 3, each), seconds(0));
    assert_eq!(remaining(&[], 5, 3, each), seconds(120));
    assert_eq!(remaining(&[], 5, 1, each), seconds(300));
    assert_eq!(remaining(&[], 5, 0, each), seconds(300), "at least one goes on");
    // The next begins when the first of those under way ends.
    assert_eq!(remaining(&[seconds(50), seconds(10)], 1, 2, each), seconds(70));
    assert_eq!(remaining(&[seconds(50), seconds(10)], 1, 3, each), seconds(60));
    assert_eq!(remaining(&[seconds(500)], 1, 1, each), seconds(60), "it may be done at any moment");
    assert_eq!(remaining(&[], 100_000, 1000, each), seconds(6000));
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::UNIX_EPOCH + SignedDuration::from_secs(seconds)
}

/// Nodes on their way from the first configuration to the second, one after the other.
fn nodes(configs: &[(&str, &str)]) -> Vec<NodeFacts> {
    let node = |(number, (current, desired)): (usize, &(&str, &str))| NodeFacts {
        name: format!("n{number}"),
        current: Target::new(current),
        desired: Target::new(desired),
        state: NodeState::Done,
        ..NodeFacts::default()
    };
    configs.iter().enumerate().map(node).collect()
}

fn pool(nodes: Vec<NodeFacts>) -> PoolFacts {
    PoolFacts { target: Target::new("b"), nodes, ..PoolFacts::default() }
}

#[test]
fn nodes_that_were_seen_to_begin_and_to_end_teach_how_long_they_take() {
    let mut learned = Learned::default();
    learned.look(&nodes(&[("a", "b"), ("a", "a"), ("a", "a")]), at(0));
    learned.look(&nodes(&[("b", "b"), ("a", "b"), ("a", "b")]), at(5));
    assert_eq!(learned.record(), None, "nobody knows when the first began");
    let mut failed = nodes(&[("b", "b"), ("b", "b"), ("a", "b")]);
    failed[2].state = NodeState::Degraded;
    learned.look(&failed, at(65));
    learned.look(&nodes(&[("b", "b"), ("b", "b"), ("b", "b")]), at(70));
    assert_eq!(learned.record().as_deref(), Some("60"), "one has failed in between");
    learned.look(&nodes(&[("b", "c")]), at(100));
    learned.look(&nodes(&[("b", "c")]), at(110));
    learned.look(&nodes(&[("c", "c")]), at(130));
    assert_eq!(learned.record().as_deref(), Some("30,60"));
    let annotations = BTreeMap::from([(format!("{GROUP}/{RECORD}"), "30, 60,soon,-3".to_owned())]);
    assert_eq!(Learned::of(&annotations).record().as_deref(), Some("30,60"));
}

#[test]
fn rest_is_told_while_a_rollout_goes_on_whose_nodes_are_known() {
    let annotations = BTreeMap::from([(format!("{GROUP}/{RECORD}"), "60".to_owned())]);
    let mut learned = Learned::of(&annotations);
    let under_way = pool(nodes(&[("b", "b"), ("a", "b"), ("a", "a"), ("", "")]));
    learned.look(&under_way.nodes, at(0));
    let goes_on = Round::default();
    assert_eq!(learned.remaining(&under_way, &goes_on, at(20)), Some(seconds(100)));
    let soak = PoolFacts { soak: seconds(30), ..under_way.clone() };
    assert_eq!(learned.remaining(&soak, &goes_on, at(20)), Some(seconds(160)));
    assert_eq!(Learned::default().remaining(&under_way, &goes_on, at(20)), None, "nothing is known");
    let blocked = Round { blocked: Some((BlockedReason::AwaitingApproval, String::new())), ..Round::default() };
    assert_eq!(learned.remaining(&under_way, &blocked, at(20)), None);
    let paused = PoolFacts { paused: true, ..under_way };
    assert_eq!(learned.remaining(&paused, &goes_on, at(20)), None);
    assert_eq!(learned.remaining(&pool(nodes(&[("b", "b")])), &goes_on, at(20)), None, "all are there");
}
