//! The administrator changes their mind in the middle of an update.

use cvo::api::HistoryState::{Completed, Partial};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::json;

use super::update::{assert_times_in_order, rows};
use e2e::theatre::{Theatre, release::OBSTACLE, says};

/// §10.12, §10.15: a pass is cancelled in its middle, and is no success.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_withdrawn_before_the_hand_over_leads_back() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    releases[1].obstruct();
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    theatre.ask_for(&releases[1]).await;
    theatre
        .until("the obstacle to be named", |object| {
            says(object, "Failing", "True")
                .is_some_and(|c| c.message.contains(OBSTACLE) && c.message.contains(OBSTACLE))
        })
        .await;

    theatre.patch(json!({"spec": {"desiredUpdate": null}})).await;
    let back = theatre.completed(&releases[0]).await;
    let entry = |version: &str, state, verified| (version.to_owned(), state, verified);
    let first = [entry("1.0.0", Completed, false), entry("1.0.1", Partial, true), entry("1.0.0", Completed, false)];
    assert_eq!(rows(&back), first);
    assert_times_in_order(&back);
    assert!(says(&back, "Failing", "False").is_some(), "{:?}", back.status);

    theatre.clear_the_way().await;
    theatre.ask_for(&releases[1]).await;
    let updated = theatre.completed(&releases[1]).await;
    assert_eq!(rows(&updated), [vec![entry("1.0.1", Completed, true)], first.to_vec()].concat());
    assert_times_in_order(&updated);
    theatre.close().await;
}

/// §10.15, §10.19: a change of the spec begins the pass anew, and an operator that arrives wakes it.
#[tokio::test(flavor = "multi_thread")]
async fn overrides_set_during_an_update_count_at_once() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    theatre.crew.hold("beta");
    theatre.ask_for(&releases[1]).await;
    theatre
        .until_progress("beta to be waited for", |progress| {
            let waiting = progress.nodes.iter().flat_map(|node| &node.waiting);
            progress.release.version == "1.0.1"
                && waiting.into_iter().any(|w| w.kind == "ClusterOperator" && w.name == "beta")
        })
        .await;
    let mine = json!({"kind": "ConfigMap", "group": "", "namespace": "delta", "name": "settings", "unmanaged": true});
    theatre.patch(json!({"spec": {"overrides": [mine]}})).await;
    theatre
        .until("the override to be seen", |object| {
            object.status.as_ref().map(|s| s.observed_generation) == object.metadata.generation
        })
        .await;
    theatre.crew.release("beta");
    let updated = theatre.completed(&releases[1]).await;

    assert_eq!(updated.status.unwrap().history.len(), 2, "the pass that began again is the same update");
    for (component, release) in [("gamma", "1.0.1"), ("delta", "1.0.0")] {
        let maps: Api<ConfigMap> = Api::namespaced(theatre.client.clone(), component);
        let found = maps.get("settings").await.unwrap().data.unwrap();
        assert_eq!(found["release"], release, "settings of {component}");
    }

    // Once it is managed again it is brought to the release.
    theatre.patch(json!({"spec": {"overrides": null}})).await;
    let maps: Api<ConfigMap> = Api::namespaced(theatre.client.clone(), "delta");
    let at_release =
        |map: Option<&ConfigMap>| map.and_then(|m| m.data.as_ref()?.get("release")).is_some_and(|r| r == "1.0.1");
    theatre.until_object("the override's end to count", maps, "settings", e2e::theatre::PATIENCE, at_release).await;
    theatre.close().await;
}
