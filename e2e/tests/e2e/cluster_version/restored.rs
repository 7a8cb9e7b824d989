//! The data of the API server are restored from a backup while the daemon runs: what its watches showed has not happened,
//! and their resource version is newer than all that the server has.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use e2e::{harness::named, simulator::cluster::SimulatedCluster};

/// Several renewals of the lease, and a start.
const SOON: Duration = Duration::from_secs(40);
/// Writes after the backup: once it is restored, the server's resource versions are far below those that were watched.
const LOST: usize = 300;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn restored_backup_is_noticed_and_reconciled() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    cluster.may_lose_the_lease();
    let backup = cluster.control_plane.dir().join("backup");
    cluster.control_plane.back_up(&backup).await.unwrap();

    let settings: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "beta");
    let scratch: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let params = PatchParams::default();
    scratch.create(&PostParams::default(), &ConfigMap { metadata: named("lost"), ..Default::default() }).await.unwrap();
    for number in 0..LOST {
        let patch = json!({"data": {"number": number.to_string()}});
        scratch.patch("lost", &params, &Patch::Merge(&patch)).await.unwrap();
    }
    let colour = |map: Option<&ConfigMap>| map.and_then(|map| map.data.as_ref()?.get("colour").cloned());
    let changed =
        settings.patch("settings", &params, &Patch::Merge(&json!({"data": {"colour": "red"}}))).await.unwrap();
    assert_eq!(colour(Some(&changed)).as_deref(), Some("red"));
    let blue = |map: Option<&ConfigMap>| colour(map).as_deref() == Some("blue");
    // The version that the daemon knows now will not exist.
    cluster.until_object("settings to be blue again", settings.clone(), "settings", SOON, blue).await.unwrap();
    let repaired = settings.get("settings").await.unwrap();

    cluster.control_plane.restore(&backup).await.unwrap();

    assert!(scratch.get_opt("lost").await.unwrap().is_none(), "what came after the backup is not there");
    let restored = settings.get("settings").await.unwrap();
    let version = |map: &ConfigMap| map.metadata.resource_version.as_ref().unwrap().parse::<u64>().unwrap();
    assert!(version(&restored) < version(&repaired), "the restored version is older");
    let begun = Instant::now();
    settings.delete("settings", &DeleteParams::default()).await.unwrap();
    cluster.until_object("settings to be created again", settings.clone(), "settings", SOON, blue).await.unwrap();
    println!("back {:.1} s after the backup was restored", begun.elapsed().as_secs_f32());
    // On a slow machine it lost the lease before the server was back.
    let reasons = ["restored from a backup", "could not be renewed in time"];
    let log = std::fs::read_to_string(cluster.daemon_log()).unwrap();
    assert!(reasons.iter().any(|reason| log.contains(reason)), "the daemon says why it started anew:\n{log}");
    cluster.completed(&releases[0]).await.unwrap();
    cluster.close().await.unwrap();
}
