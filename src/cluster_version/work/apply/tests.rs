//! Applies manifests to a server in memory that counts requests.

mod applied;
mod configuration;
mod kept;
mod kinds;
mod reading;
mod replaced;

use super::*;
use crate::cluster::apply::tests::server::Server;
use crate::cluster::{CachedState, Clients};
use crate::cluster_version::graph;
use crate::cluster_version::graph::Mode;
use crate::cluster_version::rollout::{Clocks, Plan, owner};
use crate::cluster_version::work::executor::RunningRollout;
use crate::object::manifest::Origin;
use crate::object::read::Read;
use crate::release::load;
use serde_json::{Value, json};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Much longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// Version, kind, plural, namespaced.
const KINDS: [(&str, &str, &str, bool); 10] = [
    ("v1", "ConfigMap", "configmaps", true),
    ("v1", "Namespace", "namespaces", false),
    ("v1", "Service", "services", true),
    ("v1", "ServiceAccount", "serviceaccounts", true),
    ("apps/v1", "Deployment", "deployments", true),
    ("batch/v1", "Job", "jobs", true),
    ("rbac.authorization.k8s.io/v1", "ClusterRole", "clusterroles", false),
    ("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings", true),
    ("config.openshift.io/v1", "ClusterOperator", "clusteroperators", false),
    ("example.com/v1", "Widget", "widgets", true),
];

fn kind((version, kind, plural, namespaced): (&str, &str, &str, bool)) -> Kind {
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    Kind::known(group, version, kind, plural, namespaced)
}

fn proxies() -> Kind {
    Kind::known("config.openshift.io", "v1", "Proxy", "proxies", false)
}

const PROXY: &str = "/apis/config.openshift.io/v1/proxies/cluster";

/// The applier of a newly started daemon.
async fn process(server: &Server) -> Arc<Applier> {
    process_with(server, vec![]).await
}

pub(crate) async fn process_with(server: &Server, more: Vec<Kind>) -> Arc<Applier> {
    let _installed = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let clients = Arc::new(Clients::new(kube::Config::new(server.start().await)).unwrap());
    let objects = Objects::new(clients.call.clone(), crate::cluster_version::api::FIELD_MANAGER, Arc::new(|| true));
    let kinds = Arc::new(Kinds::default());
    kinds.add(KINDS.into_iter().map(kind).chain(more));
    let applier =
        Applier::new(clients, objects, crate::cluster_version::rollout::MANAGER, kinds, CancellationToken::new());
    applier.set_owner(owner("version", "owner"));
    let owner = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version", "uid": "owner"}});
    server.put("/apis/config.openshift.io/v1/clusterversions/version", owner);
    Arc::new(applier)
}

fn manifest(object: &Value) -> Arc<Manifest> {
    let bytes = serde_json::to_vec(object).unwrap();
    load::manifests_of(Origin::Release, "0000_50_a_b.json", &bytes).unwrap().remove(0)
}

fn object(version: &str, kind: &str, rest: Value) -> Value {
    let mut object =
        json!({"apiVersion": version, "kind": kind, "metadata": {"name": "a", "namespace": "b", "annotations": {}}});
    object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
    object
}

fn annotated(mut object: Value, key: &str, value: &str) -> Value {
    object["metadata"]["annotations"][key] = json!(value);
    object
}

fn config(value: &str) -> Value {
    object("v1", "ConfigMap", json!({"data": {"key": value}}))
}

const CONFIG: &str = "/api/v1/namespaces/b/configmaps/a";

/// Applies a release of these manifests once.
async fn apply(applier: &Arc<Applier>, manifests: &[&Arc<Manifest>]) -> Vec<Result<Applied, ApplyError>> {
    let all: Vec<Arc<Manifest>> = manifests.iter().map(|m| (*m).clone()).collect();
    applier.set_desired(&all);
    let mut applied = Vec::new();
    for manifest in &all {
        applied.push(applier.apply(manifest).await);
    }
    applied
}

async fn apply_one(applier: &Arc<Applier>, manifest: &Arc<Manifest>) -> Applied {
    apply(applier, &[manifest]).await.remove(0).unwrap()
}

/// Waits until the index has processed an event.
async fn until(applier: &Applier, what: &str, ok: impl Fn(&Applier) -> bool) {
    let begun = std::time::Instant::now();
    while !ok(applier) {
        assert!(begun.elapsed() < LIMIT, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

fn updated(applied: &Applied) -> &[String] {
    match applied {
        Applied::Updated { fields, .. } => fields,
        other => panic!("{other:?} is no update"),
    }
}

/// What another client does to an object.
type Edit = fn(&mut Value);
/// The object, its path, drift of an owned field, the pointer to a foreign field, and the edit that adds the foreign field.
type Sample = (Value, &'static str, Edit, &'static str, Edit);

/// One manifest of each kind.
fn kinds() -> Vec<Sample> {
    let deployment = json!({"spec": {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}, "template": {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"containers": [{"name": "main", "image": "x", "env": [{"name": "A", "value": "1"}]}]}}}});
    let rules = json!({"rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]});
    let port = json!({"spec": {"selector": {"a": "b"}, "ports": [{"name": "http", "port": 80, "targetPort": 80}]}});
    vec![
        (config("1"), CONFIG, |o| o["data"]["key"] = json!("2"), "/data/more", |o| o["data"]["more"] = json!("x")),
        (
            object("apps/v1", "Deployment", deployment),
            "/apis/apps/v1/namespaces/b/deployments/a",
            |o| {
                o["spec"]["template"]["spec"]["containers"][0]["env"] =
                    json!([{"name": "A", "value": "2"}, {"name": "B"}])
            },
            "/spec/template/spec/tolerations",
            |o| o["spec"]["template"]["spec"]["tolerations"] = json!([{"key": "x"}]),
        ),
        (
            object("v1", "Service", port),
            "/api/v1/namespaces/b/services/a",
            |o| o["spec"]["ports"][0]["port"] = json!(81),
            "/spec/clusterIP",
            |o| o["spec"]["clusterIP"] = json!("10.0.0.1"),
        ),
        (
            object("rbac.authorization.k8s.io/v1", "ClusterRole", rules),
            "/apis/rbac.authorization.k8s.io/v1/clusterroles/a",
            |o| o["rules"][0]["verbs"] = json!(["*"]),
            "/metadata/finalizers",
            |o| o["metadata"]["finalizers"] = json!(["somebody/else"]),
        ),
        (
            object("v1", "ServiceAccount", json!({"automountServiceAccountToken": false})),
            "/api/v1/namespaces/b/serviceaccounts/a",
            |o| o["automountServiceAccountToken"] = json!(true),
            "/secrets",
            |o| o["secrets"] = json!([{"name": "token"}]),
        ),
        (
            object("example.com/v1", "Widget", json!({"spec": {"size": 1}})),
            "/apis/example.com/v1/namespaces/b/widgets/a",
            |o| o["spec"]["size"] = json!(2),
            "/spec/other",
            |o| o["spec"]["other"] = json!("theirs"),
        ),
    ]
}

/// One request creates it; a second process writes nothing and reads each kind once; one write repairs drift of an owned
/// field; what another client added stays.
#[tokio::test]
async fn each_kind_is_created_left_alone_and_repaired() {
    for (object, path, drift, foreign, add) in kinds() {
        let server = Server::default();
        let manifest = manifest(&object);
        let first = process(&server).await;
        assert_eq!(apply_one(&first, &manifest).await, Applied::Created, "{path}");
        assert_eq!(server.writes().len(), 1, "{path}");
        assert_eq!(server.get(path).unwrap()["metadata"]["ownerReferences"][0]["uid"], "owner");
        assert_eq!(apply_one(&first, &manifest).await, Applied::Unchanged);
        assert_eq!(server.requests(), Vec::<String>::new(), "{path}");

        let second = process(&server).await;
        assert_eq!(apply_one(&second, &manifest).await, Applied::Unchanged);
        assert_eq!(server.requests().len(), 1, "{path}: one watch");

        server.edit(path, |live| {
            add(live);
            live["metadata"]["labels"] = json!({"foreign": "label"});
            live["metadata"]["annotations"]["foreign"] = json!("annotation");
            drift(live);
        });
        let id = second.resolve(&manifest).unwrap().1;
        until(&second, "the drift", |a| {
            !matches!(a.index().lookup(&id, second.desired.of(&manifest).fingerprint()), CachedState::AsDesired)
        })
        .await;
        assert!(!updated(&apply_one(&second, &manifest).await).is_empty());
        assert_eq!(server.requests().len(), 1, "{path}: the watch has sent the object");
        let live = server.get(path).unwrap();
        assert!(live.pointer(foreign).is_some(), "{foreign} of {path}");
        assert_eq!(
            (&live["metadata"]["labels"]["foreign"], &live["metadata"]["annotations"]["foreign"]),
            (&json!("label"), &json!("annotation"))
        );
        assert_eq!(apply_one(&process(&server).await, &manifest).await, Applied::Unchanged, "{path}");
    }
}

#[tokio::test]
async fn create_only_object_is_never_modified() {
    let server = Server::default();
    let manifest = manifest(&annotated(config("1"), "release.openshift.io/create-only", "TRUE"));
    assert_eq!(apply_one(&process(&server).await, &manifest).await, Applied::Created);
    let owner = server.get(CONFIG).unwrap()["metadata"]["ownerReferences"][0].clone();
    assert_eq!((&owner["uid"], owner.get("controller")), (&json!("owner"), None));
    server.edit(CONFIG, |live| {
        live["data"] = json!({"theirs": "x"});
        live["metadata"] = json!({"name": "a", "namespace": "b"});
    });
    let _counted = server.requests();
    assert_eq!(apply_one(&process(&server).await, &manifest).await, Applied::Unchanged);
    assert_eq!(server.writes(), Vec::<String>::new());
}

fn to_delete(object: Value) -> Arc<Manifest> {
    manifest(&annotated(object, "release.openshift.io/delete", "true"))
}

/// There is one DELETE and no request while the object is terminating, not even after a restart; ClusterOperators are
/// deleted like anything else.
#[tokio::test]
async fn object_to_be_deleted_is_deleted_whenever_it_exists() {
    let operator = object("config.openshift.io/v1", "ClusterOperator", json!({"spec": {}}));
    for (object, path) in [(config("1"), CONFIG), (operator, "/apis/config.openshift.io/v1/clusteroperators/a")] {
        let server = Server::default();
        let manifest = to_delete(object.clone());
        let applier = process(&server).await;
        let id = applier.resolve(&manifest).unwrap().1;
        assert_eq!(apply_one(&applier, &manifest).await, Applied::Unchanged, "nothing to delete");
        assert_eq!(server.writes(), Vec::<String>::new());

        let mut held = object.clone();
        held["metadata"]["finalizers"] = json!(["somebody/else"]);
        server.put(path, held);
        until(&applier, "the object", |a| a.index().is_present(&id)).await;
        assert_eq!(apply_one(&applier, &manifest).await, Applied::Deleted);
        assert_eq!(server.requests(), [format!("DELETE {path}")]);
        until(&applier, "the event of the deletion", |a| {
            matches!(a.index().lookup(&id, 0), CachedState::Differs(live) if live["metadata"]["deletionTimestamp"].is_string())
        })
        .await;
        assert_eq!(apply_one(&applier, &manifest).await, Applied::Unchanged, "it is terminating");
        assert_eq!(server.requests(), Vec::<String>::new());

        let successor = process(&server).await;
        assert_eq!(apply_one(&successor, &manifest).await, Applied::Unchanged, "also after a restart");
        assert!(successor.index().is_present(&id), "and still pending");
        assert_eq!(server.writes(), Vec::<String>::new());

        server.edit(path, |live| live["metadata"]["finalizers"] = json!([]));
        until(&successor, "the object to be deleted", |a| !a.index().is_present(&id)).await;
        assert_eq!(apply_one(&successor, &manifest).await, Applied::Unchanged);
        server.put(path, object);
        until(&successor, "the object to reappear", |a| a.index().is_present(&id)).await;
        assert_eq!(apply_one(&successor, &manifest).await, Applied::Deleted);
        assert_eq!((server.writes().len(), server.get(path)), (1, None));
        assert!(!successor.index().is_present(&id), "deleted at once, so not pending");
    }
}

#[tokio::test]
async fn invalid_delete_annotation_is_an_error_and_deletes_nothing() {
    let server = Server::default();
    server.put(CONFIG, config("1"));
    let manifest = manifest(&annotated(config("1"), "release.openshift.io/delete", "True"));
    let applied = apply(&process(&server).await, &[&manifest]).await.remove(0);
    let error = failure(&applied.unwrap_err(), &manifest).error.message;
    assert!(error.contains("0000_50_a_b.json") && error.contains("\"True\""), "{error}");
    assert_eq!(server.writes(), Vec::<String>::new());
}

fn start(plan: Plan, applier: &Arc<Applier>) -> RunningRollout {
    RunningRollout::start(plan, Clocks::default(), applier.clone())
}

/// A rollout over one manifest that has completed.
async fn completed(applier: &Arc<Applier>, manifest: &Arc<Manifest>, mode: Mode) -> RunningRollout {
    let mut rollout = start(plan(vec![manifest.clone()], mode), applier);
    rollout.admit();
    let end = async {
        while !rollout.view().completed {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, end).await.is_ok(), "the rollout does not end");
    rollout
}

fn plan(manifests: Vec<Arc<Manifest>>, mode: Mode) -> Plan {
    Plan {
        release: crate::release::api::Release::default(),
        mode,
        graph: graph::build::build(&manifests, mode, None),
        own_deployment: ObjectId::default(),
        hand_over: false,
        unfinished_pass: false,
        manifests,
    }
}

#[tokio::test]
async fn deletion_is_pending_until_the_object_is_gone() {
    let server = Server::default();
    let mut held = config("1");
    held["metadata"]["finalizers"] = json!(["somebody/else"]);
    server.put(CONFIG, held);
    let applier = process(&server).await;
    let mut rollout = completed(&applier, &to_delete(config("1")), Mode::Reconcile).await;
    assert_eq!(rollout.pending_deletions(&rollout.view()), ["configmap \"b/a\""]);
    server.edit(CONFIG, |live| live["metadata"]["finalizers"] = json!([]));
    let gone = async {
        while !rollout.pending_deletions(&rollout.view()).is_empty() {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, gone).await.is_ok(), "pending forever");
    server.put(CONFIG, config("again"));
    let deleted = async {
        while server.get(CONFIG).is_some() {
            tokio::select! { _ = rollout.moved() => {} () = tokio::time::sleep(Duration::from_millis(5)) => {} }
        }
    };
    assert!(tokio::time::timeout(LIMIT, deleted).await.is_ok(), "it is not deleted again");
    rollout.cancel().await;
}

/// A release may contain a kind in several versions, and the feed of each version reads all objects.
#[tokio::test]
async fn job_that_a_webhook_rewrites_runs_once() {
    let template = |image: &str| json!({"spec": {"containers": [{"name": "main", "image": image}]}});
    let job = |image: &str| manifest(&object("batch/v1", "Job", json!({"spec": {"template": template(image)}})));
    let server = Server::default();
    let mirror = |object: &mut Value| {
        if let Some(image) = object.pointer_mut("/spec/template/spec/containers/0/image") {
            *image = json!("mirror.invalid/x");
        }
    };
    server.set_webhook(Box::new(mirror));
    assert_eq!(apply_one(&process(&server).await, &job("a")).await, Applied::Created);
    server.requests();
    // Another process, which knows nothing of the first.
    assert_eq!(apply_one(&process(&server).await, &job("a")).await, Applied::Unchanged);
    assert_eq!(server.writes(), Vec::<String>::new());
    let next = apply_one(&process(&server).await, &job("b")).await;
    assert_eq!(
        updated(&next),
        ["metadata.annotations[release.openshift.io/created-from-spec]", "spec.template.spec.containers[main].image"]
    );
    assert_eq!(server.writes().len(), 2, "a new release runs it again");
}

#[tokio::test]
async fn deployment_that_may_be_stopped_stays_scaled_to_zero() {
    const PATH: &str = "/apis/apps/v1/namespaces/b/deployments/a";
    let deployment = manifest(&object("apps/v1", "Deployment", json!({"spec": {"replicas": 1, "paused": false}})));
    let server = Server::default();
    let applier = process(&server).await;
    assert_eq!(apply_one(&applier, &deployment).await, Applied::Created);
    let stop = |live: &mut Value| live["spec"] = json!({"replicas": 0, "paused": true});
    server.edit(PATH, stop);
    applier.set_stoppable(Some(deployment.id.clone()));
    applier.index().invalidate(&deployment.id);
    assert_eq!(updated(&apply_one(&applier, &deployment).await), ["spec.paused"]);
    assert!(applier.is_scaled_to_zero(&deployment.id));
    // While it is being updated it is not.
    applier.set_stoppable(None);
    assert_eq!(updated(&apply_one(&applier, &deployment).await), ["spec.replicas"]);
    assert!(!applier.is_scaled_to_zero(&deployment.id));
}
