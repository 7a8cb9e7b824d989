//! A reader of the older version of a kind, whose objects a webhook converts, notices nothing of an update.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::routing::post;
use e2e::services::webhook::{Webhook, sizes_converted};
use kube::Api;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::super::{LIMIT, PROCESS, World};
use super::{any_size, operator};

const PAUSE: Duration = Duration::from_millis(50);
const READS: usize = 40;

/// Objects are stored in the newer version. What the bundle says of the conversion is of no use: it does not know where the webhook is.
fn with_two_versions(version: &str, replaces: &str) -> Vec<Value> {
    let mut all = operator(version, replaces, &any_size());
    all[0]["spec"]["webhookdefinitions"] = json!([{"generateName": "convert", "type": "ConversionWebhook",
        "deploymentName": "widgets", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "conversionCRDs": ["widgets.example.com"]}]);
    let of = |name: &str, field: &str, storage: bool| {
        let spec = json!({"type": "object", "properties": {field: {"type": "integer"}}});
        json!({"name": name, "served": true, "storage": storage, "schema": {"openAPIV3Schema":
            {"type": "object", "description": version, "properties": {"spec": spec}}}})
    };
    all[1]["spec"]["versions"] = json!([of("v1", "length", false), of("v2", "size", true)]);
    let placeholder = json!({"service": {"name": "webhook-service", "namespace": "system", "path": "/convert"}});
    all[1]["spec"]["conversion"] = json!({"strategy": "Webhook",
        "webhook": {"clientConfig": placeholder, "conversionReviewVersions": ["v1"]}});
    all
}

#[derive(Default)]
struct Reads {
    good: AtomicUsize,
    bad: Mutex<Vec<String>>,
}

/// Reads the object in the older version all the time.
fn read(api: Api<DynamicObject>, reads: Arc<Reads>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut pauses = tokio::time::interval(PAUSE);
        loop {
            pauses.tick().await;
            match api.get("first").await {
                Ok(object) if object.data["spec"] == json!({"length": 3}) => {
                    reads.good.fetch_add(1, Ordering::Relaxed);
                }
                Ok(object) => reads.bad.lock().unwrap().push(object.data.to_string()),
                Err(error) => reads.bad.lock().unwrap().push(error.to_string()),
            }
        }
    }))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn reader_of_the_older_version_sees_no_error_through_an_update() {
    let world = World::up().await;
    world.group("one").await;
    let _webhook =
        Webhook::serve(&world.cluster, "conversion", Router::new().fallback(post(sizes_converted))).await.unwrap();
    world.start_plans();
    world.plan("install-a", 1, true, &with_two_versions("v1", "")).await;
    world.complete("install-a").await;
    // As the installation of a ClusterServiceVersion writes it.
    let mut client = Webhook::client_config(&world.cluster, "conversion").unwrap();
    client["service"] = Value::Null;
    let conversion = json!({"strategy": "Webhook",
        "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}});
    let patch = json!({"spec": {"conversion": conversion}}).to_string();
    world.cluster.kubectl(["patch", "crd", "widgets.example.com", "--type=merge", "-p", &patch]).await.unwrap();
    let object = json!({"apiVersion": "example.com/v2", "kind": "Widget",
        "metadata": {"name": "first", "namespace": "shop"}, "spec": {"size": 3}});
    world.apply(&object).await;
    let kind = ApiResource {
        group: "example.com".to_owned(),
        version: "v1".to_owned(),
        api_version: "example.com/v1".to_owned(),
        kind: "Widget".to_owned(),
        plural: "widgets".to_owned(),
    };
    let older: Api<DynamicObject> = Api::namespaced_with(world.client.clone(), "shop", &kind);
    let wait = world.cluster.until("the older version", &[PROCESS]).within(LIMIT);
    wait.holds(async || older.get("first").await.is_ok_and(|it| it.data["spec"] == json!({"length": 3})))
        .await
        .unwrap();

    let reads = Arc::new(Reads::default());
    let _reader = read(older, reads.clone());
    let more = async |what: &str| {
        let until = reads.good.load(Ordering::Relaxed) + READS;
        let wait = world.cluster.until(what, &[PROCESS]).within(LIMIT);
        wait.holds(async || reads.good.load(Ordering::Relaxed) >= until || !reads.bad.lock().unwrap().is_empty())
            .await
            .unwrap();
    };
    more("reads before").await;
    world.plan("install-b", 2, true, &with_two_versions("v2", "widgets.v1")).await;
    world.complete("install-b").await;
    more("reads afterwards").await;
    assert_eq!(*reads.bad.lock().unwrap(), [""; 0]);
    let definition = world.found("crd", false, "widgets.example.com").await.unwrap();
    assert_eq!(definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"], "v2");
    world.cluster.down().await.unwrap();
}
