//! kwok simulates nodes and the pods on them.

use k8s_openapi::api::core::v1::Node;
use serde_json::json;

use super::{error::Result, files, process::Launch, ready, site::Site};

/// Starts kwok and waits until it is healthy. The API server must be ready.
pub(super) async fn start(site: &Site) -> Result<()> {
    let stages = site.dir().join("kwok-stages.yaml");
    files::write(&stages, include_str!("kwok-stages.yaml"))?;
    let port = site.ports().kwok;
    let arguments = [
        format!("--kubeconfig={}", site.admin_kubeconfig().display()),
        format!("--config={}", stages.display()),
        "--manage-nodes-with-annotation-selector=kwok.x-k8s.io/node=fake".to_owned(),
        // Heartbeats by lease: status updates of hundreds of nodes would overload the API server.
        "--node-lease-duration-seconds=40".to_owned(),
        "--cidr=10.215.0.0/16".to_owned(),
        format!("--server-address=127.0.0.1:{port}"),
    ];
    site.spawn(&Launch::new("kwok", site.tools().go("kwok"), arguments))?;
    ready::healthy(site, "kwok", format!("http://127.0.0.1:{port}/healthz")).await
}

/// A node that kwok simulates.
pub(super) fn fake_node(number: usize) -> Node {
    let name = format!("fake-{number}");
    let resources = json!({"cpu": "32", "memory": "256Gi", "pods": "110"});
    let node = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {"kwok.x-k8s.io/node": "fake"},
            "labels": {
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                "kubernetes.io/arch": "amd64",
                "type": "kwok",
            },
        },
        "spec": {"taints": [{"key": "kwok.x-k8s.io/node", "value": "fake", "effect": "NoSchedule"}]},
        "status": {"allocatable": resources, "capacity": resources},
    });
    // The literal above is a valid Node; an empty one would be refused by the API server.
    serde_json::from_value(node).unwrap_or_default()
}
