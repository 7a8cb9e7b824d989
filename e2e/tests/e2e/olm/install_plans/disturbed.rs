//! API servers that cannot try a write out, that warn, and that refuse.

use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use e2e::faults::proxy::Proxy;
use e2e::olm::{self, Start};
use e2e::services::monitoring::PROMETHEUS;
use serde_json::{Value, json};

use super::super::{PROCESS, World};
use super::{RBAC, any_size, message, operator, phase};

/// A webhook that cannot be asked without effect makes the server refuse to try anything out. That says nothing of the steps.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn write_that_cannot_be_tried_out_is_no_verdict() {
    let world = World::up().await;
    world.group("one").await;
    let proxy = Proxy::start(&world.cluster, 1).await.unwrap();
    proxy.refuse_dry_runs();
    let process = world.process(PROCESS);
    proxy.redirect(&world.cluster.dir().join(format!("{PROCESS}.kubeconfig"))).unwrap();
    world.spawn_plans(process);
    world.plan("install-a", 1, true, &operator("v1", "", &any_size())).await;
    world.complete("install-a").await;
    assert!(world.found("configmap", true, "widgets").await.is_some());
    assert!(proxy.refused_dry_runs() >= 9, "{} were asked for", proxy.refused_dry_runs());
    // What the write itself is refused for is a failure all the same.
    let mut steps = operator("v2", "widgets.v1", &any_size());
    steps.push(json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "bad"},
        "rules": [{"apiGroups": [""], "resources": ["pods"]}]}));
    world.plan("install-b", 2, true, &steps).await;
    world.until_plan("what is wrong", "install-b", |it| message(it).contains("Role bad: ")).await;
    world.cluster.down().await.unwrap();
}

/// It is tried again for as long as it may be, and then ends with the reason. What was wrong is told of the whole time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn plan_that_cannot_be_carried_out_ends_with_its_reason() {
    let world = World::up().await;
    world.group("one").await;
    world.spawn_plans(world.process(PROCESS).flag("--install-plan-retry-timeout", "8s"));
    let mut steps = operator("v1", "", &any_size());
    steps.push(json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "bad"},
        "rules": [{"apiGroups": [""], "resources": ["pods"]}]}));
    world.plan("install-a", 1, true, &steps).await;
    let retried = |it: &InstallPlan| message(it).starts_with("retrying execution due to error: Role bad: ");
    let first = world.until_plan("it to be tried again", "install-a", retried).await;
    assert_eq!(phase(&first), InstallPlanPhase::Installing);
    let failed = world.until_plan("its end", "install-a", |it| phase(it) == InstallPlanPhase::Failed).await;
    let status = failed.status.unwrap();
    let condition = status.conditions.iter().find(|it| it.type_ == "Installed").unwrap();
    assert_eq!((condition.status.as_str(), condition.reason.as_str()), ("False", "InstallComponentFailed"));
    assert!(condition.message.starts_with("Role bad: ") && condition.message == status.message, "{}", status.message);
    let (begun, ended) = (status.start_time.unwrap().0, condition.last_transition_time.clone().unwrap().0);
    assert!(ended.duration_since(begun).as_secs() >= 8, "{begun} {ended}");
    assert!(world.found("csv", true, "widgets.v1").await.is_none());
    // A plan that has ended stays so.
    let before = world.writes().len();
    world.plan("install-b", 2, true, &operator("v1", "", &any_size())).await;
    world.complete("install-b").await;
    assert_eq!(phase(&world.installs().get("install-a").await.unwrap()), InstallPlanPhase::Failed);
    assert!(!world.writes().split_off(before).iter().any(|it| it.name == "install-a"));
    world.cluster.down().await.unwrap();
}

/// What the API server warns of is told in an event that names the step, and counted.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn warnings_of_the_api_server_are_told() {
    let world = World::up().await;
    world.group("one").await;
    let metrics = format!("127.0.0.1:{}", world.cluster.port("metrics"));
    let start = Start {
        name: PROCESS,
        groups: &["system:masters"],
        address: "127.0.0.1",
        catalog_ports: &world.catalog_ports,
        pod_ip: "192.0.2.7",
        metrics: &metrics,
    };
    world.spawn_plans(olm::started(&world.cluster, start).unwrap());
    let mut steps = operator("v1", "", &any_size());
    steps[7]["nonsense"] = json!(true);
    world.plan("install-a", 1, true, &steps).await;
    world.complete("install-a").await;
    let wait = world.cluster.until("the event", &[PROCESS]).within(super::super::LIMIT);
    let events = async || -> Vec<Value> {
        let text = world.cluster.kubectl(["get", "events", "-n", "shop", "-o", "json"]).await.unwrap();
        let all: Value = serde_json::from_str(&text).unwrap();
        let of = |it: &&Value| it["reason"] == "AppliedWithWarnings";
        all["items"].as_array().unwrap().iter().filter(of).cloned().collect()
    };
    wait.holds(async || !events().await.is_empty()).await.unwrap();
    let [event] = &events().await[..] else { panic!("one event") };
    assert_eq!((&event["type"], &event["involvedObject"]["name"]), (&json!("Warning"), &json!("install-a")));
    assert_eq!(event["involvedObject"]["fieldPath"], "status.plan[7]");
    let note = event["message"].as_str().unwrap();
    assert_eq!(note, "ConfigMap widgets: unknown field \"nonsense\"");
    let leaf = world.cluster.client_certificate(PROMETHEUS).unwrap();
    let identity = reqwest::Identity::from_pem(leaf.identity().as_bytes()).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).identity(identity);
    let answer = client.build().unwrap().get(format!("https://{metrics}/metrics")).send().await.unwrap();
    let text = answer.error_for_status().unwrap().text().await.unwrap();
    assert!(text.lines().any(|line| line == "installplan_warnings_total 1"), "{text}");
    world.cluster.down().await.unwrap();
}

/// Labels cannot be as long as names.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn owner_with_a_long_name_has_its_objects_labelled() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    let mut steps = operator("v1", "", &any_size());
    let name = format!("widgets-{}operator.v1.2.3", "with-a-long-name-".repeat(5));
    steps[0]["metadata"]["name"] = json!(name);
    world.plan("install-a", 1, true, &steps).await;
    world.complete("install-a").await;
    let role = world.found("clusterrole", false, "widgets").await.unwrap();
    let label = role["metadata"]["labels"]["olm.owner"].as_str().unwrap();
    assert!(label.len() == 63 && name.starts_with(&label[..52]), "{label}");
    let map = world.found("configmap", true, "widgets").await.unwrap();
    assert_eq!(map["metadata"]["ownerReferences"][0]["name"], name);
    world.cluster.down().await.unwrap();
}
