use super::*;
use serde_json::json;

/// Otherwise the wait would never end.
#[test]
fn deleted_job_is_noticed_even_between_two_watches() {
    use Event::{Apply, Delete, Init, InitApply, InitDone};
    let changes = |events: Vec<Event<u8>>| {
        let mut listed = 0;
        events.into_iter().filter_map(|event| change(event, &mut listed)).collect::<Vec<_>>()
    };
    assert_eq!(changes(vec![Init, InitApply(1), InitDone, Apply(2), Delete(2)]), [Some(1), Some(2), None]);
    assert_eq!(
        changes(vec![Init, InitApply(1), InitDone, Init, InitDone]),
        [Some(1), None],
        "deleted between two lists"
    );
}

#[test]
fn job_has_failed_before_its_pods_have_ended() {
    let job = |type_: &str| -> Job {
        let condition = json!({"type": type_, "status": "True", "reason": "DeadlineExceeded", "message": "late"});
        serde_json::from_value(json!({"status": {"conditions": [condition]}})).unwrap()
    };
    assert_eq!(finished(&job("FailureTarget")), Some(Err("DeadlineExceeded: late".into())));
    assert_eq!(finished(&job("Failed")), Some(Err("DeadlineExceeded: late".into())));
    assert_eq!(finished(&job("SuccessCriteriaMet")), None, "its container may not have ended yet");
    assert_eq!(finished(&job("Complete")), Some(Ok(())));
}

#[test]
fn missing_image_fails_at_once_and_a_slow_registry_does_not() {
    let pod = |reason: &str, message: &str| -> Pod {
        serde_json::from_value(json!({"status": {"containerStatuses": [{"name": "payload", "image": "",
            "imageID": "", "ready": false, "restartCount": 0,
            "state": {"waiting": {"reason": reason, "message": message}}}]}}))
        .unwrap()
    };
    assert!(permanent_failure(&pod("ErrImagePull", "r@sha256:0: not found")).unwrap().contains("payload"));
    let slow = pod("ErrImagePull", "dial tcp: connection refused");
    assert!(permanent_failure(&slow).is_none());
    assert!(problems([&slow].into_iter()).contains("connection refused"));
    let starting = pod("ContainerCreating", "");
    assert_eq!(problems([&starting].into_iter()), "");
    assert!(not_started([&starting].into_iter()).contains("container payload had not started (ContainerCreating)"));
    assert_eq!(not_started([&slow].into_iter()), "", "its problem is reported already");
}

#[test]
fn job_is_ours_whatever_the_server_adds_for_each_one() {
    let with = |labels: serde_json::Value, image: &str, selector: &str| {
        json!({"metadata": {"name": selector}, "spec": {
            "backoffLimit": 1, "selector": {"matchLabels": {"uid": selector}},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "payload", "image": image}]}},
        }})
    };
    let added = |uid: &str| {
        json!({"k8s-app": "x", "controller-uid": uid, "job-name": uid,
            "batch.kubernetes.io/controller-uid": uid, "batch.kubernetes.io/job-name": uid})
    };
    let live = specification(&with(added("1"), "r@sha256:1", "1"));
    assert_eq!(live, specification(&with(added("2"), "r@sha256:1", "2")));
    assert_ne!(live, specification(&with(added("1"), "r@sha256:2", "1")));
    assert_ne!(live, specification(&with(json!({}), "r@sha256:1", "1")));
}

#[test]
fn only_pods_that_the_job_controls_are_believed() {
    let pod = |uid: &str, controller: bool| -> Pod {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": uid, "controller": controller});
        serde_json::from_value(json!({"metadata": {"ownerReferences": [owner]}})).unwrap()
    };
    assert!(belongs(&pod("1", true), "1"));
    assert!(!belongs(&pod("2", true), "1") && !belongs(&pod("1", false), "1") && !belongs(&Pod::default(), "1"));
}
