//! The other conditions: when each is present, and its reason and message.

use super::*;
use crate::cluster_version::status::facts::{Conflict, KeptFields, LoadStatus, LoadStep, RolloutFacts, Unwatched};
use crate::object::condition::Condition;
use crate::object::condition::ConditionStatus::Unknown;

#[test]
fn available_stays_true_during_next_update() {
    assert_eq!(said(&facts(), "Available"), (False, String::new(), String::new()));
    let done = applying(RolloutFacts { completed: true, ..rollout() });
    let status = compute(&ClusterVersionStatus::default(), &done, at(NOW).0);
    let failure = Some(UpdateError::new(Reason::Other("X".into()), "x"));
    let next = Facts { actual: release("1.1.0", "img-2"), ..applying(RolloutFacts { failure, ..rollout() }) };
    let status = compute(&status, &next, at(NOW + 1).0);
    let available = find(&status.conditions, "Available").unwrap();
    assert_eq!((available.status, available.message.as_str()), (True, "Done applying 1.0.1"));
    assert_eq!(available.last_transition_time, at(NOW));
}

#[test]
fn release_accepted_reports_last_load() {
    assert!(
        find(&compute(&ClusterVersionStatus::default(), &facts(), at(NOW).0).conditions, "ReleaseAccepted").is_none()
    );
    use LoadStep::{LoadPayload, PayloadLoaded, PreconditionChecks, RetrievePayload, VerifyPayloadVersion};
    let subject = "version=\"1.1.0\" image=\"img-2\"";
    let failed = |cause| Some(Err(cause));
    let retrieving = "Retrieving and verifying the release {}";
    // step, outcome, message of the running step, status, reason, text
    let table = [
        (RetrievePayload, None, "", Unknown, "RetrievePayload", retrieving.to_owned()),
        (RetrievePayload, Some(Ok(())), "", Unknown, "RetrievePayload", retrieving.to_owned()),
        (RetrievePayload, None, "Job running", Unknown, "RetrievePayload", format!("{retrieving}: Job running")),
        (
            RetrievePayload,
            failed("no signature"),
            "",
            False,
            "RetrievePayload",
            "The release could not be retrieved or verified: {}: no signature".into(),
        ),
        (LoadPayload, failed("bad"), "", False, "LoadPayload", "The release could not be read: {}: bad".into()),
        (
            VerifyPayloadVersion,
            failed("is 1.0"),
            "",
            False,
            "VerifyPayloadVersion",
            "The release is not the one requested: {}: is 1.0".into(),
        ),
        (PreconditionChecks, failed("no"), "", False, "PreconditionChecks", "Preconditions are not met: {}: no".into()),
        (PayloadLoaded, Some(Ok(())), "", True, "PayloadLoaded", "Payload loaded {} architecture=\"Multi\"".into()),
    ];
    for (step, outcome, message, status, reason, text) in table {
        let architecture = if step == PayloadLoaded { "Multi" } else { "" };
        let load = LoadStatus {
            step,
            outcome: outcome.map(|o| o.map_err(str::to_owned)),
            release: Release { architecture: architecture.into(), ..release("1.1.0", "img-2") },
            message: message.into(),
            ..LoadStatus::started(Release::default())
        };
        let facts = Facts { load: Some(load), ..facts() };
        assert_eq!(said(&facts, "ReleaseAccepted"), (status, reason.to_owned(), text.replace("{}", subject)));
    }
}

#[test]
fn available_updates_are_null_when_unknown_and_empty_when_none() {
    let some = vec![release("1.1.0", "img-2")];
    let failed: Result<String, _> = Err(("RemoteFailed".to_owned(), "no route".to_owned()));
    // outcome, known, available, published, condition
    let table = [
        (Ok(String::new()), true, Vec::new(), Some(Vec::new()), (True, "", "")),
        (Ok("one is left out".into()), true, some.clone(), Some(some.clone()), (True, "", "one is left out")),
        (failed.clone(), false, Vec::new(), None, (False, "RemoteFailed", "no route")),
        (failed.clone(), true, Vec::new(), Some(Vec::new()), (False, "RemoteFailed", "no route")),
        (failed, true, some.clone(), Some(some.clone()), (False, "RemoteFailed", "no route")),
    ];
    for (outcome, known, available, published, (status, reason, message)) in table {
        let retrieval = Some(Retrieval { outcome, known, available, ..Retrieval::nothing() });
        let facts = Facts { retrieval, ..facts() };
        let computed = compute(&ClusterVersionStatus::default(), &facts, at(NOW).0);
        assert_eq!(computed.available_updates, published);
        assert_eq!(said(&facts, "RetrievedUpdates"), (status, reason.to_owned(), message.to_owned()));
    }
    // Before the first answer the updates that the predecessor published stay, or a placeholder.
    let previous = ClusterVersionStatus { available_updates: Some(some.clone()), ..Default::default() };
    assert_eq!(compute(&previous, &facts(), at(NOW).0).available_updates, Some(some.clone()));
    let outcome = Err(("RemoteFailed".into(), "no route".into()));
    let unanswered = Retrieval { outcome, answered: false, known: false, ..Retrieval::nothing() };
    let updating = Facts { actual: facts().own, retrieval: Some(unanswered), ..facts() };
    let completed = Some(RolloutFacts { completed: true, ..rollout() });
    let unanswered = Facts { rollout: completed, ..updating.clone() };
    let entry = |image: &str| {
        let status = compute(&ClusterVersionStatus::default(), &facts(), at(NOW).0);
        let mut entry = status.history[0].clone();
        (entry.image, entry.state) = (image.to_owned(), HistoryState::Completed);
        ClusterVersionStatus { history: vec![entry], ..previous.clone() }
    };
    let own = unanswered.own.image.clone();
    assert_eq!(compute(&entry(&own), &unanswered, at(NOW).0).available_updates, Some(some));
    // Updates published for the previous release are withdrawn.
    assert_eq!(compute(&entry("before"), &updating, at(NOW).0).available_updates, None);
    assert_eq!(said(&unanswered, "RetrievedUpdates"), (False, "RemoteFailed".into(), "no route".into()));
    assert_eq!(said(&facts(), "RetrievedUpdates"), (False, String::new(), String::new()));
}

#[test]
fn invalid_is_present_only_while_spec_is_invalid() {
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

#[test]
fn implicitly_enabled_capabilities_are_listed_sorted() {
    assert_eq!(said(&facts(), "ImplicitlyEnabledCapabilities").1, "AsExpected");
    let mut facts = facts();
    facts.capabilities.implicit = vec!["b".into(), "a".into()];
    let (status, reason, message) = said(&facts, "ImplicitlyEnabledCapabilities");
    assert_eq!((status, reason.as_str()), (True, "CapabilitiesImplicitlyEnabled"));
    assert!(message.ends_with(": a, b"), "{message}");
}

#[test]
fn conflict_names_object_field_manager_fields_and_count() {
    let conflict = Conflict {
        object: "configmap \"ns/a\"".into(),
        manager: "kubectl-edit".into(),
        fields: vec![".data.x".into(), ".data.y".into()],
        repairs: 4,
    };
    let rollout = RolloutFacts { completed: true, conflicts: vec![conflict; 12], ..rollout() };
    let contested = applying(rollout.clone());
    let (status, reason, message) = said(&contested, "Contested");
    assert_eq!((status, reason.as_str()), (True, "FieldManagerConflict"));
    let line =
        "configmap \"ns/a\" by field manager \"kubectl-edit\" (.data.x, .data.y; repaired 4 times in ten minutes)";
    assert!(message.contains(line), "{message}");
    assert!(message.ends_with("; and 2 more"), "{message}");
    // Removed when the conflict ends, and while reconciling fails.
    let status = compute(&ClusterVersionStatus::default(), &contested, at(NOW).0);
    for quiet in [
        RolloutFacts { conflicts: Vec::new(), ..rollout.clone() },
        RolloutFacts { failure: Some(UpdateError::new(Reason::Other("X".into()), "x")), ..rollout },
    ] {
        assert!(find(&compute(&status, &applying(quiet), at(NOW).0).conditions, "Contested").is_none());
    }
}

#[test]
fn kinds_and_fields_are_named_as_long_as_they_count() {
    let unwatched = Unwatched { kind: "widgets.example.com".into(), cause: "cannot watch widgets: forbidden".into() };
    let kept = KeptFields { object: "configmap \"ns/a\"".into(), fields: vec![".data.x".into(), ".data.y".into()] };
    let facts = applying(RolloutFacts { unwatched: vec![unwatched], kept: vec![kept; 12], ..rollout() });
    let (status, reason, message) = said(&facts, "KindsNotWatched");
    assert_eq!((status, reason.as_str()), (True, "CannotListOrWatch"));
    assert!(message.ends_with(": widgets.example.com (cannot watch widgets: forbidden)"), "{message}");
    let (status, reason, message) = said(&facts, "FieldsNotAccepted");
    assert_eq!((status, reason.as_str()), (True, "KeptByServer"));
    assert!(
        message.contains(": configmap \"ns/a\" (.data.x, .data.y); ") && message.ends_with("; and 2 more"),
        "{message}"
    );
    let status = compute(&ClusterVersionStatus::default(), &facts, at(NOW).0);
    let quiet = compute(&status, &super::facts(), at(NOW).0).conditions;
    assert!(find(&quiet, "KindsNotWatched").is_none() && find(&quiet, "FieldsNotAccepted").is_none());
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
fn transition_time_changes_with_status_only_and_retired_types_are_removed() {
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
fn dropped_objects_are_named_once_the_update_is_over() {
    let dropped = Some(vec!["configmap \"a/x\"".to_owned(), "priorityclass.scheduling.k8s.io \"y\"".to_owned()]);
    let after = Facts { dropped, ..applying(RolloutFacts { completed: true, ..rollout() }) };
    assert_eq!(
        said(&after, "DroppedObjects"),
        (
            True,
            "NotInRelease".to_owned(),
            "Objects of an earlier release that this one does not contain still exist, and nothing manages them: \
             configmap \"a/x\", priorityclass.scheduling.k8s.io \"y\". Delete them, or annotate those that are to stay with \
             release.openshift.io/keep=true"
                .to_owned()
        )
    );
    let named = compute(&ClusterVersionStatus::default(), &after, at(NOW).0);
    let later = |facts: &Facts| compute(&named, facts, at(NOW + 60).0);
    let is_named = |status: &ClusterVersionStatus| find(&status.conditions, "DroppedObjects").is_some();
    let restarted = Facts { dropped: None, ..after.clone() };
    assert_eq!(later(&restarted), named, "a process that does not know yet changes nothing");
    assert!(!is_named(&later(&Facts { dropped: Some(Vec::new()), ..after.clone() })));
    assert!(!is_named(&later(&Facts { rollout: Some(rollout()), ..after })), "operators may still remove them");
}

#[test]
fn upgradeable_is_only_ever_false_and_stays_while_nothing_is_known() {
    let risk = |name: &str, message: &str| Risk { name: name.into(), message: message.into(), url: String::new() };
    let foreign = Condition {
        type_: "Upgradeable".into(),
        status: Unknown,
        last_transition_time: at(NOW - 100),
        reason: "Foreign".into(),
        message: "stale".into(),
    };
    let before = ClusterVersionStatus { conditions: vec![foreign.clone()], ..ClusterVersionStatus::default() };
    let write = |risks: Option<Vec<Risk>>| compute(&before, &Facts { risks, ..facts() }, at(NOW).0);
    let found = |status: &ClusterVersionStatus| find(&status.conditions, "Upgradeable").cloned();
    assert_eq!(found(&write(None)), Some(foreign));
    assert_eq!(found(&write(Some(Vec::new()))), None);
    let one = found(&write(Some(vec![risk("ClusterOperatorUpgradeable-machine-config", "not now")]))).unwrap();
    assert_eq!((one.status, one.reason.as_str()), (False, "ClusterOperatorUpgradeableMachineConfig"));
    assert_eq!(one.message, "not now", "as the risk says it");
    assert_eq!(one.last_transition_time, at(NOW));
    let two = found(&write(Some(vec![risk("a", "first"), risk("b", "second")]))).unwrap();
    assert_eq!(two.reason, "MultipleReasons");
    assert!(two.message.contains("\n* first\n* second\n"), "{two:?}");
    let many = (0..500).map(|n| risk(&format!("r{n}"), &"x".repeat(200))).collect();
    assert!(found(&write(Some(many))).unwrap().message.ends_with("are not affected."));
}

#[test]
fn refused_release_says_how_often_it_was_tried_and_how_the_request_was_understood() {
    let refused = LoadStatus {
        tries: 3,
        note: "from the history".into(),
        ..LoadStatus::failed(LoadStep::PreconditionChecks, release("1.1.0", "img-2"), "no".into())
    };
    let (status, _, text) = said(&Facts { load: Some(refused), ..facts() }, "ReleaseAccepted");
    assert_eq!(status, False);
    assert!(text.ends_with("no (from the history) (tried 3 times)"), "{text}");
    for (tries, expected) in [(1, "(refused once before)"), (3, "(refused 3 times before)")] {
        let running = LoadStatus { tries, ..LoadStatus::started(release("1.1.0", "img-2")) };
        let (status, _, text) = said(&Facts { load: Some(running), ..facts() }, "ReleaseAccepted");
        assert_eq!(status, Unknown);
        assert!(text.ends_with(expected), "{text}");
    }
}
