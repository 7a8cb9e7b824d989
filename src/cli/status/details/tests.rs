use super::*;
use crate::api::progress::{NodeProgress, WaitingFor};
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
    let told = silent("network", &[("network".to_owned(), None), ("sdn".to_owned(), None)]);
    assert_eq!(told.next_step, "Read the log of the operator: kubectl logs of its Deployment in network, sdn");
    assert!(silent("network", &[]).message.contains("no related objects"));
}
