//! Install, update with self-replacement, and the order in which an update writes.

use cvo::testing::api::{ClusterVersion, HistoryState, MANAGED_NAMESPACE};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;

use e2e::{
    harness::audit,
    simulator::{cluster::SimulatedCluster, history::history, sample::COMPONENTS},
};

/// Entries are newest first, and each has ended after it began.
pub(super) fn assert_times_in_order(object: &ClusterVersion) {
    let history = &object.status.as_ref().unwrap().history;
    let starts: Vec<Timestamp> = history.iter().map(|entry| entry.started_time.0).collect();
    assert!(starts.is_sorted_by(|newer, older| newer >= older), "{history:?}");
    for entry in history {
        let ended = entry.completion_time.as_ref().map(|time| time.0);
        assert!(ended.is_some_and(|ended| ended >= entry.started_time.0), "{entry:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn update_is_handed_over_and_completed() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    let installed = cluster.completed(&releases[0]).await.unwrap();
    assert_eq!(history(&installed), [("1.0.0".to_owned(), HistoryState::Completed, false)]);

    cluster.request(&releases[1]).await.unwrap();
    let updated = cluster.completed(&releases[1]).await.unwrap();

    let expected =
        [("1.0.1".to_owned(), HistoryState::Completed, true), ("1.0.0".to_owned(), HistoryState::Completed, false)];
    assert_eq!(history(&updated), expected);
    let recorded = updated.status.as_ref().unwrap().history.iter().any(|entry| entry.verified);
    assert!(!recorded, "what was read from a folder is never recorded as verified");
    assert_times_in_order(&updated);
    let images: Vec<&str> = releases.iter().map(|release| release.image.as_str()).collect();
    assert_eq!(cluster.node.images().await, images, "one pod a release");
    // The signature from the store is kept in the cluster.
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), MANAGED_NAMESPACE);
    let kept = maps.get("signatures-managed").await.unwrap().binary_data.unwrap();
    let expected = format!("{}-0", releases[1].digest().replace(':', "-"));
    assert_eq!(kept.keys().collect::<Vec<_>>(), [&expected]);
    let message = String::from_utf8_lossy(&kept[&expected].0);
    assert!(message.contains(releases[1].digest()), "uncompressed: {message}");
    cluster.close().await.unwrap();
}

/// The other components of the stage are completed, later stages do not begin.
#[tokio::test(flavor = "multi_thread")]
async fn stage_does_not_begin_before_the_gates_of_the_previous_stage_are_open() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    let begun = Timestamp::now();
    cluster.simulation.hold("beta");
    cluster.request(&releases[1]).await.unwrap();
    cluster
        .until_progress("gamma to be done and beta to be waited for", |progress| {
            let node = |name: &str| progress.nodes.iter().find(|node| node.id.ends_with(name));
            let waiting = node("/beta").is_some_and(|node| node.waiting.iter().any(|w| w.kind == "ClusterOperator"));
            progress.release.version == "1.0.1" && waiting && node("/gamma").is_some_and(|node| node.done == node.total)
        })
        .await
        .unwrap();
    let held = cluster.writes().unwrap();
    assert_eq!(
        held.iter().filter(|write| write.at > begun && of(write, "delta")).collect::<Vec<_>>(),
        Vec::<&audit::Request>::new()
    );
    cluster.simulation.release("beta");
    cluster.completed(&releases[1]).await.unwrap();

    let reports = cluster.simulation.reports();
    let writes = cluster.writes().unwrap();
    for (level, component) in COMPONENTS {
        let first = writes.iter().find(|write| write.at > begun && of(write, component));
        let first = first.unwrap_or_else(|| panic!("nothing of {component} was written in the update"));
        for (_, earlier) in COMPONENTS.iter().filter(|(other, _)| *other < level) {
            let gate = reports.iter().find(|gate| gate.operator == *earlier && gate.version == "1.0.1").unwrap();
            assert!(first.at > gate.at, "{first:?} came before the gate of {earlier} opened at {}", gate.at);
        }
    }
    cluster.close().await.unwrap();
}

/// Whether it wrote an object of the component.
fn of(write: &audit::Request, component: &str) -> bool {
    write.namespace == component || write.name == component || write.name.starts_with(&format!("{component}-"))
}
