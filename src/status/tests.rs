//! Tables of the conditions (payload-and-apply §4.7, cluster-version §2), and what must hold for any facts.

use super::facts::{Fight, LoadStatus, LoadStep, Retrieval};
use super::failure::{Effect, UpdateError, aggregate};
use super::*;
use crate::api::cluster_version::{HistoryEntry, HistoryState, Release};
use crate::api::condition::{Condition, ConditionStatus, find};
use crate::graph::Mode;
use proptest::prelude::*;

const MINUTE: i64 = 60;
const NOW: i64 = 1_000_000;

pub(crate) fn at(seconds: i64) -> Time {
    Time(Timestamp::from_second(seconds).unwrap())
}

pub(crate) fn release(version: &str, image: &str) -> Release {
    Release { version: version.into(), image: image.into(), ..Default::default() }
}

/// An update to 1.0.1 that has just begun.
pub(super) fn facts() -> Facts {
    Facts { actual: release("1.0.1", "img-1"), mode: Mode::Update, ..Facts::new(release("1.0.0", "img-0")) }
}

fn operator(reason: &str, name: &str, effect: Effect) -> UpdateError {
    UpdateError {
        effect: Some(effect),
        names: vec![name.into()],
        ..UpdateError::new(reason, format!("operator {name} is in trouble"))
    }
}

fn multiple(errors: Vec<UpdateError>) -> UpdateError {
    aggregate(errors).unwrap()
}

fn said(facts: &Facts, type_: &str) -> (ConditionStatus, String, String) {
    let status = compute(&ClusterVersionStatus::default(), facts, at(NOW).0);
    let c = find(&status.conditions, type_).unwrap_or_else(|| panic!("{type_} missing")).clone();
    (c.status, c.reason, c.message)
}

fn check(facts: &Facts, failing: (ConditionStatus, &str, &str), progressing: (ConditionStatus, &str, &str)) {
    for (type_, want) in [("Failing", failing), ("Progressing", progressing)] {
        let (status, reason, message) = said(facts, type_);
        assert_eq!((status, reason.as_str(), message.as_str()), want, "{type_}");
    }
}

use ConditionStatus::{False, True, Unknown};
const WELL: (ConditionStatus, &str, &str) = (False, "", "");

/// §10.18: no failure.
#[test]
fn without_a_failure_progressing_tells_how_far_it_is() {
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
        check(&Facts { mode, done, total, invalid, ..facts() }, WELL, (status, reason, text));
    }
}

#[test]
fn the_release_is_named_by_version_else_image_else_a_placeholder() {
    for (actual, text) in [
        (release("", "img-7"), "Working towards img-7"),
        (Release::default(), "Working towards <unknown>"),
        (release("", "img-0"), "Working towards 1.0.0"),
    ] {
        check(&Facts { actual, ..facts() }, WELL, (True, "", text));
    }
}

/// §10.18: A failure of each effect, before and after its time, in an update with work done.
#[test]
fn a_failure_in_an_update_is_judged_by_its_effect_and_its_time() {
    let updating = |name| operator("ClusterOperatorUpdating", name, Effect::None);
    let degraded = |name| operator("ClusterOperatorDegraded", name, Effect::FailAfterInterval);
    let trouble = "operator a is in trouble";
    let on_the_way = "Working towards 1.0.1: 1 of 4 done (25% complete), ";
    // error, minutes since it is waited for (None: unknown), Failing, Progressing reason and text
    let table = [
        (updating("a"), Some(30), WELL, "ClusterOperatorUpdating", format!("{on_the_way}waiting on a")),
        (updating("a"), None, WELL, "ClusterOperatorUpdating", format!("{on_the_way}waiting on a")),
        (
            updating("a"),
            Some(31),
            (Unknown, "SlowClusterOperator", "waiting on a over 30 minutes"),
            "ClusterOperatorUpdating",
            format!("{on_the_way}waiting on a over 30 minutes"),
        ),
        (
            updating("machine-config"),
            Some(89),
            WELL,
            "ClusterOperatorUpdating",
            format!("{on_the_way}waiting on machine-config"),
        ),
        (
            updating("machine-config"),
            Some(60),
            WELL,
            "ClusterOperatorUpdating",
            format!("{on_the_way}waiting on machine-config"),
        ),
        (
            updating("machine-config"),
            Some(120),
            (Unknown, "SlowClusterOperator", "waiting on machine-config over 90 minutes"),
            "ClusterOperatorUpdating",
            format!("{on_the_way}waiting on machine-config over 90 minutes"),
        ),
        (
            updating("machine-config"),
            Some(91),
            (Unknown, "SlowClusterOperator", "waiting on machine-config over 90 minutes"),
            "ClusterOperatorUpdating",
            format!("{on_the_way}waiting on machine-config over 90 minutes"),
        ),
        (
            degraded("a"),
            Some(40),
            WELL,
            "ClusterOperatorDegraded",
            format!("{on_the_way}waiting up to 40 minutes on a"),
        ),
        (degraded("a"), None, WELL, "ClusterOperatorDegraded", format!("{on_the_way}waiting up to 40 minutes on a")),
        (
            degraded("a"),
            Some(41),
            (True, "ClusterOperatorDegraded", trouble),
            "ClusterOperatorDegraded",
            "Unable to apply 1.0.1: waited more than 40 minutes on a".into(),
        ),
        (
            operator("ClusterOperatorDegraded", "a", Effect::Report),
            Some(1),
            (True, "ClusterOperatorDegraded", trouble),
            "ClusterOperatorDegraded",
            format!("Unable to apply 1.0.1: {trouble}"),
        ),
        (
            operator("ClusterOperatorNotAvailable", "a", Effect::Fail),
            Some(1),
            (True, "ClusterOperatorNotAvailable", trouble),
            "ClusterOperatorNotAvailable",
            "Unable to apply 1.0.1: the cluster operator a is not available".into(),
        ),
        (
            UpdateError::new("UpdatePayloadResourceForbidden", "no"),
            None,
            (True, "UpdatePayloadResourceForbidden", "no"),
            "UpdatePayloadResourceForbidden",
            "Unable to apply 1.0.1: the API server refuses changes of the release".into(),
        ),
        (
            UpdateError::new("UpdatePayloadSomethingNew", "no"),
            None,
            (True, "UpdatePayloadSomethingNew", "no"),
            "UpdatePayloadSomethingNew",
            "Unable to apply 1.0.1: the release could not be applied".into(),
        ),
        (
            UpdateError::new("Odd", "no"),
            None,
            (True, "Odd", "no"),
            "Odd",
            "Unable to apply 1.0.1: an unknown error has occurred: Odd".into(),
        ),
        (
            UpdateError::new("", "plain"),
            None,
            (True, "", "plain"),
            "",
            "Unable to apply 1.0.1: an error occurred, condition Failing has it".into(),
        ),
    ];
    for (error, minutes, failing, reason, text) in table {
        let mut facts = Facts { done: 1, total: 4, ..facts() };
        if let Some(minutes) = minutes {
            facts.waiting_since.insert(error.names[0].clone(), at(NOW - minutes * MINUTE).0);
        }
        facts.failure = Some(error);
        check(&facts, failing, (True, reason, &text));
    }
}

/// §10.18: nothing done yet.
#[test]
fn before_anything_is_done_the_waiting_text_follows_directly() {
    let failure = Some(operator("ClusterOperatorUpdating", "a", Effect::None));
    check(
        &Facts { failure, ..facts() },
        WELL,
        (True, "ClusterOperatorUpdating", "Working towards 1.0.1: waiting on a"),
    );
}

/// §10.18: several operators, machine-config among them, and one without a start.
#[test]
fn slow_operators_and_slow_nodes_are_told_apart() {
    let mut error = operator("ClusterOperatorsUpdating", "a", Effect::None);
    error.names = ["a", "b", "machine-config", "new"].map(String::from).to_vec();
    let mut facts = Facts { failure: Some(error), ..facts() };
    for name in ["a", "b", "machine-config"] {
        facts.waiting_since.insert(name.into(), at(NOW - 95 * MINUTE).0);
    }
    let text = "waiting on a, b over 30 minutes and machine-config over 90 minutes";
    let progress = format!("Working towards 1.0.1: {text}");
    check(&facts, (Unknown, "SlowClusterOperator", text), (True, "ClusterOperatorsUpdating", &progress));
}

/// §10.18: while reconciling, and without history.
#[test]
fn while_reconciling_or_without_history_every_failure_counts_at_once() {
    for effect in [Effect::Report, Effect::None, Effect::FailAfterInterval, Effect::Fail] {
        let failure = Some(operator("ClusterOperatorDegraded", "a", effect));
        let failing = (True, "ClusterOperatorDegraded", "operator a is in trouble");
        let text = "Error while reconciling 1.0.1: the cluster operator a is degraded";
        let reconciling = Facts { failure: failure.clone(), mode: Mode::Reconcile, ..facts() };
        check(&reconciling, failing, (False, "ClusterOperatorDegraded", text));
        let nothing = Facts { failure, actual: Release::default(), ..facts() };
        let text = "Unable to apply <unknown>: the cluster operator a is degraded";
        check(&nothing, failing, (True, "ClusterOperatorDegraded", text));
    }
}

/// §10.18: several errors.
#[test]
fn several_errors_are_judged_one_by_one_and_show_their_causes() {
    let updating = operator("ClusterOperatorUpdating", "u", Effect::None);
    let degraded = operator("ClusterOperatorDegraded", "d", Effect::FailAfterInterval);
    let down = operator("ClusterOperatorNotAvailable", "n", Effect::Fail);
    let forbidden = UpdateError::new("UpdatePayloadResourceForbidden", "forbidden");
    let with = |errors: &[&UpdateError]| Facts {
        failure: Some(multiple(errors.iter().map(|e| (*e).clone()).collect())),
        ..facts()
    };
    // Only waiting: no failure, and the reason of the stronger one.
    let text = "Working towards 1.0.1: waiting on u, waiting up to 40 minutes on d";
    check(&with(&[&updating, &degraded]), WELL, (True, "ClusterOperatorDegraded", text));
    // One is slow, the other still within its time.
    let mut slow = with(&[&updating, &degraded]);
    slow.waiting_since.insert("u".into(), at(NOW - 31 * MINUTE).0);
    check(
        &slow,
        (Unknown, "SlowClusterOperator", "waiting on u over 30 minutes"),
        (
            True,
            "ClusterOperatorUpdating",
            "Working towards 1.0.1: waiting on u over 30 minutes, waiting up to 40 minutes on d",
        ),
    );
    // One real failure speaks for itself.
    check(
        &with(&[&updating, &degraded, &down]),
        (True, "ClusterOperatorNotAvailable", "operator n is in trouble"),
        (True, "ClusterOperatorNotAvailable", "Unable to apply 1.0.1: the cluster operator n is not available"),
    );
    // Several real failures: all causes, nothing unknown.
    let causes = "the cluster operator n is not available; the API server refuses changes of the release";
    check(
        &with(&[&updating, &down, &forbidden]),
        (True, "MultipleErrors", "Several things hold the release back:\n* forbidden\n* operator n is in trouble"),
        (True, "MultipleErrors", &format!("Unable to apply 1.0.1: {causes}")),
    );
    let reconciling = Facts { mode: Mode::Reconcile, ..with(&[&down, &forbidden]) };
    let (_, reason, message) = said(&reconciling, "Progressing");
    assert_eq!((reason, message), ("MultipleErrors".into(), format!("Error while reconciling 1.0.1: {causes}")));
}

/// §10.14: a process that begins where another one had completed changes nothing that anybody sees.
#[test]
fn a_restart_of_a_completed_release_does_not_flicker() {
    let completed = Facts { mode: Mode::Reconcile, completed: true, done: 7, total: 7, ..facts() };
    let before = compute(&ClusterVersionStatus::default(), &completed, at(NOW).0);
    for done in [0, 3, 7] {
        let begun = Facts { mode: Mode::Reconcile, completed: false, done, total: 7, ..facts() };
        assert_eq!(compute(&before, &begun, at(NOW + 60).0), before, "{done} of 7");
    }
    // An update that was under way is taken up as what it was.
    let update = Facts { actual: release("1.1.0", "img-2"), done: 3, total: 7, ..facts() };
    let before = compute(&before, &update, at(NOW + 1).0);
    let again = compute(&before, &Facts { done: 0, ..update }, at(NOW + 60).0);
    assert_eq!((&again.history, again.history.len()), (&before.history, 2));
    assert_eq!((again.history[0].state, again.history[1].state), (HistoryState::Partial, HistoryState::Completed));
}

/// §10.17: another release begins without the failure of the last one, whatever had been done of that.
#[test]
fn another_release_begins_without_the_failure_of_the_last() {
    let failed = Facts { failure: Some(UpdateError::new("X", "broken")), done: 5, total: 7, ..facts() };
    let before = compute(&ClusterVersionStatus::default(), &failed, at(NOW).0);
    assert_eq!(find(&before.conditions, "Failing").unwrap().status, True);
    let other = Facts { actual: release("1.1.0", "img-2"), done: 0, total: 7, ..facts() };
    let after = compute(&before, &other, at(NOW + 1).0);
    assert_eq!(find(&after.conditions, "Failing").unwrap().status, False);
    assert_eq!(find(&after.conditions, "Progressing").unwrap().message, "Working towards 1.1.0");
}

#[test]
fn available_becomes_true_at_the_end_and_stays_through_the_next_update() {
    assert_eq!(said(&facts(), "Available"), (False, String::new(), String::new()));
    let done = Facts { completed: true, mode: Mode::Reconcile, ..facts() };
    let status = compute(&ClusterVersionStatus::default(), &done, at(NOW).0);
    let next = Facts { actual: release("1.1.0", "img-2"), failure: Some(UpdateError::new("X", "x")), ..facts() };
    let status = compute(&status, &next, at(NOW + 1).0);
    let available = find(&status.conditions, "Available").unwrap();
    assert_eq!((available.status, available.message.as_str()), (True, "Done applying 1.0.1"));
    assert_eq!(available.last_transition_time, at(NOW));
}

#[test]
fn release_accepted_mirrors_the_last_load() {
    assert!(
        find(&compute(&ClusterVersionStatus::default(), &facts(), at(NOW).0).conditions, "ReleaseAccepted").is_none()
    );
    let subject = "version=\"1.1.0\" image=\"img-2\"";
    // step, outcome, message of the running step, status, reason, text
    let table = [
        (
            LoadStep::RetrievePayload,
            None,
            "",
            Unknown,
            "RetrievePayload",
            format!("Retrieving and verifying the release {subject}"),
        ),
        (
            LoadStep::RetrievePayload,
            Some(Ok(())),
            "",
            Unknown,
            "RetrievePayload",
            format!("Retrieving and verifying the release {subject}"),
        ),
        (
            LoadStep::RetrievePayload,
            None,
            "Job running",
            Unknown,
            "RetrievePayload",
            format!("Retrieving and verifying the release {subject}: Job running"),
        ),
        (
            LoadStep::RetrievePayload,
            Some(Err("no signature")),
            "",
            False,
            "RetrievePayload",
            format!("The release could not be retrieved or verified: {subject}: no signature"),
        ),
        (
            LoadStep::LoadPayload,
            Some(Err("bad file")),
            "",
            False,
            "LoadPayload",
            format!("The release could not be read: {subject}: bad file"),
        ),
        (
            LoadStep::VerifyPayloadVersion,
            Some(Err("is 1.0")),
            "",
            False,
            "VerifyPayloadVersion",
            format!("The release is not the one requested: {subject}: is 1.0"),
        ),
        (
            LoadStep::PreconditionChecks,
            Some(Err("no")),
            "",
            False,
            "PreconditionChecks",
            format!("Preconditions hold the release back: {subject}: no"),
        ),
        (
            LoadStep::PayloadLoaded,
            Some(Ok(())),
            "",
            True,
            "PayloadLoaded",
            format!("Payload loaded {subject} architecture=\"Multi\""),
        ),
    ];
    for (step, outcome, message, status, reason, text) in table {
        let architecture = if step == LoadStep::PayloadLoaded { "Multi" } else { "" };
        let load = LoadStatus {
            step,
            outcome: outcome.map(|o| o.map_err(str::to_owned)),
            release: Release { architecture: architecture.into(), ..release("1.1.0", "img-2") },
            message: message.into(),
        };
        let facts = Facts { load: Some(load), ..facts() };
        assert_eq!(said(&facts, "ReleaseAccepted"), (status, reason.to_owned(), text));
    }
}

#[test]
fn advice_is_null_when_unknown_and_empty_when_known_to_be_none() {
    let some = vec![release("1.1.0", "img-2")];
    let failed = Err(("RemoteFailed".to_owned(), "no route".to_owned()));
    // outcome, available, published, condition
    let table = [
        (Ok(()), Vec::new(), Some(Vec::new()), (True, "", "")),
        (Ok(()), some.clone(), Some(some.clone()), (True, "", "")),
        (failed.clone(), Vec::new(), None, (False, "RemoteFailed", "no route")),
        (failed, some.clone(), Some(some.clone()), (False, "RemoteFailed", "no route")),
    ];
    for (outcome, available, published, (status, reason, message)) in table {
        let retrieval = Some(Retrieval { outcome, current: None, available, conditional: Vec::new() });
        let facts = Facts { retrieval, ..facts() };
        let computed = compute(&ClusterVersionStatus::default(), &facts, at(NOW).0);
        assert_eq!(computed.available_updates, published);
        assert_eq!(said(&facts, "RetrievedUpdates"), (status, reason.to_owned(), message.to_owned()));
    }
    // Before the first answer: what the predecessor knew stays, or a placeholder.
    let previous = ClusterVersionStatus { available_updates: Some(some.clone()), ..Default::default() };
    assert_eq!(compute(&previous, &facts(), at(NOW).0).available_updates, Some(some));
    assert_eq!(said(&facts(), "RetrievedUpdates"), (False, String::new(), String::new()));
}

#[test]
fn invalid_is_there_only_while_something_is() {
    let one = Facts { invalid: vec!["a: b".into()], ..facts() };
    let two = Facts { invalid: vec!["a: b".into(), "c: d".into()], ..facts() };
    assert_eq!(
        said(&one, "Invalid"),
        (True, "InvalidClusterVersion".into(), "The cluster version is invalid: a: b".into())
    );
    assert_eq!(said(&two, "Invalid").2, "The cluster version is invalid:\n* a: b\n* c: d\n");
    let status = compute(&ClusterVersionStatus::default(), &two, at(NOW).0);
    assert!(find(&compute(&status, &facts(), at(NOW).0).conditions, "Invalid").is_none());
}

/// §10.9: what was enabled without being asked for is told.
#[test]
fn implicit_capabilities_are_listed_sorted() {
    assert_eq!(said(&facts(), "ImplicitlyEnabledCapabilities").1, "AsExpected");
    let mut facts = facts();
    facts.capabilities.implicit = vec!["b".into(), "a".into()];
    let (status, reason, message) = said(&facts, "ImplicitlyEnabledCapabilities");
    assert_eq!((status, reason.as_str()), (True, "CapabilitiesImplicitlyEnabled"));
    assert!(message.ends_with(": a, b"), "{message}");
}

#[test]
fn a_fight_names_the_object_the_writer_the_fields_and_the_count() {
    let fight = Fight {
        object: "configmap \"ns/a\"".into(),
        manager: "kubectl-edit".into(),
        fields: vec![".data.x".into(), ".data.y".into()],
        repairs: 4,
    };
    let contested = Facts { mode: Mode::Reconcile, fights: vec![fight; 12], ..facts() };
    let (status, reason, message) = said(&contested, "Contested");
    assert_eq!((status, reason.as_str()), (True, "FieldManagerConflict"));
    let line =
        "configmap \"ns/a\" by field manager \"kubectl-edit\" (.data.x, .data.y; repaired 4 times in ten minutes)";
    assert!(message.contains(line), "{message}");
    assert!(message.ends_with("; and 2 more"), "{message}");
    // It goes when the fight ends, and steps back behind a failure while reconciling.
    let status = compute(&ClusterVersionStatus::default(), &contested, at(NOW).0);
    for quiet in [
        Facts { fights: Vec::new(), ..contested.clone() },
        Facts { failure: Some(UpdateError::new("X", "x")), ..contested.clone() },
    ] {
        assert!(find(&compute(&status, &quiet, at(NOW).0).conditions, "Contested").is_none());
    }
}

fn condition(type_: &str, status: ConditionStatus) -> Condition {
    Condition {
        type_: type_.into(),
        status,
        last_transition_time: at(7),
        reason: String::new(),
        message: String::new(),
    }
}

#[test]
fn transition_times_move_with_the_status_alone_retired_types_go_and_foreign_ones_stay() {
    let retired = ["UpgradeableAdminAckRequired", "UpgradeableUpgradeInProgress", "ImplicitlyEnabled"];
    let mut conditions: Vec<_> = retired.iter().map(|t| condition(t, False)).collect();
    conditions.extend([condition("Upgradeable", False), condition("Progressing", True), condition("Failing", True)]);
    let previous = ClusterVersionStatus { conditions, ..Default::default() };
    let fractional = Timestamp::from_millisecond(NOW * 1000 + 900).unwrap();
    let status = compute(&previous, &facts(), fractional);
    let time = |type_| find(&status.conditions, type_).unwrap().last_transition_time.clone();
    for type_ in retired {
        assert!(find(&status.conditions, type_).is_none(), "{type_}");
    }
    assert_eq!(time("Upgradeable"), at(7));
    assert_eq!(time("Progressing"), at(7), "only the message changed");
    assert_eq!(find(&status.conditions, "Progressing").unwrap().message, "Working towards 1.0.1");
    assert_eq!(time("Failing"), at(NOW), "whole seconds");
    assert_eq!(status.history[0].started_time, at(NOW));
}

#[test]
fn plain_fields_follow_the_facts_and_missing_ones_wipe_nothing() {
    let mut known = facts();
    known.generation = 4;
    known.version_hash = "hash".into();
    known.capabilities.known = vec!["a".into(), "b".into()];
    known.capabilities.enabled = vec!["a".into()];
    let status = compute(&ClusterVersionStatus::default(), &known, at(NOW).0);
    let later = compute(&status, &Facts { generation: 5, ..facts() }, at(NOW).0);
    assert_eq!((later.observed_generation, later.version_hash.as_str()), (5, "hash"));
    assert_eq!(later.capabilities.enabled_capabilities, ["a"]);
    assert_eq!(later.capabilities.known_capabilities, ["a", "b"]);
}

#[test]
fn desired_gets_missing_metadata_by_digest_and_never_by_version() {
    let full = |version: &str, image: &str| Release {
        url: format!("https://{image}"),
        channels: vec!["stable".into()],
        architecture: "Multi".into(),
        ..release(version, image)
    };
    let with = |actual: Release, current: Option<Release>, available: Vec<Release>| {
        let retrieval = Some(Retrieval { outcome: Ok(()), current, available, conditional: Vec::new() });
        compute(&ClusterVersionStatus::default(), &Facts { actual, retrieval, ..facts() }, at(NOW).0).desired
    };
    let known = full("1.0.1", "b@sha256:1");
    assert_eq!(
        with(release("", "a@sha256:1"), None, vec![known.clone()]),
        Release { image: "a@sha256:1".into(), ..known.clone() }
    );
    assert_eq!(with(release("1.0.1", "a@sha256:2"), Some(known), Vec::new()), release("1.0.1", "a@sha256:2"));
    let own = Facts { own: full("1.0.0", "img-0"), actual: release("1.0.0", "img-0"), ..facts() };
    assert_eq!(compute(&ClusterVersionStatus::default(), &own, at(NOW).0).desired, full("1.0.0", "img-0"));
}

fn any_failure() -> impl Strategy<Value = Option<UpdateError>> {
    let effect = prop_oneof![
        Just(None),
        Just(Some(Effect::Report)),
        Just(Some(Effect::None)),
        Just(Some(Effect::FailAfterInterval)),
        Just(Some(Effect::Fail))
    ];
    let one = (effect, "[a-c]{0,2}", "[A-Z][a-z]{0,3}").prop_map(|(effect, name, reason)| UpdateError {
        effect,
        names: if name.is_empty() { Vec::new() } else { vec![name] },
        ..UpdateError::new(&reason, "it broke")
    });
    proptest::collection::vec(one, 0..4).prop_map(aggregate)
}

fn any_facts() -> impl Strategy<Value = Facts> {
    let mode = prop_oneof![Just(Mode::Install), Just(Mode::Update), Just(Mode::Reconcile)];
    (mode, 0u8..4, any_failure(), any::<[bool; 4]>(), 0usize..9, 0usize..9, 0i64..200).prop_map(
        |(mode, which, failure, [completed, local, verified, fight], done, total, minutes)| {
            let mut facts = facts();
            facts.mode = mode;
            facts.actual =
                if which == 0 { Release::default() } else { release(&format!("1.{which}.0"), &format!("i{which}")) };
            (facts.failure, facts.completed, facts.local, facts.verified) = (failure, completed, local, verified);
            (facts.done, facts.total) = (done, total);
            facts.waiting_since.insert("a".into(), at(NOW - minutes * MINUTE).0);
            if fight {
                facts.fights.push(Fight { object: "o".into(), manager: String::new(), fields: Vec::new(), repairs: 3 });
            }
            facts
        },
    )
}

proptest! {
    /// Whatever happened, in whatever order.
    #[test]
    fn a_status_is_stable_and_completed_only_when_the_pass_ended_well(life in proptest::collection::vec(any_facts(), 1..20)) {
        let mut status = ClusterVersionStatus::default();
        for (second, facts) in (NOW..).zip(life) {
            let ended = |s: &ClusterVersionStatus| s.history.iter().filter(|e| e.state == HistoryState::Completed).count();
            let before = status;
            status = compute(&before, &facts, at(second).0);
            prop_assert_eq!(&compute(&status, &facts, at(second + 100).0).history, &status.history);
            if !facts.completed {
                prop_assert_eq!(ended(&status), ended(&before));
            }
            let old_starts: Vec<&HistoryEntry> = before.history.iter().collect();
            let kept = status.history.len().checked_sub(old_starts.len());
            prop_assert!(kept.is_some_and(|new| new <= 1), "an entry was lost");
            for (new, old) in status.history.iter().skip(kept.unwrap_or(0)).zip(old_starts) {
                prop_assert_eq!((&new.image, &new.version, &new.started_time), (&old.image, &old.version, &old.started_time));
            }
            let again = compute(&status, &facts, at(second).0);
            prop_assert_eq!(&again, &status, "computing twice changes nothing");
            let mut types: Vec<&str> = status.conditions.iter().map(|c| c.type_.as_str()).collect();
            types.sort_unstable();
            types.dedup();
            prop_assert_eq!(types.len(), status.conditions.len(), "each type once");
            for needed in ["Available", "Failing", "Progressing", "RetrievedUpdates", "ImplicitlyEnabledCapabilities"] {
                prop_assert!(find(&status.conditions, needed).is_some(), "{}", needed);
            }
            for c in status.conditions.iter() {
                let moved = find(&before.conditions, &c.type_).is_none_or(|old| old.status != c.status);
                prop_assert_eq!(moved, c.last_transition_time == at(second) , "{}", c.type_);
            }
            // A failure is silent only where patience is granted.
            let patient = |e: &UpdateError| matches!(e.effect, Some(Effect::None | Effect::FailAfterInterval));
            if let Some(failure) = &facts.failure {
                let all_patient = if failure.nested.is_empty() { patient(failure) } else { failure.nested.iter().all(patient) };
                let silent = find(&status.conditions, "Failing").unwrap().status == ConditionStatus::False;
                prop_assert!(!silent || (all_patient && facts.mode != Mode::Reconcile), "{failure:?} is not reported");
            }
        }
    }
}
