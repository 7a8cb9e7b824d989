//! The page on nodes, followed on a cluster.

use std::os::unix::fs::symlink;

use e2e::docs::follow::{adapted, checkout, follow, script};
use e2e::harness::programs;
use e2e::platform::{Platform, nodes};
use e2e::workspace;

const PAGES: [&str; 1] = [".github/docs/nodes.md"];

#[tokio::test(flavor = "multi_thread")]
async fn page_of_nodes_can_be_followed_from_the_first_command_to_the_last() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let home = checkout(&platform, "nodes", &[]);
    symlink(programs::cvo().unwrap(), home.join("bin/cvo")).unwrap();
    std::fs::create_dir_all(home.join("manifests")).unwrap();
    symlink(workspace::root().join("manifests/cluster-version"), home.join("manifests/cluster-version")).unwrap();
    nodes::make_root(&platform).unwrap();
    nodes::COMPONENT.write(&platform.cluster, &home.join("manifests/machine-config")).unwrap();
    let changes = [
        ("registry.example.com/me/cvo@sha256:...", platform.cvo_image().to_owned()),
        ("NODE=...", format!("NODE={}", platform.cluster.node_name())),
    ];
    let (status, said) = follow(&platform, &home, &adapted(script(&PAGES), &changes)).await;
    assert!(status.success(), "{status}");
    for words in ["file /etc/motd", "machineconfigpool.machineconfiguration.openshift.io/canary condition met"] {
        assert!(said.contains(words), "{words}");
    }
    assert!(nodes::read(&platform.cluster, "etc/motd").is_err(), "what was written was taken back");
    platform.close().await.unwrap();
}
