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

#[test]
fn pod_that_is_gone_is_told_of_until_there_is_another_one() {
    let pod = |name: &str, state: serde_json::Value| -> Pod {
        let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "1", "controller": true});
        serde_json::from_value(json!({
            "metadata": {"name": name, "ownerReferences": [owner]},
            "status": {"containerStatuses": [{"name": "payload", "image": "i", "imageID": "", "ready": false, "restartCount": 0,
                "state": state}]},
        }))
        .unwrap()
    };
    let stuck = || pod("a", json!({"waiting": {"reason": "ErrImagePull", "message": "500"}}));
    let runs = || pod("b", json!({"running": {}}));
    let done = || pod("c", json!({"terminated": {"exitCode": 0, "message": "digest"}}));
    let told = |pods: &Pods| problems(pods.seen());
    let mut pods = Pods::of("1");
    assert!(pods.on(Event::Apply(stuck())).is_some() && told(&pods).contains("ErrImagePull"));
    pods.on(Event::Delete(stuck()));
    assert!(told(&pods).contains("ErrImagePull"), "the Job may have failed because of it");
    let mut last = told(&pods);
    pods.on(Event::Apply(runs()));
    assert_eq!((told(&pods), pods.seen.len()), (String::new(), 1));
    let mut news = |problems: &str| news(&mut last, "j", "n", problems.to_owned());
    let again = Some("Job j in namespace n is running".to_owned());
    assert_eq!(
        [news(""), news(""), news("; container a: 500")],
        [again, None, Some("Job j; container a: 500".to_owned())],
        "what the pod before waited for is not told any more"
    );
    // The same where the watch has missed the deletion.
    let mut pods = Pods::of("1");
    for event in [Event::Apply(stuck()), Event::Init, Event::InitApply(runs()), Event::InitDone] {
        pods.on(event);
    }
    assert_eq!((told(&pods), pods.seen.len()), (String::new(), 1));
    // What a pod said at its end is not lost with it.
    for event in [Event::Apply(done()), Event::Delete(done()), Event::Apply(runs()), Event::Init, Event::InitDone] {
        pods.on(event);
    }
    assert_eq!(pods.seen().find_map(success).as_deref(), Some("digest"));
    assert!(Pods::of("2").on(Event::Apply(runs())).is_none(), "it belongs to another Job");
}
