use super::*;
use crate::release::api::PromQl;

const T0: i64 = 1_700_000_000;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(T0 + seconds).unwrap()
}

fn promql(query: &str) -> MatchingRule {
    MatchingRule { type_: "PromQL".into(), promql: Some(PromQl { promql: query.into() }) }
}

fn risk(name: &str, rules: Vec<MatchingRule>) -> ConditionalUpdateRisk {
    ConditionalUpdateRisk {
        url: "https://r".into(),
        name: name.into(),
        message: "m".into(),
        matching_rules: rules,
        conditions: Vec::new(),
    }
}

fn risks(queries: &[&str]) -> Vec<ConditionalUpdateRisk> {
    queries.iter().map(|query| risk(query, vec![promql(query)])).collect()
}

fn needing(queries: &[&str]) -> Evaluations {
    let mut evaluations = Evaluations::default();
    evaluations.need(&risks(queries), at(0));
    evaluations
}

fn away() -> Result<bool, QueryError> {
    Err(QueryError::Source("no route".into()))
}

fn wrong() -> Result<bool, QueryError> {
    Err(QueryError::Answer("0 samples".into()))
}

#[test]
fn new_queries_are_sent_at_once_in_their_order_and_few_at_a_time() {
    let mut evaluations = needing(&["f", "e", "d", "c", "b", "a"]);
    assert_eq!(evaluations.begin(at(0)), ["f", "e", "d", "c"]);
    assert_eq!(evaluations.begin(at(0)), Vec::<String>::new());
    assert_eq!(evaluations.deadline(at(0)), None, "an answer is waited for, not a time");
    evaluations.on_answer("e", Ok(true), at(1));
    assert_eq!(evaluations.begin(at(1)), ["b"]);
    assert!(evaluations.is_busy(at(1)));
}

#[test]
fn verdict_is_renewed_within_an_hour_and_together_with_others() {
    let mut evaluations = needing(&["a", "b", "c"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", Ok(true), at(0));
    evaluations.on_answer("b", Ok(false), at(60));
    evaluations.on_answer("c", wrong(), at(60));
    for (now, sent) in [(61, &[][..]), (62, &["c"])] {
        assert_eq!(evaluations.begin(at(now)), sent, "after {now} s");
    }
    evaluations.on_answer("c", Ok(true), at(1800));
    assert!(!evaluations.is_busy(at(1801)));
    assert_eq!(evaluations.deadline(at(1801)), Some(at(3000)));
    // The verdict of c is not old enough to be renewed with them.
    assert_eq!(evaluations.begin(at(3000)), ["a", "b"]);
}

#[test]
fn failed_query_is_repeated_after_seconds_and_later_after_a_minute() {
    let mut evaluations = needing(&["a"]);
    let mut now = 0;
    for pause in [2, 4, 8, 16, 32, 60, 60] {
        assert_eq!(evaluations.begin(at(now)), ["a"], "at {now}");
        evaluations.on_answer("a", wrong(), at(now));
        assert_eq!(evaluations.deadline(at(now)), Some(at(now + pause)));
        assert!(evaluations.begin(at(now + pause - 1)).is_empty());
        now += pause;
    }
    assert_eq!(evaluations.of_rules(&[promql("a")], at(now)), Known::Failed("0 samples".into()));
}

#[test]
fn one_query_at_a_time_asks_whether_the_source_is_back() {
    let mut evaluations = needing(&["a", "b", "c", "d", "e"]);
    assert_eq!(evaluations.begin(at(0)).len(), 4);
    for query in ["a", "b", "c", "d"] {
        evaluations.on_answer(query, away(), at(1));
    }
    assert!(evaluations.begin(at(2)).is_empty());
    assert_eq!(evaluations.deadline(at(2)), Some(at(3)), "four failures are one outage");
    assert!(!evaluations.is_busy(at(2)));
    assert_eq!(evaluations.of_rules(&[promql("e")], at(2)), Known::Failed("no route".into()));
    assert_eq!(evaluations.begin(at(3)), ["a"]);
    assert!(evaluations.begin(at(3)).is_empty());
    evaluations.on_answer("a", away(), at(3));
    assert_eq!(evaluations.deadline(at(3)), Some(at(7)));
    assert_eq!(evaluations.begin(at(7)), ["a"]);
    evaluations.on_answer("a", Ok(true), at(7));
    assert_eq!(evaluations.begin(at(7)), ["b", "c", "d", "e"]);
}

#[test]
fn verdict_stays_a_day_while_the_source_is_away_and_is_marked() {
    let mut evaluations = needing(&["a"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", Ok(true), at(0));
    let verdict = |failure: Option<&str>| Known::Verdict {
        matches: true,
        evaluated: Some(at(0)),
        failure: failure.map(str::to_owned),
    };
    let rules = [promql("a")];
    assert_eq!(evaluations.of_rules(&rules, at(3000)), verdict(None));
    evaluations.begin(at(3000));
    evaluations.on_answer("a", away(), at(3000));
    assert_eq!(evaluations.of_rules(&rules, at(3001)), verdict(Some("no route")));
    let day = 24 * 3600;
    assert_eq!(evaluations.of_rules(&rules, at(day - 1)), verdict(Some("no route")));
    assert_eq!(evaluations.of_rules(&rules, at(day)), Known::Failed("no route".into()));
    // Also a query that is answered wrongly keeps the verdict, and tells why.
    evaluations.on_answer("a", wrong(), at(3002));
    assert_eq!(evaluations.of_rules(&rules, at(3002)), verdict(Some("0 samples")));
}

#[test]
fn expiry_of_a_verdict_is_a_deadline() {
    let mut evaluations = needing(&["a"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", Ok(true), at(0));
    evaluations.begin(at(3000));
    let day = 24 * 3600;
    assert_eq!(evaluations.deadline(at(3000)), Some(at(day)));
    assert_eq!(evaluations.deadline(at(day)), None);
}

#[test]
fn first_rule_with_a_verdict_decides() {
    let always = MatchingRule { type_: "Always".into(), promql: None };
    let rules = vec![promql("a"), promql("b"), always];
    let mut evaluations = Evaluations::default();
    evaluations.need(&[risk("R", rules.clone())], at(0));
    assert_eq!(evaluations.begin(at(0)), ["a"], "the second rule is not needed yet");
    assert_eq!(evaluations.of_rules(&rules, at(0)), Known::Pending);
    evaluations.on_answer("a", wrong(), at(0));
    evaluations.need(&[risk("R", rules.clone())], at(0));
    assert_eq!(evaluations.begin(at(0)), ["b"]);
    evaluations.on_answer("b", Ok(false), at(0));
    let verdict = |matches, evaluated| Known::Verdict { matches, evaluated, failure: None };
    assert_eq!(evaluations.of_rules(&rules, at(1)), verdict(false, Some(at(0))));
    evaluations.on_answer("a", Ok(true), at(2));
    assert_eq!(evaluations.of_rules(&rules, at(3)), verdict(true, Some(at(2))));
    assert_eq!(evaluations.of_rules(&rules[2..], at(3)), verdict(true, None));
}

#[test]
fn changed_request_renews_what_is_known_and_asks_a_source_that_was_away() {
    let mut evaluations = needing(&["a", "b"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", Ok(true), at(0));
    evaluations.on_answer("b", away(), at(0));
    assert!(evaluations.begin(at(1)).is_empty());
    evaluations.renew(at(1));
    assert_eq!(evaluations.begin(at(1)), ["a"]);
    evaluations.on_answer("a", Ok(false), at(1));
    assert_eq!(evaluations.begin(at(1)), ["b"]);
}

#[test]
fn clock_that_is_set_back_does_not_put_queries_off() {
    let mut evaluations = needing(&["a"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", Ok(true), at(0));
    assert_eq!(evaluations.begin(at(-7200)), ["a"]);
    // Nor one that was refused and is sent again soon, however far it was set back.
    let mut evaluations = needing(&["a"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", wrong(), at(0));
    assert_eq!((evaluations.begin(at(-30)), evaluations.deadline(at(-30))), (Vec::new(), Some(at(2))));
    assert_eq!(evaluations.deadline(at(-1800)), Some(at(-1800)));
    assert!(evaluations.is_busy(at(-1800)));
    assert_eq!(evaluations.begin(at(-1800)), ["a"]);
    // Nor while the source cannot be reached.
    let mut evaluations = needing(&["a"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", away(), at(0));
    assert!(evaluations.begin(at(1)).is_empty());
    assert_eq!(evaluations.deadline(at(-7200)), Some(at(-7200)));
    assert_eq!(evaluations.begin(at(-7200)), ["a"]);
}

#[test]
fn verdicts_survive_a_restart_with_their_times() {
    let mut evaluations = needing(&["a", "b"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", Ok(true), at(0));
    let recorded = evaluations.record();
    assert_eq!(recorded.len(), 1);
    let restored = |now| {
        let mut restored = Evaluations::restore(&recorded, now);
        restored.need(&risks(&["a", "b"]), now);
        restored
    };
    let mut next = restored(at(100));
    let verdict = Known::Verdict { matches: true, evaluated: Some(at(0)), failure: None };
    assert_eq!(next.of_rules(&[promql("a")], at(100)), verdict);
    assert_eq!(next.begin(at(100)), ["b"]);
    assert_eq!(restored(at(24 * 3600)).of_rules(&[promql("a")], at(24 * 3600)), Known::Pending);
    assert_eq!(restored(at(-1)).of_rules(&[promql("a")], at(-1)), Known::Pending, "a verdict from the future");
}

#[test]
fn what_is_not_published_any_more_is_forgotten() {
    let mut evaluations = needing(&["a", "b"]);
    evaluations.begin(at(0));
    evaluations.on_answer("a", Ok(true), at(0));
    evaluations.need(&risks(&["c"]), at(1));
    assert!(evaluations.record().is_empty());
    // The answer to a query that is under way still ends it.
    evaluations.on_answer("b", Ok(true), at(2));
    evaluations.need(&risks(&["c"]), at(2));
    assert!(evaluations.record().is_empty());
    assert_eq!(evaluations.begin(at(2)), ["c"]);
}
