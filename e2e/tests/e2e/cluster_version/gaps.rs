//! Changes that other clients make while the daemon has no watch are undone once the API server answers again, whether or
//! not the server sends initial events.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;

use e2e::{
    faults::source::Faults,
    simulator::cluster::{InitialEvents, SimulatedCluster},
};

const SOON: Duration = Duration::from_secs(10);

/// What happens to the API server in the gap.
#[derive(Debug, PartialEq)]
enum Gap {
    /// The watches can go on where they were cut off.
    Resumed,
    /// The server has been restarted since, so it does not know what happened before: everything has to be read again.
    Restarted,
}

async fn changes_in_a_gap_are_undone(initial_events: InitialEvents) {
    let (cluster, proxy, _) = SimulatedCluster::with_installed_behind_proxy(initial_events, &["1.0.0"]).await.unwrap();
    let maps = |namespace: &str| Api::<ConfigMap>::namespaced(cluster.client.clone(), namespace);
    let blue = |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.data.as_ref().and_then(|data| data.get("colour")).is_some_and(|c| c == "blue"))
    };
    for gap in [Gap::Resumed, Gap::Restarted] {
        proxy.set(Faults { away: true, ..Faults::default() });
        maps("beta").delete("settings", &DeleteParams::default()).await.unwrap();
        let red = Patch::Merge(json!({"data": {"colour": "red"}}));
        maps("gamma").patch("settings", &PatchParams::default(), &red).await.unwrap();
        if gap == Gap::Restarted {
            cluster.control_plane.restart_apiserver().await.unwrap();
        }
        proxy.set(Faults::default());
        let returned = Instant::now();
        for namespace in ["beta", "gamma"] {
            let what = format!("the settings of {namespace} to be as desired");
            cluster.until_object(&what, maps(namespace), "settings", SOON, blue).await.unwrap();
            println!("{initial_events:?}, {gap:?}: {what}: {} ms", returned.elapsed().as_millis());
        }
    }
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_in_a_gap_are_undone_with_initial_events() {
    changes_in_a_gap_are_undone(InitialEvents::Sent).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn changes_in_a_gap_are_undone_without_initial_events() {
    changes_in_a_gap_are_undone(InitialEvents::Disabled).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the same on another API server"]
async fn changes_in_a_gap_are_undone_where_one_kind_has_no_initial_events() {
    changes_in_a_gap_are_undone(InitialEvents::RefusedFor("configmaps")).await;
}
