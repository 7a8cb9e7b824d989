//! What a release no longer contains stays, and is named until somebody deletes it or annotates it: beforehand by the plan,
//! afterwards by a condition, also after a restart of the daemon.

use cvo::testing::api::ClusterVersion;
use cvo::testing::api::progress::Progress;
use e2e::conditions::Conditions;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::releases::Release;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::{Value, json};

const CONDITION: &str = "DroppedObjects";
const NAMES: [&str; 3] = [
    "configmap \"delta/deleted-later\"",
    "configmap \"delta/kept-later\"",
    "priorityclass.scheduling.k8s.io \"dropped\"",
];

fn manifest(api_version: &str, kind: &str, mut metadata: Value, rest: (&str, Value)) -> String {
    metadata["annotations"] = json!({"include.release.openshift.io/self-managed-high-availability": "true"});
    json!({"apiVersion": api_version, "kind": kind, "metadata": metadata, rest.0: rest.1}).to_string()
}

/// Whether exactly these are named.
fn names(object: &ClusterVersion, expected: &[&str]) -> bool {
    let message = object.condition(CONDITION).unwrap_or_default().message;
    NAMES.iter().all(|name| message.contains(name) == expected.contains(name))
}

async fn cvo(cluster: &SimulatedCluster, arguments: &[&str]) -> String {
    cluster.control_plane.cvo(arguments).run().await.unwrap().stdout
}

/// Adds to the release what the next one does not contain.
fn add_objects(first: &Release) {
    for name in ["kept-later", "deleted-later"] {
        let map = manifest("v1", "ConfigMap", json!({"name": name, "namespace": "delta"}), ("data", json!({"a": "b"})));
        first.put(&format!("0000_50_delta_90_{name}.yaml"), &map).unwrap();
    }
    // Its kind is not in the second release, so that no feed of that follows it.
    let class = manifest("scheduling.k8s.io/v1", "PriorityClass", json!({"name": "dropped"}), ("value", json!(7)));
    first.put("0000_50_delta_91_class.yaml", &class).unwrap();
}

async fn assert_planned(cluster: &SimulatedCluster, first: &Release, second: &Release) {
    let (running, to) = (first.folder.display().to_string(), second.folder.display().to_string());
    let from_cluster = ["plan", "--from", "cluster", "--running", &running, "--to", &to, "--to-image", &second.image];
    let plan: Value =
        serde_json::from_str(&cvo(cluster, &[&from_cluster[..], &["-o", "json"]].concat()).await).unwrap();
    let planned: Vec<&str> =
        plan["dropped"].as_array().unwrap().iter().map(|id| id["name"].as_str().unwrap()).collect();
    assert_eq!(planned, ["deleted-later", "kept-later", "dropped"], "{plan:#}");
    assert_eq!(plan["verified"], json!(true), "{plan:#}");
    // The same bytes under a digest that nobody has signed.
    let other = "registry.invalid/release@sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let unsigned: Vec<&str> =
        from_cluster.iter().map(|argument| if *argument == second.image { other } else { *argument }).collect();
    let plan: Value = serde_json::from_str(&cvo(cluster, &[&unsigned[..], &["-o", "json"]].concat()).await).unwrap();
    assert_eq!(plan["verified"], json!(false), "{plan:#}");
    let named =
        |blocker: &Value| blocker["cause"] == "signature" && blocker["message"].to_string().contains("no signature");
    assert!(plan["blockers"].as_array().unwrap().iter().any(named), "{:#}", plan["blockers"]);
}

/// As an administrator does, until nothing is named any more.
async fn annotate_and_delete(cluster: &SimulatedCluster) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "delta");
    let keep = json!({"metadata": {"annotations": {"release.openshift.io/keep": "true"}}});
    maps.patch("kept-later", &PatchParams::default(), &Patch::Merge(&keep)).await.unwrap();
    let rest = [NAMES[0], NAMES[2]];
    cluster.until("the annotated object not to be named", |object| names(object, &rest)).await.unwrap();
    let classes: Api<PriorityClass> = Api::all(cluster.client.clone());
    classes.delete("dropped", &DeleteParams::default()).await.unwrap();
    cluster.until("the deleted class not to be named", |object| names(object, &rest[..1])).await.unwrap();
    maps.delete("deleted-later", &DeleteParams::default()).await.unwrap();
    cluster.until("nothing to be named", |object| !object.has(CONDITION)).await.unwrap();
    cluster
        .until_progress("the record to have only what exists", |progress: &Progress| progress.dropped.len() == 1)
        .await
        .unwrap();

    // Another object of that name is not what the release has left behind.
    let again: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "deleted-later"}})).unwrap();
    maps.create(&Default::default(), &again).await.unwrap();
    let annotation = json!({"metadata": {"annotations": {"release.openshift.io/keep": null}}});
    maps.patch("kept-later", &PatchParams::default(), &Patch::Merge(&annotation)).await.unwrap();
    cluster
        .until("the object without annotation to be named again", |object| names(object, &[NAMES[1]]))
        .await
        .unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_objects_are_named_until_they_are_deleted_or_annotated() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let [first, second] = &releases[..] else { panic!("two releases") };
    add_objects(first);
    cluster.run_daemon(first).await.unwrap();
    cluster.completed(first).await.unwrap();
    assert_planned(&cluster, first, second).await;

    cluster.request(second).await.unwrap();
    cluster.completed(second).await.unwrap();
    let object = cluster.until("the dropped objects to be named", |object| names(object, &NAMES)).await.unwrap();
    let named = object.condition(CONDITION).unwrap();
    println!("{}", named.message);
    let shown = cvo(&cluster, &["status"]).await;
    assert!(shown.contains(CONDITION) && NAMES.iter().all(|name| shown.contains(name)), "{shown}");

    let restarted = Timestamp::now();
    cluster.node.restart().await.unwrap();
    cluster.rolled_out(second, restarted).await.unwrap();
    let recorded = |progress: &Progress| progress.dropped.len() == NAMES.len();
    cluster.until_progress("the record to name the dropped objects", recorded).await.unwrap();
    let object = cluster.versions().get("version").await.unwrap();
    assert_eq!(object.condition(CONDITION), Some(named), "a restart changes nothing");
    annotate_and_delete(&cluster).await;

    let about = |object: &str| object.contains("-later") || object.contains("priorityclasses");
    let since = cluster.writes().unwrap().into_iter().filter(|request| about(&request.object()));
    let verbs: Vec<String> = since.map(|request| request.effect().to_owned()).collect();
    assert_eq!(verbs, ["create", "create", "create"], "the daemon deletes and changes none of them");
    cluster.stop_daemon().await.unwrap();
    cluster.close().await.unwrap();
}
