//! What Subscriptions and the proxy of the cluster change of Deployments.

use e2e::olm::{self, PROCESS};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::super::LIMIT;
use super::{SHOP, World, csv, in_shop};

/// As the platform has it, without what does not count here.
fn definition() -> Value {
    let version = json!({"name": "v1", "served": true, "storage": true,
        "schema": {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "proxies.config.openshift.io",
            "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
        "spec": {"group": "config.openshift.io", "scope": "Cluster", "versions": [version],
            "names": {"plural": "proxies", "singular": "proxy", "kind": "Proxy", "listKind": "ProxyList"}}})
}

fn proxy(http: &str) -> Value {
    json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"},
        "status": {"httpProxy": http}})
}

fn subscription(config: Value) -> Value {
    in_shop(
        "operators.coreos.com/v1alpha1",
        "Subscription",
        "server",
        json!({"spec": {"name": "server", "source": "none", "sourceNamespace": SHOP, "config": config}}),
    )
}

/// Variables of the pods as `name=value`, without those that all of them have.
fn variables(deployment: &Deployment) -> Vec<String> {
    let object = serde_json::to_value(deployment).unwrap();
    let all = object["spec"]["template"]["spec"]["containers"][0]["env"].as_array().cloned().unwrap_or_default();
    let text = |it: &Value| format!("{}={}", it["name"].as_str().unwrap(), it["value"].as_str().unwrap_or_default());
    all.iter().map(text).filter(|it| !it.starts_with("OPERATOR_CONDITION_NAME=")).collect()
}

impl World {
    /// What a Subscription has chosen and installed: nobody else says it here.
    async fn has(&self, current: &str, installed: &str) {
        let status = json!({"status": {"currentCSV": current, "installedCSV": installed,
            "lastUpdated": "2026-01-02T03:04:05Z"}});
        let patch = status.to_string();
        let arguments = ["patch", "subscription", "server", "-n", SHOP, "--subresource=status", "--type=merge", "-p"];
        self.cluster.kubectl(arguments.into_iter().chain([patch.as_str()])).await.unwrap();
    }

    /// Until the Deployment has been given these variables; how often its pods were changed until then.
    async fn until_has(&self, expected: &[&str]) -> i64 {
        let wait = self.cluster.until(format!("variables {expected:?}"), &[PROCESS]).within(LIMIT);
        let deployment = wait.existing(self.deployments(), "server", |it| variables(it) == expected).await.unwrap();
        deployment.metadata.generation.unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn config_is_in_the_first_pods_of_each_version_and_outlives_its_subscription() {
    let world = World::up().await;
    world.apply(&definition()).await;
    world.kubectl(["wait", "--for=condition=Established", "crd/proxies.config.openshift.io", "--timeout=60s"]).await;
    world.apply(&proxy("http://first")).await;
    world.group("one").await;
    world.account().await;
    world.apply(&subscription(json!({"env": [{"name": "X", "value": "1"}], "nodeSelector": {}}))).await;
    world.has("server.v1.0.0", "").await;
    let process = olm::limited(&world.cluster, &world.ports).unwrap().log_level("info,cvo=debug");
    // Subscriptions are left alone.
    let process = process.flag("--secure-port", "0").flag("--loops", "operators");
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    world.apply(&csv("1.0.0", "")).await;
    world.until_succeeded("server.v1.0.0").await;
    assert_eq!(world.until_has(&["HTTP_PROXY=http://first", "X=1"]).await, 1, "no pod began without");

    world.has("server.v2.0.0", "server.v1.0.0").await;
    world.apply(&csv("2.0.0", "1.0.0")).await;
    world.until_succeeded("server.v2.0.0").await;
    assert_eq!(world.until_has(&["HTTP_PROXY=http://first", "X=1"]).await, 2, "the next version rolls once");
    world.until_gone("server.v1.0.0").await;
    world.has("server.v2.0.0", "server.v2.0.0").await;

    world.apply(&subscription(json!({"env": [{"name": "X", "value": "2"}]}))).await;
    assert_eq!(world.until_has(&["HTTP_PROXY=http://first", "X=2"]).await, 3);
    world.kubectl(["delete", "subscription", "server", "-n", SHOP]).await;
    world.apply(&proxy("http://second")).await;
    let generation = world.until_has(&["HTTP_PROXY=http://second", "X=2"]).await;
    assert_eq!(generation, 4, "the proxy has changed the pods once, and the deletion has not");
    world.until_succeeded("server.v2.0.0").await;
    world.down().await;
}

/// Type, status, reason and message of a condition of the ClusterOperator.
fn upgradeable(operator: &Value) -> String {
    let conditions = operator["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.iter().find(|it| it["type"] == "Upgradeable");
    found.map_or_else(String::new, |it| format!("{} {}: {}", it["status"], it["reason"], it["message"]))
}

pub(super) async fn until_upgradeable(world: &World, client: &Client, start: &str) -> String {
    let kind = kube::core::ApiResource {
        group: "config.openshift.io".into(),
        version: "v1".into(),
        api_version: "config.openshift.io/v1".into(),
        kind: "ClusterOperator".into(),
        plural: "clusteroperators".into(),
    };
    let operators: Api<kube::core::DynamicObject> = Api::all_with(client.clone(), &kind);
    let wait = world.cluster.until(format!("Upgradeable {start}"), &[PROCESS]).within(LIMIT);
    let told = async || {
        let object = operators.get("operator-lifecycle-manager").await;
        object.map(|it| upgradeable(&serde_json::to_value(it).unwrap())).unwrap_or_default()
    };
    wait.holds(async || told().await.starts_with(start)).await.unwrap();
    told().await
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_that_does_not_fit_holds_the_next_minor_version_of_the_cluster() {
    let world = World::up().await;
    let version = |number: &str, replaces: &str, maximum: &str| {
        let mut object = csv(number, replaces);
        let properties = json!({"properties": [{"type": "olm.maxOpenShiftVersion", "value": maximum}]});
        object["metadata"]["annotations"]["operatorframework.io/properties"] = properties.to_string().into();
        object
    };
    world.install(&version("1.0.0", "", "1.0")).await;
    let held = until_upgradeable(&world, &world.client, "\"False\" \"IncompatibleOperatorsInstalled\"").await;
    assert!(held.contains("- maximum supported OCP version for shop/server.v1.0.0 is 1.0"), "{held}");
    // Its next version fits.
    world.apply(&version("2.0.0", "1.0.0", "1.1")).await;
    world.until_succeeded("server.v2.0.0").await;
    world.until_gone("server.v1.0.0").await;
    until_upgradeable(&world, &world.client, "\"True\"").await;
    world.down().await;
}
