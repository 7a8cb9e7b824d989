//! An operator says that it must not be replaced: its successor waits, and nothing else does.

use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersionStatus;
use cvo::testing::api::olm::operator_condition::OperatorCondition;
use e2e::olm::PROCESS;
use kube::Api;
use serde_json::{Value, json};

use super::super::LIMIT;
use super::super::plan::{release, runs};
use super::config::until_upgradeable;
use super::{SHOP, World, csv, in_shop};

/// Upgradeable, as the operator says it in `conditions`, or the administrator in `overrides`.
fn said(status: &str, message: &str) -> Value {
    json!([{"type": "Upgradeable", "status": status, "reason": "Said", "message": message,
        "lastTransitionTime": "2026-01-02T03:04:05Z"}])
}

impl World {
    async fn say(&self, name: &str, spec: Value) {
        self.apply(&in_shop("operators.coreos.com/v2", "OperatorCondition", name, json!({"spec": spec}))).await;
    }

    async fn patch_status(&self, name: &str, patch: String) {
        let object = format!("operatorcondition/{name}");
        self.kubectl(["patch", &object, "-n", SHOP, "--subresource=status", "--type=merge", "-p", &patch]).await;
    }

    /// Until the version is held, with this text.
    async fn held(&self, name: &str, why: &str) {
        let expected = format!("operator is not upgradeable: {why}");
        let is_so = |it: &ClusterServiceVersionStatus| {
            (it.reason.as_str(), it.message.as_str()) == ("OperatorConditionNotUpgradeable", expected.as_str())
        };
        self.until(&expected, name, is_so).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "many steps one after the other"]
async fn operator_that_must_not_be_replaced_holds_its_successor_and_no_update_of_the_cluster() {
    let world = World::up().await;
    world.install(&csv("1.0.0", "")).await;
    let (first, second, third) = ("server.v1.0.0", "server.v2.0.0", "server.v3.0.0");
    let busy = json!({"conditions": said("False", "it migrates data")});
    world.say(first, busy).await;
    let conditions: Api<OperatorCondition> = Api::namespaced(world.client.clone(), SHOP);
    let wait = world.cluster.until("the status of the OperatorCondition", &[PROCESS]).within(LIMIT);
    let is_told = |it: &OperatorCondition| it.status.as_ref().is_some_and(|it| !it.conditions.is_empty());
    wait.existing(conditions.clone(), first, is_told).await.unwrap();
    world.apply(&csv("2.0.0", "1.0.0")).await;
    world.held(second, "the operator is not upgradeable: it migrates data").await;

    // The cluster is updated all the same.
    until_upgradeable(&world, &world.client, "\"True\"").await;
    runs(&world.cluster, "1.0.0").await;
    let folder = world.cluster.dir().join("release");
    release(&folder, "1.1.0", &json!({}));
    let arguments =
        ["plan", "--from", "cluster", "--to", &folder.display().to_string(), "-o", "json"].map(str::to_owned);
    let plan: Value = world.cluster.cvo(arguments).run().await.unwrap().json().unwrap();
    let operators = plan["operators"].as_array().unwrap();
    assert!(operators.iter().any(|it| it["name"] == first && it.get("hindrances").is_none()), "{plan:#}");
    let is_of_operators =
        |it: &&Value| it["cause"] == "operator" || it.to_string().contains("operator-lifecycle-manager");
    let blockers: Vec<&Value> = plan["blockers"].as_array().unwrap().iter().filter(is_of_operators).collect();
    assert_eq!(blockers, [&Value::Null; 0]);

    // What the administrator says counts, whatever the operator says.
    let overridden = |status: &str, message: &str| {
        let overrides = said(status, message);
        json!({"conditions": said("False", "it migrates data"), "overrides": overrides})
    };
    world.say(first, overridden("False", "not on Fridays")).await;
    world.held(second, "the operator is not upgradeable: not on Fridays").await;
    world.say(first, overridden("True", "go")).await;
    world.until_succeeded(second).await;
    world.until_gone(first).await;

    // What older operators write is the status itself: of another generation it counts for nothing.
    let status = |generation: i64| {
        let mut said = said("True", "it has counted");
        said[0]["observedGeneration"] = json!(generation);
        json!({"status": {"conditions": said}}).to_string()
    };
    let generation = conditions.get(second).await.unwrap().metadata.generation.unwrap();
    world.patch_status(second, status(generation - 1)).await;
    world.apply(&csv("3.0.0", "2.0.0")).await;
    world.held(third, "the operatorcondition status \"Upgradeable\"=\"True\" is outdated").await;
    world.patch_status(second, status(generation)).await;
    world.until_succeeded(third).await;
    world.until_gone(second).await;
    world.down().await;
}
