//! The page on operators, followed on a cluster.

use std::os::unix::fs::symlink;

use e2e::docs::follow::{adapted, checkout, follow, script};
use e2e::harness::node::PAUSE_IMAGE;
use e2e::harness::programs;
use e2e::olm::COMPONENT;
use e2e::platform::{Platform, operators};
use e2e::workspace;

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
    let authority = home.join("authority.pem");
    std::fs::write(&authority, cluster.authority().unwrap()).unwrap();
    let changes = [
        ("registry.example.com/me/cvo@sha256:...", platform.cvo_image().to_owned()),
        ("image: registry.example.com/me/", format!("image: {}/me/", cluster.registry_for_pods())),
        ("registry.k8s.io/pause:3.10", PAUSE_IMAGE.to_owned()),
        ("cvo olm plan -n shop", format!("cvo olm plan --registry-ca {} -n shop", authority.display())),
        ("registry.example.com/me", format!("{}/me", cluster.registry())),
    ];
    let (status, said) = follow(&platform, &home, &adapted(script(&PAGES), &changes)).await;
    assert!(status.success(), "{status}");
    for words in [
        "gears in openshift-marketplace/gears",
        "catalogsource.operators.coreos.com/gears condition met",
        "Deployment shop/gears",
        "subscription.operators.coreos.com/gears condition met",
        "clusterserviceversion.operators.coreos.com/gears.v1.0.0 condition met",
        "clusterserviceversion.operators.coreos.com \"gears.v1.0.0\" deleted",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    platform.close().await.unwrap();
}
