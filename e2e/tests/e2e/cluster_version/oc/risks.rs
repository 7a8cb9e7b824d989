//! Risks that the administrator accepts by their names.

use cvo::testing::api::ClusterVersion;
use serde_json::{Value, json};

use e2e::administrator::{Administrator, oc};
use e2e::conditions::Conditions;

use super::commands::{newest, until_at_rest};
use super::scenario::Scenario;

const OPERATORS: &str = "/apis/config.openshift.io/v1/clusteroperators";
const ADD_ON: &str = "storage-add-on";

/// What `oc adm upgrade accept` sends.
fn risks(names: &[&str]) -> Value {
    let risks: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
    json!({"spec": {"desiredUpdate": {"acceptRisks": risks}}})
}

fn none() -> Value {
    json!({"spec": {"desiredUpdate": {"acceptRisks": null}}})
}

fn is_available(object: &ClusterVersion, version: &str) -> bool {
    let updates = object.status.as_ref().and_then(|status| status.available_updates.as_ref());
    updates.into_iter().flatten().any(|update| update.version == version)
}

/// While the feature is off the request is invalid, and the way back is open.
pub(super) async fn are_refused_while_the_gate_is_off(scenario: &Scenario, who: &Administrator) {
    who.run(oc("adm upgrade accept Broken").sends(risks(&["Broken"])).says(&["Accept risks are [Broken]"])).await;
    let invalid = |object: &ClusterVersion| object.has("Invalid=True");
    scenario.cluster.until("the request to be invalid", invalid).await.unwrap();
    let said = ["InvalidClusterVersion", "spec.desiredUpdate.acceptRisks", "ClusterUpdateAcceptRisks is off"];
    who.run(oc("adm upgrade --to 1.0.1").fails().says(&said)).await;
    who.run(oc("adm upgrade accept --clear").sends(none())).await;
    until_at_rest(scenario).await;
}

pub(super) async fn are_accepted_by_name(scenario: &Scenario, who: &Administrator) {
    scenario.let_risks_be_accepted().await;
    let three = risks(&["Broken", "Elsewhere", "Puzzling"]);
    who.run(oc("adm upgrade accept Broken").sends(risks(&["Broken"]))).await;
    let offered = |object: &ClusterVersion| is_available(object, "1.0.2");
    let object = scenario.cluster.until("1.0.2 to be recommended", offered).await.unwrap();
    let updates = object.status.unwrap().conditional_updates;
    let update = updates.iter().find(|update| update.release.version == "1.0.2").unwrap();
    println!("{:?}", update.conditions);
    who.run(oc("adm upgrade accept Broken").says(&["not changed"])).await;
    who.run(oc("adm upgrade accept Puzzling,Elsewhere").sends(three)).await;
    // Whether this one applies is not known, and what is not known cannot be accepted.
    let object = until_at_rest(scenario).await;
    assert!(is_available(&object, "1.0.2") && !is_available(&object, "1.0.3"), "{object:?}");
    who.run(oc("adm upgrade accept Puzzling-,Elsewhere-").sends(risks(&["Broken"]))).await;
    who.run(oc("adm upgrade accept Puzzling --replace").sends(risks(&["Puzzling"]))).await;
    let refused = |object: &ClusterVersion| !is_available(object, "1.0.2");
    scenario.cluster.until("1.0.2 not to be recommended", refused).await.unwrap();
    who.run(oc("adm upgrade accept Broken --replace").sends(risks(&["Broken"]))).await;
    scenario.cluster.until("1.0.2 to be recommended", offered).await.unwrap();
    who.run(oc("adm upgrade").says(&["Recommended updates:", "1.0.2"])).await;
}

/// The update needs no force; what was accepted stays until it is withdrawn.
pub(super) async fn let_an_update_pass(scenario: &Scenario, who: &Administrator) {
    let risky = scenario.release("1.0.2");
    let accepted = json!([{"name": "Broken"}]);
    let asked = |version: &str, image: &str| {
        json!({"spec": {"desiredUpdate": {"architecture": "", "version": version, "image": image, "force": false,
            "acceptRisks": accepted}}})
    };
    who.run(oc("adm upgrade --to 1.0.2").sends(asked("1.0.2", &risky.image))).await;
    let object = scenario.cluster.completed(risky).await.unwrap();
    let entry = newest(&object);
    assert!(entry.accepted_risks.contains("Risk Broken applies and is accepted"), "{entry:?}");
    println!("acceptedRisks: {}", entry.accepted_risks);
    let still = ["still at 1.0.2"];
    who.run(oc("adm upgrade --clear").sends(asked("", "")).says(&still)).await;
    let history = until_at_rest(scenario).await.status.unwrap().history;
    who.run(oc("adm upgrade accept --clear").sends(none())).await;
    assert_eq!(until_at_rest(scenario).await.status.unwrap().history, history, "nothing is asked for");
    let left = json!({"architecture": "", "force": false, "image": "", "version": ""});
    assert_eq!(scenario.version().await["spec"]["desiredUpdate"], left, "an empty request is none");
}

/// What keeps the cluster at its minor version is named once, however a client puts it together.
pub(super) async fn of_the_cluster_are_told_once(scenario: &Scenario, who: &Administrator) {
    not_upgradeable(scenario).await;
    let told = |object: &ClusterVersion| object.has("Upgradeable=False") && !is_available(object, "1.1.0");
    let object = scenario.cluster.until("the operator to count", told).await.unwrap();
    let upgradeable = object.condition("Upgradeable").unwrap();
    let status = object.status.unwrap();
    let update = status.conditional_updates.iter().find(|update| update.release.version == "1.1.0").unwrap();
    let named = update.risks.iter().any(|risk| risk.message.contains(&upgradeable.message));
    assert!(named, "clients look for the message of Upgradeable: {upgradeable:?}\n{:?}", update.risks);
    let line = "adm upgrade recommend --accept FailedToCompletePrecheck --version 1.1.0";
    let said = ["PoolBusy", "a pool updates", "ConditionalUpdateRisk"];
    who.run(oc(line).fails().says(&said).omits(&["MultipleReasons"])).await;
    who.run(oc("adm upgrade").says(&["Upgradeable=False", "PoolBusy"])).await;
    // The operator says nothing about its health.
    let unstable = "adm wait-for-stable-cluster --minimum-stable-period=1s --timeout=3s";
    who.run(oc(unstable).fails().says(&[ADD_ON, "context deadline exceeded"])).await;
}

/// A ClusterOperator that no release knows.
async fn not_upgradeable(scenario: &Scenario) {
    let client = &scenario.cluster.client;
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator", "metadata": {"name": ADD_ON},
        "spec": {}});
    let create = http::Request::post(OPERATORS).body(object.to_string().into_bytes()).unwrap();
    client.request::<Value>(create).await.unwrap();
    let condition = json!({"type": "Upgradeable", "status": "False", "reason": "PoolBusy", "message": "a pool updates",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = json!({"status": {"conditions": [condition]}}).to_string().into_bytes();
    let report = http::Request::patch(format!("{OPERATORS}/{ADD_ON}/status"));
    let report = report.header("Content-Type", "application/merge-patch+json").body(patch).unwrap();
    client.request::<Value>(report).await.unwrap();
}
