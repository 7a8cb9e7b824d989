//! What an update waits for is reconciled like everything else, and a later process knows how long it was waited for.

use std::{sync::Mutex, time::Duration};

use cvo::testing::api::{ClusterOperator, ClusterVersion, progress::Progress};
use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Node, Pod},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde_json::json;

use e2e::simulator::cluster::{SimulatedCluster, find_condition};

/// Far below every period of the daemon, and long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(30);
const CLOCK: &str = "clusteroperator/delta";

/// Since when the operator is waited for; `None` if it is not.
fn waiting_since(progress: &Progress) -> Option<Timestamp> {
    let mut waiting = progress.nodes.iter().flat_map(|node| &node.waiting);
    let waits = waiting.any(|waiting| waiting.kind == "ClusterOperator" && waiting.name == "delta");
    progress.clocks.get(CLOCK).copied().filter(|_| waits && progress.release.version == "1.0.1")
}

/// Waits until a rollout that began later than that waits for the operator, and returns since when.
async fn wait_begun(cluster: &SimulatedCluster, later_than: Option<Timestamp>) -> Timestamp {
    let since = Mutex::new(None);
    let found = |progress: &Progress| {
        *since.lock().unwrap() = waiting_since(progress).filter(|_| progress.rollout.started > later_than);
        since.lock().unwrap().is_some()
    };
    cluster.until_progress("the operator to be waited for", found).await.unwrap();
    let since = since.into_inner().unwrap();
    since.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn awaited_operator_is_restored_and_its_clock_continues() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    let since = wait_begun(&cluster, None).await;

    let operators: Api<ClusterOperator> = Api::all(cluster.client.clone());
    let waited = operators.get("delta").await.unwrap();
    operators.delete("delta", &DeleteParams::default()).await.unwrap();
    let recreated =
        |object: Option<&ClusterOperator>| object.is_some_and(|object| object.metadata.uid != waited.metadata.uid);
    let (_, took) =
        cluster.until_object("the operator to be created again", operators, "delta", SOON, recreated).await.unwrap();
    println!("restored while it was waited for within {} ms", took.as_millis());

    let crashed = Timestamp::now();
    cluster.node.crash().await.unwrap();
    assert_eq!(wait_begun(&cluster, Some(crashed)).await, since, "a restart does not hide a slow operator");
    cluster.simulation.release("delta");
    cluster.completed(&releases[1]).await.unwrap();
    cluster.close().await.unwrap();
}

/// The last operator of an update drains one node after another, so pods of updated components move at that time.
#[tokio::test(flavor = "multi_thread")]
async fn moving_pods_are_no_failure_when_an_update_completes() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    wait_begun(&cluster, None).await;

    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let cordon = json!({"spec": {"unschedulable": true}});
    nodes.patch("fake-0", &PatchParams::default(), &Patch::Merge(&cordon)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), "alpha");
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "alpha");
    let available =
        |object: Option<&Deployment>| object.and_then(|o| o.status.as_ref()?.available_replicas).unwrap_or(0);
    let unavailable = |object: Option<&Deployment>| available(object) == 0;
    cluster.until_object("the pods to be unavailable", deployments.clone(), "alpha", SOON, unavailable).await.unwrap();
    // An update says what it waits for.
    let reported = |object: &ClusterVersion| {
        find_condition(object, "Progressing", "True").is_some_and(|condition| condition.message.contains("alpha"))
    };
    cluster.until("the moving pods to be reported", reported).await.unwrap();

    cluster.simulation.release("delta");
    let completed = cluster.completed(&releases[1]).await.unwrap();
    assert!(find_condition(&completed, "Failing", "False").is_some(), "{:?}", completed.status);
    let still = deployments.get("alpha").await.unwrap();
    assert_eq!(available(Some(&still)), 0, "they are still unavailable");
    cluster.close().await.unwrap();
}
