//! Nodes of the control plane whose members of etcd are static pods, as kubeadm makes them: the next one waits until they are well.

use std::{collections::BTreeSet, time::Duration};

use cvo::testing::api::machine_config::{GROUP, MachineConfigPool};
use e2e::{
    harness::Options,
    nodes::{
        agents::{Times, annotation},
        fleet::Fleet,
    },
    until::changes,
};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    runtime::watcher,
};
use serde_json::{Value, json};

use super::{LIMIT, is_blocked, why_blocked};

fn pods(client: &Client) -> Api<Pod> {
    Api::namespaced(client.clone(), "kube-system")
}

/// The static pod of etcd of a node, as its kubelet shows it.
async fn add_etcd(client: &Client, node: &str) {
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("etcd-{node}"), "labels": {"component": "etcd", "tier": "control-plane"},
            "annotations": {"kubernetes.io/config.mirror": "1", "kubernetes.io/config.source": "file"},
        },
        "spec": {
            "nodeName": node, "hostNetwork": true, "tolerations": [{"operator": "Exists"}],
            "containers": [{"name": "etcd", "image": "registry.invalid/etcd"}],
        },
    }))
    .unwrap();
    pods(client).create(&PostParams::default(), &pod).await.unwrap();
    tell(client, node, json!({"conditions": [{"type": "Ready", "status": "True"}]})).await;
}

async fn tell(client: &Client, node: &str, status: Value) {
    let patch = Patch::Merge(json!({"status": status}));
    pods(client).patch_status(&format!("etcd-{node}"), &PatchParams::default(), &patch).await.unwrap();
}

/// Kubelets tell of their pods anew when their nodes were restarted.
async fn play_kubelets(client: Client) {
    let mut nodes = changes(Api::<Node>::all(client.clone()), watcher::Config::default());
    let mut restarting = BTreeSet::new();
    let mut boot = 0;
    while let Some(node) = nodes.next().await {
        let name = node.metadata.name.clone().unwrap_or_default();
        if !annotation(&node, "rebootStarted").is_empty() {
            restarting.insert(name);
        } else if restarting.remove(&name) {
            boot += 1;
            let status = Patch::Merge(json!({"status": {"message": format!("boot {boot}")}}));
            // Without a pod there is nothing to tell.
            let _told = pods(&client).patch_status(&format!("etcd-{name}"), &PatchParams::default(), &status).await;
        }
    }
}

/// The pool when its rollout is blocked with these words.
async fn held(fleet: &Fleet, words: &str) -> MachineConfigPool {
    let is_so = |pool: &MachineConfigPool| is_blocked(pool, "AwaitingHealth", &[words]);
    let pool = fleet.until(words, (fleet.pools(), "master"), LIMIT, is_so).await.unwrap();
    println!("{}", why_blocked(&pool).1);
    pool
}

async fn told(fleet: &Fleet, target: &str) -> usize {
    let nodes = fleet.nodes().list(&ListParams::default()).await.unwrap().items;
    nodes.iter().filter(|node| annotation(node, "desiredConfig") == target).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_next_node_of_the_control_plane_waits_for_etcd() {
    let mut fleet = Fleet::up(Options::default()).await.unwrap();
    fleet.add_nodes(&[("master", 3)]).await.unwrap();
    fleet.add_pool("master", IntOrString::Int(1)).await.unwrap();
    fleet.configure("master", "10-file", "/etc/sample", "one").await.unwrap();
    let each = Duration::from_millis(300);
    fleet.start_agents(move |_| Times { stage: each, apply: each, restart: each }).await.unwrap();
    fleet.start_controller("controller", &[]).unwrap();
    // Without such pods nothing is waited for.
    let first = fleet.until_updated("master", "", LIMIT).await.unwrap().spec.configuration.name;

    let client = fleet.client.clone();
    for node in ["fake-0", "fake-1", "fake-2"] {
        add_etcd(&client, node).await;
    }
    let kubelets = tokio::spawn(play_kubelets(client.clone()));
    fleet.configure("master", "10-file", "/etc/sample", "two").await.unwrap();
    let restarts = |node: &Node| !annotation(node, "rebootStarted").is_empty();
    let node = fleet.until("the restart", (fleet.nodes(), "fake-0"), LIMIT, restarts).await.unwrap();
    let target = annotation(&node, "desiredConfig");
    tell(&client, "fake-0", json!({"conditions": [{"type": "Ready", "status": "False"}]})).await;
    let pool =
        held(&fleet, "2 nodes wait: etcd must not lose another member: pod kube-system/etcd-fake-0 of node fake-0")
            .await;
    assert_eq!(told(&fleet, &target).await, 1);
    let annotations = pool.metadata.annotations.unwrap_or_default();
    assert!(annotations[&format!("{GROUP}/etcd-members")].contains("fake-2"), "{annotations:?}");
    pods(&client).delete("etcd-fake-0", &DeleteParams::default().grace_period(0)).await.unwrap();
    held(&fleet, "node fake-0 had a pod of etcd in kube-system and has none").await;
    assert_eq!(told(&fleet, &target).await, 1);
    add_etcd(&client, "fake-0").await;
    fleet.until_updated("master", &first, LIMIT).await.unwrap();
    kubelets.abort();
}
