use super::*;
use crate::cli::status::State;
use crate::cli::status::tests::operator;
use crate::cluster_version::progress::{NodeProgress, WaitingFor};
use kube::client::Body;
use serde_json::{Value, json};

fn of<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

fn metadata(name: &str, owner: Option<(&str, &str)>) -> Value {
    let owners: Vec<Value> = owner
        .into_iter()
        .map(|(kind, name)| json!({"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": format!("uid-{name}")}))
        .collect();
    json!({"name": name, "namespace": "shop", "uid": format!("uid-{name}"), "ownerReferences": owners})
}

fn crashing(name: &str, owner: (&str, &str)) -> Value {
    json!({"metadata": metadata(name, Some(owner)), "status": {"containerStatuses": [{"name": "app", "image": "i", "imageID": "",
        "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ErrImagePull", "message": format!("for {name}")}}}]}})
}

fn shop() -> Namespace {
    let set = |name: &str, owner: &str, wanted: i32, there: i32| json!({"metadata": metadata(name, Some(("Deployment", owner))), "spec": {"replicas": wanted, "selector": {}}, "status": {"replicas": there}});
    let denied = json!({"metadata": {}, "type": "Warning", "reason": "FailedCreate", "message": "exceeded quota",
        "involvedObject": {"uid": "uid-db-1"}});
    let stale = json!({"metadata": {}, "type": "Warning", "reason": "FailedCreate", "message": "an hour ago",
        "involvedObject": {"uid": "uid-web-2"}});
    Namespace {
        deployments: of(json!([{"metadata": metadata("web", None)}, {"metadata": metadata("db", None)}])),
        replica_sets: of(json!([set("web-1", "web", 0, 1), set("web-2", "web", 1, 1), set("db-1", "db", 1, 0)])),
        pods: of(json!([crashing("web-2-x", ("ReplicaSet", "web-2")), crashing("log-x", ("DaemonSet", "log"))])),
        events: of(json!([denied, stale])),
        ..Namespace::default()
    }
}

fn objects(namespace: &Namespace, only: Option<(&str, &str)>) -> Vec<String> {
    let only = only.map(|(kind, name)| (kind.to_owned(), name.to_owned()));
    namespace
        .troubles(only.as_ref(), Timestamp::UNIX_EPOCH)
        .into_iter()
        .map(|it| format!("{}: {}", it.object, it.message))
        .collect()
}

#[test]
fn owners_are_followed_to_the_pods_of_one_workload() {
    let web = ["pod shop/web-2-x: ErrImagePull: container app: for web-2-x"];
    let db = ["replicaset shop/db-1: FailedCreate: exceeded quota"];
    let log = ["pod shop/log-x: ErrImagePull: container app: for log-x"];
    assert_eq!(objects(&shop(), Some(("Deployment", "web"))), web);
    assert_eq!(objects(&shop(), Some(("Deployment", "db"))), db);
    assert_eq!(objects(&shop(), Some(("DaemonSet", "log"))), log);
    assert_eq!(objects(&shop(), Some(("Deployment", "other"))), Vec::<String>::new());
    assert_eq!(objects(&shop(), None), [db, web, log].concat());
}

#[test]
fn operator_is_looked_for_where_its_related_objects_are() {
    let related = json!([{"group": "", "resource": "namespaces", "name": "shop"}, {"group": "apps", "resource": "deployments",
        "namespace": "store", "name": "x"}, {"group": "", "resource": "nodes", "name": "n"}]);
    let operator: ClusterOperator = of(json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "sales"}, "spec": {}, "status": {"relatedObjects": related}}));
    let found = places("ClusterOperator", "", "sales", &[operator]);
    assert_eq!(found, [("shop".to_owned(), None), ("store".to_owned(), None)]);
    assert_eq!(places("ClusterOperator", "", "other", &[]), []);
    assert_eq!(places("CustomResourceDefinition", "", "x.y", &[]), []);
}

#[test]
fn what_is_waited_for_comes_before_operators_and_once() {
    let waiting = |kind: &str, name: &str| WaitingFor { kind: kind.into(), name: name.into(), ..WaitingFor::default() };
    let component = NodeProgress {
        waiting: vec![waiting("ClusterOperator", "network"), waiting("Job", "migrate")],
        ..NodeProgress::default()
    };
    let operator = |name: &str| crate::cli::status::view::OperatorConcern {
        name: name.into(),
        state: "Degraded",
        reason: String::new(),
        message: String::new(),
        since: None,
        next_step: String::new(),
    };
    let operators = vec![operator("dns"), operator("network")];
    let view = View { components: vec![component], operators, ..View::default() };
    let names: Vec<String> = awaited(&view).into_iter().map(|it| it.2).collect();
    assert_eq!(names, ["network", "migrate", "dns"]);
}

#[test]
fn operator_that_says_nothing_is_told_of_after_a_while() {
    let since: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
    let waiting = |name: &str| WaitingFor {
        kind: "ClusterOperator".into(),
        name: name.into(),
        since: Some(since),
        ..WaitingFor::default()
    };
    let component = NodeProgress { waiting: vec![waiting("network")], ..NodeProgress::default() };
    let view = View { components: vec![component], ..View::default() };
    let after = |seconds: i64| since + SignedDuration::from_secs(seconds);
    assert!(is_late(&view, "network", after(30)) && !is_late(&view, "network", after(29)));
    assert!(!is_late(&view, "dns", after(300)));
}

#[test]
fn operator_behind_which_nothing_is_wrong_is_told_of_as_far_as_was_seen() {
    let working = |name: &str| json!({"metadata": metadata(name, None), "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}});
    let starting = |name: &str| json!({"metadata": metadata(name, None), "status": {"phase": "Running"}});
    let deployment = |name: &str, replicas: i32| json!({"metadata": metadata(name, None), "spec": {"replicas": replicas, "selector": {}, "template": {}}});
    let told = |complete, pods: Vec<Value>, deployments: Vec<Value>| {
        let known =
            Namespace { complete, pods: of(json!(pods)), deployments: of(json!(deployments)), ..Namespace::default() };
        let told = silent("sales", &[("shop".to_owned(), &known)]);
        format!("{} → {}", told.message, told.next_step)
    };
    let both = || vec![deployment("web", 1), deployment("sales-operator", 1)];
    for (told, words, step) in [
        (
            told(true, vec![working("a"), working("b")], both()),
            "all 2 pods in shop work",
            "kubectl -n shop logs deployment/sales-operator",
        ),
        (
            told(true, vec![working("a"), starting("b"), starting("c")], both()),
            "2 of 3 pods in shop are not ready",
            "kubectl -n shop get pods",
        ),
        (
            told(false, vec![working("a")], both()),
            "cannot be told: not all pods in shop could be read",
            "kubectl -n shop get pods",
        ),
        (told(true, vec![], both()), "there are no pods in shop", "kubectl -n shop get deployments"),
        (
            told(true, vec![working("a")], vec![deployment("web", 0)]),
            "deployment shop/web is scaled to 0",
            "kubectl -n shop scale deployment web --replicas=1",
        ),
    ] {
        assert!(told.contains(words) && told.contains(step), "{words}: {told}");
        assert_eq!(told.contains(" work;"), words.contains("work"), "only of pods that were seen: {told}");
    }
    assert!(silent("sales", &[]).message.contains("no related objects"));
}

#[tokio::test]
async fn nothing_is_said_of_the_related_objects_of_operators_that_cannot_be_listed() {
    let (mock, _requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let client = Client::new(mock, "default");
    let waiting = WaitingFor { kind: "ClusterOperator".into(), name: "network".into(), ..WaitingFor::default() };
    let component = NodeProgress { waiting: vec![waiting], ..NodeProgress::default() };
    let view = View { components: vec![component], ..View::default() };
    for (operators, told) in [(Read::Value(Vec::new()), 1), (Read::Failed("forbidden".to_owned()), 0)] {
        let found = gather(&client, &view, &operators, true, Timestamp::UNIX_EPOCH, &mut Vec::new()).await;
        assert_eq!(found.len(), told, "{found:?}");
    }
}

#[test]
fn objects_that_were_not_looked_behind_are_counted() {
    let view = |count: usize| {
        let waiting = (0..count).map(|n| WaitingFor { name: n.to_string(), ..WaitingFor::default() }).collect();
        View { components: vec![NodeProgress { waiting, ..NodeProgress::default() }], ..View::default() }
    };
    assert_eq!([left_out(&view(5), false), left_out(&view(50), true)], [None, None]);
    let first =
        "Only the first 5 of 6 objects that are waited for were looked behind: cvo status --details looks behind 50";
    assert_eq!(left_out(&view(6), false).as_deref(), Some(first));
    let first = "Only the first 50 of 51 objects that are waited for were looked behind";
    assert_eq!(left_out(&view(51), true).as_deref(), Some(first));
}

#[tokio::test]
async fn whoever_looks_behind_waits_is_told_what_was_left_out() {
    let (mock, _requests) = tower_test::mock::pair::<http::Request<Body>, http::Response<Body>>();
    let client = Client::new(mock, "default");
    let unwell = |count: usize| (0..count).map(|n| operator(&format!("operator-{n}"), &[])).collect();
    for (count, all, told) in [(5, false, ""), (6, false, "Only the first 5 of 6 "), (6, true, ""), (51, true, "Only")]
    {
        let mut state = State { operators: Read::Value(unwell(count)), ..State::default() };
        state.look_behind(&client, all, Timestamp::UNIX_EPOCH).await;
        assert_eq!(state.remarks.len(), usize::from(!told.is_empty()), "{count} {all}: {:?}", state.remarks);
        assert!(state.remarks.iter().all(|remark| remark.starts_with(told)), "{count} {all}: {:?}", state.remarks);
    }
}

/// What it failed of may be over, and hide what is wrong now.
#[test]
fn job_that_failed_for_good_long_ago_is_told_of_only_where_it_is_waited_for() {
    let failed = json!({"type": "Failed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let denied = json!({"metadata": {}, "type": "Warning", "reason": "FailedCreate", "message": "exceeded quota",
        "involvedObject": {"uid": "uid-migrate"}});
    let mut pod = crashing("migrate-x", ("Job", "migrate"));
    pod["status"]["phase"] = json!("Failed");
    let namespace = Namespace {
        jobs: of(json!([{"metadata": metadata("migrate", None), "status": {"conditions": [failed]}}])),
        pods: of(json!([pod])),
        events: of(json!([denied])),
        ..Namespace::default()
    };
    let itself = ("Job".to_owned(), "migrate".to_owned());
    for (only, at, told) in [
        (None, "2026-01-01T01:00:00Z", 2),
        (None, "2026-01-01T01:00:01Z", 0),
        (Some(&itself), "2026-01-01T01:00:01Z", 2),
    ] {
        let found = namespace.troubles(only, at.parse().unwrap());
        assert_eq!(found.len(), told, "{only:?} at {at}: {found:?}");
    }
}

#[test]
fn pods_that_ended_long_ago_are_no_cause() {
    let ended = |name: &str, owner: Option<(&str, &str)>, created: &str| {
        let mut pod = json!({"metadata": metadata(name, owner), "status": {"phase": "Failed", "reason": "Evicted", "message": name}});
        pod["metadata"]["creationTimestamp"] = json!(created);
        pod
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z");
    let set = |name: &str, replicas: i32| json!({"metadata": metadata(name, Some(("Deployment", "web"))), "spec": {"replicas": replicas, "selector": {}}});
    let job = |name: &str, completed: Option<&str>| json!({"metadata": metadata(name, None), "status": {"completionTime": completed}});
    let namespace = Namespace {
        complete: true,
        replica_sets: of(json!([set("web-1", 0), set("web-2", 1)])),
        jobs: of(json!([job("done", Some(new)), job("failed", None)])),
        pods: of(json!([
            ended("evicted-of-old-set", Some(("ReplicaSet", "web-1")), old),
            ended("evicted-and-replaced", Some(("ReplicaSet", "web-2")), old),
            ended("evicted-now", Some(("ReplicaSet", "web-2")), new),
            ended("installer", None, old),
            ended("of-a-job-that-is-done", Some(("Job", "done")), old),
            ended("of-a-job-that-is-not", Some(("Job", "failed")), old),
        ])),
        ..Namespace::default()
    };
    assert_eq!(
        objects(&namespace, None),
        ["pod shop/evicted-now: Evicted: evicted-now", "pod shop/of-a-job-that-is-not: Evicted: of-a-job-that-is-not",]
    );
}
