use super::*;
use serde_json::{Value, json};

/// Seconds after the operator was not available any more.
fn at(seconds: i64) -> String {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap().to_string()
}

fn now(seconds: i64) -> Timestamp {
    at(seconds).parse().unwrap()
}

fn report(available: &str, degraded: &str) -> OperatorReport {
    let conditions = [("Available", available), ("Degraded", degraded)].map(|(type_, status)| {
        let condition =
            json!({"type": type_, "status": status, "reason": "Why", "message": "", "lastTransitionTime": at(0)});
        serde_json::from_value(condition).unwrap()
    });
    OperatorReport { conditions: conditions.into(), ..OperatorReport::default() }
}

/// A pod of the ReplicaSet `web-1`, on a node if one is named, whose condition Ready has this status since then.
fn pod(name: &str, node: &str, ready: &str, since: i64) -> Value {
    let node = if node.is_empty() { json!({}) } else { json!({"nodeName": node}) };
    json!({
        "metadata": {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": at(since),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "r", "controller": true}]},
        "spec": node,
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": at(since)}]},
    })
}

fn with(mut pod: Value, pointer: &str, value: Value) -> Value {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    pod.pointer_mut(parent).unwrap()[key] = value;
    pod
}

fn waiting(pod: Value, reason: &str) -> Value {
    let container = json!({"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": "it cannot"}}});
    with(pod, "/status/containerStatuses", json!([container]))
}

fn of_set(pod: Value) -> Value {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "s", "controller": true}]);
    with(with(pod, "/metadata/ownerReferences", owner), "/metadata/uid", json!("new"))
}

fn kill(pod: &str, node: &str, seconds: i64) -> Value {
    json!({"metadata": {}, "type": "Normal", "reason": "Killing", "lastTimestamp": at(seconds), "source": {"host": node},
        "involvedObject": {"kind": "Pod", "name": pod, "uid": pod}})
}

fn warning(kind: &str, uid: &str, reason: &str, message: &str, seconds: i64) -> Value {
    json!({"metadata": {}, "type": "Warning", "reason": reason, "message": message, "lastTimestamp": at(seconds),
        "involvedObject": {"kind": kind, "uid": uid}})
}

/// What is found where the nodes `n1` and `n2` are being updated: the nodes and until when, or why not.
fn found(report: &OperatorReport, pods: &[Value], events: &[Value], seconds: i64) -> Result<(String, i64), String> {
    let pods: Vec<Pod> = pods.iter().map(|pod| serde_json::from_value(pod.clone()).unwrap()).collect();
    let events: Vec<Event> = events.iter().map(|event| serde_json::from_value(event.clone()).unwrap()).collect();
    let nodes = ["n1", "n2"].map(str::to_owned).into();
    let away = Away { report, pods: &pods, events: &events, nodes: &nodes, now: now(seconds) };
    let found = explained(&away)?;
    let nodes = found.nodes.into_iter().collect::<Vec<_>>().join(" ");
    Ok((nodes, found.until.duration_since(now(0)).as_secs()))
}

/// Name, pods, events, and the nodes with the time until which they explain it, or a part of what else is wrong.
type Case = (&'static str, Vec<Value>, Vec<Value>, Result<(&'static str, i64), &'static str>);

/// Of an operator that is not available since second 0, looked at after 10 s.
fn check(cases: &[Case]) {
    for (case, pods, events, expected) in cases {
        let found = found(&report("False", "False"), pods, events, 10);
        match (&found, expected) {
            (Ok((nodes, until)), Ok(expected)) => assert_eq!((nodes.as_str(), *until), *expected, "{case}"),
            (Err(cause), Err(part)) => assert!(cause.contains(part), "{case}: {cause:?}"),
            _ => panic!("{case}: {found:?}"),
        }
    }
}

#[test]
fn pods_that_had_to_leave_a_node_explain_it() {
    let away = |name| pod(name, "n1", "False", -1);
    let ending = with(
        with(pod("web-1-a", "n1", "True", -900), "/metadata/deletionTimestamp", json!(at(29))),
        "/metadata/deletionGracePeriodSeconds",
        json!(30),
    );
    let elsewhere = |name| pod(name, "n9", "False", 0);
    let nowhere = with(
        pod("web-1-b", "", "False", 0),
        "/status/conditions",
        json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "", "lastTransitionTime": at(0)}]),
    );
    check(&[
        ("the node is back from its restart, and its pods begin", vec![away("web-1-a")], vec![], Ok(("n1", 300))),
        ("it begins again where it was", vec![pod("web-1-b", "n2", "False", 0)], vec![], Ok(("n2", 300))),
        ("it is being told to end", vec![ending.clone()], vec![], Ok(("n1", 300))),
        (
            "its successor has no node yet, and nobody has said that the one before it is ended",
            vec![ending.clone(), pod("web-1-b", "", "False", 0)],
            vec![],
            Ok(("n1", 300)),
        ),
        (
            "its successor begins elsewhere",
            vec![ending, elsewhere("web-1-b")],
            vec![kill("web-1-a", "n1", -1)],
            Ok(("n1", 300)),
        ),
        ("its successor finds no node", vec![nowhere], vec![kill("web-1-a", "n1", -1)], Ok(("n1", 300))),
    ]);
}

#[test]
fn each_pod_that_is_missed_has_one_that_left_a_node() {
    let away = |name| pod(name, "n1", "False", -1);
    let elsewhere = |name| pod(name, "n9", "False", 0);
    let ended = json!({"name": "app", "image": "", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"terminated": {"exitCode": 255, "reason": "Unknown"}}});
    check(&[
        (
            "of a StatefulSet it has the same name",
            vec![of_set(elsewhere("db-0"))],
            vec![kill("db-0", "n2", -1)],
            Ok(("n2", 300)),
        ),
        (
            "of two nodes",
            vec![elsewhere("web-1-c"), elsewhere("web-1-d")],
            vec![kill("web-1-a", "n1", -1), kill("web-1-a", "n1", -1), kill("web-1-b", "n2", -2)],
            Ok(("n1 n2", 300)),
        ),
        (
            "those that work say nothing",
            vec![pod("web-1-x", "n9", "True", -900), away("web-1-a")],
            vec![],
            Ok(("n1", 300)),
        ),
        (
            "those that have ended neither",
            vec![with(elsewhere("web-1-x"), "/status/phase", json!("Succeeded")), away("web-1-a")],
            vec![],
            Ok(("n1", 300)),
        ),
        (
            "what ended with the node is no fault of the pod",
            vec![with(away("web-1-a"), "/status/containerStatuses", json!([ended]))],
            vec![],
            Ok(("n1", 300)),
        ),
        (
            "all are back, and the operator has not noticed",
            vec![pod("web-1-a", "n1", "True", 5)],
            vec![],
            Ok(("n1", 35)),
        ),
        ("the pod is gone, and its successor is not there yet", vec![], vec![kill("web-1-a", "n1", 1)], Ok(("n1", 31))),
    ]);
}

#[test]
fn anything_else_that_is_wrong_is_told_at_once() {
    let away = || pod("web-1-a", "n1", "False", -1);
    let elsewhere = |name| pod(name, "n9", "False", 0);
    check(&[
        ("no pod is missed", vec![pod("web-1-a", "n1", "True", -900)], vec![], Err("all of its pods are ready")),
        ("there is no pod", vec![], vec![], Err("all of its pods are ready")),
        ("it lacks a pod elsewhere", vec![away(), elsewhere("web-1-b")], vec![], Err("pod shop/web-1-b is not ready")),
        (
            "one more than have left the nodes",
            vec![elsewhere("web-1-c"), elsewhere("web-1-d")],
            vec![kill("web-1-a", "n1", -1)],
            Err("web-1-d"),
        ),
        ("what left ran on another node", vec![elsewhere("web-1-b")], vec![kill("web-1-a", "n8", -1)], Err("web-1-b")),
        ("what left belonged to another", vec![elsewhere("web-1-b")], vec![kill("api-1-a", "n1", -1)], Err("web-1-b")),
        ("what left did so long ago", vec![elsewhere("web-1-b")], vec![kill("web-1-a", "n1", -400)], Err("web-1-b")),
    ]);
}

#[test]
fn pod_that_is_at_fault_itself_is_told_at_once() {
    let away = || pod("web-1-a", "n1", "False", -1);
    let elsewhere = |name| pod(name, "n9", "False", 0);
    check(&[
        (
            "its image cannot be pulled",
            vec![waiting(away(), "ImagePullBackOff")],
            vec![],
            Err("ImagePullBackOff: container app: it cannot"),
        ),
        (
            "it cannot be pulled elsewhere",
            vec![waiting(elsewhere("web-1-b"), "ErrImagePull")],
            vec![kill("web-1-a", "n1", -1)],
            Err("ErrImagePull"),
        ),
        (
            "its container lacks a Secret",
            vec![waiting(away(), "CreateContainerConfigError")],
            vec![],
            Err("CreateContainerConfigError"),
        ),
        (
            "it lacks a volume",
            vec![away()],
            vec![warning("Pod", "web-1-a", "FailedMount", "configmap \"x\" not found", 1)],
            Err("FailedMount"),
        ),
        (
            "a quota forbids its pods",
            vec![away()],
            vec![warning("ReplicaSet", "r", "FailedCreate", "exceeded quota", 1)],
            Err("exceeded quota"),
        ),
        (
            "it was so before a pod left that this one, which is old, did not replace",
            vec![with(pod("web-1-b", "n1", "False", 7), "/metadata/creationTimestamp", json!(at(-900)))],
            vec![kill("web-1-a", "n1", 6)],
            Err("before its pods had to leave"),
        ),
        ("it was so before", vec![pod("web-1-a", "n1", "False", 5)], vec![], Err("before its pods had to leave")),
        (
            "it was so before a pod left that is gone",
            vec![],
            vec![kill("web-1-a", "n1", 9)],
            Err("all of its pods are ready"),
        ),
    ]);
}

#[test]
fn what_looks_like_a_fault_and_is_none_is_explained() {
    let away = || pod("web-1-a", "n1", "False", -1);
    let late = |event: Value| with(event, "/lastTimestamp", json!(at(-900)));
    check(&[
        (
            "a volume is still attached to the node that it left",
            vec![away()],
            vec![warning("Pod", "web-1-a", "FailedMount", "timed out", 1)],
            Ok(("n1", 300)),
        ),
        (
            "it has taken the place of one that had to leave the same node",
            vec![pod("web-1-b", "n1", "False", 5)],
            vec![kill("web-1-a", "n1", -1)],
            Ok(("n1", 300)),
        ),
        (
            "the node told late that it ended the one before",
            vec![with(pod("web-1-b", "n9", "False", 7), "/metadata/creationTimestamp", json!(at(0)))],
            vec![kill("web-1-a", "n1", 6)],
            Ok(("n1", 300)),
        ),
        (
            "it told so late of the one before on the same node",
            vec![with(pod("web-1-b", "n1", "False", 7), "/metadata/creationTimestamp", json!(at(0)))],
            vec![kill("web-1-a", "n1", 6)],
            Ok(("n1", 300)),
        ),
        (
            "it is deleted because its image could not be pulled",
            vec![{
                let mut pod = waiting(away(), "ImagePullBackOff");
                pod["metadata"]["deletionTimestamp"] = json!(at(30));
                pod
            }],
            vec![warning("Pod", "web-1-a", "BackOff", "no such image", 1)],
            Ok(("n1", 300)),
        ),
        (
            "the quota was raised",
            vec![away()],
            vec![late(warning("ReplicaSet", "r", "FailedCreate", "exceeded quota", 1))],
            Ok(("n1", 300)),
        ),
    ]);
}

#[test]
fn operator_that_says_more_than_that_it_is_not_available_is_told_at_once() {
    let pods = [pod("web-1-a", "n1", "False", -1)];
    assert_eq!(found(&report("False", "False"), &pods, &[], 10), Ok(("n1".into(), 300)));
    assert!(found(&report("False", "True"), &pods, &[], 10).unwrap_err().contains("degraded: Why"));
    for available in ["True", "Unknown"] {
        assert!(found(&report(available, "False"), &pods, &[], 10).is_err(), "{available}");
    }
    assert!(found(&OperatorReport::default(), &pods, &[], 10).is_err());
}

#[test]
fn nodes_explain_it_for_five_minutes() {
    let away = [pod("web-1-a", "n1", "False", -1)];
    let back = [pod("web-1-a", "n1", "True", 290)];
    for (pods, seconds, expected) in [
        (&away, 299, Some(300)),
        (&away, 300, None),
        // It is given the time to notice, but no more than that.
        (&back, 295, Some(300)),
        (&back, 300, None),
    ] {
        let found = found(&report("False", "False"), pods, &[], seconds);
        assert_eq!(found.ok().map(|(_, until)| until), expected, "{seconds}");
    }
    let noticed = [pod("web-1-a", "n1", "True", 100)];
    for (seconds, expected) in [(129, true), (130, false)] {
        assert_eq!(found(&report("False", "False"), &noticed, &[], seconds).is_ok(), expected, "{seconds}");
    }
    // By a clock that is ahead it is not available since now.
    assert_eq!(found(&report("False", "False"), &away, &[], -60).map(|(_, until)| until), Ok(240));
}

#[test]
fn nodes_that_a_pool_has_told_are_being_updated() {
    let node = |annotations: Value| {
        let annotations: Value = annotations
            .as_object()
            .unwrap()
            .iter()
            .map(|(key, value)| (format!("machineconfiguration.openshift.io/{key}"), value.clone()))
            .collect();
        let node = json!({"metadata": {"name": "n", "annotations": annotations}});
        NodeSummary::of(&serde_json::from_value(node).unwrap())
    };
    for (annotations, expected) in [
        (json!({}), false),
        (json!({"currentConfig": "a", "desiredConfig": "a", "state": "Done"}), false),
        (json!({"currentConfig": "a", "desiredConfig": "b", "state": "Done"}), true),
        (json!({"currentConfig": "a", "desiredConfig": "b", "state": "Working"}), true),
        // Nothing brings its pods back before somebody has looked at it.
        (json!({"currentConfig": "a", "desiredConfig": "b", "state": "Degraded"}), false),
        (json!({"currentConfig": "a", "desiredConfig": "a", "state": "Done", "doneSince": at(0)}), true),
        (json!({"currentConfig": "a", "desiredConfig": "a", "state": "Done", "doneSince": at(-60)}), false),
        // No agent has been there.
        (json!({"desiredConfig": "b"}), false),
    ] {
        assert_eq!(updating(&[node(annotations.clone())], now(0)).contains("n"), expected, "{annotations}");
    }
}

#[test]
fn namespaces_are_those_of_related_objects() {
    let related = |resource: &str, namespace: &str, name: &str| RelatedObject {
        resource: resource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..RelatedObject::default()
    };
    let objects = [
        related("namespaces", "", "shop"),
        related("deployments", "back", "web"),
        related("deployments", "", "web"),
        related("configmaps", "config", "settings"),
    ];
    assert_eq!(namespaces(&objects), ["back", "shop"].map(str::to_owned).into());
}
