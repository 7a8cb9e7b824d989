use super::*;
use serde_json::{Value, json};

fn pod(status: Value) -> Pod {
    let metadata = json!({"name": "web-1", "namespace": "shop", "uid": "u1"});
    serde_json::from_value(json!({"metadata": metadata, "status": status})).unwrap()
}

fn events(reason: &str, uid: &str) -> Vec<Event> {
    let event = |at: &str, message: &str| json!({"metadata": {}, "type": "Warning", "reason": reason, "message": message, "lastTimestamp": at, "involvedObject": {"uid": uid}});
    let normal = json!({"metadata": {}, "type": "Normal", "reason": "Pulled", "message": "no", "lastTimestamp": "2026-01-01T03:00:00Z",
        "involvedObject": {"uid": uid}});
    let all = json!([event("2026-01-01T00:00:00Z", "older"), event("2026-01-01T01:00:00Z", "newer"), normal]);
    serde_json::from_value(all).unwrap()
}

fn told(status: Value, events: &[Event]) -> Option<String> {
    trouble(&pod(status), events, Timestamp::UNIX_EPOCH).map(|trouble| {
        assert_eq!(trouble.object, "pod shop/web-1");
        format!("{} → {}", trouble.message, trouble.next_step.split([':', ',', ';']).next().unwrap())
    })
}

fn container(state: Value, last: Value, restarts: i32) -> Value {
    json!({"name": "app", "image": "i", "imageID": "", "ready": false, "restartCount": restarts, "state": state, "lastState": last})
}

/// Status of a pod, reason of its events, and what is told.
fn check(cases: &[(Value, &str, Option<&str>)]) {
    for (status, reason, expected) in cases {
        let events = |uid: &str| if reason.is_empty() { Vec::new() } else { self::events(reason, uid) };
        assert_eq!(told(status.clone(), &events("u1")).as_deref(), *expected, "{status}");
        // Events of others are not its own.
        if !reason.is_empty() && expected.is_some() {
            assert_ne!(told(status.clone(), &events("u2")).as_deref(), *expected);
        }
    }
}

#[test]
fn cause_is_named_with_its_next_step() {
    let pull = container(
        json!({"waiting": {"reason": "ImagePullBackOff", "message": "Back-off pulling image \"r.example/x\""}}),
        json!({}),
        0,
    );
    let crash = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error", "message": "no such table\n"}});
    let dated = json!({"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}});
    let killed = json!({"terminated": {"exitCode": 137, "reason": "OOMKilled"}});
    let cases = [
        (
            json!({"phase": "Pending", "containerStatuses": [pull]}),
            "",
            Some(
                "ImagePullBackOff: container app: Back-off pulling image \"r.example/x\" → Make the image pullable from the node",
            ),
        ),
        (
            json!({"phase": "Running", "containerStatuses": [container(crash.clone(), ended.clone(), 4)]}),
            "",
            Some(
                "CrashLoopBackOff: container app has ended 4 times, last with exit code 3: no such table → Read why it ends",
            ),
        ),
        (
            json!({"phase": "Running", "containerStatuses": [container(crash, killed, 2)]}),
            "",
            Some(
                "OOMKilled: container app has ended 2 times, last with exit code 137 (OOMKilled) → Raise the memory limit of the container",
            ),
        ),
        (
            json!({"phase": "Pending", "initContainerStatuses": [container(ended, json!({}), 0)]}),
            "",
            Some("Error: container app has ended with exit code 3: no such table → Read why it ends"),
        ),
        (
            json!({"phase": "Failed", "containerStatuses": [container(dated, json!({}), 0)]}),
            "",
            Some("Error: container app has ended at 2026-01-01T00:00:00Z with exit code 3 → Read why it ends"),
        ),
    ];
    check(&cases);
}

#[test]
fn previous_log_is_named_only_where_there_is_one() {
    let ended = json!({"terminated": {"exitCode": 3, "reason": "Error"}});
    let crash = json!({"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 40s"}});
    for (container, expected) in [
        (container(ended.clone(), json!({}), 0), "kubectl -n shop logs web-1 -c app"),
        (container(crash.clone(), json!({}), 0), "kubectl -n shop logs web-1 -c app"),
        (container(crash, ended.clone(), 1), "kubectl -n shop logs web-1 -c app --previous"),
        (container(ended.clone(), ended, 1), "kubectl -n shop logs web-1 -c app --previous"),
    ] {
        let status = json!({"phase": "Running", "containerStatuses": [container]});
        let step = trouble(&pod(status.clone()), &[], Timestamp::UNIX_EPOCH).unwrap().next_step;
        assert!(step.ends_with(&format!(": {expected}")), "{step} of {status}");
    }
}

#[test]
fn pod_whose_containers_have_not_begun_is_explained_by_conditions_and_events() {
    let running = container(json!({"running": {}}), json!({}), 0);
    let unready = json!([{"type": "Ready", "status": "False", "reason": "ContainersNotReady", "message": "containers with unready status: [app]"}]);
    let full = json!([{"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/3 nodes are available"}]);
    let cases = [
        (
            json!({"phase": "Pending", "conditions": full}),
            "",
            Some("Unschedulable: 0/3 nodes are available → Make room"),
        ),
        (json!({"phase": "Pending"}), "FailedMount", Some("FailedMount: newer → Create the volume")),
        (
            json!({"phase": "Running", "conditions": unready, "containerStatuses": [running]}),
            "Unhealthy",
            Some("Unhealthy: newer → Find out why its probe fails"),
        ),
        (
            json!({"phase": "Failed", "reason": "Evicted", "message": "The node was low on resource: memory"}),
            "",
            Some("Evicted: The node was low on resource: memory → Make room on the node"),
        ),
        (
            json!({"phase": "Pending", "containerStatuses": [container(json!({"waiting": {"reason": "ContainerCreating"}}), json!({}), 0)]}),
            "",
            None,
        ),
        (json!({"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}), "Unhealthy", None),
        (json!({"phase": "Succeeded"}), "BackOff", None),
    ];
    check(&cases);
}

#[test]
fn each_reason_is_in_one_row_and_unknown_ones_have_a_step() {
    let all: Vec<&str> = STEPS.iter().flat_map(|(reasons, ..)| reasons.iter().copied()).collect();
    let distinct: std::collections::BTreeSet<&str> = all.iter().copied().collect();
    assert_eq!(all.len(), distinct.len());
    assert_eq!(step("SomethingNew"), STEP);
}

#[test]
fn pod_that_does_not_end_is_told_of_when_its_time_is_over() {
    let metadata = json!({"name": "web-1", "namespace": "shop", "deletionTimestamp": "2026-01-01T00:00:00Z"});
    let pod: Pod = serde_json::from_value(json!({"metadata": metadata, "status": {"phase": "Running"}})).unwrap();
    let at = |text: &str| trouble(&pod, &[], text.parse().unwrap());
    assert_eq!(at("2026-01-01T00:00:30Z"), None);
    assert!(at("2026-01-01T00:00:31Z").unwrap().message.starts_with("Deleting: it was to have ended at 2026-01-01"));
}

#[test]
fn pod_that_its_node_does_not_begin_with_is_told_of_with_the_node() {
    let pod = |status: Value| -> Pod {
        let (metadata, spec) =
            (json!({"name": "web-1", "namespace": "shop"}), json!({"nodeName": "n1", "containers": []}));
        serde_json::from_value(json!({"metadata": metadata, "spec": spec, "status": status})).unwrap()
    };
    let scheduled = json!([{"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]);
    let waits = pod(json!({"phase": "Pending", "conditions": scheduled}));
    let at = |pod: &Pod, text: &str| trouble(pod, &[], text.parse().unwrap());
    assert_eq!(at(&waits, "2026-01-01T00:00:30Z"), None);
    let told = at(&waits, "2026-01-01T00:00:31Z").unwrap();
    assert!(told.message.starts_with("NotBegun: node n1 has had it since 2026-01-01T00:00:00Z"), "{}", told.message);
    assert!(told.next_step.starts_with("Bring the node back"), "{}", told.next_step);
    // Its kubelet knows of it.
    let begun = pod(json!({"phase": "Pending", "conditions": scheduled, "startTime": "2026-01-01T00:00:01Z"}));
    assert_eq!(at(&begun, "2026-01-01T00:09:00Z"), None);
}
