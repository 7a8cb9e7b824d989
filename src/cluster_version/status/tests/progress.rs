//! Failing and Progressing: how far a release is, and how each failure counts.

use super::*;
use crate::cluster_version::status::failure::{Effect, Reason, aggregate};
use crate::object::condition::ConditionStatus::Unknown;
use crate::object::manifest::ObjectId;
use std::collections::BTreeMap;

const WELL: (ConditionStatus, &str, &str) = (False, "", "");

fn operator(reason: Reason, name: &str, effect: Effect) -> UpdateError {
    UpdateError { effect, names: vec![name.into()], ..UpdateError::new(reason, format!("operator {name} is not well")) }
}

fn multiple(errors: Vec<UpdateError>) -> UpdateError {
    UpdateError::multiple(errors)
}

fn check(facts: &Facts, failing: (ConditionStatus, &str, &str), progressing: (ConditionStatus, &str, &str)) {
    for (type_, want) in [("Failing", failing), ("Progressing", progressing)] {
        let (status, reason, message) = said(facts, type_);
        assert_eq!((status, reason.as_str(), message.as_str()), want, "{type_}");
    }
}

#[test]
fn progressing_reports_progress_without_failure() {
    // mode, done, total, invalid, status, reason, text
    let table = [
        (Mode::Reconcile, 3, 7, false, False, "", "Cluster version is 1.0.1"),
        (
            Mode::Reconcile,
            0,
            7,
            true,
            False,
            "InvalidClusterVersion",
            "Stopped at 1.0.1: the cluster version is invalid",
        ),
        (Mode::Update, 0, 7, false, True, "", "Working towards 1.0.1"),
        (Mode::Update, 2, 3, false, True, "", "Working towards 1.0.1: 2 of 3 done (66% complete)"),
        (Mode::Install, 199, 200, false, True, "", "Working towards 1.0.1: 199 of 200 done (99% complete)"),
        (Mode::Update, 200, 200, false, True, "", "Working towards 1.0.1: 200 of 200 done (100% complete)"),
        (Mode::Update, 5, 0, false, True, "", "Working towards 1.0.1: 5 of 5 done (100% complete)"),
        (Mode::Update, 2, 3, true, True, "InvalidClusterVersion", "Reconciling 1.0.1: the cluster version is invalid"),
    ];
    for (mode, done, total, invalid, status, reason, text) in table {
        let invalid = if invalid { vec!["spec.x: Invalid value: \"y\": z".to_owned()] } else { Vec::new() };
        let rollout = RolloutFacts { begun: mode, done, total, ..rollout() };
        check(&Facts { invalid, ..applying(rollout) }, WELL, (status, reason, text));
    }
}

#[test]
fn release_is_named_by_version_image_or_placeholder() {
    for (actual, text) in [
        (release("", "img-7"), "Working towards img-7"),
        (Release::default(), "Working towards <unknown>"),
        (release("", "img-0"), "Working towards 1.0.0"),
    ] {
        check(&Facts { actual, ..facts() }, WELL, (True, "", text));
    }
}

const UNWELL: &str = "operator a is not well";
const SLOW: &str = "waiting on a over 30 minutes";
const SLOW_NODES: &str = "waiting on machine-config over 90 minutes";
const GRANTED: &str = "waiting up to 40 minutes on a";
const UPDATING: &str = "ClusterOperatorUpdating";
const DEGRADED: &str = "ClusterOperatorDegraded";
const DOWN: &str = "ClusterOperatorNotAvailable";
const FORBIDDEN: &str = "UpdatePayloadResourceForbidden";
const FAILED: &str = "UpdatePayloadFailed";

/// Each effect before and after its time.
#[test]
fn failure_counts_by_effect_and_waiting_time() {
    let updating = |name| operator(Reason::OperatorUpdating, name, Effect::Wait);
    let degraded = |effect| operator(Reason::OperatorDegraded, "a", effect);
    let down = operator(Reason::OperatorNotAvailable, "a", Effect::Fail);
    let other = |reason, message| UpdateError::new(reason, message);
    let failing = |reason, message| (True, reason, message);
    let slow = |text| (Unknown, "SlowClusterOperator", text);
    let progress = |text: &str| format!("Working towards 1.0.1: 1 of 4 done (25% complete), {text}");
    let failed = |text: &str| format!("Unable to apply 1.0.1: {text}");
    let (after_interval, report) = (degraded(Effect::FailAfterInterval), degraded(Effect::Report));
    let nodes = || updating("machine-config");
    // error, minutes since it is waited for (None: unknown), Failing, Progressing reason and text
    let table = [
        (updating("a"), Some(30), WELL, UPDATING, progress("waiting on a")),
        (updating("a"), None, WELL, UPDATING, progress("waiting on a")),
        (updating("a"), Some(31), slow(SLOW), UPDATING, progress(SLOW)),
        (nodes(), Some(89), WELL, UPDATING, progress("waiting on machine-config")),
        (nodes(), Some(60), WELL, UPDATING, progress("waiting on machine-config")),
        (nodes(), Some(120), slow(SLOW_NODES), UPDATING, progress(SLOW_NODES)),
        (nodes(), Some(91), slow(SLOW_NODES), UPDATING, progress(SLOW_NODES)),
        (after_interval.clone(), Some(40), WELL, DEGRADED, progress(GRANTED)),
        (after_interval.clone(), None, WELL, DEGRADED, progress(GRANTED)),
        (after_interval, Some(41), failing(DEGRADED, UNWELL), DEGRADED, failed("waited more than 40 minutes on a")),
        (report, Some(1), failing(DEGRADED, UNWELL), DEGRADED, failed(UNWELL)),
        (down, Some(1), failing(DOWN, UNWELL), DOWN, failed("the cluster operator a is not available")),
        (
            other(Reason::ResourceForbidden, "no"),
            None,
            failing(FORBIDDEN, "no"),
            FORBIDDEN,
            failed("the API server refuses changes of the release"),
        ),
        (other(Reason::Failed, "no"), None, failing(FAILED, "no"), FAILED, failed("the release could not be applied")),
        (
            other(Reason::Other("Odd".into()), "no"),
            None,
            failing("Odd", "no"),
            "Odd",
            failed("an unknown error has occurred: Odd"),
        ),
        (
            other(Reason::Other("".into()), "plain"),
            None,
            failing("", "plain"),
            "",
            failed("an error occurred, condition Failing has it"),
        ),
    ];
    for (error, minutes, failing, reason, text) in table {
        let since = minutes.map(|minutes| (error.names[0].clone(), at(NOW - minutes * MINUTE).0));
        let waiting_since = since.into_iter().collect();
        let facts = applying(RolloutFacts { done: 1, total: 4, waiting_since, failure: Some(error), ..rollout() });
        check(&facts, failing, (True, reason, &text));
    }
}

#[test]
fn progress_is_omitted_before_anything_is_done() {
    let failure = Some(operator(Reason::OperatorUpdating, "a", Effect::Wait));
    check(
        &applying(RolloutFacts { failure, ..rollout() }),
        WELL,
        (True, "ClusterOperatorUpdating", "Working towards 1.0.1: waiting on a"),
    );
}

/// One of them waits since an unknown time.
#[test]
fn slow_operators_and_slow_nodes_have_different_limits() {
    let mut error = operator(Reason::OperatorsUpdating, "a", Effect::Wait);
    error.names = ["a", "b", "machine-config", "new"].map(String::from).to_vec();
    let since = |name: &str| (name.to_owned(), at(NOW - 95 * MINUTE).0);
    let waiting_since = ["a", "b", "machine-config"].map(since).into();
    let facts = applying(RolloutFacts { failure: Some(error), waiting_since, ..rollout() });
    let text = "waiting on a, b over 30 minutes and machine-config over 90 minutes";
    let progress = format!("Working towards 1.0.1: {text}");
    check(&facts, (Unknown, "SlowClusterOperator", text), (True, "ClusterOperatorsUpdating", &progress));
}

/// What is waited for and is no operator.
fn resource(reason: Reason, id: &ObjectId, message: &str) -> UpdateError {
    let names = vec![UpdateError::name_of(id)];
    UpdateError { effect: Effect::Wait, names, ..UpdateError::new(reason, format!("{id} {message}")) }
}

#[test]
fn workload_that_takes_too_long_is_told_with_what_it_lacks() {
    let set = ObjectId::new("apps", "DaemonSet", "dns", "dns");
    let job = ObjectId::new("batch", "Job", "dns", "migrate");
    let error = resource(Reason::WorkloadUpdating, &set, "is rolling out: 2 of 3 pods updated, 2 available");
    let waiting = |error, waiting_since| applying(RolloutFacts { failure: Some(error), waiting_since, ..rollout() });
    let text = "Working towards 1.0.1: waiting on daemonset.apps \"dns/dns\"";
    check(&waiting(error.clone(), BTreeMap::new()), WELL, (True, "WorkloadUpdating", text));
    let since = |ids: &[&ObjectId], minutes| {
        let since = |id: &&ObjectId| (UpdateError::name_of(id), at(NOW - minutes * MINUTE).0);
        ids.iter().map(since).collect::<BTreeMap<_, _>>()
    };
    check(&waiting(error.clone(), since(&[&set], 30)), WELL, (True, "WorkloadUpdating", text));
    let slow = "waiting over 30 minutes: daemonset.apps \"dns/dns\" is rolling out: 2 of 3 pods updated, 2 available";
    let progress = format!("Working towards 1.0.1: {slow}");
    let late = since(&[&set], 31);
    check(
        &waiting(error.clone(), late.clone()),
        (Unknown, "SlowResource", slow),
        (True, "WorkloadUpdating", &progress),
    );
    // An operator of the same name has a time of its own.
    let operator_waits = BTreeMap::from([("dns".to_owned(), at(NOW - 95 * MINUTE).0)]);
    check(&waiting(error.clone(), operator_waits), WELL, (True, "WorkloadUpdating", text));
    // Of several only those that are late, and an operator that is slow comes first.
    let both = aggregate(vec![error.clone(), resource(Reason::WorkloadUpdating, &job, "is not complete")]).unwrap();
    check(&waiting(both, late.clone()), (Unknown, "SlowResource", slow), (True, "WorkloadsUpdating", &progress));
    let with_operator = multiple(vec![error, operator(Reason::OperatorUpdating, "a", Effect::Wait)]);
    let mut facts = waiting(with_operator, late);
    facts.rollout_mut().waiting_since.insert("a".into(), at(NOW - 31 * MINUTE).0);
    let both = format!("{slow}, {SLOW}");
    let progress = format!("Working towards 1.0.1: {both}");
    check(&facts, (Unknown, "SlowClusterOperator", &both), (True, UPDATING, &progress));
}

#[test]
fn definition_is_given_a_minute_while_everything_else_fails_at_once() {
    let [one, other] = ["a.example.com", "b.example.com"]
        .map(|name| ObjectId::new("apiextensions.k8s.io", "CustomResourceDefinition", "", name));
    let error = |id| resource(Reason::DefinitionNotEstablished, id, "is not served by the API server yet");
    let reconciling = |failure| applying(RolloutFacts { failure, begun: Mode::Reconcile, ..rollout() });
    let well = (False, "", "Cluster version is 1.0.1");
    check(&reconciling(Some(error(&one))), WELL, well);
    let mut facts = reconciling(aggregate(vec![error(&one), error(&other)]));
    facts.rollout_mut().waiting_since.insert(UpdateError::name_of(&one), at(NOW - MINUTE).0);
    check(&facts, WELL, well);
    facts.rollout_mut().waiting_since.insert(UpdateError::name_of(&one), at(NOW - MINUTE - 1).0);
    let message = "customresourcedefinition.apiextensions.k8s.io \"a.example.com\" is not served by the API server yet";
    let definition = "CustomResourceDefinitionNotEstablished";
    let progress = format!("Error while reconciling 1.0.1: {message}");
    check(&facts, (True, definition, message), (False, definition, &progress));
    // What is beside it is told at once.
    let forbidden = UpdateError::new(Reason::ResourceForbidden, "forbidden");
    let facts = reconciling(Some(multiple(vec![error(&other), forbidden])));
    let progress = "Error while reconciling 1.0.1: the API server refuses changes of the release";
    check(&facts, (True, FORBIDDEN, "forbidden"), (False, FORBIDDEN, progress));
}

#[test]
fn every_failure_counts_at_once_while_reconciling_or_without_history() {
    for effect in [Effect::Report, Effect::Wait, Effect::FailAfterInterval, Effect::Fail] {
        let failure = Some(operator(Reason::OperatorDegraded, "a", effect));
        let failing = (True, "ClusterOperatorDegraded", "operator a is not well");
        let text = "Error while reconciling 1.0.1: the cluster operator a is degraded";
        let applied = RolloutFacts { failure, ..rollout() };
        let reconciling = applying(RolloutFacts { begun: Mode::Reconcile, ..applied.clone() });
        check(&reconciling, failing, (False, "ClusterOperatorDegraded", text));
        let nothing = Facts { actual: Release::default(), ..applying(applied) };
        let text = "Unable to apply <unknown>: the cluster operator a is degraded";
        check(&nothing, failing, (True, "ClusterOperatorDegraded", text));
    }
}

#[test]
fn several_errors_are_judged_individually() {
    let updating = operator(Reason::OperatorUpdating, "u", Effect::Wait);
    let degraded = operator(Reason::OperatorDegraded, "d", Effect::FailAfterInterval);
    let down = operator(Reason::OperatorNotAvailable, "n", Effect::Fail);
    let forbidden = UpdateError::new(Reason::ResourceForbidden, "forbidden");
    let with = |errors: &[&UpdateError]| {
        let failure = Some(multiple(errors.iter().map(|e| (*e).clone()).collect()));
        applying(RolloutFacts { failure, ..rollout() })
    };
    // Only waiting: no failure, and the reason of the stronger one.
    let text = "Working towards 1.0.1: waiting on u, waiting up to 40 minutes on d";
    check(&with(&[&updating, &degraded]), WELL, (True, "ClusterOperatorDegraded", text));
    // One is slow, the other still within its time.
    let mut slow = with(&[&updating, &degraded]);
    slow.rollout_mut().waiting_since.insert("u".into(), at(NOW - 31 * MINUTE).0);
    check(
        &slow,
        (Unknown, "SlowClusterOperator", "waiting on u over 30 minutes"),
        (
            True,
            "ClusterOperatorUpdating",
            "Working towards 1.0.1: waiting on u over 30 minutes, waiting up to 40 minutes on d",
        ),
    );
    // A single failure is reported as itself.
    check(
        &with(&[&updating, &degraded, &down]),
        (True, "ClusterOperatorNotAvailable", "operator n is not well"),
        (True, "ClusterOperatorNotAvailable", "Unable to apply 1.0.1: the cluster operator n is not available"),
    );
    // Several failures: all causes are named.
    let causes = "the cluster operator n is not available; the API server refuses changes of the release";
    check(
        &with(&[&updating, &down, &forbidden]),
        (
            True,
            "MultipleErrors",
            "Several errors prevent the release from being applied:\n* forbidden\n* operator n is not well",
        ),
        (True, "MultipleErrors", &format!("Unable to apply 1.0.1: {causes}")),
    );
    let mut reconciling = with(&[&down, &forbidden]);
    reconciling.rollout_mut().begun = Mode::Reconcile;
    let (_, reason, message) = said(&reconciling, "Progressing");
    assert_eq!((reason, message), ("MultipleErrors".into(), format!("Error while reconciling 1.0.1: {causes}")));
}

const UPDATING_NODE: &str = "a, whose pods had to leave node n1, which is being updated";

/// In every mode, whatever the time.
#[test]
fn operator_that_is_away_with_its_node_is_waited_for() {
    let drained = || UpdateError { effect: Effect::Wait, ..UpdateError::new(Reason::NodesUpdating, UPDATING_NODE) };
    let down = operator(Reason::OperatorNotAvailable, "b", Effect::Fail);
    let updating = operator(Reason::OperatorUpdating, "c", Effect::Wait);
    let waits = format!("Working towards 1.0.1: waiting on {UPDATING_NODE}");
    let fails = |error| applying(RolloutFacts { failure: Some(error), ..rollout() });
    check(&fails(drained()), WELL, (True, "NodesUpdating", &waits));
    let both = format!("{waits}, waiting on c");
    check(&fails(multiple(vec![drained(), updating])), WELL, (True, "NodesUpdating", &both));
    // What fails beside it is told alone.
    let apart = (True, DOWN, "operator b is not well");
    check(
        &fails(multiple(vec![down.clone(), drained()])),
        apart,
        (True, DOWN, "Unable to apply 1.0.1: the cluster operator b is not available"),
    );
    let reconciling = |error| applying(RolloutFacts { failure: Some(error), completed: true, ..rollout() });
    let rests = format!("Cluster version is 1.0.1: waiting on {UPDATING_NODE}");
    check(&reconciling(drained()), WELL, (False, "NodesUpdating", &rests));
    let error = "Error while reconciling 1.0.1: the cluster operator b is not available";
    check(&reconciling(multiple(vec![down.clone(), drained()])), apart, (False, DOWN, error));
    check(&reconciling(down), apart, (False, DOWN, error));
}
