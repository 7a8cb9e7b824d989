//! What `cvo node plan` says of a changed file is what the controller then does: the rendered name, before it exists, and the
//! order of the nodes. While they are carried over, `cvo status` shows how far their pool is.

use std::time::Duration;

use cvo::testing::api::machine_config::{GROUP, MachineConfigPool, ROLE_LABEL};
use e2e::{
    harness::Options,
    nodes::{
        agents::{Times, annotation},
        fleet::Fleet,
    },
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{LIMIT, is_blocked, order as order_of};

const NODES: usize = 4;

/// Exit code and object of a command that prints JSON.
async fn run(fleet: &Fleet, arguments: &[&str]) -> (Option<i32>, Value) {
    let said = fleet.cluster.cvo(arguments).args(["-o", "json"]).run().await.unwrap();
    (said.code, said.json().unwrap())
}

/// The plan of another content of the file that [`Fleet::configure`] has written.
async fn planned(fleet: &Fleet, content: &str) -> (Option<i32>, Value) {
    let file = json!({"path": "/etc/sample", "mode": 420, "contents": {"source": format!("data:,{content}")}});
    let object = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "MachineConfig",
        "metadata": {"name": "10-file", "labels": {ROLE_LABEL: "worker"}},
        "spec": {"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}}},
    });
    let path = fleet.cluster.dir().join("given.yaml");
    std::fs::write(&path, serde_yaml::to_string(&object).unwrap()).unwrap();
    run(fleet, &["node", "plan", path.to_str().unwrap()]).await
}

fn pool<'a>(object: &'a Value, name: &str) -> &'a Value {
    object["pools"].as_array().unwrap().iter().find(|pool| pool["name"] == name).unwrap()
}

async fn annotate(fleet: &Fleet, key: &str, value: &str) {
    let patch = Patch::Merge(json!({"metadata": {"annotations": {format!("{GROUP}/{key}"): value}}}));
    fleet.pools().patch("worker", &PatchParams::default(), &patch).await.unwrap();
}

/// Four nodes that have the first content of the file. The last one by name is in the first zone.
async fn fleet() -> Fleet {
    let mut fleet = Fleet::up(Options::default()).await.unwrap();
    fleet.add_nodes(&[("worker", NODES)]).await.unwrap();
    for number in 0..NODES {
        let zone = if number == NODES - 1 { "a" } else { "b" };
        let patch = Patch::Merge(json!({"metadata": {"labels": {"topology.kubernetes.io/zone": zone}}}));
        fleet.nodes().patch(&format!("fake-{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    fleet.add_pool("worker", IntOrString::Int(1)).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "one").await.unwrap();
    let each = Duration::from_millis(100);
    fleet.start_agents(move |_| Times { stage: each, apply: each, restart: each }).await.unwrap();
    fleet.start_controller("controller", &[]).unwrap();
    fleet
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_take_what_the_plan_said_in_its_order_and_status_shows_how_far_they_are() {
    let fleet = fleet().await;
    let object = fleet.until_updated("worker", "", LIMIT).await.unwrap();
    let before = object.spec.configuration.name.clone();
    let (code, plan) = planned(&fleet, "one").await;
    assert_eq!((code, pool(&plan, "worker")["to"].as_str()), (Some(0), Some(before.as_str())), "{plan:#}");
    assert!(pool(&plan, "worker")["rollout"].is_null(), "nothing changes: {plan:#}");

    annotate(&fleet, "pause-after", "1").await;
    let (code, plan) = planned(&fleet, "two").await;
    let worker = pool(&plan, "worker");
    assert_eq!(code, Some(3), "it waits for somebody: {plan:#}");
    assert_eq!(worker["rollout"]["holds"][0]["reason"], "AwaitingApproval", "{plan:#}");
    let expected = json!([{"what": "file /etc/sample", "how": "3 → 3 bytes", "follows": ["Reboot"]}]);
    assert_eq!(worker["transitions"][0]["changes"], expected);
    let order: Vec<String> = serde_json::from_value(worker["rollout"]["order"].clone()).unwrap();
    assert_eq!(order, ["fake-3", "fake-0", "fake-1", "fake-2"], "zone by zone");
    let target = worker["to"].as_str().unwrap().to_owned();

    let version = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "ClusterVersion", "metadata": {"name": "version"},
        "spec": {"clusterID": "00000000-0000-4000-8000-000000000000"},
    });
    let path = fleet.cluster.dir().join("version.json");
    std::fs::write(&path, version.to_string()).unwrap();
    fleet.cluster.kubectl(["apply", "-f", path.to_str().unwrap()]).await.unwrap();
    let wanted = target.clone();
    let told = order_of(&fleet, NODES, move |node| annotation(node, "desiredConfig") == wanted);
    fleet.configure("worker", "10-file", "/etc/sample", "two").await.unwrap();
    let waits = |pool: &MachineConfigPool| {
        let updated = pool.status.as_ref().is_some_and(|status| status.updated_machine_count == 1);
        updated && is_blocked(pool, "AwaitingApproval", &[])
    };
    let object = fleet.until("the first node", (fleet.pools(), "worker"), LIMIT, waits).await.unwrap();
    assert_eq!(object.spec.configuration.name, target, "the name was predicted");
    let (code, status) = run(&fleet, &["status"]).await;
    let worker = pool(&status, "worker");
    let shown = (worker["state"].as_str(), worker["updated"].as_i64(), worker["total"].as_i64());
    assert_eq!((code, shown), (Some(0), (Some("Updating"), Some(1), Some(4))), "{status:#}");
    assert_eq!(worker["blocked"]["reason"], "AwaitingApproval");
    let waiting: Vec<(&str, &str)> = worker["nodes"].as_array().unwrap().iter().map(node_and_phase).collect();
    assert_eq!(waiting, [("fake-0", "Waiting"), ("fake-1", "Waiting"), ("fake-2", "Waiting")]);

    annotate(&fleet, "approved", &target).await;
    fleet.until_updated("worker", &before, LIMIT).await.unwrap();
    assert_eq!(told.await.unwrap(), order, "the order was predicted");
    let (_, status) = run(&fleet, &["status"]).await;
    assert_eq!((&pool(&status, "worker")["state"], &pool(&status, "worker")["nodes"]), (&json!("Updated"), &json!([])));
}

fn node_and_phase(node: &Value) -> (&str, &str) {
    (node["name"].as_str().unwrap(), node["phase"].as_str().unwrap())
}
