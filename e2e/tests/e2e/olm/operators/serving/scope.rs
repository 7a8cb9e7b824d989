//! Webhooks of an operator that works for some namespaces.

use e2e::olm::PROCESS;
use kube::Api;
use kube::api::{DynamicObject, PostParams};
use serde_json::{Value, json};

use super::super::super::LIMIT;
use super::super::{COLLECTED, SHOP, World, group};
use super::{SECRET, answering, resource, version, widget};

/// It has a validating webhook alone, and may be asked to work for any namespaces.
fn validating() -> Value {
    let mut csv = version("5.0.0", "");
    let spec = &mut csv["spec"];
    let webhook = spec["webhookdefinitions"][1].clone();
    spec["webhookdefinitions"] = json!([webhook]);
    spec["customresourcedefinitions"] = json!({});
    spec["apiservicedefinitions"] = json!({});
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"];
    spec["installModes"] = modes.map(|mode| json!({"type": mode, "supported": true})).into();
    csv
}

/// Whether the webhook refuses what it refuses wherever it is asked.
async fn refuses(widgets: &Api<DynamicObject>) -> bool {
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    match widgets.create(&dry_run, &widget("tried", -1)).await {
        Ok(_) => false,
        Err(error) => error.to_string().contains("too small"),
    }
}

pub(super) async fn only_what_is_in_namespaces_of_the_group_is_sent(world: &World) {
    world.namespace("mall").await;
    let of = |namespace: &str| -> Api<DynamicObject> {
        Api::namespaced_with(world.client.clone(), namespace, &resource("example.com", "v2", "Widget", "widgets"))
    };
    let (shop, mall) = (of(SHOP), of("mall"));
    world.apply(&group("all", json!({"targetNamespaces": [SHOP]}))).await;
    world.apply(&validating()).await;
    let _backend = answering(world).await;
    world.until_succeeded("server.v5.0.0").await;
    let wait = world.cluster.until("the webhook to be asked", &[PROCESS]).within(LIMIT);
    wait.holds(async || refuses(&shop).await).await.unwrap();
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    mall.create(&dry_run, &widget("tried", -1)).await.unwrap();

    world.apply(&group("all", json!({"targetNamespaces": [SHOP, "mall"]}))).await;
    let wait = world.cluster.until("the webhook to be asked of another namespace", &[PROCESS]).within(LIMIT);
    wait.holds(async || refuses(&mall).await).await.unwrap();
    world.apply(&group("all", json!({"targetNamespaces": [SHOP]}))).await;
    let wait = world.cluster.until("the webhook not to be asked of it any more", &[PROCESS]).within(LIMIT);
    wait.holds(async || mall.create(&dry_run, &widget("tried", -1)).await.is_ok()).await.unwrap();
    let wait = world.cluster.until("the webhook to be asked once more", &[PROCESS]).within(LIMIT);
    wait.holds(async || refuses(&shop).await).await.unwrap();
}

/// An edit leaves no webhook: what led to the pods, and what they needed to answer, goes, and the operator runs on.
pub(super) async fn what_a_removed_description_needed_goes(world: &World) {
    let mut csv = validating();
    csv["spec"]["webhookdefinitions"] = json!([]);
    world.apply(&csv).await;
    let names = ["service/server-service".to_owned()].into_iter();
    let names: Vec<String> =
        names.chain(["secret", "role", "rolebinding"].map(|kind| format!("{kind}/{SECRET}"))).collect();
    let left = async || {
        let options = ["-n", SHOP, "--ignore-not-found", "-o", "name"].map(str::to_owned);
        let arguments = ["get".to_owned()].into_iter().chain(names.clone()).chain(options);
        world.cluster.kubectl(arguments).await.unwrap()
    };
    let wait = world.cluster.until("what the webhook needed to be gone", &[PROCESS]).within(COLLECTED);
    wait.holds(async || left().await.is_empty() && world.registered().await.is_empty()).await.unwrap();
    world.until_succeeded("server.v5.0.0").await;
    let pods = json!(world.deployment().await.spec.unwrap().template).to_string();
    assert!(!pods.contains(SECRET), "{pods}");
}
