//! A cluster of the version before, whose processes are replaced in the middle of an update of its nodes.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cvo::testing::api::machine_config::MachineConfigPool;
use e2e::conditions::Conditions;
use e2e::harness::Cvo;
use e2e::nodes::agents::{self, Times};
use e2e::nodes::fleet;
use e2e::simulator::cluster::{LIMIT, SimulatedCluster};
use e2e::until::{changes, until};
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Api, ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams};
use kube::runtime::watcher;
use serde_json::{Value, json};

/// Names the program of the version before.
const PROGRAM: &str = "CVO_VERSION_BEFORE";
const CONTROLLER: &str = "controller";
const CLAIMED: &str = "machineconfiguration.openshift.io/claimed";
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

fn claims(pool: &MachineConfigPool) -> BTreeMap<String, String> {
    let annotations = pool.metadata.annotations.as_ref();
    let text = annotations.and_then(|annotations| annotations.get(CLAIMED));
    text.map(|text| serde_json::from_str(text).unwrap()).unwrap_or_default()
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

/// What the machine-config controller has written of a pool that the release brings is kept by both processes, whichever name the
/// version before has written it under.
#[tokio::test(flavor = "multi_thread")]
async fn claims_of_nodes_outlast_the_processes_that_made_them() {
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
    let pools: Api<MachineConfigPool> = Api::all(cluster.client.clone());
    let two = |pool: &MachineConfigPool| claims(pool).len() == 2;
    let claimed = until("two claims", LIMIT).existing(pools.clone(), "worker", two).await.unwrap();
    let managers = |pool: &MachineConfigPool| {
        let entries = pool.metadata.managed_fields.iter().flatten();
        let of_claims = entries.filter(|entry| {
            let annotation = format!("/f:metadata/f:annotations/f:{}", CLAIMED.replace('/', "~1"));
            entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(&annotation).is_some())
        });
        of_claims.filter_map(|entry| entry.manager.clone()).collect::<Vec<_>>()
    };
    println!("before: {:?} by {:?}", claims(&claimed), managers(&claimed));

    assert!(cluster.control_plane.terminate(CONTROLLER, LIMIT).await.unwrap());
    let stopped = pools.get("worker").await.unwrap();
    let mut seen = changes(pools.clone(), watcher::Config::default());
    let since = Timestamp::now();
    cluster.set_program(None).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    start_controller(&cluster, None);
    cluster.rolled_out(&releases[0], since).await.unwrap();
    let taken_over = pools.get("worker").await.unwrap();
    println!("after: {:?} by {:?}", claims(&taken_over), managers(&taken_over));
    assert_eq!(claims(&taken_over), claims(&stopped));
    assert!(two(&stopped), "{:?}", claims(&stopped));

    slow.abort();
    let fast = play(&cluster, Duration::ZERO);
    let watched = tokio::spawn(async move {
        while let Some(pool) = seen.next().await {
            let count = claims(&pool).len();
            let done = pool.has("Updated=True");
            assert!(
                count >= 1 || done || pool.status.is_some_and(|status| status.updated_machine_count > 0),
                "none claimed"
            );
            if done {
                return;
            }
        }
    });
    let updated = |pool: &MachineConfigPool| pool.has("Updated=True");
    until("the pool to be updated", LIMIT).existing(pools, "worker", updated).await.unwrap();
    watched.await.unwrap();
    fast.abort();
    cluster.close().await.unwrap();
}
