//! What cannot be used is refused with a condition that names the place and the cause, and the running release stays
//! looked after.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use cvo::api::{self, ClusterVersion, ClusterVersionSpec, HistoryState};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use super::update::rows;
use e2e::theatre::{
    Theatre,
    release::{FOREIGN_KEY, PLATFORM_KEY, Release},
    says,
};

/// Changes a managed object and sees it changed back.
async fn assert_reconciled(theatre: &Theatre) {
    let maps: Api<ConfigMap> = Api::namespaced(theatre.client.clone(), "delta");
    let change = json!({"data": {"release": "changed"}});
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let back =
        |map: Option<&ConfigMap>| map.and_then(|m| m.data.as_ref()?.get("release")).is_some_and(|r| r == "1.0.0");
    let within = Duration::from_secs(20);
    theatre.until_object("the running release to be looked after", maps, "settings", within, back).await;
}

async fn refused(theatre: &Theatre, what: &str, reason: &str, words: &[&str]) {
    let object = theatre
        .until(&format!("{what} to be refused by {reason} with {words:?}"), |object| {
            let condition = says(object, "ReleaseAccepted", "False");
            condition.is_some_and(|c| c.reason == reason && words.iter().all(|word| c.message.contains(word)))
        })
        .await;
    assert_eq!(
        rows(&object),
        [("1.0.0".to_owned(), HistoryState::Completed, false)],
        "{what} leaves no trace in history"
    );
    println!("{what}: {}", says(&object, "ReleaseAccepted", "False").unwrap().message);
}

/// Has the release's own Deployment use what this daemon's templates do not know.
fn behead(release: &Release) {
    let files = std::fs::read_dir(release.root.join("manifests")).unwrap().map(|entry| entry.unwrap().path());
    let mut beheaded = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains("kind: Deployment") {
            std::fs::write(&file, format!("{text}# {{{{ if .Later }}}}\n")).unwrap();
            beheaded += 1;
        }
    }
    assert_eq!(beheaded, 1);
}

/// §10.15: a release that cannot be had leaves the old pass running.
#[tokio::test(flavor = "multi_thread")]
async fn releases_that_cannot_be_trusted_or_read_are_refused() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0"]).await;
    let lay = |version: &str| theatre.store.lay(version);
    let (malformed, misnamed, unsigned, foreign, absent, headless) =
        (lay("1.0.1"), lay("1.0.2"), lay("1.0.3"), lay("1.0.4"), lay("1.0.5"), lay("1.0.6"));
    malformed.put("0000_20_beta_15_broken.yaml", "kind: ConfigMap\nmetadata: [\n");
    behead(&headless);
    for release in [&malformed, &misnamed, &absent, &headless] {
        theatre.store.sign(release, PLATFORM_KEY).await;
    }
    theatre.store.sign(&foreign, FOREIGN_KEY).await;
    std::fs::remove_dir_all(&absent.root).unwrap();
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;

    let claimed = Release { version: "9.9.9".into(), ..misnamed.clone() };
    let table: [(&Release, &str, &str, Vec<&str>); 6] = [
        (&unsigned, "an unsigned release", "RetrievePayload", vec![unsigned.digest()]),
        (&foreign, "a foreign signature", "RetrievePayload", vec![foreign.digest()]),
        (&malformed, "a malformed manifest", "LoadPayload", vec!["0000_20_beta_15_broken.yaml"]),
        (&claimed, "a wrong version", "VerifyPayloadVersion", vec!["1.0.2", "9.9.9"]),
        (&absent, "a payload that is not there", "RetrievePayload", vec!["manifests"]),
        (&headless, "a release without a successor", "LoadPayload", vec!["cluster-version-operator", "is skipped"]),
    ];
    for (release, what, reason, words) in table {
        theatre.ask_for(release).await;
        refused(&theatre, what, reason, &words).await;
    }
    let unmanaged = json!([{"group": "apps", "kind": "Deployment", "namespace": api::NAMESPACE,
        "name": "cluster-version-operator", "unmanaged": true}]);
    theatre.patch(json!({"spec": {"overrides": unmanaged}})).await;
    theatre.ask_for(&misnamed).await;
    let words = ["override", "could not take over"];
    refused(&theatre, "a release whose successor is overridden", "LoadPayload", &words).await;
    // Together: it would be taken at once.
    theatre.patch(json!({"spec": {"overrides": null, "desiredUpdate": null}})).await;
    assert_reconciled(&theatre).await;
    let accepted =
        |object: &ClusterVersion| says(object, "ReleaseAccepted", "True").is_some_and(|c| c.message.contains("1.0.0"));
    theatre.until("the running release to be the accepted one", accepted).await;
    theatre.close().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_cluster_version_is_named() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0"]).await;
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    let spec = ClusterVersionSpec { cluster_id: uuid::Uuid::new_v4().to_string(), ..ClusterVersionSpec::default() };
    let stranger = ClusterVersion::new("stranger", spec);
    theatre.versions().create(&PostParams::default(), &stranger).await.unwrap();
    theatre
        .until("the stranger to be named", |object| {
            says(object, "Invalid", "True").is_some_and(|condition| condition.message.contains("\"stranger\""))
        })
        .await;
    let stranger = theatre.versions().get("stranger").await.unwrap();
    assert_eq!(stranger.status, None, "the other one is left alone");
    assert_reconciled(&theatre).await;
    theatre.versions().delete("stranger", &DeleteParams::default()).await.unwrap();
    let valid = |object: &ClusterVersion| says(object, "Invalid", "True").is_none();
    theatre.until("the daemon to be content again", valid).await;
    theatre.close().await;
}

/// An update service with one good and two bad answers.
async fn update_service(releases: &[Release]) -> SocketAddr {
    let node = |release: &Release| json!({"version": release.version, "payload": release.image, "metadata": {}});
    let graph = json!({"nodes": releases.iter().map(node).collect::<Vec<_>>(), "edges": [[0, 1]]}).to_string();
    let router = Router::new()
        .route("/graph", get(|| async { graph }))
        .route("/garbage", get(|| async { "<html>come in, we are open</html>" }))
        .route("/broken", get(|| async { (axum::http::StatusCode::INTERNAL_SERVER_ERROR, "out of order") }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_update_service_is_reported_and_keeps_nobody_from_work() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    let service = update_service(&releases).await;
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    theatre.run_daemon();
    theatre.completed(&releases[0]).await;
    let table = [
        (format!("http://{service}/garbage"), "ResponseInvalid"),
        (format!("http://{nobody}/graph"), "RemoteFailed"),
        (format!("http://{service}/broken"), "ResponseFailed"),
    ];
    for (upstream, reason) in table {
        theatre.patch(json!({"spec": {"upstream": upstream}})).await;
        let told =
            |object: &ClusterVersion| says(object, "RetrievedUpdates", "False").is_some_and(|c| c.reason == reason);
        let object = theatre.until(&format!("{upstream} to give {reason}"), told).await;
        println!("{reason}: {}", says(&object, "RetrievedUpdates", "False").unwrap().message);
    }
    assert_reconciled(&theatre).await;

    theatre.patch(json!({"spec": {"upstream": format!("http://{service}/graph")}})).await;
    let offered = |object: &ClusterVersion| {
        let updates = object.status.as_ref().and_then(|status| status.available_updates.as_ref());
        updates.is_some_and(|updates| updates.iter().any(|update| update.version == "1.0.1"))
    };
    theatre.until("1.0.1 to be offered", offered).await;
    // By its version alone, which only the service can turn into an image.
    theatre.patch(json!({"spec": {"desiredUpdate": {"version": "1.0.1"}}})).await;
    theatre.completed(&releases[1]).await;
    theatre.close().await;
}
