//! The cluster's data are restored from a backup while the daemon runs: what its watches told has not happened any more,
//! and the position they go on from lies in a future that is lost.

use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use e2e::{harness::named, theatre::Theatre};

/// Several renewals of the lease, and a start.
const SOON: Duration = Duration::from_secs(40);
/// Writes that the backup does not know: afterwards the server counts far below what was watched.
const LOST: usize = 300;

#[tokio::test(flavor = "multi_thread")]
async fn a_restored_backup_is_noticed_and_kept_in_order() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    let backup = theatre.back_up().await;

    let settings: Api<ConfigMap> = Api::namespaced(theatre.client.clone(), "beta");
    let scratch: Api<ConfigMap> = Api::namespaced(theatre.client.clone(), "default");
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
    // What the daemon knows of it now is of a version that will not be.
    theatre.until_object("settings to be blue again", settings.clone(), "settings", SOON, blue).await;
    let repaired = settings.get("settings").await.unwrap();

    theatre.restore(&backup).await;

    assert!(scratch.get_opt("lost").await.unwrap().is_none(), "what came after the backup is gone");
    let restored = settings.get("settings").await.unwrap();
    let version = |map: &ConfigMap| map.metadata.resource_version.as_ref().unwrap().parse::<u64>().unwrap();
    assert!(version(&restored) < version(&repaired), "the server counts from before");
    let begun = Instant::now();
    settings.delete("settings", &DeleteParams::default()).await.unwrap();
    theatre.until_object("settings to be there again", settings.clone(), "settings", SOON, blue).await;
    println!("back {:.1} s after the backup was restored", begun.elapsed().as_secs_f32());
    // On a slow machine it has lost the lease before the server was back.
    let reasons = ["restored from a backup", "could not be renewed in time"];
    let log = theatre.daemon_log();
    assert!(reasons.iter().any(|reason| log.contains(reason)), "the daemon says why it began anew:\n{log}");
    theatre.completed(&releases[0]).await;
    theatre.close().await;
}
