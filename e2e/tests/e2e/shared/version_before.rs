//! A cluster of the version before, whose processes are replaced in the middle of an update of its nodes.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cvo::testing::api::machine_config::MachineConfigPool;
use e2e::conditions::Conditions;
use e2e::harness::Cvo;
use e2e::nodes::agents::{self, Times};
use e2e::nodes::fleet;
use e2e::simulator::cluster::{LIMIT, SimulatedCluster};
use e2e::until::changes;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

/// Names the program of the version before.
const PROGRAM: &str = "CVO_VERSION_BEFORE";
const CONTROLLER: &str = "controller";
const ROLE: &str = "machineconfiguration.openshift.io/role";

/// Which administrators may not change: releases bring it anew.
fn pool() -> Value {
    let selector = |key: &str| json!({"matchLabels": {key: "worker"}});
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfigPool",
        "metadata": {
            "name": "worker",
            "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"},
        },
        "spec": {
            "machineConfigSelector": selector(ROLE), "nodeSelector": selector("pool"),
            "maxUnavailable": 2, "paused": false,
        },
    })
}

fn config() -> Value {
    let file = json!({"path": "/etc/sample", "mode": 420, "contents": {"source": "data:,one"}});
    json!({
        "apiVersion": "machineconfiguration.openshift.io/v1", "kind": "MachineConfig",
        "metadata": {"name": "10-file", "labels": {ROLE: "worker"}},
        "spec": {"config": {"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}}},
    })
}

async fn fill(cluster: &SimulatedCluster) {
    cluster.control_plane.add_fake_nodes(1..4).await.unwrap();
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    for number in 1..4 {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"pool": "worker"}}}));
        nodes.patch(&format!("fake-{number}"), &PatchParams::default(), &patch).await.unwrap();
    }
    let kind = GroupVersionKind::gvk("machineconfiguration.openshift.io", "v1", "MachineConfig");
    let configs: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &ApiResource::from_gvk(&kind));
    configs.patch("10-file", &PatchParams::apply("test"), &Patch::Apply(config())).await.unwrap();
}

fn start_controller(cluster: &SimulatedCluster, program: Option<&Path>) {
    let cluster = &cluster.control_plane;
    let kubeconfig = cluster.kubeconfig_as(CONTROLLER, "machine-config-controller", &["system:masters"]).unwrap();
    let controller = Cvo::new(["machine-config", "--release-version", "1.0.0", "--identity", CONTROLLER])
        .args(["--image", "registry.invalid/operator@sha256:1", "--listen", "", "--listen-health", ""])
        .args(["--lease-duration", "20", "--lease-renew-deadline", "10", "--lease-retry", "2"])
        .kubeconfig(kubeconfig)
        .program(program);
    cluster.spawn(controller.launch(CONTROLLER).unwrap()).unwrap();
}

fn play(cluster: &SimulatedCluster, stage: Duration) -> tokio::task::JoinHandle<()> {
    let times = Times { stage, apply: Duration::ZERO, restart: Duration::ZERO };
    tokio::spawn(agents::play(cluster.client.clone(), move |_| times))
}

/// Who has written this field, as field sets name it.
fn managers(pool: &MachineConfigPool, field: &str) -> Vec<String> {
    let entries = pool.metadata.managed_fields.iter().flatten();
    let entries = entries.filter(|entry| entry.fields_v1.as_ref().is_some_and(|set| set.0.pointer(field).is_some()));
    entries.filter_map(|entry| Some(format!("{} {}", entry.operation.as_ref()?, entry.manager.as_ref()?))).collect()
}

/// The nodes that were told to update and have not done it.
async fn told(cluster: &SimulatedCluster) -> BTreeSet<String> {
    let nodes = Api::<Node>::all(cluster.client.clone()).list(&ListParams::default()).await.unwrap();
    let desired = |node: &Node| agents::annotation(node, "desiredConfig");
    let told = nodes.items.into_iter().filter(|node| desired(node) != agents::annotation(node, "currentConfig"));
    told.filter_map(|node| node.metadata.name).collect()
}

/// What the machine-config controller has written of a pool that the release brings is kept by both processes, whichever name
/// the version before has written it under: no moment lacks the target of the pool, no node more is disturbed, none is
/// forgotten.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn pool_outlasts_the_processes_that_have_begun_to_update_its_nodes() {
    let Some(before) = std::env::var_os(PROGRAM).map(PathBuf::from) else {
        return println!("skipped: {PROGRAM} names no program of the version before");
    };
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    fleet::define(&cluster.control_plane).await.unwrap();
    releases[0].put("0000_10_alpha_06_pool.json", &pool().to_string()).unwrap();
    cluster.set_program(Some(before.clone())).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    // It may be one that drops what the controller writes, whenever it sees the pool.
    cluster.stop_daemon().await.unwrap();
    fill(&cluster).await;
    // They are told to update, and do not begin.
    let slow = play(&cluster, Duration::from_secs(3600));
    start_controller(&cluster, Some(&before));
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let mut changed = changes(nodes, watcher::Config::default());
    while told(&cluster).await.len() < 2 {
        changed.next().await.unwrap();
    }
    let pools: Api<MachineConfigPool> = Api::all(cluster.client.clone());
    let target = |pool: &MachineConfigPool| pool.spec.configuration.name.clone();
    let writers = |pool: &MachineConfigPool| managers(pool, "/f:spec/f:configuration");

    assert!(cluster.control_plane.terminate(CONTROLLER, LIMIT).await.unwrap());
    let (stopped, told_before) = (pools.get("worker").await.unwrap(), told(&cluster).await);
    println!("before: {} by {:?}, told {told_before:?}", target(&stopped), writers(&stopped));
    assert_eq!(told_before.len(), 2);
    let mut seen = changes(pools.clone(), watcher::Config::default());
    let since = Timestamp::now();
    cluster.set_program(None).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    start_controller(&cluster, None);
    cluster.rolled_out(&releases[0], since).await.unwrap();
    let taken_over = pools.get("worker").await.unwrap();
    println!("after: {} by {:?}", target(&taken_over), writers(&taken_over));
    assert_eq!(told(&cluster).await, told_before);

    slow.abort();
    let fast = play(&cluster, Duration::ZERO);
    let wanted = target(&stopped);
    let watched = async {
        while let Some(pool) = seen.next().await {
            assert_eq!(target(&pool), wanted, "{:?}", pool.metadata.managed_fields);
            if pool.has("Updated=True") {
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, watched).await.expect("the pool is not updated");
    assert_eq!(told(&cluster).await, BTreeSet::new());
    fast.abort();
    cluster.close().await.unwrap();
}
