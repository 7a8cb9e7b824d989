//! What others write to the Deployment of an operator: autoscalers, admission webhooks, and whoever does not give way.

use std::pin::pin;

use axum::{Json, Router};
use e2e::harness::audit;
use e2e::olm::{PROCESS, USER};
use e2e::services::webhook::{Webhook, patched};
use futures::StreamExt;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams};
use kube::runtime::watcher;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tokio_util::task::AbortOnDropHandle;

use super::super::LIMIT;
use super::{COLLECTED, SHOP, World, csv, image};

const WEBHOOK: &str = "admission";
const CONTAINER: &str = "/spec/template/spec/containers/0";

/// Adds a container, a label and a variable to each Deployment, and gives more memory than is asked for.
async fn inject(Json(review): Json<Value>) -> Json<Value> {
    let object = &review["request"]["object"];
    let containers = object.pointer("/spec/template/spec/containers").and_then(Value::as_array).unwrap();
    let mut patch = vec![json!({"op": "add", "path": "/metadata/labels/mesh", "value": "on"})];
    if containers.iter().all(|it| it["name"] != "mesh") {
        let sidecar = json!({"name": "mesh", "image": "registry.example.com/mesh:1"});
        patch.push(json!({"op": "add", "path": "/spec/template/spec/containers/-", "value": sidecar}));
    }
    if containers[0]["env"].as_array().is_some_and(|env| env.iter().all(|it| it["name"] != "MESH")) {
        let variable = json!({"name": "MESH", "value": "on"});
        patch.push(json!({"op": "add", "path": format!("{CONTAINER}/env/0"), "value": variable}));
    }
    if containers[0].pointer("/resources/limits/memory").is_some_and(|it| it == "64Mi") {
        patch.push(json!({"op": "replace", "path": format!("{CONTAINER}/resources/limits/memory"), "value": "1Gi"}));
    }
    Json(patched(&review, &Value::Array(patch)))
}

/// With a limit of memory that the webhook does not leave.
fn limited(version: &str, replaces: &str) -> Value {
    let mut csv = csv(version, replaces);
    csv.pointer_mut(&format!("/spec/install/spec/deployments/0{CONTAINER}")).unwrap()["resources"] =
        json!({"limits": {"memory": "64Mi"}});
    csv
}

impl World {
    /// Another operator, which has no Deployment and needs no rights.
    pub(super) async fn install_empty(&self, version: &str) {
        let mut other = csv(version, "");
        other["spec"]["install"]["spec"] = json!({"deployments": []});
        self.apply(&other).await;
        self.until_succeeded(&format!("server.v{version}")).await;
    }

    /// What others have written is there.
    async fn assert_has_what_others_wrote(&self, version: &str) {
        let deployment = serde_json::to_value(self.deployment().await).unwrap();
        let container = deployment.pointer(CONTAINER).unwrap();
        assert_eq!(container["image"], format!("registry.example.com/server:{version}"));
        assert_eq!(container["resources"]["limits"]["memory"], "1Gi");
        let variables: Vec<&Value> = container["env"].as_array().unwrap().iter().map(|it| &it["name"]).collect();
        assert_eq!(variables, ["MESH", "OPERATOR_CONDITION_NAME"]);
        assert_eq!(deployment.pointer("/spec/template/spec/containers/1/name").unwrap(), "mesh");
        assert_eq!(deployment["metadata"]["labels"]["mesh"], "on");
        assert_eq!(deployment["spec"]["replicas"], 2);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_autoscalers_and_webhooks_write_stays_and_a_restart_writes_nothing() {
    let world = World::up().await;
    let _webhook =
        Webhook::serve(&world.cluster, WEBHOOK, Router::new().fallback(axum::routing::post(inject))).await.unwrap();
    let rule = json!({"apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"],
        "operations": ["CREATE", "UPDATE"]});
    world
        .apply(&json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
            "metadata": {"name": "mesh"}, "webhooks": [{"name": "mesh.example.com", "rules": [rule],
                "clientConfig": Webhook::client_config(&world.cluster, WEBHOOK).unwrap(),
                "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": SHOP}},
                "failurePolicy": "Fail", "sideEffects": "None", "admissionReviewVersions": ["v1"]}]}))
        .await;
    world.install(&limited("1.0.0", "")).await;
    let name = "server.v1.0.0";
    world.kubectl(["autoscale", "deployment", "server", "-n", SHOP, "--min=2", "--max=3"]).await;
    let scaled = |it: &Deployment| it.status.as_ref().is_some_and(|status| status.available_replicas == Some(2));
    let wait = world.cluster.until("the autoscaler", &[PROCESS]).within(COLLECTED);
    wait.existing(world.deployments(), "server", scaled).await.unwrap();
    // When another operator is installed, the process has looked at this one: while it is scaled it is unavailable for a moment.
    world.install_empty("6.0.0").await;
    world.until_succeeded(name).await;
    world.assert_has_what_others_wrote("1.0.0").await;

    // Another process does not know what this one has seen, and has nothing to write.
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    let versions = async || {
        let csv = world.csvs().get(name).await.unwrap();
        (csv.resource_version(), world.deployment().await.metadata.generation)
    };
    let before = versions().await;
    world.start();
    world.install_empty("7.0.0").await;
    assert_eq!(versions().await, before);

    world.apply(&limited("2.0.0", "1.0.0")).await;
    world.until_succeeded("server.v2.0.0").await;
    world.until_gone(name).await;
    world.assert_has_what_others_wrote("2.0.0").await;
    world.down().await;
}

/// Whoever changes the image back as soon as it is changed.
fn contest(api: Api<Deployment>) -> AbortOnDropHandle<()> {
    AbortOnDropHandle::new(tokio::spawn(async move {
        let mut states = pin!(watcher::watch_object(api.clone(), "server"));
        while let Some(state) = states.next().await {
            let Ok(Some(deployment)) = state else { continue };
            if image(&deployment).ends_with("server:1.0.0") {
                let container = json!({"name": "server", "image": "registry.example.com/other"});
                let change = json!({"spec": {"template": {"spec": {"containers": [container]}}}});
                let policy = PatchParams { field_manager: Some("policy".to_owned()), ..PatchParams::default() };
                // A conflict is nothing: the next state comes.
                let _changed = api.patch("server", &policy, &Patch::Strategic(change)).await;
            }
        }
    }))
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn who_changes_a_field_again_and_again_is_named_and_nobody_is_kept_busy() {
    let world = World::up().await;
    world.install(&csv("1.0.0", "")).await;
    let name = "server.v1.0.0";
    let contest = contest(world.deployments());
    let events: Api<Event> = Api::namespaced(world.client.clone(), SHOP);
    let told = async || {
        let all = events.list(&Default::default()).await.unwrap();
        all.items.into_iter().find(|it| it.reason.as_deref() == Some("DeploymentContested"))
    };
    world
        .cluster
        .until("the contest to be told", &[PROCESS])
        .within(LIMIT)
        .holds(async || told().await.is_some())
        .await
        .unwrap();
    let requests = audit::requests(&world.cluster.audit_log(), USER).unwrap();
    let repairs =
        requests.iter().filter(|it| it.resource == "deployments" && it.verb == "update" && it.code == 200).count();
    assert!((3..=4).contains(&repairs), "it is told at the third repair, and then they are rare: {repairs}");
    let event = told().await.unwrap();
    assert_eq!(event.type_.as_deref(), Some("Warning"));
    assert_eq!(event.involved_object.name.as_deref(), Some(name));
    let message = event.message.unwrap();
    let field = "spec.template.spec.containers[server].image";
    let expected = format!("Deployment shop/server: {field}: changed again and again by policy.");
    assert!(message.starts_with(&expected), "{message}");
    // Once it gives way, the operator is as it has to be.
    drop(contest);
    let wait = world.cluster.until("the image to be back", &[PROCESS]).within(LIMIT);
    wait.existing(world.deployments(), "server", |it| image(it).ends_with("server:1.0.0")).await.unwrap();
    world.until_succeeded(name).await;
    world.down().await;
}
