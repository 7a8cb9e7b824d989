//! The administrator changes the spec of the ClusterVersion in the middle of an update.

use cvo::testing::api::HistoryState::{Completed, Partial};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use super::update::assert_times_in_order;
use e2e::conditions::Conditions;
use e2e::simulator::{
    cluster::{LIMIT, SimulatedCluster},
    history::history,
    sample::{self, MISSING_NAMESPACE},
};

/// A rollout that is cancelled on its way is not recorded as a success.
#[tokio::test(flavor = "multi_thread")]
async fn update_withdrawn_before_the_hand_over_returns_to_the_old_release() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    sample::block(&releases[1]).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    cluster.request(&releases[1]).await.unwrap();
    cluster
        .until("the missing namespace to be reported", |object| object.says("Failing=True", &[MISSING_NAMESPACE]))
        .await
        .unwrap();

    cluster.patch(json!({"spec": {"desiredUpdate": null}})).await.unwrap();
    let back = cluster.completed(&releases[0]).await.unwrap();
    let entry = |version: &str, state, verified| (version.to_owned(), state, verified);
    let first = [entry("1.0.0", Completed, false), entry("1.0.1", Partial, true), entry("1.0.0", Completed, false)];
    assert_eq!(history(&back), first);
    assert_times_in_order(&back);
    assert!(back.has("Failing=False"), "{:?}", back.status);

    sample::unblock(&cluster.client).await.unwrap();
    cluster.request(&releases[1]).await.unwrap();
    let updated = cluster.completed(&releases[1]).await.unwrap();
    assert_eq!(history(&updated), [vec![entry("1.0.1", Completed, true)], first.to_vec()].concat());
    assert_times_in_order(&updated);
    cluster.close().await.unwrap();
}

/// A change of the spec begins the rollout anew, and the report of an operator continues it.
#[tokio::test(flavor = "multi_thread")]
async fn overrides_set_during_an_update_take_effect_at_once() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.simulation.hold("beta");
    cluster.request(&releases[1]).await.unwrap();
    cluster
        .until_progress("beta to be waited for", |progress| {
            let waiting = progress.nodes.iter().flat_map(|node| &node.waiting);
            progress.release.version == "1.0.1"
                && waiting.into_iter().any(|w| w.kind == "ClusterOperator" && w.name == "beta")
        })
        .await
        .unwrap();
    let entry = json!({"kind": "ConfigMap", "group": "", "namespace": "delta", "name": "settings", "unmanaged": true});
    cluster.patch(json!({"spec": {"overrides": [entry]}})).await.unwrap();
    cluster
        .until("the override to be observed", |object| {
            object.status.as_ref().map(|s| s.observed_generation) == object.metadata.generation
        })
        .await
        .unwrap();
    cluster.simulation.release("beta");
    let updated = cluster.completed(&releases[1]).await.unwrap();

    assert_eq!(updated.status.unwrap().history.len(), 2, "the rollout that began anew is the same update");
    for (component, release) in [("gamma", "1.0.1"), ("delta", "1.0.0")] {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), component);
        let found = maps.get("settings").await.unwrap().data.unwrap();
        assert_eq!(found["release"], release, "settings of {component}");
    }

    // Once it is managed again it is updated to the release.
    cluster.patch(json!({"spec": {"overrides": null}})).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "delta");
    let at_release =
        |map: Option<&ConfigMap>| map.and_then(|m| m.data.as_ref()?.get("release")).is_some_and(|r| r == "1.0.1");
    cluster.until_object("the end of the override to take effect", maps, "settings", LIMIT, at_release).await.unwrap();
    cluster.close().await.unwrap();
}
