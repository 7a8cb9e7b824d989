//! The configuration of nodes: pools, the controller, and the agents.

mod configured_node;
mod control_plane;
mod drains;
mod gates;
mod kubelet_config;
mod life;
mod node_agent;
mod node_plan;
mod pages;
mod pools;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use cvo::testing::api::machine_config::MachineConfigPool;
use e2e::conditions::Conditions;
use e2e::harness::{Cluster, Cvo};
use e2e::nodes::fleet::Fleet;
use e2e::until::{changes, until};
use k8s_openapi::api::core::v1::Node;
use kube::runtime::watcher;
use tokio::task::JoinHandle;

/// For one step of a rollout of nodes that simulated agents play.
const LIMIT: Duration = Duration::from_secs(120);

/// Whether the rollout of the pool is blocked for this reason, and the message has these words.
fn is_blocked(pool: &MachineConfigPool, reason: &str, words: &[&str]) -> bool {
    pool.says("RolloutBlocked=True", words) && why_blocked(pool).0 == reason
}

/// Reason and message.
fn why_blocked(pool: &MachineConfigPool) -> (String, String) {
    let condition = pool.condition("RolloutBlocked=True").unwrap_or_default();
    (condition.reason, condition.message)
}

/// Names of nodes in the order in which they are so, until that many are.
fn order(
    fleet: &Fleet,
    count: usize,
    is_so: impl Fn(&Node) -> bool + Send + Sync + 'static,
) -> JoinHandle<Vec<String>> {
    let nodes = changes(fleet.nodes(), watcher::Config::default());
    tokio::spawn(async move {
        let mut order: Vec<String> = Vec::new();
        let all = until(format!("{count} nodes"), LIMIT).event(nodes, |node: &Node| {
            let name = node.metadata.name.clone().unwrap_or_default();
            if is_so(node) && !order.contains(&name) {
                order.push(name);
            }
            (order.len() >= count).then_some(())
        });
        all.await.unwrap();
        order
    })
}

/// The agent of a node of that name: its root is a folder, `services` and `reboot` are programs in place of the service manager
/// and the power switch, and the id of the present boot stands in a file.
fn agent(cluster: &Cluster, node: &str, root: &Path, services: &Path, reboot: &Path, boot_id: &Path) -> Cvo {
    cluster
        .cvo(["node-agent", "--node-name", node])
        .flag("--root", root)
        .flag("--service-command", services)
        .flag("--reboot-command", reboot)
        .flag("--boot-id-file", boot_id)
        .log_level("info,cvo=debug")
}

/// Writes a program of the shell, and returns its path.
fn script(path: PathBuf, text: &str) -> PathBuf {
    std::fs::write(&path, format!("#!/bin/sh\n{text}\n")).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    path
}
