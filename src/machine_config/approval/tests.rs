use super::*;
use crate::machine_config::node::{NodeState, Target};

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_000_000 + seconds).unwrap()
}

fn yes(seconds: i64) -> Answer {
    Answer::True { since: at(seconds) }
}

fn no(seconds: i64) -> Answer {
    Answer::False { since: at(seconds) }
}

fn pool(nodes: &[(&str, &str)]) -> PoolFacts {
    let node = |(current, desired): &(&str, &str)| NodeFacts {
        current: Target::new(current),
        desired: Target::new(desired),
        state: NodeState::Done,
        ..NodeFacts::default()
    };
    PoolFacts { target: Target::new("v1"), nodes: nodes.iter().map(node).collect(), ..PoolFacts::default() }
}

fn annotations(record: &str) -> BTreeMap<String, String> {
    BTreeMap::from([(format!("{GROUP}/{RECORD}"), record.to_owned())])
}

/// The annotation that the patch sets.
fn written(patch: &Value) -> Option<&str> {
    patch["metadata"]["annotations"][format!("{GROUP}/{RECORD}")].as_str()
}

#[test]
fn query_is_needed_while_nodes_wait_or_are_under_way() {
    assert!(is_needed(&pool(&[("v1", "v1"), ("v0", "v0")])), "one waits");
    assert!(is_needed(&pool(&[("v1", "v1"), ("v0", "v1")])), "one is under way");
    assert!(!is_needed(&pool(&[("v1", "v1"), ("", "")])), "one has no agent");
    assert!(!is_needed(&PoolFacts { paused: true, ..pool(&[("v0", "v0")]) }));
    assert!(!is_needed(&PoolFacts { target: Target::default(), ..pool(&[("v0", "v0")]) }));
}

#[test]
fn time_of_truth_begins_with_the_first_true_answer_and_ends_with_any_other() {
    let first = next(&Answer::Unknown, Ok(true), at(5) + SignedDuration::from_millis(700));
    assert_eq!(first, yes(5));
    assert_eq!(next(&first, Ok(true), at(20)), yes(5));
    assert_eq!(next(&first, Ok(false), at(20)), no(20));
    assert_eq!(next(&no(20), Ok(false), at(35)), no(20));
    assert_eq!(next(&no(20), Ok(true), at(35)), yes(35));
    let nothing = next(&first, Err("no data".into()), at(20));
    assert_eq!(nothing, Answer::Nothing("no data".into()));
    assert_eq!(next(&nothing, Ok(true), at(35)), yes(35));
}

#[test]
fn clock_that_was_ahead_does_not_make_the_time_longer() {
    assert_eq!(next(&yes(3600), Ok(true), at(0)), yes(0));
    assert_eq!(next(&no(3600), Ok(false), at(0)), no(0));
}

#[test]
fn endless_cause_is_shortened() {
    let Answer::Nothing(cause) = next(&Answer::Unknown, Err("x".repeat(1 << 20)), at(0)) else { panic!() };
    assert!(cause.len() <= CAUSE, "{}", cause.len());
}

#[test]
fn next_process_learns_what_was_recorded_for_the_same_query() {
    for answer in [yes(5), no(5)] {
        let patch = record("7", &BTreeMap::new(), Some("up"), &answer).unwrap();
        assert_eq!(patch["metadata"]["resourceVersion"], "7");
        let annotations = annotations(written(&patch).unwrap());
        assert_eq!(recorded(&annotations, "up"), answer);
        assert_eq!(recorded(&annotations, "down"), Answer::Unknown);
        assert_eq!(record("8", &annotations, Some("up"), &answer), None, "it is recorded already");
        assert_eq!(record("8", &annotations, Some("up"), &Answer::Unknown), None, "it is still needed");
    }
    for broken in ["", "{}", "[]", r#"{"query":1,"holds":true,"since":"now"}"#] {
        assert_eq!(recorded(&annotations(broken), "up"), Answer::Unknown, "{broken}");
    }
}

#[test]
fn record_ends_with_the_rollout_and_with_an_answer_that_says_neither() {
    let known = annotations(written(&record("7", &BTreeMap::new(), Some("up"), &yes(5)).unwrap()).unwrap());
    let nothing = Answer::Nothing("no data".into());
    for (query, answer) in [(None, &Answer::Unknown), (Some("up"), &nothing)] {
        let patch = record("8", &known, query, answer).unwrap();
        assert_eq!(written(&patch), None);
        assert!(patch["metadata"]["annotations"].as_object().unwrap().contains_key(&format!("{GROUP}/{RECORD}")));
        assert_eq!(record("8", &BTreeMap::new(), query, answer), None);
    }
}

#[test]
fn time_of_an_earlier_process_counts_only_if_it_was_true_all_the_time() {
    assert_eq!(past("up", at(0), at(1)), None);
    assert_eq!(past("up", at(5), at(0)), None, "a clock was wrong");
    assert_eq!(past("up # or not", at(0), at(11)).unwrap(), "min_over_time((\nup # or not\n)[10s:1s])");
    assert_eq!(past("up", at(0), at(601)).unwrap(), "min_over_time((\nup\n)[600s:10s])");
    assert_eq!(past("up", Timestamp::MIN, at(0)).unwrap(), "min_over_time((\nup\n)[86399s:15s])");
    assert_eq!(confirmed(yes(0), Some(true), at(60)), yes(0));
    assert_eq!(confirmed(yes(0), None, at(1)), yes(0));
    assert_eq!(confirmed(yes(0), Some(false), at(60)), Answer::Unknown);
    assert_eq!(confirmed(yes(0), Some(true), at(2 * 86_400)), yes(86_400), "that was not asked for");
    assert_eq!(confirmed(no(0), None, at(60)), no(0));
}
