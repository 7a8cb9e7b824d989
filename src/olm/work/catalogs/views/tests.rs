use super::*;
use serde_json::Value;

/// A pod with this status, and with more of its metadata.
fn pod(status: Value, more: &Value) -> PodSeen {
    let mut object = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "main-a", "namespace": "shop", "uid": "u"},
        "spec": {"containers": [{"name": "registry-server", "image": "r/a:1"}]}, "status": status});
    if let (Some(metadata), Some(more)) = (object["metadata"].as_object_mut(), more.as_object()) {
        metadata.extend(more.clone());
    }
    CatalogPodView::of(serde_json::from_value(object).unwrap()).seen
}

fn with_condition(type_: &str, status: &str, message: &str) -> Value {
    json!({"phase": "Running", "conditions": [{"type": type_, "status": status, "message": message}]})
}

#[test]
fn pod_that_ends_or_is_to_be_evicted_is_seen_as_such() {
    let none = json!({});
    let ready = pod(with_condition("Ready", "True", ""), &none);
    assert_eq!((ready.ready, ready.ended, ready.disrupted, ready.terminating), (true, false, false, false));
    let deleted = pod(with_condition("Ready", "True", ""), &json!({"deletionTimestamp": "2026-01-01T00:00:00Z"}));
    assert_eq!((deleted.ready, deleted.terminating), (false, true));
    for (phase, ended) in
        [("Pending", false), ("Running", false), ("Unknown", false), ("Failed", true), ("Succeeded", true)]
    {
        assert_eq!(pod(json!({"phase": phase}), &none).ended, ended, "{phase}");
    }
    assert!(pod(with_condition("DisruptionTarget", "True", ""), &none).disrupted);
    assert!(!pod(with_condition("DisruptionTarget", "False", ""), &none).disrupted);
}

#[test]
fn what_a_pod_waits_for_is_told_with_its_reason() {
    let waiting = |reason: &str, message: &str| {
        json!([{"name": "c", "image": "r/a:1", "imageID": "", "ready": false, "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": message}}}])
    };
    let problem = |status: Value| pod(status, &json!({})).problem;
    for (status, expected) in [
        (json!({}), None),
        (json!({"containerStatuses": waiting("ContainerCreating", "")}), None),
        (json!({"initContainerStatuses": waiting("PodInitializing", "")}), None),
        (
            json!({"containerStatuses": waiting("CrashLoopBackOff", "back-off 10s")}),
            Some("CrashLoopBackOff: back-off 10s"),
        ),
        (
            json!({"initContainerStatuses": waiting("ImagePullBackOff", "r/a:1 not found"),
                "containerStatuses": waiting("PodInitializing", "")}),
            Some("ImagePullBackOff: r/a:1 not found"),
        ),
        (with_condition("PodScheduled", "False", "0/3 nodes are available"), Some("0/3 nodes are available")),
        (with_condition("PodScheduled", "True", ""), None),
    ] {
        assert_eq!(problem(status.clone()).as_deref(), expected, "{status}");
    }
}
