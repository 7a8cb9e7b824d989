//! The API server does not let the daemon read a kind, or does not accept a field: the rest of the release goes on, a
//! condition says what is the matter, and everything is made good when the cause is gone.

use std::time::Duration;

use axum::{Json, Router};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{
    Api, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use cvo::testing::api::ClusterVersion;
use e2e::{
    conditions::Conditions,
    services::webhook::{Webhook, converted},
    simulator::cluster::{LIMIT, SimulatedCluster},
};

const GROUP: &str = "lab.example.com";

fn api(cluster: &SimulatedCluster, version: &str) -> Api<DynamicObject> {
    Api::all_with(cluster.client.clone(), &ApiResource::from_gvk(&GroupVersionKind::gvk(GROUP, version, "Gauge")))
}

fn gauge(version: &str, spec: Value) -> Value {
    let annotations = json!({"include.release.openshift.io/self-managed-high-availability": "true"});
    json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "Gauge",
        "metadata": {"name": "first", "annotations": annotations}, "spec": spec})
}

/// The last version is the one that objects are stored in.
fn definition(versions: &[(&str, Value)]) -> Value {
    let last = versions.len() - 1;
    let version = |(at, (name, properties)): (usize, &(&str, Value))| {
        let spec = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}});
        json!({"name": name, "served": true, "storage": at == last, "schema": {"openAPIV3Schema": spec}})
    };
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("gauges.{GROUP}"),
            "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"}},
        "spec": {
            "group": GROUP,
            "scope": "Cluster",
            "names": {"kind": "Gauge", "listKind": "GaugeList", "plural": "gauges", "singular": "gauge"},
            "versions": versions.iter().enumerate().map(version).collect::<Vec<_>>(),
        },
    })
}

/// Converts by changing nothing but the version.
async fn convert(Json(review): Json<Value>) -> Json<Value> {
    Json(converted(&review, |_, _| {}))
}

/// The release brings a new version of a kind and the webhook that converts to it, and an object of that kind comes before
/// the webhook. As long as the webhook does not run, nobody can read the object that is stored in the old version.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn release_that_brings_the_webhook_of_its_own_kind_comes_through() {
    release_with_webhook(false).await;
}

/// After more than a minute.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes"]
async fn kind_that_cannot_be_watched_is_named() {
    release_with_webhook(true).await;
}

/// `late`: the webhook runs only when the daemon has told of the kind that it cannot watch.
async fn release_with_webhook(late: bool) {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let old = [("v1", json!({"size": {"type": "integer"}}))];
    let new = [old[0].clone(), ("v2", json!({"size": {"type": "integer"}, "colour": {"type": "string"}}))];
    let mut converting = definition(&new);
    converting["spec"]["conversion"] = json!({"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"],
        "clientConfig": Webhook::client_config(&cluster.control_plane, "webhook").unwrap()}});
    let put = |at: usize, file: &str, object: Value| releases[at].put(file, &object.to_string()).unwrap();
    put(0, "0000_20_beta_01_gauges.json", definition(&old));
    put(0, "0000_20_beta_02_gauge.json", gauge("v1", json!({"size": 1})));
    put(1, "0000_20_beta_01_gauges.json", converting);
    put(1, "0000_20_beta_02_gauge.json", gauge("v2", json!({"size": 1, "colour": "blue"})));
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();

    cluster.request(&releases[1]).await.unwrap();
    let told = |object: &ClusterVersion| object.says("Failing=True", &["conversion webhook for"]);
    cluster.until("the cause to be told", told).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "beta");
    let updated = |object: Option<&Deployment>| {
        let env = object.map(|object| serde_json::to_value(&object.spec).unwrap());
        env.is_some_and(|spec| spec["template"]["spec"]["containers"][0]["env"][0]["value"] == "1.0.1")
    };
    cluster.until_object("the Deployment behind it", deployments, "beta", LIMIT, updated).await.unwrap();
    if late {
        let named = |object: &ClusterVersion| object.says("KindsNotWatched=True", &["gauges.lab.example.com"]);
        let object = cluster.until("the kind to be named", named).await.unwrap();
        println!("{}", object.condition("KindsNotWatched=True").unwrap().message);
    }

    // From here on the pods of the Deployment run.
    let router = Router::new().fallback(convert);
    let webhook = Webhook::serve(&cluster.control_plane, "webhook", router).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    assert_eq!(api(&cluster, "v2").get("first").await.unwrap().data["spec"], json!({"size": 1, "colour": "blue"}));
    let quiet = |object: &ClusterVersion| !object.has("KindsNotWatched=True");
    cluster.until("the kind to be watched again", quiet).await.unwrap();
    drop(webhook);
    cluster.close().await.unwrap();
}

/// The definition is another client's, and older than the release.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn field_of_a_newer_schema_is_written_when_the_schema_comes() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let definitions: Api<DynamicObject> = Api::all_with(
        cluster.client.clone(),
        &ApiResource::from_gvk(&GroupVersionKind::gvk("apiextensions.k8s.io", "v1", "CustomResourceDefinition")),
    );
    let old = definition(&[("v1", json!({"size": {"type": "integer"}}))]);
    let old: DynamicObject = serde_json::from_value(old).unwrap();
    definitions.create(&PostParams::default(), &old).await.unwrap();
    let name = old.name_any();
    let wait = cluster.wait("the kind to be established");
    wait.existing(definitions.clone(), &name, |it: &DynamicObject| it.has("Established=True")).await.unwrap();
    let existing: DynamicObject = serde_json::from_value(gauge("v1", json!({"size": 1}))).unwrap();
    // The API server serves a kind a moment after it calls it established.
    let gauges = api(&cluster, "v1");
    let created = async || gauges.create(&PostParams::default(), &existing).await;
    cluster.wait("the kind to be served").answer(created).await.unwrap();
    let desired = gauge("v1", json!({"size": 2, "colour": "blue"}));
    releases[0].put("0000_20_beta_02_gauge.json", &desired.to_string()).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let told = |object: &ClusterVersion| {
        let condition = object.condition("FieldsNotAccepted=True");
        condition.is_some_and(|c| c.message.contains("first") && c.message.contains("spec.colour"))
    };
    cluster.until("the field to be named", told).await.unwrap();
    assert_eq!(api(&cluster, "v1").get("first").await.unwrap().data["spec"], json!({"size": 2}));

    let new = definition(&[("v1", json!({"size": {"type": "integer"}, "colour": {"type": "string"}}))]);
    definitions.patch(&name, &PatchParams::default(), &Patch::Merge(&new)).await.unwrap();
    let complete = |object: Option<&DynamicObject>| {
        object.is_some_and(|object| object.data["spec"] == json!({"size": 2, "colour": "blue"}))
    };
    let (_, took) = cluster
        .until_object("the field to be written", api(&cluster, "v1"), "first", Duration::from_secs(30), complete)
        .await
        .unwrap();
    println!("written {} ms after the schema came", took.as_millis());
    let quiet = |object: &ClusterVersion| !object.has("FieldsNotAccepted=True");
    cluster.until("the condition to go", quiet).await.unwrap();
    cluster.close().await.unwrap();
}
