//! Applies manifests to a server in memory that counts requests.

mod applied;
mod configuration;
mod reading;

use super::*;
use crate::cluster::apply::tests::server::Server;
use crate::cluster::{CachedState, Clients};
use crate::graph::{self, Mode};
use crate::payload::{Origin, load};
use crate::read::Read;
use crate::rollout::{Clocks, Plan, owner};
use crate::work::rollout::RunningRollout;
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
    let objects = Objects::new(clients.call.clone(), crate::api::FIELD_MANAGER, Arc::new(|| true));
    let kinds = Arc::new(Kinds::default());
    kinds.add(KINDS.into_iter().map(kind).chain(more));
    let applier = Applier::new(clients, objects, crate::rollout::MANAGER, kinds, CancellationToken::new());
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

#[tokio::test]
async fn field_that_the_server_keeps_is_written_once() {
    let server = Server::default();
    let (one, two) = (manifest(&config("1")), manifest(&config("2")));
    server.put(CONFIG, config("theirs"));
    server.set_webhook(Box::new(|object| {
        if object["kind"] == "ConfigMap" {
            object["data"]["key"] = json!("as the server likes it");
        }
    }));
    let applier = process(&server).await;
    let id = applier.resolve(&one).unwrap().1;
    assert!(updated(&apply_one(&applier, &one).await).contains(&"data.key".to_owned()));
    let _counted = server.requests();
    // Read again, by a watch or by name, it is still as the server keeps it.
    let live = server.get(CONFIG).unwrap();
    assert!(applier.cluster.feeds.compare(&id, &live).is_some());
    applier.index().invalidate(&id);
    assert_eq!(applier.apply(&one).await.unwrap(), Applied::Unchanged);
    assert_eq!(server.writes(), Vec::<String>::new());
    // A new rollout tries again, once, and so does one after a change by another client, or another release.
    for writes in [1, 0] {
        if writes > 0 {
            applier.set_desired(std::slice::from_ref(&one));
        }
        assert_eq!(applier.apply(&one).await.unwrap(), Applied::Unchanged);
        assert_eq!(server.writes().len(), writes);
    }
    assert_eq!(applier.kept().first().map(|kept| kept.fields.as_slice()), Some(["data.key".to_owned()].as_slice()));
    server.edit(CONFIG, |live| live["metadata"]["labels"] = json!({"a": "b"}));
    applier.index().invalidate(&id);
    updated(&apply_one(&applier, &one).await);
    assert_eq!(server.writes().len(), 1);
    updated(&apply_one(&applier, &two).await);
    assert_eq!(server.writes().len(), 1);
}

/// Not before somebody else has brought the field to the desired state.
#[tokio::test]
async fn field_that_the_server_kept_is_forgotten_when_it_is_as_desired() {
    let server = Server::default();
    let one = manifest(&config("1"));
    server.put(CONFIG, config("theirs"));
    server.set_webhook(Box::new(|object| {
        if object["kind"] == "ConfigMap" {
            object["data"]["key"] = json!("as the server likes it");
        }
    }));
    let applier = process(&server).await;
    apply_one(&applier, &one).await;
    assert_eq!(applier.kept().len(), 1);
    server.set_webhook(Box::new(|_| ()));
    server.edit(CONFIG, |live| live["data"]["key"] = json!("1"));
    applier.index().invalidate(&applier.resolve(&one).unwrap().1);
    assert_eq!(applier.apply(&one).await.unwrap(), Applied::Unchanged);
    assert!(applier.kept().is_empty());
}

/// The webhook is changed, and the configuration of webhooks says so.
#[tokio::test]
async fn field_that_the_server_kept_is_written_when_webhooks_change() {
    let webhooks = Kind::known(
        "admissionregistration.k8s.io",
        "v1",
        "MutatingWebhookConfiguration",
        "mutatingwebhookconfigurations",
        false,
    );
    let path = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/a";
    let server = Server::default();
    server.put(CONFIG, config("theirs"));
    server.put(
        path,
        json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
        "metadata": {"name": "a"}, "spec": 1}),
    );
    server.set_webhook(Box::new(|object| object["data"]["key"] = json!("as the server likes it")));
    let applier = process_with(&server, vec![webhooks]).await;
    assert!(applier.kept().is_empty() && !server.requests().iter().any(|r| r.contains("webhook")), "not before");
    let mut rollout = completed(&applier, &manifest(&config("1")), Mode::Reconcile).await;
    assert_eq!(rollout.hindrances().1[0].fields, ["data.key"]);
    let watched = |requests: Vec<String>| requests.iter().any(|r| r.starts_with("WATCH") && r.contains("webhook"));
    until(&applier, "webhooks to be watched", |_| watched(server.requests())).await;
    server.set_webhook(Box::new(|_| ()));
    server.edit(path, |live| live["spec"] = json!(2));
    let written = async {
        while !rollout.hindrances().1.is_empty() {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, written).await.is_ok(), "never written again");
    assert_eq!(server.get(CONFIG).unwrap()["data"]["key"], "1");
    rollout.cancel().await;
}

fn binding(role: &str) -> Value {
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": role});
    object("rbac.authorization.k8s.io/v1", "RoleBinding", json!({"roleRef": reference, "subjects": []}))
}

const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/b/rolebindings/a";

#[tokio::test]
async fn object_with_an_immutable_field_is_replaced() {
    let server = Server::default();
    let manifest = manifest(&binding("new"));
    let mut old = binding("old");
    old["metadata"]["labels"] = json!({"foreign": "label"});
    server.put(BINDING, old.clone());
    let applier = process(&server).await;
    assert!(updated(&apply_one(&applier, &manifest).await).contains(&"roleRef.name".to_owned()));
    assert_eq!(server.writes(), [format!("DELETE {BINDING}"), format!("POST {}", BINDING.trim_end_matches("/a"))]);
    let live = server.get(BINDING).unwrap();
    assert_eq!((&live["roleRef"]["name"], &live["metadata"]["labels"]["foreign"]), (&json!("new"), &json!("label")));
    assert_eq!(apply_one(&applier, &manifest).await, Applied::Unchanged);

    // Killed after the DELETE: the next process finds no object and creates it.
    server.remove(BINDING);
    assert_eq!(apply_one(&process(&server).await, &manifest).await, Applied::Created);
    assert_eq!(server.writes().len(), 1);
}

#[tokio::test]
async fn binding_that_gives_this_process_its_rights_is_not_taken_away() {
    let server = Server::default();
    let account = |name: &str| json!({"kind": "ServiceAccount", "namespace": "b", "name": name});
    let of = |kind: &str, name: &str| json!({"kind": kind, "apiGroup": "rbac.authorization.k8s.io", "name": name});
    for (subject, ours) in [
        (account("daemon"), true),
        (of("User", "system:serviceaccount:b:daemon"), true),
        (of("Group", "system:serviceaccounts"), true),
        (account("other"), false),
        (of("Group", "system:masters"), false),
    ] {
        let with = |role: &str| {
            let mut binding = binding(role);
            binding["subjects"] = json!([account("another"), subject]);
            binding
        };
        server.put(BINDING, with("old"));
        let applier = process(&server).await;
        let outcome = applier.apply(&manifest(&with("new"))).await;
        let role = server.get(BINDING).unwrap()["roleRef"]["name"].clone();
        assert_eq!(role, if ours { "old" } else { "new" }, "{subject}: {outcome:?}");
        if ours {
            assert!(matches!(outcome, Err(ApplyError::OwnRights(_))), "{outcome:?}");
        }
    }
}

#[tokio::test]
async fn object_that_another_client_puts_in_the_place_of_a_replaced_one_is_replaced_too() {
    let server = Server::default();
    server.put(BINDING, binding("old"));
    server.recreate(binding("theirs"));
    let applier = process(&server).await;
    let applied = apply_one(&applier, &manifest(&binding("new"))).await;
    assert!(updated(&applied).contains(&"roleRef.name".to_owned()), "{applied:?}");
    assert_eq!(server.get(BINDING).unwrap()["roleRef"]["name"], "new");
    let collection = BINDING.trim_end_matches("/a");
    let once = [format!("DELETE {BINDING}"), format!("POST {collection}")];
    assert_eq!(server.writes(), [once.clone(), once].concat());
}

#[tokio::test]
async fn terminating_object_is_waited_for_without_requests() {
    let server = Server::default();
    let manifest = manifest(&binding("new"));
    let mut old = binding("old");
    old["metadata"]["finalizers"] = json!(["somebody/else"]);
    server.put(BINDING, old);
    let applier = process(&server).await;
    let id = applier.resolve(&manifest).unwrap().1;
    let error = apply(&applier, &[&manifest]).await.remove(0).unwrap_err();
    assert!(matches!(&error, ApplyError::Terminating(by) if by == &["somebody/else"]), "{error:?}");
    assert_eq!(server.writes(), [format!("DELETE {BINDING}")]);
    until(&applier, "the event of the deletion", |a| {
        matches!(a.index().lookup(&id, 0), CachedState::Differs(live) if live["metadata"]["deletionTimestamp"].is_string())
    })
    .await;
    for _ in 0..3 {
        let again = applier.apply(&manifest).await;
        assert!(matches!(again, Err(ApplyError::Terminating(_))), "{again:?}");
    }
    assert_eq!(server.writes(), Vec::<String>::new());
    server.edit(BINDING, |live| live["metadata"]["finalizers"] = json!([]));
    until(&applier, "the object to be deleted", |a| !a.index().is_present(&id)).await;
    assert_eq!(apply_one(&applier, &manifest).await, Applied::Created);
    assert_eq!(server.get(BINDING).unwrap()["roleRef"]["name"], "new");
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
        release: crate::api::Release::default(),
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
async fn object_read_in_another_version_of_its_kind_is_read_again() {
    let server = Server::default();
    let applier = process(&server).await;
    let widget = manifest(&object("example.com/v1", "Widget", json!({"spec": {"a": 1}})));
    assert_eq!(apply_one(&applier, &widget).await, Applied::Created);
    let (_, id) = applier.resolve(&widget).unwrap();
    let mut other = server.get("/apis/example.com/v1/namespaces/b/widgets/a").unwrap();
    other["apiVersion"] = json!("example.com/v1beta1");
    applier.index().record_read(&id, Some(other), None, None);
    assert_eq!(applier.apply(&widget).await.unwrap(), Applied::Unchanged);
    assert_eq!(server.writes(), ["PATCH /apis/example.com/v1/namespaces/b/widgets/a"]);
}

/// That the release defines another kind of the same group does not mean that it defines this one.
#[tokio::test]
async fn kind_defined_by_another_client_is_found() {
    let definitions =
        Kind::known("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false);
    let definition = json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "others.example.org", "annotations": {"release.openshift.io/create-only": "true"}},
        "spec": {"group": "example.org", "scope": "Namespaced", "versions": [],
            "names": {"kind": "Other", "plural": "others"}}});
    let gadget = object("example.org/v1", "Gadget", json!({"spec": {"a": 1}}));
    let server = Server::default();
    let applier = process_with(&server, vec![definitions]).await;
    let manifests = vec![manifest(&definition), manifest(&gadget)];
    let mut rollout = start(plan(manifests, Mode::Reconcile), &applier);
    rollout.admit();
    server.serve("example.org/v1", "Gadget", "gadgets");
    let end = async {
        while !rollout.view().completed {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, end).await.is_ok(), "discovery is not asked again");
    assert!(server.get("/apis/example.org/v1/namespaces/b/gadgets/a").is_some());
    rollout.cancel().await;
}

/// A server that lags behind, or whose aggregated server has gone.
#[tokio::test]
async fn known_kind_that_the_server_does_not_find_is_tried_after_a_pause_and_discovery() {
    let server = Server::default();
    server.stop_serving("example.com/v1/widgets");
    let applier = process(&server).await;
    let widget = manifest(&object("example.com/v1", "Widget", json!({"spec": {"a": 1}})));
    let mut rollout = start(plan(vec![widget], Mode::Update), &applier);
    rollout.admit();
    let reported = async {
        while rollout.view().failure().is_none() {
            rollout.moved().await;
        }
    };
    assert!(tokio::time::timeout(LIMIT, reported).await.is_ok(), "nothing is reported");
    let failure = rollout.view().failure().unwrap();
    assert!(failure.message.contains("example.com/v1/widgets"), "the server's answer is shown: {failure:?}");
    let requests = server.requests();
    let count = |matches: fn(&str) -> bool| requests.iter().filter(|r| matches(r)).count();
    let write = |r: &str| !r.starts_with("WATCH") && !r.starts_with("GET") && r.contains("/namespaces/b/widgets");
    assert_eq!(count(write), 3, "{requests:?}");
    assert_eq!(count(|r| r == "GET /apis"), 2, "{requests:?}");
    rollout.cancel().await;
}

#[tokio::test]
async fn object_to_be_deleted_is_looked_for_where_discovery_does_not_name_its_kind() {
    const GADGET: &str = "/apis/example.org/v1/namespaces/b/gadgets/a";
    let gadget = to_delete(object("example.org/v1", "Gadget", json!({"spec": {}})));
    let server = Server::default();
    let applier = process(&server).await;
    assert_eq!(apply_one(&applier, &gadget).await, Applied::Unchanged, "the server does not serve it");
    server.put(GADGET, object("example.org/v1", "Gadget", json!({"spec": {}})));
    server.set_away("example.org/v1");
    let error = applier.apply(&gadget).await.unwrap_err();
    assert!(matches!(&error, ApplyError::Api(error) if error.to_string().contains("unable to handle")), "{error:?}");
    server.serve("example.org/v1", "Gadget", "gadgets");
    assert_eq!(apply_one(&applier, &gadget).await, Applied::Deleted);
    assert_eq!(server.get(GADGET), None);
    // In another version it is the same object.
    server.put(GADGET, object("example.org/v1", "Gadget", json!({"spec": {}})));
    let old = to_delete(object("example.org/v1beta1", "Gadget", json!({"spec": {}})));
    let applier = process_with(&server, vec![kind(("example.org/v1", "Gadget", "gadgets", true))]).await;
    assert_eq!(apply_one(&applier, &old).await, Applied::Deleted);
}

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
