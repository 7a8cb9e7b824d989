//! What happens to an operator that runs: nodes that end, people who change it, a process that is killed.

use std::time::Duration;

use cvo::testing::api::olm::cluster_service_version::Phase;
use e2e::olm::PROCESS;
use e2e::random::SeededRandom;
use k8s_openapi::api::apps::v1::Deployment;
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::super::LIMIT;
use super::{World, csv, history, image};

/// How often the process is killed.
const KILLS: usize = 12;
/// How long it may work before.
const LIFE: Duration = Duration::from_millis(1200);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn operator_that_loses_its_pods_is_unhealthy_until_they_are_back() {
    let world = World::up().await;
    world.install(&csv("1.0.0", "")).await;
    let name = "server.v1.0.0";
    world.kubectl(["cordon", "fake-0"]).await;
    world.kubectl(["delete", "pods", "-n", "shop", "--all", "--force", "--grace-period=0"]).await;
    let lost = world.until("to be waited for", name, |it| it.phase == Phase::Installing).await;
    let all = history(&lost);
    for step in ["Failed/ComponentUnhealthy", "Pending/NeedsReinstall", "InstallReady/AllRequirementsMet"] {
        assert!(all.iter().any(|it| it == step), "{step}: {all:?}");
    }
    world.kubectl(["uncordon", "fake-0"]).await;
    world.until_succeeded(name).await;
    world.down().await;
}

/// Only what the ClusterServiceVersion names is changed back, and what it names is followed when it is edited.
#[tokio::test(flavor = "multi_thread")]
async fn what_people_change_is_changed_back_only_where_the_operator_names_it() {
    let world = World::up().await;
    world.install(&csv("1.0.0", "")).await;
    let name = "server.v1.0.0";
    // Those of others stay.
    world.kubectl(["rollout", "restart", "-n", "shop", "deployment/server"]).await;
    world.kubectl(["label", "-n", "shop", "deployment/server", "policy=strict"]).await;
    world.kubectl(["scale", "-n", "shop", "deployment/server", "--replicas=2"]).await;
    let change = json!({"spec": {"template": {"spec": {"containers": [{"name": "server", "image": "registry.example.com/other"}]}}}});
    world.deployments().patch("server", &PatchParams::default(), &Patch::Strategic(change)).await.unwrap();
    let back = |it: &Deployment| image(it).ends_with("server:1.0.0");
    let wait = world.cluster.until("the image to be back", &[PROCESS]).within(LIMIT);
    wait.existing(world.deployments(), "server", back).await.unwrap();
    world.until_succeeded(name).await;
    let deployment = serde_json::to_value(world.deployment().await).unwrap();
    assert_eq!(deployment["spec"]["replicas"], 2);
    assert_eq!(deployment["metadata"]["labels"]["policy"], "strict");
    let annotations = &deployment["spec"]["template"]["metadata"]["annotations"];
    assert!(annotations["kubectl.kubernetes.io/restartedAt"].is_string(), "{annotations}");
    // A deployment that is deleted is made again.
    let uid = world.deployment().await.uid();
    world.deployments().delete("server", &Default::default()).await.unwrap();
    let wait = world.cluster.until("another Deployment", &[PROCESS]).within(LIMIT);
    wait.existing(world.deployments(), "server", |it| it.uid() != uid).await.unwrap();
    world.until_succeeded(name).await;
    // An edit of the operator is rolled out, and stays.
    let mut edited = csv("1.0.0", "");
    let container = "/spec/install/spec/deployments/0/spec/template/spec/containers/0/image";
    *edited.pointer_mut(container).unwrap() = json!("registry.example.com/server:hotfix");
    world.apply(&edited).await;
    let wait = world.cluster.until("the hotfix", &[PROCESS]).within(LIMIT);
    wait.existing(world.deployments(), "server", |it| image(it).ends_with(":hotfix")).await.unwrap();
    world.until_succeeded(name).await;

    // Another process has nothing to write: when the next operator is installed, it has looked at this one.
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    let versions = async || {
        let deployment = world.deployment().await;
        let csv = world.csvs().get(name).await.unwrap();
        (csv.resource_version(), deployment.metadata.generation, deployment.labels().clone())
    };
    let before = versions().await;
    world.start();
    let mut second = csv("7.0.0", "");
    second["spec"]["install"]["spec"]["deployments"] = json!([]);
    world.apply(&second).await;
    world.until_succeeded("server.v7.0.0").await;
    assert_eq!(versions().await, before);
    too_many_annotations(&world).await;
    world.down().await;
}

/// Pods that would have more annotations than the API server takes: that is told, other operators are installed meanwhile, and an edit
/// is the way out.
async fn too_many_annotations(world: &World) {
    let name = "server.v8.0.0";
    let mut object = csv("8.0.0", "");
    object["metadata"]["annotations"] = json!({"example.com/told": "x".repeat(200_000)});
    let deployment = object.pointer_mut("/spec/install/spec/deployments/0").unwrap();
    let labels = json!({"app": "annotated"});
    deployment["name"] = json!("annotated");
    deployment["spec"]["selector"]["matchLabels"] = labels.clone();
    deployment["spec"]["template"]["metadata"]["labels"] = labels;
    let few = object.clone();
    let own = object.pointer_mut("/spec/install/spec/deployments/0/spec/template/metadata/annotations/own").unwrap();
    *own = json!("x".repeat(100_000));
    world.apply(&object).await;
    let failed = world.until("to be refused", name, |it| it.reason == "InstallComponentFailed").await.status.unwrap();
    assert!(failed.message.contains("annotations: Too long"), "{}", failed.message);
    world.install_empty("9.0.0").await;
    world.apply(&few).await;
    world.until_succeeded(name).await;
}

/// Killed whatever it is doing, it goes on where it was: each version takes over the same Deployment.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn process_that_is_killed_again_and_again_comes_to_the_last_version() {
    let random = SeededRandom::new(SeededRandom::seed(), 0, 0);
    let world = World::up().await;
    world.group("one").await;
    world.account().await;
    world.apply(&csv("1.0.0", "")).await;
    let (mut version, mut uid) = (1, None);
    for kill in 1..=KILLS {
        world.start();
        tokio::time::sleep(random.duration(LIFE)).await;
        world.cluster.kill(PROCESS).unwrap();
        let deployment = world.deployments().get_opt("server").await.unwrap();
        if let Some(deployment) = deployment {
            let known = uid.get_or_insert(deployment.uid());
            assert_eq!(*known, deployment.uid(), "it is never made anew");
        }
        if kill % 3 == 0 {
            version += 1;
            world.apply(&csv(&format!("{version}.0.0"), &format!("{}.0.0", version - 1))).await;
        }
    }
    world.start();
    let last = format!("server.v{version}.0.0");
    world.until_succeeded(&last).await;
    for before in 1..version {
        world.until_gone(&format!("server.v{before}.0.0")).await;
    }
    let deployment = world.deployment().await;
    assert!(uid.is_none_or(|uid| uid == deployment.uid()));
    assert_eq!(image(&deployment), format!("registry.example.com/server:{version}.0.0"));
    assert_eq!(deployment.owner_references().len(), 1);
    world.down().await;
}
