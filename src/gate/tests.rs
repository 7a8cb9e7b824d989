//! Tables of verdicts for each kind, and properties of the view that an index keeps.

use super::{Cause, Observed, Verdict, gated};
use proptest::prelude::*;
use serde_json::{Value, json};

fn judge(desired: &Value, live: Option<&Value>) -> Verdict {
    super::judge(&Observed::of(desired), live.map(Observed::of).as_ref())
}

/// The verdict as `ready`, `failing REASON` or `waiting REASON`. The object decoded from its text must give the same.
fn verdict(desired: &Value, live: Option<&Value>) -> String {
    let verdict = judge(desired, live);
    if let Some(live) = live {
        let read = Observed::read(live.to_string().as_bytes()).unwrap_or_default();
        let of_text = super::judge(&Observed::of(desired), Some(&read));
        assert_eq!(of_text, verdict, "{live} decoded from its text has another verdict");
    }
    match verdict {
        Verdict::Ready => "ready".into(),
        Verdict::Failing { reason, .. } => format!("failing {}", reason.as_str()),
        Verdict::Waiting { reason, .. } => format!("waiting {}", reason.as_str()),
    }
}

fn conditions(pairs: &[(&str, &str, &str)]) -> Value {
    let entry =
        |(t, s, r): &(&str, &str, &str)| json!({"type": t, "status": s, "reason": r, "message": format!("about {t}")});
    pairs.iter().map(entry).collect()
}

fn operator(pairs: &[(&str, &str, &str)], versions: Value) -> Value {
    json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": "net"},
        "status": {"conditions": conditions(pairs), "versions": versions, "relatedObjects": [{"name": "x"}], "extension": {"a": 1}},
    })
}

const UP: (&str, &str, &str) = ("Available", "True", "AsExpected");
const FINE: (&str, &str, &str) = ("Degraded", "False", "AsExpected");

#[test]
fn cluster_operator_conditions_and_versions() {
    let desired = operator(&[], json!([{"name": "operator", "version": "2"}, {"name": "dns", "version": "7"}]));
    let at =
        |operator: &str, dns: &str| json!([{"name": "operator", "version": operator}, {"name": "dns", "version": dns}]);
    let good = at("2", "7");
    let (ready, late) = ("ready", "waiting OtherVersions");
    let (silent, down, bad) = ("failing AvailabilityUnknown", "failing NotAvailable", "failing Degraded");
    let table = [
        ("all well", operator(&[UP, FINE], good.clone()), ready),
        (
            "extra versions",
            operator(
                &[UP, FINE],
                json!([{"name": "x", "version": "1"}, {"name": "operator", "version": "2"}, {"name": "dns", "version": "7"}]),
            ),
            ready,
        ),
        (
            "progressing and not upgradeable",
            operator(&[UP, FINE, ("Progressing", "True", ""), ("Upgradeable", "False", "")], good.clone()),
            ready,
        ),
        ("unavailable", operator(&[("Available", "False", "Gone"), FINE], good.clone()), down),
        ("unknown whether available", operator(&[("Available", "Unknown", ""), FINE], good.clone()), silent),
        ("no Available", operator(&[FINE], good.clone()), silent),
        ("no status", json!({"metadata": {"name": "net"}}), silent),
        (
            "unavailable and degraded and late",
            operator(&[("Available", "False", ""), ("Degraded", "True", "")], at("1", "7")),
            down,
        ),
        ("degraded", operator(&[UP, ("Degraded", "True", "Sick")], good.clone()), bad),
        ("unknown whether degraded", operator(&[UP, ("Degraded", "Unknown", "")], good.clone()), bad),
        ("no Degraded", operator(&[UP], good.clone()), bad),
        ("degraded and late", operator(&[UP, ("Degraded", "True", "")], at("1", "7")), bad),
        ("one version late", operator(&[UP, FINE], at("2", "6")), late),
        ("one version missing", operator(&[UP, FINE], json!([{"name": "operator", "version": "2"}])), late),
        ("exact text", operator(&[UP, FINE], at("2 ", "7")), late),
        (
            "first entry counts",
            operator(
                &[UP, FINE],
                json!([{"name": "operator", "version": "1"}, {"name": "operator", "version": "2"}, {"name": "dns", "version": "7"}]),
            ),
            late,
        ),
    ];
    for (what, live, expected) in &table {
        assert_eq!(verdict(&desired, Some(live)), *expected, "{what}");
    }
}

#[test]
fn cluster_operator_must_exist_and_declare_versions() {
    let versions = json!([{"name": "operator", "version": "2"}]);
    let desired = operator(&[], versions.clone());
    assert_eq!(verdict(&desired, None), "failing NotFound");
    for none in [json!([]), json!(null), json!("2")] {
        let desired = operator(&[], none);
        let live = operator(&[UP, FINE], versions.clone());
        assert_eq!(verdict(&desired, Some(&live)), "failing NoVersions");
    }
}

#[test]
fn operator_error_names_operator_and_cause() {
    let desired = operator(&[], json!([{"name": "operator", "version": "2"}]));
    let failure = |live: &Value| match judge(&desired, Some(live)) {
        Verdict::Failing { message, cause, .. } => (message, cause.unwrap()),
        other => panic!("{other:?}"),
    };
    let (message, cause) = failure(&operator(&[("Available", "False", "Gone")], json!([])));
    assert_eq!(message, "Cluster operator net is not available");
    assert_eq!(cause, Cause { reason: Some("Gone".into()), message: "about Available".into() });

    let (message, cause) = failure(&operator(&[UP], json!([])));
    assert_eq!(message, "Cluster operator net is degraded");
    assert_eq!(cause, Cause { reason: None, message: "the operator reports no condition Degraded".into() });

    let live = operator(&[UP, FINE], json!([{"name": "operator", "version": "1"}]));
    let Verdict::Waiting { message, .. } = judge(&desired, Some(&live)) else { panic!("not waiting") };
    assert!(message.contains("operator is at 1, not 2"), "{message}");
}

/// A Deployment whose controller has observed generation `observed` of 3.
fn deployment(observed: Value, counts: [i64; 4], pairs: &[(&str, &str, &str)]) -> Value {
    let [desired, updated, total, available] = counts;
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ns", "generation": 3, "managedFields": [1], "labels": {"a": "b"}},
        "spec": {"replicas": desired, "template": {"spec": {}}},
        "status": {"observedGeneration": observed, "updatedReplicas": updated, "replicas": total, "availableReplicas": available, "conditions": conditions(pairs)},
    })
}

#[test]
fn deployment_conditions_and_generations() {
    let desired = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"}});
    let done = ("Progressing", "True", "NewReplicaSetAvailable");
    let going = ("Progressing", "True", "ReplicaSetUpdated");
    let stuck = ("Progressing", "False", "ProgressDeadlineExceeded");
    let (up, down) = (("Available", "True", "Min"), ("Available", "False", "Min"));
    let refused = ("ReplicaFailure", "True", "FailedCreate");
    let (rolling, not_observed) = ("waiting RollingOut", "waiting NotObserved");
    let (not_progressing, unavailable) = ("failing NotProgressing", "failing NotAvailable");
    let mut deleting = deployment(json!(3), [2, 2, 2, 2], &[up, done]);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let mut one_by_default = deployment(json!(3), [0, 0, 0, 0], &[done]);
    one_by_default["spec"].as_object_mut().unwrap().remove("replicas");
    let table = [
        ("complete", deployment(json!(3), [2, 2, 2, 2], &[up, done]), "ready"),
        ("ahead", deployment(json!(4), [2, 2, 2, 2], &[up, done]), "ready"),
        ("no deadline, no condition", deployment(json!(3), [2, 2, 2, 2], &[up]), "ready"),
        ("scaled to nothing", deployment(json!(3), [0, 0, 0, 0], &[up, done]), "ready"),
        ("one replica by default", one_by_default, rolling),
        ("generation behind", deployment(json!(2), [2, 2, 2, 2], &[up, done]), not_observed),
        ("never observed", deployment(json!(null), [2, 0, 0, 0], &[]), not_observed),
        (
            "the old failure, generation behind",
            deployment(json!(2), [2, 2, 2, 2], &[stuck, refused, down]),
            not_observed,
        ),
        ("not all updated", deployment(json!(3), [2, 1, 2, 2], &[up, done]), rolling),
        ("old ones left", deployment(json!(3), [2, 2, 3, 2], &[up, done]), rolling),
        ("not all available", deployment(json!(3), [2, 2, 2, 1], &[up, done]), rolling),
        ("condition still progressing", deployment(json!(3), [2, 2, 2, 2], &[up, going]), rolling),
        ("unavailable but progressing", deployment(json!(3), [2, 2, 2, 0], &[down, going]), rolling),
        ("replica failure", deployment(json!(3), [2, 2, 2, 2], &[up, done, refused]), not_progressing),
        ("deadline", deployment(json!(3), [2, 1, 2, 1], &[up, stuck]), not_progressing),
        (
            "replica failure before availability",
            deployment(json!(3), [2, 1, 2, 1], &[down, stuck, refused]),
            not_progressing,
        ),
        ("unavailable, deadline", deployment(json!(3), [2, 1, 2, 0], &[down, stuck]), unavailable),
        (
            "unavailable, stopped",
            deployment(json!(3), [2, 1, 2, 0], &[down, ("Progressing", "False", "X")]),
            unavailable,
        ),
        (
            "stopped for another reason",
            deployment(json!(3), [2, 1, 2, 1], &[up, ("Progressing", "False", "X")]),
            rolling,
        ),
        ("deleting", deleting, "failing Deleting"),
    ];
    for (what, live, expected) in &table {
        assert_eq!(verdict(&desired, Some(live)), *expected, "{what}");
    }
}

#[test]
fn deployment_of_an_operator_is_ready_while_replicas_are_missing_and_fails_at_its_deadline() {
    let available = ("Available", "True", "MinimumReplicasAvailable");
    let late = ("Progressing", "False", "ProgressDeadlineExceeded");
    let gone = ("Available", "False", "MinimumReplicasUnavailable");
    for (observed, counts, pairs, expected) in [
        // Desired, updated, all and available replicas.
        (json!(3), [2, 2, 2, 1], vec![available], "ready"),
        (json!(3), [0, 0, 0, 0], vec![available], "ready"),
        (json!(3), [2, 2, 3, 2], vec![available], "waiting RollingOut"),
        (json!(3), [2, 2, 2, 1], vec![gone], "waiting RollingOut"),
        (json!(3), [2, 2, 2, 1], vec![], "waiting RollingOut"),
        (json!(0), [2, 2, 2, 2], vec![available], "waiting NotObserved"),
        (json!(3), [2, 2, 2, 1], vec![available, late], "failing NotProgressing"),
        // Only that it has not begun: the deadline of an older generation says nothing.
        (json!(0), [2, 2, 2, 1], vec![gone, late], "waiting NotObserved"),
    ] {
        let live = deployment(observed, counts, &pairs);
        let verdict = match super::judge_operator(&Observed::of(&live), Some(&Observed::of(&live))) {
            Verdict::Ready => "ready".to_owned(),
            Verdict::Failing { reason, .. } => format!("failing {}", reason.as_str()),
            Verdict::Waiting { reason, .. } => format!("waiting {}", reason.as_str()),
        };
        assert_eq!(verdict, expected, "{live}");
    }
}

#[test]
fn deployment_error_names_object_and_cause() {
    let desired = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d", "namespace": "ns"}});
    let stuck = ("Progressing", "False", "ProgressDeadlineExceeded");
    assert_eq!(verdict(&desired, None), "waiting NotFound");

    let live = deployment(json!(3), [2, 1, 2, 1], &[("Available", "True", "Min"), stuck]);
    let Verdict::Failing { message, cause, .. } = judge(&desired, Some(&live)) else { panic!("not failing") };
    assert_eq!(
        message,
        "deployment.apps \"ns/d\" made no progress within its deadline: ProgressDeadlineExceeded: about Progressing"
    );
    let reason = Some("ProgressDeadlineExceeded".into());
    assert_eq!(cause, Some(Cause { reason, message: "about Progressing".into() }));
}

#[test]
fn daemon_set_generation_and_counts() {
    let desired = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d", "namespace": "ns"}});
    let live = |observed: i64, desired: i64, updated: i64, available: i64, strategy: &str| {
        json!({
            "metadata": {"name": "d", "namespace": "ns", "generation": 3}, "spec": {"updateStrategy": {"type": strategy}},
            "status": {"observedGeneration": observed, "desiredNumberScheduled": desired, "updatedNumberScheduled": updated, "numberAvailable": available},
        })
    };
    let (rolling, not_observed) = ("waiting RollingOut", "waiting NotObserved");
    let mut deleting = live(3, 2, 2, 2, "RollingUpdate");
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let table = [
        (live(3, 2, 2, 2, "RollingUpdate"), "ready"),
        (live(3, 0, 0, 0, "RollingUpdate"), "ready"),
        (live(3, 2, 1, 2, "RollingUpdate"), rolling),
        (live(3, 2, 2, 1, "RollingUpdate"), rolling),
        (live(2, 2, 2, 2, "RollingUpdate"), not_observed),
        (live(3, 2, 0, 2, "OnDelete"), "ready"),
        (live(3, 2, 0, 1, "OnDelete"), rolling),
        (deleting, "failing Deleting"),
    ];
    for (live, expected) in &table {
        assert_eq!(verdict(&desired, Some(live)), *expected, "{live}");
    }
}

#[test]
fn job_conditions_and_counts() {
    let desired = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j", "namespace": "ns"}});
    let live = |pairs: &[(&str, &str, &str)], completions: Value, [active, succeeded, failed]: [i64; 3]| {
        json!({
            "metadata": {"name": "j", "namespace": "ns"}, "spec": {"completions": completions},
            "status": {"conditions": conditions(pairs), "active": active, "succeeded": succeeded, "failed": failed, "uncountedTerminatedPods": {"failed": ["u"]}},
        })
    };
    let (running, failed) = ("waiting Running", "failing JobFailed");
    let mut deleting = live(&[], json!(1), [0, 0, 0]);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let table = [
        (live(&[("Complete", "True", "")], json!(1), [0, 1, 0]), "ready"),
        (live(&[], json!(1), [0, 1, 0]), "ready"),
        (live(&[], json!(2), [1, 1, 0]), running),
        (live(&[], json!(null), [1, 1, 0]), running),
        (live(&[], json!(1), [1, 0, 0]), running),
        // Between two attempts.
        (live(&[], json!(1), [0, 0, 2]), running),
        (live(&[("FailureTarget", "True", "")], json!(1), [1, 0, 2]), running),
        (live(&[("Failed", "False", "")], json!(1), [1, 0, 0]), running),
        (live(&[("Failed", "True", "DeadlineExceeded")], json!(1), [0, 0, 1]), failed),
        (live(&[("Failed", "True", "BackoffLimitExceeded")], json!(1), [0, 0, 7]), failed),
        (json!({}), running),
        (deleting, "waiting Deleting"),
    ];
    for (live, expected) in &table {
        assert_eq!(verdict(&desired, Some(live)), *expected, "{live}");
    }
    let message = |reason: &str| {
        let live = live(&[("Failed", "True", reason)], json!(1), [0, 0, 1]);
        match judge(&desired, Some(&live)) {
            Verdict::Failing { message, .. } => message,
            other => panic!("{other:?}"),
        }
    };
    assert!(message("BackoffLimitExceeded").ends_with("BackoffLimitExceeded: about Failed"));
    assert!(message("").ends_with("DeadlineExceeded: about Failed"));
}

#[test]
fn definition_without_conditions_waits() {
    let desired = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "xs.y"}});
    let live = |pairs: &[(&str, &str, &str)]| json!({"metadata": {"name": "xs.y"}, "status": {"conditions": conditions(pairs)}});
    let (up, named) = (("Established", "True", ""), ("NamesAccepted", "True", ""));
    let clash = ("NamesAccepted", "False", "PluralConflict");
    let mut deleting = live(&[up, named]);
    deleting["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    let table = [
        (Some(live(&[up, named])), "ready"),
        (Some(live(&[up])), "ready"),
        (Some(live(&[])), "waiting NotEstablished"),
        (Some(json!({})), "waiting NotEstablished"),
        (Some(live(&[("Established", "False", "Installing"), named])), "waiting NotEstablished"),
        (Some(live(&[("Established", "Unknown", ""), named])), "waiting NotEstablished"),
        (Some(live(&[("Established", "False", "NotAccepted"), clash])), "failing NamesNotAccepted"),
        (Some(live(&[up, clash])), "failing NamesNotAccepted"),
        (Some(deleting), "waiting Deleting"),
        (None, "waiting NotFound"),
    ];
    for (live, expected) in &table {
        assert_eq!(verdict(&desired, live.as_ref()), *expected, "{live:?}");
    }
}

/// It holds up no update by itself, and is judged only where the daemon reports its component.
#[test]
fn stateful_set_is_reported_and_has_no_gate() {
    let desired =
        json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "db", "namespace": "ns"}});
    let live = |strategy: Value, observed: i64, updated: i64, available: i64| {
        let mut live = desired.clone();
        live["metadata"]["generation"] = json!(2);
        live["spec"] = json!({"replicas": 3, "updateStrategy": strategy});
        live["status"] =
            json!({"observedGeneration": observed, "updatedReplicas": updated, "availableReplicas": available});
        live
    };
    let rolling = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}});
    let partition = json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 2}});
    let on_delete = json!({"type": "OnDelete"});
    for (live, expected) in [
        (None, "NotFound"),
        (Some(live(rolling.clone(), 1, 3, 3)), "NotObserved"),
        (Some(live(rolling.clone(), 2, 2, 3)), "RollingOut"),
        (Some(live(rolling.clone(), 2, 3, 2)), "RollingOut"),
        (Some(live(rolling, 2, 3, 3)), ""),
        (Some(live(partition.clone(), 2, 0, 3)), "RollingOut"),
        (Some(live(partition, 2, 1, 3)), ""),
        (Some(live(on_delete.clone(), 2, 0, 3)), ""),
        (Some(live(on_delete, 2, 0, 2)), "RollingOut"),
    ] {
        let verdict = super::reported::judge(&Observed::of(&desired), live.as_ref().map(Observed::of).as_ref());
        let reason = match &verdict {
            Verdict::Waiting { reason, .. } => reason.as_str(),
            Verdict::Ready => "",
            Verdict::Failing { .. } => "failing",
        };
        assert_eq!(reason, expected, "{live:?}");
        assert_eq!(judge(&desired, live.as_ref()), Verdict::Ready);
    }
    assert!(!gated("apps", "StatefulSet"));
}

#[test]
fn kinds_without_a_gate_are_always_ready() {
    for (version, kind) in
        [("v1", "ConfigMap"), ("example.com/v1", "ClusterOperator"), ("example.com/v1", "Deployment"), ("v1", "Job")]
    {
        let desired = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}});
        let group = version.split_once('/').map_or("", |(group, _)| group);
        assert!(!gated(group, kind));
        assert_eq!(verdict(&desired, None), "ready", "{version} {kind}");
    }
    assert!(gated("apps", "Deployment") && gated("config.openshift.io", "ClusterOperator") && gated("batch", "Job"));
    assert_eq!(judge(&json!(null), Some(&json!(7))), Verdict::Ready);
}

#[test]
fn only_what_gates_read_is_kept_and_nothing_large() {
    let live = deployment(json!(3), [2, 2, 2, 2], &[UP]);
    let without = |object: &Value, part: &str, keys: [&str; 2]| {
        let mut object = object.clone();
        keys.iter().for_each(|key| drop(object[part].as_object_mut().unwrap().remove(*key)));
        Observed::of(&object)
    };
    assert_eq!(without(&live, "metadata", ["managedFields", "labels"]), Observed::of(&live));
    assert_eq!(without(&live, "spec", ["template", "none"]), Observed::of(&live));
    for (pointer, other) in [
        ("/metadata/name", json!("e")),
        ("/metadata/namespace", json!("other")),
        ("/metadata/generation", json!(4)),
        ("/kind", json!("DaemonSet")),
        ("/spec/replicas", json!(3)),
        ("/status/conditions", json!([])),
        ("/status/replicas", json!(7)),
        ("/status/updatedReplicas", json!(7)),
        ("/status/availableReplicas", json!(7)),
        ("/status/observedGeneration", json!(7)),
    ] {
        let mut changed = live.clone();
        *changed.pointer_mut(pointer).unwrap() = other;
        assert_ne!(Observed::of(&changed), Observed::of(&live), "{pointer}");
    }
    let operator = operator(&[UP], json!([]));
    assert_eq!(without(&operator, "status", ["relatedObjects", "extension"]), Observed::of(&operator));
    assert_ne!(without(&operator, "status", ["conditions", "versions"]), Observed::of(&operator));
    assert_eq!(Observed::of(&json!("nonsense")), Observed::default());
}

/// Objects with the keys that gates read and any values.
fn any_live() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(vec![
        "",
        "True",
        "False",
        "Unknown",
        "NewReplicaSetAvailable",
        "ProgressDeadlineExceeded",
        "OnDelete",
    ]);
    let type_ = prop::sample::select(vec![
        "Available",
        "Degraded",
        "Progressing",
        "ReplicaFailure",
        "Complete",
        "Failed",
        "Established",
        "NamesAccepted",
    ]);
    let leaf = prop_oneof![
        Just(json!(null)),
        any::<i64>().prop_map(Value::from),
        (0..4i64).prop_map(Value::from),
        word.clone().prop_map(Value::from)
    ];
    let key = prop::sample::select(vec![
        "observedGeneration",
        "generation",
        "replicas",
        "updatedReplicas",
        "availableReplicas",
        "desiredNumberScheduled",
        "updatedNumberScheduled",
        "numberAvailable",
        "succeeded",
        "failed",
        "active",
        "completions",
        "deletionTimestamp",
        "name",
        "relatedObjects",
        "conditions",
        "type",
    ]);
    let map = prop::collection::btree_map(key, leaf, 0..8).prop_map(|map| json!(map));
    let condition = (type_, word.clone(), word).prop_map(|(t, s, r)| json!({"type": t, "status": s, "reason": r}));
    (map.clone(), map.clone(), map, prop::collection::vec(condition, 0..5)).prop_map(
        |(metadata, spec, mut status, list)| {
            if !list.is_empty() {
                status["conditions"] = list.into();
            }
            json!({"metadata": metadata, "spec": spec, "status": status})
        },
    )
}

proptest! {
    // A failure prints its smallest input; no file is written.
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// The function `verdict` compares the verdicts on the object and on its text. No content of an object makes a gate panic.
    #[test]
    fn text_has_the_same_verdict_as_the_decoded_object(live in any_live(), spoilt in any::<bool>()) {
        let kinds = [("config.openshift.io/v1", "ClusterOperator"), ("apps/v1", "Deployment"), ("apps/v1", "DaemonSet"), ("batch/v1", "Job"), ("apiextensions.k8s.io/v1", "CustomResourceDefinition")];
        let live = if spoilt { live["status"].clone() } else { live };
        for (version, kind) in kinds {
            let desired = json!({"apiVersion": version, "kind": kind, "metadata": {"name": "x"}, "status": {"versions": [{"name": "operator", "version": "1"}]}});
            prop_assert!(!verdict(&desired, Some(&live)).is_empty());
        }
    }
}
