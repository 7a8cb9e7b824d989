//! What cannot be used is refused with a condition that names the place and the cause, and the running release is still
//! reconciled.

use std::{net::SocketAddr, time::Duration};

use axum::{Router, routing::get};
use cvo::testing::api::{self, ClusterVersion, ClusterVersionSpec, HistoryState};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;

use e2e::conditions::Conditions;
use e2e::harness::Cvo;
use e2e::signing::TRUSTED;
use e2e::simulator::{cluster::SimulatedCluster, history::history, releases::Release};

/// A good key that no release trusts.
const UNTRUSTED: &str = "stranger@lab.invalid";

/// Changes a managed object and waits until that is undone.
pub(super) async fn assert_reconciled(cluster: &SimulatedCluster) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "delta");
    let change = json!({"data": {"release": "changed"}});
    maps.patch("settings", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let back =
        |map: Option<&ConfigMap>| map.and_then(|m| m.data.as_ref()?.get("release")).is_some_and(|r| r == "1.0.0");
    let within = Duration::from_secs(20);
    cluster.until_object("the running release to be reconciled", maps, "settings", within, back).await.unwrap();
}

pub(super) async fn refused(cluster: &SimulatedCluster, what: &str, reason: &str, words: &[&str]) {
    let object = cluster
        .until(&format!("{what} to be refused by {reason} with {words:?}"), |object| {
            let condition = object.condition("ReleaseAccepted=False");
            condition.is_some_and(|c| c.reason == reason && words.iter().all(|word| c.message.contains(word)))
        })
        .await
        .unwrap();
    assert_eq!(
        history(&object),
        [("1.0.0".to_owned(), HistoryState::Completed, false)],
        "{what} does not get into the history"
    );
    println!("{what}: {}", object.condition("ReleaseAccepted=False").unwrap().message);
}

/// Makes the Deployment of the release's daemon a template that this daemon cannot fill in.
fn break_own_deployment(release: &Release) {
    let files = std::fs::read_dir(release.folder.join("manifests")).unwrap().map(|entry| entry.unwrap().path());
    let mut broken = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        if text.contains("kind: Deployment") {
            std::fs::write(&file, format!("{text}# {{{{ if .Later }}}}\n")).unwrap();
            broken += 1;
        }
    }
    assert_eq!(broken, 1);
}

/// `cvo verify` says of signatures that gpg has made what the daemon says.
async fn command_agrees(cluster: &SimulatedCluster, signed: &Release, unsigned: &Release, untrusted: &Release) {
    let keyring = cluster.control_plane.dir().join("trusted.asc");
    std::fs::write(&keyring, &cluster.keys.public).unwrap();
    for (release, code, part) in [
        (signed, 0, "is verified"),
        (unsigned, 1, "no signature of this digest"),
        (untrusted, 1, "which is not in the keyring"),
    ] {
        let verify = Cvo::new(["verify", &release.image]).flag("--keyring", &keyring);
        let said = verify.flag("--store", cluster.signatures()).run().await.unwrap();
        assert!(said.code == Some(code) && said.stdout.contains(part), "{code} {part}: {said:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn untrusted_and_unreadable_releases_are_refused() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let lay = |version: &str| cluster.lay_out_sample(version).unwrap();
    let (malformed, misnamed, unsigned, untrusted, absent, without_successor) =
        (lay("1.0.1"), lay("1.0.2"), lay("1.0.3"), lay("1.0.4"), lay("1.0.5"), lay("1.0.6"));
    malformed.put("0000_20_beta_15_broken.yaml", "kind: ConfigMap\nmetadata: [\n").unwrap();
    break_own_deployment(&without_successor);
    for release in [&malformed, &misnamed, &absent, &without_successor] {
        cluster.sign(release, TRUSTED).await.unwrap();
    }
    cluster.keys.add(UNTRUSTED).await.unwrap();
    cluster.sign(&untrusted, UNTRUSTED).await.unwrap();
    std::fs::remove_dir_all(&absent.folder).unwrap();
    command_agrees(&cluster, &malformed, &unsigned, &untrusted).await;
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();

    let claimed = Release { version: "9.9.9".into(), ..misnamed.clone() };
    let table: [(&Release, &str, &str, Vec<&str>); 6] = [
        (&unsigned, "an unsigned release", "RetrievePayload", vec![unsigned.digest()]),
        (&untrusted, "an untrusted signature", "RetrievePayload", vec![untrusted.digest()]),
        (&malformed, "a malformed manifest", "LoadPayload", vec!["0000_20_beta_15_broken.yaml"]),
        (&claimed, "a wrong version", "VerifyPayloadVersion", vec!["1.0.2", "9.9.9"]),
        (&absent, "a payload that is not there", "RetrievePayload", vec!["manifests"]),
        (
            &without_successor,
            "a release without a successor",
            "LoadPayload",
            vec!["cluster-version-operator", "is skipped"],
        ),
    ];
    for (release, what, reason, words) in table {
        cluster.request(release).await.unwrap();
        refused(&cluster, what, reason, &words).await;
    }
    let unmanaged = json!([{"group": "apps", "kind": "Deployment", "namespace": api::NAMESPACE,
        "name": "cluster-version-operator", "unmanaged": true}]);
    cluster.patch(json!({"spec": {"overrides": unmanaged}})).await.unwrap();
    cluster.request(&misnamed).await.unwrap();
    let words = ["override", "could not take over"];
    refused(&cluster, "a release whose successor is overridden", "PreconditionChecks", &words).await;
    // In one patch: without the override the release would be accepted at once.
    cluster.patch(json!({"spec": {"overrides": null, "desiredUpdate": null}})).await.unwrap();
    assert_reconciled(&cluster).await;
    let accepted = |object: &ClusterVersion| object.says("ReleaseAccepted=True", &["1.0.0"]);
    cluster.until("the running release to be the accepted one", accepted).await.unwrap();
    cluster.close().await.unwrap();
}

/// An unsigned release runs only with force, which the history says; not even force lets it pass for another version.
#[tokio::test(flavor = "multi_thread")]
async fn forced_release_is_recorded_as_unverified_with_what_was_overridden() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let unsigned = cluster.lay_out_sample("1.0.1").unwrap();
    cluster.simulate(&[releases[0].clone(), unsigned.clone()], Duration::ZERO).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    cluster.request(&unsigned).await.unwrap();
    refused(&cluster, "an unsigned release", "RetrievePayload", &[unsigned.digest()]).await;
    let ask = async |version: &str| {
        let update = json!({"version": version, "image": unsigned.image, "force": true});
        cluster.patch(json!({"spec": {"desiredUpdate": update}})).await.unwrap();
    };
    ask("9.9.9").await;
    refused(&cluster, "a forced release of another version", "VerifyPayloadVersion", &["1.0.1", "9.9.9"]).await;

    cluster.simulation.hold("delta");
    ask("1.0.1").await;
    let begun = cluster
        .until("the forced release to be applied", |object| {
            object.says("ReleaseAccepted=True", &["1.0.1"]) && history(object).len() == 2
        })
        .await
        .unwrap();
    let first = ("1.0.0".to_owned(), HistoryState::Completed, false);
    assert_eq!(history(&begun), [("1.0.1".to_owned(), HistoryState::Partial, false), first.clone()]);
    let risks = begun.status.unwrap().history[0].accepted_risks.clone();
    println!("accepted: {risks}");
    assert!(risks.contains("signature") && risks.contains(unsigned.digest()), "{risks}");
    cluster.simulation.release("delta");
    let updated = cluster.completed(&unsigned).await.unwrap();
    assert_eq!(history(&updated), [("1.0.1".to_owned(), HistoryState::Completed, false), first]);
    assert_eq!(updated.status.unwrap().history[0].accepted_risks, risks, "the successor keeps them");
    cluster.close().await.unwrap();
}

/// What the schema lets through and the daemon cannot carry out.
#[tokio::test(flavor = "multi_thread")]
async fn invalid_requests_are_named_and_the_running_release_is_kept() {
    let (cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let update = |update: serde_json::Value| json!({"spec": {"desiredUpdate": update}});
    let image = "registry.invalid/release@sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let table = [
        (
            update(json!({"image": image, "acceptRisks": [{"name": "SlowDisks"}]})),
            "spec.desiredUpdate.acceptRisks: Forbidden: ",
        ),
        (update(json!({"version": "1.0.7"})), "spec.desiredUpdate.version: Invalid value: \"1.0.7\": "),
        (update(json!({"version": "one"})), "spec.desiredUpdate.version: Invalid value: \"one\": "),
        (
            update(json!({"image": image, "mode": "Preflight"})),
            "spec.desiredUpdate.mode: Invalid value: \"Preflight\": ",
        ),
        (json!({"spec": {"clusterID": "01234567-89ab-1cde-8f01-23456789abcd"}}), "spec.clusterID: Invalid value: "),
        (json!({"spec": {"upstream": "#%GG"}}), "spec.upstream: Invalid value: \"#%GG\": "),
    ];
    let before = cluster.versions().get(api::NAME).await.unwrap();
    for (patch, error) in table {
        if let Err(refused) = cluster.patch(patch.clone()).await {
            println!("the schema refuses {patch}: {}", format!("{refused:#}").lines().next().unwrap_or_default());
            continue;
        }
        let invalid = |object: &ClusterVersion| object.says("Invalid=True", &[error]);
        let object = cluster.until(&format!("{patch} to be invalid with {error:?}"), invalid).await.unwrap();
        println!("{}", object.condition("Invalid=True").unwrap().message);
        assert_eq!(history(&object), history(&before), "{patch}");
        let reset = json!({"spec": {"desiredUpdate": null, "clusterID": before.spec.cluster_id, "upstream": before.spec.upstream}});
        assert_reconciled(&cluster).await;
        cluster.patch(reset).await.unwrap();
        let valid = |object: &ClusterVersion| !object.has("Invalid=True");
        cluster.until("nothing to be invalid any more", valid).await.unwrap();
    }
    // An empty request is none.
    cluster.patch(update(json!({}))).await.unwrap();
    let seen = |object: &ClusterVersion| {
        object.status.as_ref().unwrap().observed_generation == object.metadata.generation.unwrap()
    };
    let object = cluster.until("the empty request to be seen", seen).await.unwrap();
    assert!(object.spec.desired_update.is_some() && !object.has("Invalid=True"));
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn second_cluster_version_is_reported() {
    let (cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let spec = ClusterVersionSpec { cluster_id: uuid::Uuid::new_v4().to_string(), ..ClusterVersionSpec::default() };
    let other = ClusterVersion::new("other", spec);
    cluster.versions().create(&PostParams::default(), &other).await.unwrap();
    cluster
        .until("the other ClusterVersion to be reported", |object| object.says("Invalid=True", &["\"other\""]))
        .await
        .unwrap();
    let other = cluster.versions().get("other").await.unwrap();
    assert_eq!(other.status, None, "the other one is left alone");
    assert_reconciled(&cluster).await;
    cluster.versions().delete("other", &DeleteParams::default()).await.unwrap();
    let valid = |object: &ClusterVersion| !object.has("Invalid=True");
    cluster.until("the daemon to report nothing any more", valid).await.unwrap();
    cluster.close().await.unwrap();
}

/// An update service with one good and two bad answers, each at its path.
async fn update_service(releases: &[Release]) -> SocketAddr {
    let node = |release: &Release| json!({"version": release.version, "payload": release.image, "metadata": {}});
    let graph = json!({"nodes": releases.iter().map(node).collect::<Vec<_>>(), "edges": [[0, 1]]}).to_string();
    let router = Router::new()
        .route("/graph", get(|| async { graph }))
        .route("/garbage", get(|| async { "<html>not a graph</html>" }))
        .route("/broken", get(|| async { (axum::http::StatusCode::INTERNAL_SERVER_ERROR, "out of order") }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

#[tokio::test(flavor = "multi_thread")]
async fn failing_update_service_is_reported_and_blocks_nothing() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let service = update_service(&releases).await;
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let table = [
        (format!("http://{service}/garbage"), "ResponseInvalid"),
        (format!("http://{closed}/graph"), "RemoteFailed"),
        (format!("http://{service}/broken"), "ResponseFailed"),
    ];
    for (upstream, reason) in table {
        cluster.patch(json!({"spec": {"upstream": upstream}})).await.unwrap();
        let reported =
            |object: &ClusterVersion| object.condition("RetrievedUpdates=False").is_some_and(|c| c.reason == reason);
        let object = cluster.until(&format!("{upstream} to give {reason}"), reported).await.unwrap();
        println!("{reason}: {}", object.condition("RetrievedUpdates=False").unwrap().message);
    }
    assert_reconciled(&cluster).await;

    cluster.patch(json!({"spec": {"upstream": format!("http://{service}/graph")}})).await.unwrap();
    let offered = |object: &ClusterVersion| {
        let updates = object.status.as_ref().and_then(|status| status.available_updates.as_ref());
        updates.is_some_and(|updates| updates.iter().any(|update| update.version == "1.0.1"))
    };
    cluster.until("1.0.1 to be offered", offered).await.unwrap();
    // By its version alone, for which only the update service knows the image.
    cluster.patch(json!({"spec": {"desiredUpdate": {"version": "1.0.1"}}})).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    cluster.close().await.unwrap();
}
