//! Definitions of kinds whose objects are there.

use cvo::testing::api::olm::install_plan::InstallPlan;
use e2e::harness::audit;
use e2e::olm::USER;
use futures::{StreamExt, stream};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::World;
use super::{any_size, csv, message, operator, step};

/// Objects of one kind: several pages.
const OBJECTS: usize = 1_000;

/// All objects of a kind are looked at, page by page; the one that would become invalid is named, and nothing is written.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn one_of_a_thousand_objects_that_would_become_invalid_refuses_the_plan() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    world.plan("install-a", 1, true, &operator("v1", "", &any_size())).await;
    world.complete("install-a").await;
    let objects = (0..OBJECTS).map(|at| {
        // It is on none of the first pages.
        let size = if at == 987 { 900 } else { 3 };
        json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": format!("widget-{at:04}"), "namespace": "shop"}, "spec": {"size": size}})
    });
    let kind = kube::core::ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let api: kube::Api<kube::api::DynamicObject> = kube::Api::namespaced_with(world.client.clone(), "shop", &kind);
    let creates = objects.map(|object| {
        let (api, object) = (api.clone(), serde_json::from_value(object).unwrap());
        async move { api.create(&Default::default(), &object).await.unwrap() }
    });
    let created: Vec<_> = stream::iter(creates).buffer_unordered(16).collect().await;
    assert_eq!(created.len(), OBJECTS);
    let mut strict = any_size();
    strict["properties"]["size"]["maximum"] = json!(10);
    let before = world.writes().len();
    world.plan("install-b", 2, true, &operator("v2", "widgets.v1", &strict)).await;
    let told = world.until_plan("what is wrong", "install-b", |it| message(it).contains("too restrictive")).await;
    let text = message(&told);
    assert!(text.contains("version v1: shop/widget-0987: spec.size: must be at most 10: updated"), "{text}");
    assert!(!text.contains("widget-0986"), "{text}");
    let written: Vec<String> = world.writes().split_off(before).iter().map(|it| it.resource_path()).collect();
    assert!(written.iter().all(|path| path.contains("installplans")), "{written:?}");
    let pages = audit::requests(&world.cluster.audit_log(), USER).unwrap();
    let pages = pages.iter().filter(|it| it.resource == "widgets" && it.verb == "list").count();
    assert!(pages >= 2, "{pages} requests");
    world.cluster.kubectl(["delete", "widget", "-n", "shop", "widget-0987"]).await.unwrap();
    world.complete("install-b").await;
    world.cluster.down().await.unwrap();
}

/// The conversion that an installation has written stays through the next version, whose bundle cannot know it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn live_conversion_stays_through_an_update() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    let with_webhook = |version: &str, replaces: &str| -> Vec<Value> {
        let mut all = operator(version, replaces, &any_size());
        all[0]["spec"]["webhookdefinitions"] = json!([{"generateName": "convert", "type": "ConversionWebhook",
            "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "conversionCRDs": ["widgets.example.com"]}]);
        let placeholder = json!({"service": {"name": "webhook-service", "namespace": "system", "path": "/convert"}});
        all[1]["spec"]["conversion"] = json!({"strategy": "Webhook",
            "webhook": {"clientConfig": placeholder, "conversionReviewVersions": ["v1"]}});
        all
    };
    world.plan("install-a", 1, true, &with_webhook("v1", "")).await;
    world.complete("install-a").await;
    let client = json!({"service": {"name": "widgets-service", "namespace": "shop", "path": "/convert", "port": 443}});
    let conversion = json!({"strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}});
    let patch = json!({"spec": {"conversion": conversion}}).to_string();
    world.cluster.kubectl(["patch", "crd", "widgets.example.com", "--type=merge", "-p", &patch]).await.unwrap();
    let mut next = with_webhook("v2", "widgets.v1");
    next[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("the next one");
    world.plan("install-b", 2, true, &next).await;
    world.complete("install-b").await;
    // What the webhook would make of the objects nobody else knows, and that is told.
    let told = world.event("CRDValidation", "InstallPlan").await;
    assert_eq!(told.involved_object.name.as_deref(), Some("install-b"));
    let message = told.message.unwrap();
    assert!(message.ends_with("are not compared with its new schema: a webhook converts them"), "{message}");
    let requests = audit::requests(&world.cluster.audit_log(), USER).unwrap();
    assert!(!requests.iter().any(|request| request.resource == "widgets"), "objects are read");
    let definition = world.found("crd", false, "widgets.example.com").await.unwrap();
    assert_eq!(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"], "the next one");
    assert_eq!(definition["spec"]["conversion"], conversion);
    // Once no operator converts them, the definition is what the bundle says.
    world.cluster.kubectl(["delete", "csv", "-n", "shop", "--all"]).await.unwrap();
    world.plan("install-c", 3, true, &operator("v3", "", &any_size())).await;
    world.complete("install-c").await;
    let definition = world.found("crd", false, "widgets.example.com").await.unwrap();
    assert_eq!(definition["spec"]["conversion"]["strategy"], "None", "{}", definition["spec"]["conversion"]);
    world.cluster.down().await.unwrap();
}

/// Kinds are of the whole cluster: a plan that changes one for operators of other namespaces names them, and is carried out.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn change_of_a_definition_that_an_operator_elsewhere_owns_is_told() {
    let world = World::up().await;
    world.group("one").await;
    world.cluster.kubectl(["create", "namespace", "mall"]).await.unwrap();
    let mut elsewhere = csv("v1", "");
    elsewhere["metadata"]["namespace"] = json!("mall");
    world.apply(&elsewhere).await;
    world.start_plans();
    world.plan("install-a", 1, true, &operator("v1", "", &any_size())).await;
    world.complete("install-a").await;
    let mut next = operator("v2", "widgets.v1", &any_size());
    next[1]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = json!("the next one");
    world.plan("install-b", 2, true, &next).await;
    world.complete("install-b").await;
    let told = world.event("SharedDefinition", "InstallPlan").await;
    assert_eq!(told.involved_object.name.as_deref(), Some("install-b"), "a definition that is new changes for nobody");
    let (message, owner) = (told.message.unwrap(), "mall/widgets.v1");
    assert!(message.starts_with("widgets.example.com changes for operators of other namespaces too"), "{message}");
    assert!(message.ends_with(owner), "{message}");
    world.cluster.down().await.unwrap();
}

/// What is wrong with one step of a plan that somebody has changed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn plan_that_was_changed_by_hand_writes_only_what_plans_may_write() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    let foreign = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "intruder"},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let mut steps = operator("v1", "", &any_size());
    steps.push(foreign);
    world.plan("install-a", 1, false, &steps).await;
    // One kind in the list, another in the text.
    let csv = json!("widgets.v1");
    let mut all: Vec<Value> = steps.iter().map(|it| step(&csv, it)).collect();
    all[3]["resource"]["manifest"] = json!(steps[5].to_string());
    let status = Patch::Merge(json!({"status": {"plan": all, "phase": "RequiresApproval"}}));
    world.installs().patch_status("install-a", &PatchParams::default(), &status).await.unwrap();
    // Approved twice, and then told again that it is not.
    world.approve("install-a").await;
    world.approve("install-a").await;
    let told = world.until_plan("what is wrong", "install-a", |it| message(it).contains("2 steps")).await;
    let text = message(&told);
    for part in ["Pod intruder: objects of the kind Pod are not part of a plan", "its manifest is a ClusterRole"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let states: Vec<Value> = told.status.unwrap().plan.iter().map(|it| json!(it.status)).collect();
    assert_eq!(states.last().unwrap(), "UnsupportedResource", "{states:?}");
    assert!(
        world.found("csv", true, "widgets.v1").await.is_none() && world.found("pod", true, "intruder").await.is_none()
    );
    // Repaired, it goes on by itself, and what others write into its status does not make it do anything twice.
    let repaired: Vec<Value> = steps[..9].iter().map(|it| step(&csv, it)).collect();
    let status = Patch::Merge(json!({"status": {"plan": repaired}}));
    world.installs().patch_status("install-a", &PatchParams::default(), &status).await.unwrap();
    world.complete("install-a").await;
    let before = world.writes().len();
    let again = Patch::Merge(json!({"status": {"phase": "Installing", "message": "again"}}));
    world.installs().patch_status("install-a", &PatchParams::default(), &again).await.unwrap();
    world.complete("install-a").await;
    let written: Vec<String> = world.writes().split_off(before).iter().map(|it| it.resource_path()).collect();
    assert_eq!(written.len(), 1, "{written:?}");
    world.cluster.down().await.unwrap();
}

/// What is being deleted is not there for long: its step waits until it is gone, and creates it anew.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn definition_that_is_being_deleted_is_created_anew() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    let steps = operator("v1", "", &any_size());
    let mut definition = steps.iter().find(|it| it["kind"] == "CustomResourceDefinition").unwrap().clone();
    let name = definition["metadata"]["name"].as_str().unwrap().to_owned();
    definition["metadata"]["finalizers"] = json!(["example.com/hold"]);
    world.apply(&definition).await;
    let before = world.found("crd", false, &name).await.unwrap();
    world.cluster.kubectl(["delete", "crd", &name, "--wait=false"]).await.unwrap();
    world.plan("install-a", 1, true, &steps).await;
    let waits =
        |it: &InstallPlan| message(it).contains(&format!("CustomResourceDefinition {name}: it is being deleted"));
    world.until_plan("it to wait", "install-a", waits).await;
    assert!(world.found("csv", true, "widgets.v1").await.is_none());
    let patch = r#"{"metadata":{"finalizers":null}}"#;
    world.cluster.kubectl(["patch", "crd", &name, "--type=merge", "-p", patch]).await.unwrap();
    world.complete("install-a").await;
    let after = world.found("crd", false, &name).await.unwrap();
    assert!(after["metadata"]["deletionTimestamp"].is_null(), "{after}");
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    world.cluster.down().await.unwrap();
}
