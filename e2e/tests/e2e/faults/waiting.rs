//! What an update waits for is looked after like everything else, and how long it was waited for is known to a process that
//! comes later.

use std::{sync::Mutex, time::Duration};

use cvo::api::{ClusterOperator, ClusterVersion, progress::Progress};
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

use e2e::theatre::{Theatre, says};

/// Far below every period of the daemon, and long enough for a machine that is busy with other tests.
const SOON: Duration = Duration::from_secs(30);
const CLOCK: &str = "clusteroperator/delta";

/// Since when the operator is waited for, if it is.
fn waits(progress: &Progress) -> Option<Timestamp> {
    let mut waiting = progress.nodes.iter().flat_map(|node| &node.waiting);
    let waits = waiting.any(|waiting| waiting.kind == "ClusterOperator" && waiting.name == "delta");
    progress.clocks.get(CLOCK).copied().filter(|_| waits && progress.release.version == "1.0.1")
}

/// Waits until it is waited for by a pass that began later than that, and returns since when.
async fn waited_for(theatre: &Theatre, later_than: Option<Timestamp>) -> Timestamp {
    let since = Mutex::new(None);
    let found = |progress: &Progress| {
        *since.lock().unwrap() = waits(progress).filter(|_| progress.pass.started > later_than);
        since.lock().unwrap().is_some()
    };
    theatre.until_progress("the operator to be waited for", found).await;
    let since = since.into_inner().unwrap();
    since.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_waited_for_is_restored_and_its_clock_goes_on() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    theatre.crew.hold("delta");
    theatre.ask_for(&releases[1]).await;
    let since = waited_for(&theatre, None).await;

    let operators: Api<ClusterOperator> = Api::all(theatre.client.clone());
    let waited = operators.get("delta").await.unwrap();
    operators.delete("delta", &DeleteParams::default()).await.unwrap();
    let anew =
        |object: Option<&ClusterOperator>| object.is_some_and(|object| object.metadata.uid != waited.metadata.uid);
    let took = theatre.until_object("the operator to be there again", operators, "delta", SOON, anew).await;
    println!("restored behind its gate within {} ms", took.as_millis());

    let crashed = Timestamp::now();
    theatre.crash().await;
    assert_eq!(waited_for(&theatre, Some(crashed)).await, since, "a restart hides no slow operator");
    theatre.crew.release("delta");
    theatre.completed(&releases[1]).await;
    theatre.close().await;
}

/// The last operator of an update drains node after node, so pods of what has long been updated are on their way just then.
#[tokio::test(flavor = "multi_thread")]
async fn pods_that_move_when_an_update_completes_are_no_failure() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    theatre.crew.hold("delta");
    theatre.ask_for(&releases[1]).await;
    waited_for(&theatre, None).await;

    let nodes: Api<Node> = Api::all(theatre.client.clone());
    let cordon = json!({"spec": {"unschedulable": true}});
    nodes.patch("fake-0", &PatchParams::default(), &Patch::Merge(&cordon)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(theatre.client.clone(), "alpha");
    pods.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    let deployments: Api<Deployment> = Api::namespaced(theatre.client.clone(), "alpha");
    let available =
        |object: Option<&Deployment>| object.and_then(|o| o.status.as_ref()?.available_replicas).unwrap_or(0);
    let away = |object: Option<&Deployment>| available(object) == 0;
    theatre.until_object("the pods to be away", deployments.clone(), "alpha", SOON, away).await;
    // An update says whom it waits for.
    let told = |object: &ClusterVersion| {
        says(object, "Progressing", "True").is_some_and(|condition| condition.message.contains("alpha"))
    };
    theatre.until("the moving pods to be told of", told).await;

    theatre.crew.release("delta");
    let completed = theatre.completed(&releases[1]).await;
    assert!(says(&completed, "Failing", "False").is_some(), "{:?}", completed.status);
    let still = deployments.get("alpha").await.unwrap();
    assert_eq!(available(Some(&still)), 0, "they are on their way still");
    theatre.close().await;
}
