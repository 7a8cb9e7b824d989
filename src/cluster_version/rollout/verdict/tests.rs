//! What each verdict of a gate means in an install, in an update and while reconciling.

use super::*;
use serde_json::{Value, json};

const MODES: [Mode; 3] = [Mode::Install, Mode::Update, Mode::Reconcile];

fn conditions(list: &[(&str, &str)]) -> Value {
    let condition = |(type_, status): &(&str, &str)| json!({"type": type_, "status": status, "reason": "Because", "message": format!("about {type_}")});
    json!({"conditions": list.iter().map(condition).collect::<Vec<_>>()})
}

/// An object with this status.
fn object(kind: &str, status: Value) -> Value {
    let version = match kind {
        "ClusterOperator" => "config.openshift.io/v1",
        "CustomResourceDefinition" => "apiextensions.k8s.io/v1",
        "Job" => "batch/v1",
        "ConfigMap" => "v1",
        _ => "apps/v1",
    };
    let mut metadata = json!({"name": "it"});
    if matches!(version, "apps/v1" | "batch/v1" | "v1") {
        metadata["namespace"] = json!("ns");
    }
    json!({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": {"replicas": 1}, "status": status})
}

fn deleting(mut object: Value) -> Value {
    object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    object
}

/// The manifest of a kind.
fn manifest(kind: &str) -> Observed {
    Observed::of(&object(kind, json!({"versions": [{"name": "operator", "version": "2"}]})))
}

/// `passes`, or how it counts, what conditions say and, if that is something else, what the node waits for.
fn judged(desired: &Observed, live: Option<&Value>) -> [String; 3] {
    let live = live.map(Observed::of);
    MODES.map(|mode| match judge(desired, live.as_ref(), mode) {
        None => "passes".to_owned(),
        Some(Unready { reason, error, .. }) if reason == error.reason.as_str() => {
            format!("{:?} {reason}", error.effect)
        }
        Some(Unready { reason, error, .. }) => format!("{:?} {} {reason}", error.effect, error.reason),
    })
}

/// An install waits for no versions, goes on past a degraded operator and has no gate for Deployments and DaemonSets. While
/// reconciling only the failure of a workload counts.
#[test]
fn each_verdict_counts_as_the_mode_says() {
    const PASSES: &str = "passes";
    let missing = "FailAfterInterval UpdatePayloadResourceNotFound";
    let (silent, away) = ("FailAfterInterval ClusterOperatorNotAvailable", "Fail ClusterOperatorNotAvailable");
    let (told, degraded) = ("Report ClusterOperatorDegraded", "FailAfterInterval ClusterOperatorDegraded");
    let late = "Wait ClusterOperatorUpdating";
    let (unavailable, stuck) = ("Fail WorkloadNotAvailable", "Fail WorkloadNotProgressing");
    let failed = "Fail UpdatePayloadFailed";
    let (absent, rolling) = ("Wait WorkloadUpdating NotFound", "Wait WorkloadUpdating RollingOut");
    let unserved = |reason: &str| format!("Wait CustomResourceDefinitionNotEstablished {reason}");
    let (not_found, gone) = (unserved("NotFound"), unserved("Deleting"));
    let with = |kind: &str, list: &[(&str, &str)]| Some(object(kind, conditions(list)));
    let (up, down) = (("Available", "True"), ("Available", "False"));
    let (operator, definition) = ("ClusterOperator", "CustomResourceDefinition");
    let daemon_set = object("DaemonSet", json!({"desiredNumberScheduled": 1}));
    let table = [
        (operator, None, [missing; 3]),
        (operator, with(operator, &[]), [silent; 3]),
        (operator, with(operator, &[down]), [silent, away, away]),
        (operator, with(operator, &[up]), [told, degraded, degraded]),
        (operator, with(operator, &[up, ("Degraded", "False")]), [PASSES, late, late]),
        ("Deployment", None, [PASSES, absent, PASSES]),
        ("Deployment", with("Deployment", &[]).map(deleting), [PASSES, failed, failed]),
        ("Deployment", with("Deployment", &[down, ("Progressing", "False")]), [PASSES, unavailable, unavailable]),
        ("Deployment", with("Deployment", &[("ReplicaFailure", "True")]), [PASSES, stuck, stuck]),
        ("Deployment", with("Deployment", &[]), [PASSES, rolling, PASSES]),
        ("DaemonSet", Some(daemon_set), [PASSES, rolling, PASSES]),
        ("Job", None, [absent, absent, PASSES]),
        ("Job", with("Job", &[("Failed", "True")]), [failed; 3]),
        (definition, None, [&not_found; 3]),
        (definition, with(definition, &[]).map(deleting), [&gone; 3]),
        (definition, with(definition, &[("NamesAccepted", "False")]), [failed; 3]),
        ("ConfigMap", None, [PASSES; 3]),
    ];
    for (kind, live, expected) in &table {
        assert_eq!(judged(&manifest(kind), live.as_ref()), *expected, "{kind} {live:?}");
    }
}

#[test]
fn operator_without_versions_in_its_manifest_never_passes() {
    let desired = Observed::of(&object("ClusterOperator", json!({})));
    assert_eq!(judged(&desired, None), ["Fail ClusterOperatorNoVersions"; 3]);
    assert_eq!(never_opens(&desired).unwrap().reason, Reason::OperatorNoVersions);
    assert_eq!(["ClusterOperator", "Deployment", "Job"].map(|kind| never_opens(&manifest(kind))), [None, None, None]);
}

/// Errors of one reason are joined by their names, and the time of a wait is kept by them.
#[test]
fn error_names_the_object_and_its_cause() {
    let error = |kind: &str, live: Option<Value>| {
        judge(&manifest(kind), live.as_ref().map(Observed::of).as_ref(), Mode::Update).unwrap().error
    };
    let down = error("ClusterOperator", Some(object("ClusterOperator", conditions(&[("Available", "False")]))));
    assert_eq!(
        (down.message.as_str(), down.names.as_slice()),
        ("Cluster operator it is not available", &["it".to_owned()][..])
    );
    assert_eq!(down.nested, [UpdateError::new(Reason::Other("Because".into()), "about Available")]);
    let silent = error("ClusterOperator", Some(object("ClusterOperator", json!({}))));
    assert_eq!(silent.nested, [UpdateError::new(Reason::NoCondition, "the operator reports no condition Available")]);

    let stuck = error("Deployment", Some(object("Deployment", conditions(&[("ReplicaFailure", "True")]))));
    assert_eq!(stuck.message, "deployment.apps \"ns/it\" cannot create its pods: Because: about ReplicaFailure");
    assert_eq!((stuck.names.as_slice(), stuck.nested.len()), (&["it".to_owned()][..], 1));
    let late = error("Deployment", None);
    assert_eq!((late.names, late.nested), (vec!["deployment.apps \"ns/it\"".to_owned()], vec![]));
}

#[test]
fn what_is_awaited_is_what_the_mode_does_not_pass() {
    let rolled_out = "to be rolled out: 1 replicas updated and available, no old ones left";
    let everywhere = "to be rolled out: a pod updated and available on every node it is scheduled to";
    let at_versions = "to be available, not degraded and at operator 2";
    let table = [
        ("ClusterOperator", [Some("to be available"), Some(at_versions), Some(at_versions)]),
        ("Deployment", [None, Some(rolled_out), Some("not to have failed")]),
        ("DaemonSet", [None, Some(everywhere), Some("not to have failed")]),
        ("Job", [Some("to be complete"), Some("to be complete"), Some("not to have failed")]),
        ("CustomResourceDefinition", [Some("to be established"); 3]),
        ("ConfigMap", [None; 3]),
    ];
    for (kind, expected) in table {
        assert_eq!(
            MODES.map(|mode| awaits(&manifest(kind), mode)),
            expected.map(|text| text.map(str::to_owned)),
            "{kind}"
        );
    }
}
