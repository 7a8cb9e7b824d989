//! Versions that replace each other, all there at once; and one whose successor is taken away.

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use e2e::harness::audit::{self, Request};
use e2e::olm::{PROCESS, USER};
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use serde_json::json;

use super::super::LIMIT;
use super::{World, csv, history, image};

impl World {
    /// What was written of the Deployment, and which ClusterServiceVersions were deleted.
    fn steps(&self) -> Vec<String> {
        let all = audit::requests(&self.cluster.audit_log(), USER).unwrap();
        let is_delete = |it: &Request| it.resource == "clusterserviceversions" && it.verb == "delete";
        let steps = all.iter().filter(|it| it.wrote() && (it.resource == "deployments" || is_delete(it)));
        steps.map(|it| format!("{} {}", it.effect(), it.name)).collect()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "many steps one after the other"]
async fn versions_that_come_together_follow_each_other_and_one_without_a_successor_runs_again() {
    let world = World::up().await;
    world.group("one").await;
    world.account().await;
    for (version, replaces) in [("3.0.0", "2.0.0"), ("2.0.0", "1.0.0"), ("1.0.0", "")] {
        world.apply(&csv(version, replaces)).await;
    }
    world.start();
    world.until_succeeded("server.v3.0.0").await;
    for name in ["server.v1.0.0", "server.v2.0.0"] {
        world.until_gone(name).await;
    }
    let expected = ["create server", "update server", "delete server.v1.0.0", "update server", "delete server.v2.0.0"];
    let mut steps = world.steps();
    // What is asked for once more before the watch tells of it is the same step.
    steps.dedup();
    assert_eq!(steps, expected, "one after the other, and each is rolled out once");
    assert_is_of(&world, "3.0.0").await;

    // The next one never becomes ready, and somebody deletes it.
    world.kubectl(["cordon", "fake-0"]).await;
    world.apply(&csv("4.0.0", "3.0.0")).await;
    world.until("to be waited for", "server.v4.0.0", |it| it.phase == Phase::Installing).await;
    assert_is_of(&world, "4.0.0").await;
    world.kubectl(["delete", "csv", "server.v4.0.0", "-n", "shop"]).await;
    let again = world.until("to be installed again", "server.v3.0.0", |it| it.phase == Phase::Installing).await;
    let all = history(&again);
    let replacing = all.iter().position(|it| it == "Replacing/BeingReplaced").unwrap();
    assert_eq!(all[replacing + 1], "Pending/NeedsReinstall", "{all:?}");
    world.kubectl(["uncordon", "fake-0"]).await;
    world.until_succeeded("server.v3.0.0").await;
    assert_is_of(&world, "3.0.0").await;
    world.down().await;
}

/// The Deployment is that of this version, and of no other one.
async fn assert_is_of(world: &World, version: &str) {
    let csv: ClusterServiceVersion = world.csvs().get(&format!("server.v{version}")).await.unwrap();
    let wait = world.cluster.until(format!("the Deployment of {version}"), &[PROCESS]).within(LIMIT);
    let of_version = |it: &Deployment| {
        let owners: Vec<_> = it.owner_references().iter().map(|it| Some(it.uid.clone())).collect();
        image(it).ends_with(&format!("server:{version}")) && json!(owners) == json!([csv.uid()])
    };
    wait.existing(world.deployments(), "server", of_version).await.unwrap();
}
