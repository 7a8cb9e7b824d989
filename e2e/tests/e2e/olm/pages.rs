//! The page on operators, followed on a cluster.

use std::os::unix::fs::symlink;

use e2e::docs::follow::{adapted, checkout, follow, script};
use e2e::harness::programs;
use e2e::platform::{Platform, operators};
use e2e::workspace;

use super::COMPONENT;

const PAGES: [&str; 1] = [".github/docs/operators.md"];

#[tokio::test(flavor = "multi_thread")]
async fn page_of_operators_can_be_followed_from_the_first_command_to_the_last() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let cluster = &platform.cluster;
    operators::trust(cluster).await.unwrap();
    let home = checkout(&platform, "operators", &[]);
    symlink(programs::cvo().unwrap(), home.join("bin/cvo")).unwrap();
    std::fs::create_dir_all(home.join("manifests")).unwrap();
    symlink(workspace::root().join("manifests/cluster-version"), home.join("manifests/cluster-version")).unwrap();
    COMPONENT.write(cluster, &home.join("manifests/olm")).unwrap();
    let changes = [
        ("registry.example.com/me/cvo@sha256:...", platform.cvo_image().to_owned()),
        ("image: registry.example.com/me/gears:v1", format!("image: {}/me/gears:v1", cluster.registry_for_pods())),
        ("registry.example.com/me", format!("{}/me", cluster.registry())),
    ];
    let (status, said) = follow(&platform, &home, &adapted(script(&PAGES), &changes)).await;
    assert!(status.success(), "{status}");
    for words in ["gears in openshift-marketplace/gears", "catalogsource.operators.coreos.com/gears condition met", "gears.v1.0.0"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    platform.close().await.unwrap();
}
