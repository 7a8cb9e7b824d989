//! The page on moving from another implementation, followed on a cluster with what such a one leaves; and the operator that runs there
//! is the same before, in between and afterwards.

use std::os::unix::fs::symlink;

use cvo::testing::api::olm::NAMESPACE;
use e2e::docs::follow::{adapted, checkout, follow, script};
use e2e::harness::node::PAUSE_IMAGE;
use e2e::harness::programs;
use e2e::olm::COMPONENT;
use e2e::platform::{LIMIT, Platform};
use e2e::workspace;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::apply;

const PAGES: [&str; 1] = [".github/docs/moving.md"];
const CSV: &str = "server.v1.0.0";
const MAKER: &str = "clusterserviceversions.operators.coreos.com";

pub(super) fn object(api_version: &str, kind: &str, (namespace, name): (&str, &str), content: Value) -> Value {
    let mut object =
        json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": namespace}});
    for (key, value) in content.as_object().unwrap() {
        match key.as_str() {
            "metadata" => object["metadata"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone()),
            _ => object[key] = value.clone(),
        }
    }
    object
}

/// A Deployment whose pods do nothing, with this in its metadata and in that of its pods.
fn deployment(id: (&str, &str), metadata: &Value, annotations: &Value, variables: &Value) -> Value {
    let labels = json!({"app": id.1});
    let pod = json!({"hostNetwork": true, "tolerations": [{"operator": "Exists"}],
        "containers": [{"name": "program", "image": PAUSE_IMAGE, "env": variables}]});
    let template = json!({"metadata": {"labels": labels, "annotations": annotations}, "spec": pod});
    let spec =
        json!({"replicas": 1, "revisionHistoryLimit": 1, "selector": {"matchLabels": labels}, "template": template});
    object("apps/v1", "Deployment", id, json!({"metadata": metadata, "spec": spec}))
}

/// The version of the operator, as its bundle has it.
fn version() -> Value {
    let entry = deployment(("shop", "server"), &json!({}), &json!({}), &json!([]));
    let mut spec = entry["spec"].clone();
    spec.as_object_mut().unwrap().remove("revisionHistoryLimit");
    let modes = ["OwnNamespace", "SingleNamespace"].map(|mode| json!({"type": mode, "supported": true}));
    json!({"displayName": "Server", "version": "1.0.0", "installModes": modes, "install": {"strategy": "deployment",
        "spec": {"deployments": [{"name": "server", "label": {"tier": "one"}, "spec": spec}]}}})
}

/// What the group makes the annotations of the version, and so of its pods.
fn annotations() -> Value {
    json!({"olm.operatorGroup": "shop", "olm.operatorNamespace": "shop", "olm.targetNamespaces": "shop",
        "operatorframework.io/properties": json!({"properties": [{"type": "olm.package",
            "value": {"packageName": "server", "version": "1.0.0"}}]}).to_string()})
}

pub(super) fn owned(csv: &str, namespace: &str, uid: &str) -> Value {
    json!({"labels": {"olm.managed": "true", "olm.owner": csv, "olm.owner.namespace": namespace,
            "olm.owner.kind": "ClusterServiceVersion", "olm.deployment-spec-hash": "3aFg7h"},
        "ownerReferences": [{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "name": csv,
            "uid": uid, "controller": false, "blockOwnerDeletion": false}]})
}

/// What runs, which may not be made anew: the content of the Deployment, and its pods.
#[derive(Debug, PartialEq)]
struct Running {
    deployment: (Option<String>, Value),
    pods: Vec<Option<String>>,
    secret: Option<String>,
}

impl Running {
    async fn of(platform: &Platform) -> Running {
        let client = platform.cluster.client().await.unwrap();
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), "shop");
        let deployment = deployments.get("server").await.unwrap();
        let pods: Api<Pod> = Api::namespaced(client.clone(), "shop");
        let pods = pods.list(&ListParams::default()).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(client, "shop");
        Running {
            deployment: (deployment.uid(), serde_json::to_value(&deployment.spec).unwrap()),
            pods: pods.iter().map(ResourceExt::uid).collect(),
            secret: secrets.get("own").await.unwrap().resource_version(),
        }
    }
}

/// Creates a version that has succeeded, and returns its uid.
async fn succeeded(platform: &Platform, id: (&str, &str), metadata: &Value, spec: &Value) -> String {
    let csv = object(
        "operators.coreos.com/v1alpha1",
        "ClusterServiceVersion",
        id,
        json!({"metadata": metadata, "spec": spec}),
    );
    apply(&platform.cluster, &[csv]).await;
    let (at, message) = ("2026-01-02T03:04:05Z", "install strategy completed with no errors");
    let condition = json!({"phase": "Succeeded", "reason": "InstallSucceeded", "message": message, "lastTransitionTime": at,
        "lastUpdateTime": at});
    let mut status = condition.clone();
    status["conditions"] = json!([condition]);
    let patch = json!({"status": status}).to_string();
    let of = [MAKER, id.1, "-n", id.0];
    let kubectl = async |arguments: &[&str]| platform.cluster.kubectl(arguments).await.unwrap();
    kubectl(&[&["patch", "--subresource=status", "--type=merge", "-p", &patch], &of[..]].concat()).await;
    kubectl(&[&["get", "-o", "jsonpath={.metadata.uid}"], &of[..]].concat()).await
}

/// What another implementation leaves: its programs, its API of packages, and an operator that runs.
async fn left(platform: &Platform) {
    let cluster = &platform.cluster;
    COMPONENT.define(cluster).await.unwrap();
    let namespace = |name: &str| json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
    let group = object(
        "operators.coreos.com/v1",
        "OperatorGroup",
        ("shop", "shop"),
        json!({"spec": {"targetNamespaces": ["shop"]}}),
    );
    let secret = object(
        "v1",
        "Secret",
        ("shop", "own"),
        json!({"metadata": {"labels": {"olm.managed": "true"}}, "data": {"a": "Yg=="}}),
    );
    apply(cluster, &[namespace(NAMESPACE), namespace("shop"), group, secret]).await;
    let mut programs: Vec<Value> = ["olm-operator", "catalog-operator", "package-server-manager"]
        .map(|name| deployment((NAMESPACE, name), &json!({}), &json!({}), &json!([])))
        .into();
    let spec = json!({"displayName": "Package Server", "version": "1.0.0", "installModes": [],
        "install": {"strategy": "deployment", "spec": {"deployments": []}}});
    let uid = succeeded(platform, (NAMESPACE, "packageserver"), &json!({}), &spec).await;
    let own = owned("packageserver", NAMESPACE, &uid);
    programs.push(deployment((NAMESPACE, "packageserver"), &own, &json!({}), &json!([])));
    let served = json!({"metadata": own, "spec": {"ports": [{"port": 5443}], "selector": {"app": "packageserver"}}});
    programs.push(object("v1", "Service", (NAMESPACE, "packageserver-service"), served));
    let metadata = json!({"annotations": annotations(), "finalizers": ["operators.coreos.com/csv-cleanup"],
        "labels": {"olm.managed": "true", "operators.coreos.com/server.shop": ""}});
    let uid = succeeded(platform, ("shop", CSV), &metadata, &version()).await;
    let mut own = owned(CSV, "shop", &uid);
    own["labels"]["tier"] = json!("one");
    own["labels"]["operators.coreos.com/server.shop"] = json!("");
    let variables = json!([{"name": "OPERATOR_CONDITION_NAME", "value": CSV}]);
    programs.push(deployment(("shop", "server"), &own, &annotations(), &variables));
    apply(cluster, &programs).await;
    cluster.kubectl(["rollout", "status", "-n", "shop", "deployment/server", "--timeout=120s"]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn page_on_moving_can_be_followed_and_what_runs_is_the_same_all_the_time() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let cluster = &platform.cluster;
    left(&platform).await;
    let before = Running::of(&platform).await;
    let home = checkout(&platform, "moving", &[]);
    symlink(programs::cvo().unwrap(), home.join("bin/cvo")).unwrap();
    std::fs::create_dir_all(home.join("manifests")).unwrap();
    symlink(workspace::root().join("manifests/cluster-version"), home.join("manifests/cluster-version")).unwrap();
    COMPONENT.write(cluster, &home.join("manifests/olm")).unwrap();
    let changes = [("registry.example.com/me/cvo@sha256:...", platform.cvo_image().to_owned())];
    let script = adapted(script(&PAGES), &changes);
    // The operator is looked at before the way back begins.
    let (there, back) = script.split_at(script.find("kubectl delete --ignore-not-found").unwrap());
    let (status, said) = follow(&platform, &home, there).await;
    assert!(status.success(), "{status}");
    assert!(said.contains("1.0.0, Succeeded since") || said.contains(CSV), "{said}");
    let deployments: Api<Deployment> = Api::namespaced(cluster.client().await.unwrap(), "shop");
    let is_ours = |it: &Deployment| it.labels().get("olm.deployment-spec-hash").is_some_and(|hash| hash != "3aFg7h");
    let wait = cluster.until("the operator to be looked at", &[]).within(LIMIT);
    wait.existing(deployments, "server", is_ours).await.unwrap();
    assert_eq!(Running::of(&platform).await, before);

    let (status, said) = follow(&platform, &home, back).await;
    assert!(status.success(), "{status}: {said}");
    assert_eq!(Running::of(&platform).await, before);
    let programs: Api<Deployment> = Api::namespaced(cluster.client().await.unwrap(), NAMESPACE);
    assert_eq!(programs.list(&ListParams::default()).await.unwrap().items, Vec::<Deployment>::new());
    platform.close().await.unwrap();
}
