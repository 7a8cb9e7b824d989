//! What may be updated to what, on a cluster with a real node: preconditions refuse a release before anything of it runs, and
//! let it go on as soon as what spoke against it is gone, without another Job; with force it goes on at once.

use std::collections::BTreeSet;
use std::time::Duration;

use cvo::testing::api::{self, ClusterVersion, HistoryEntry};
use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Node};
use kube::{
    Api, Client, ResourceExt,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use e2e::simulator::requests::DAEMON;
use e2e::{
    conditions::Conditions,
    harness::audit,
    platform::{Platform, Release, follow::completed, releases::Contents},
    simulator::cluster::SimulatedCluster,
};

/// For one step on a busy machine.
const LIMIT: Duration = Duration::from_secs(240);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn preconditions_refuse_a_release_until_they_are_met_or_forced() {
    let Some(platform) = Platform::on_a_node().await.unwrap() else { return };
    let [first, patch, minor, next_patch, far] = releases(&platform).await;
    platform.install(&first).await.unwrap();
    platform.until_completed(&first, LIMIT).await.unwrap();

    refused_by_an_operator_and_not_for_a_patch(&platform, &minor, &patch).await;
    freed_by_an_acknowledgement(&platform, &minor).await;
    refused_unless_forced(&platform, &patch, &next_patch, &far).await;
    unverified_release_is_tried_without_the_api_and_planted_jobs_are_replaced(&platform).await;
    platform.close().await.unwrap();
}

/// 4.1.0, 4.1.1, 4.2.0, and, not recommended, 4.2.1; 4.4.0 is known to no graph.
async fn releases(platform: &Platform) -> [Release; 5] {
    let release = async |version| {
        let release =
            platform.release(Contents { version, folders: &["base"], previous: &[], components: &[] }).await.unwrap();
        platform.sign(&release).await.unwrap();
        release
    };
    let all = [
        release("4.1.0").await,
        release("4.1.1").await,
        release("4.2.0").await,
        release("4.2.1").await,
        release("4.4.0").await,
    ];
    let [first, patch, minor, next_patch, _] = &all;
    let graph: [(&Release, &[&str]); 4] =
        [(first, &[]), (patch, &["4.1.0"]), (minor, &["4.1.0", "4.1.1"]), (next_patch, &[])];
    let risk = json!({"url": "https://example.com/risk", "name": "Broken", "message": "Everything breaks.",
        "matchingRules": [{"type": "Always"}]});
    let conditional = json!([{"edges": [{"from": "4.2.0", "to": "4.2.1"}], "risks": [risk]}]);
    platform.publish_graph_with_risks(&graph, conditional).unwrap();
    all
}

/// A cluster operator that the release does not know counts as well.
async fn refused_by_an_operator_and_not_for_a_patch(platform: &Platform, minor: &Release, patch: &Release) {
    let client = platform.cluster.client().await.unwrap();
    set_upgradeable(&client, "False").await;
    let said = Timestamp::now();
    let upgradeable = |version: &ClusterVersion| version.says("Upgradeable", &["storage-add-on", "PoolBusy"]);
    let version = platform.until("Upgradeable to name the operator", LIMIT, upgradeable).await.unwrap();
    println!("Upgradeable after {} ms: {:?}", since(said), version.condition("Upgradeable").unwrap());

    ask(platform, minor).await;
    let message = refused(platform, minor, "ClusterVersionUpgradeable").await;
    assert!(message.contains("storage-add-on"), "{message}");
    let jobs = jobs(platform);
    assert_eq!(jobs.iter().filter(|job| job.contains("preflight")).count(), 0, "nothing of the target runs: {jobs:?}");

    refused_until_a_node_can_run_the_daemon(platform, &client, patch).await;
    set_upgradeable(&client, "True").await;
    let gone = |version: &ClusterVersion| !version.has("Upgradeable");
    platform.until("Upgradeable to go", LIMIT, gone).await.unwrap();
}

/// The daemon that runs stays where it is when its node loses the label, but the next one would have no node.
async fn refused_until_a_node_can_run_the_daemon(platform: &Platform, client: &Client, patch: &Release) {
    const LABEL: &str = "node-role.kubernetes.io/control-plane";
    let label = async |value: Value| {
        let labels = Patch::Merge(json!({"metadata": {"labels": {LABEL: value}}}));
        let nodes: Api<Node> = Api::all(client.clone());
        for node in nodes.list(&ListParams::default()).await.unwrap() {
            nodes.patch(&node.name_any(), &PatchParams::default(), &labels).await.unwrap();
        }
    };
    label(Value::Null).await;
    ask(platform, patch).await;
    let message = refused(platform, patch, "ClusterVersionSuccessor").await;
    assert!(message.contains("the only node cannot run its pod") && message.contains(LABEL), "{message}");
    let before = jobs(platform).len();

    label(json!("")).await;
    let labelled = Timestamp::now();
    platform.until_completed(patch, LIMIT).await.unwrap();
    println!("updated {} ms after a node could run the daemon", since(labelled));
    let more: Vec<String> = jobs(platform).split_off(before);
    assert!(more.iter().all(|job| job.contains("preflight")), "it is not loaded again: {more:?}");
}

async fn freed_by_an_acknowledgement(platform: &Platform, minor: &Release) {
    let client = platform.cluster.client().await.unwrap();
    let merge = async |namespace: &str, name: &str, data: Value| {
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let patch = Patch::Merge(json!({"data": data}));
        maps.patch(name, &PatchParams::default(), &patch).await.unwrap();
    };
    merge(api::MANAGED_NAMESPACE, "admin-gates", json!({"ack-4.1-apis": "Old APIs go away."})).await;
    ask(platform, minor).await;
    let message = refused(platform, minor, "ClusterVersionUpgradeable").await;
    assert!(message.contains("Old APIs go away.") && message.contains("openshift-config/admin-acks"), "{message}");
    let before = jobs(platform).len();

    merge("openshift-config", "admin-acks", json!({"ack-4.1-apis": "True"})).await;
    let still =
        platform.until("the wrong value to be named", LIMIT, |version| version.says("ReleaseAccepted", &["\"True\""]));
    still.await.unwrap();
    let ack = async |gates: &[&str]| {
        let said = platform.cluster.cvo(["ack"]).args(gates).run().await.unwrap();
        (said.code, said.stdout)
    };
    let line = |state| format!("ack-4.1-apis ({state}): Old APIs go away.\n");
    assert_eq!(ack(&[]).await, (Some(3), line("open")));
    assert_eq!(ack(&["ack-4.1-nothing"]).await.0, Some(1));
    assert_eq!(ack(&["ack-4.1-apis"]).await, (Some(0), line("acknowledged")));
    let acknowledged = Timestamp::now();
    let goes_on = |version: &ClusterVersion| version.has("ReleaseAccepted") && !version.has("ReleaseAccepted=False");
    platform.until("the release to be accepted", LIMIT, goes_on).await.unwrap();
    println!("went on {} ms after the acknowledgement", since(acknowledged));
    platform.until_completed(minor, LIMIT).await.unwrap();
    let after = jobs(platform);
    let new: Vec<_> = after.iter().skip(before).filter(|job| !job.contains("preflight")).collect();
    assert_eq!(new, Vec::<&String>::new(), "the payload was not extracted again");
}

async fn refused_unless_forced(platform: &Platform, patch: &Release, next_patch: &Release, far: &Release) {
    ask_version(platform, patch).await;
    let message = refused(platform, patch, "LowDesiredVersion").await;
    assert!(message.contains("image is that of the history"), "{message}");
    ask(platform, far).await;
    refused(platform, far, "MultipleMinorVersionsUpdate").await;
    ask(platform, next_patch).await;
    let message = refused(platform, next_patch, "ClusterVersionRecommendedUpdate").await;
    println!("not recommended: {message}");

    for (release, precondition) in [
        (next_patch, "ClusterVersionRecommendedUpdate"),
        (far, "ClusterVersionGiantHop"),
        (next_patch, "ClusterVersionRollback"),
    ] {
        platform.ask(json!({"image": release.image, "version": release.version, "force": true})).await.unwrap();
        let version = platform.until_completed(release, LIMIT).await.unwrap();
        let entry = newest(&version);
        assert!(entry.accepted_risks.starts_with("Forced in spite of"), "{entry:?}");
        assert!(entry.accepted_risks.contains(precondition), "{entry:?}");
        assert!(entry.verified, "forced or not, the signature was found: {entry:?}");
        println!("forced: {}", entry.accepted_risks);
    }
}

/// A verified release reads what its preflight needs, with an account for that; one that is not verified reads nothing. A Job
/// that somebody has created under the name of one of ours is not taken for it.
async fn unverified_release_is_tried_without_the_api_and_planted_jobs_are_replaced(platform: &Platform) {
    let read = preflight_requests(platform);
    let resources: BTreeSet<&str> = read.iter().map(|request| request.resource.as_str()).collect();
    println!("{} requests of preflights, of {resources:?}", read.len());
    assert!(resources.contains("clusterversions"), "{resources:?}");
    let others: Vec<_> =
        read.iter().filter(|request| request.verb != "get" || ![200, 404].contains(&request.code)).collect();
    assert!(others.is_empty(), "{others:?}");

    let contents = Contents { version: "4.2.2", folders: &["base"], previous: &[], components: &[] };
    let unsigned = platform.release(contents).await.unwrap();
    let jobs: Api<Job> = Api::namespaced(platform.cluster.client().await.unwrap(), api::NAMESPACE);
    let hash: String = hex::encode(Sha256::digest(unsigned.image.as_bytes())).chars().take(8).collect();
    let mut planted = Vec::new();
    for prefix in ["version", "preflight"] {
        let name = format!("{prefix}-4.2.2-{hash}");
        // It never runs and never fails: whoever took it for their own would wait in vain.
        let job = json!({"metadata": {"name": name}, "spec": {"suspend": true, "template": {"spec": {
            "restartPolicy": "Never", "containers": [{"name": "payload", "image": "planted.invalid/image:1"}]}}}});
        let created = jobs.create(&PostParams::default(), &serde_json::from_value(job).unwrap()).await.unwrap();
        planted.push(created.metadata.uid.unwrap());
    }
    platform.ask(json!({"image": unsigned.image, "version": "4.2.2", "force": true})).await.unwrap();
    let version = platform.until_completed(&unsigned, LIMIT).await.unwrap();
    let entry = newest(&version);
    assert!(!entry.verified && entry.accepted_risks.contains("not verified"), "{entry:?}");
    assert_eq!(preflight_requests(platform).len(), read.len(), "what is not verified reads nothing");
    let left = jobs.list(&ListParams::default()).await.unwrap().items;
    let left: Vec<_> = left.into_iter().filter(|job| planted.contains(job.metadata.uid.as_ref().unwrap())).collect();
    assert!(left.is_empty(), "planted Jobs are removed: {left:?}");
}

/// Requests of the account that preflights of verified releases have.
fn preflight_requests(platform: &Platform) -> Vec<audit::Request> {
    let account = format!("system:serviceaccount:{}:update-preflight", api::NAMESPACE);
    audit::requests(&platform.cluster.audit_log(), &account).unwrap()
}

/// Waits until the release is refused by this precondition or for this reason, and returns the message.
async fn refused(platform: &Platform, release: &Release, by: &str) -> String {
    let refused = |version: &ClusterVersion| version.says("ReleaseAccepted=False", &[&release.image, by]);
    let version = platform.until(&format!("{} to be refused by {by}", release.version), LIMIT, refused).await.unwrap();
    let accepted = version.condition("ReleaseAccepted").unwrap();
    assert_eq!(accepted.reason, "PreconditionChecks", "{accepted:?}");
    assert!(!completed(&version, release) && !version.has("Failing=True"), "{version:?}");
    accepted.message
}

async fn ask(platform: &Platform, release: &Release) {
    platform.ask_image(&release.image, &release.version).await.unwrap();
}

async fn ask_version(platform: &Platform, release: &Release) {
    platform.ask_version(&release.version).await.unwrap();
}

fn newest(version: &ClusterVersion) -> &HistoryEntry {
    &version.status.as_ref().unwrap().history[0]
}

fn since(time: Timestamp) -> i128 {
    Timestamp::now().duration_since(time).as_millis()
}

/// Names of the Jobs that the daemon has created in its own namespace, in order.
fn jobs(platform: &Platform) -> Vec<String> {
    let requests = audit::requests(&platform.cluster.audit_log(), DAEMON).unwrap();
    let created = |r: &&audit::Request| {
        r.wrote() && r.effect() == "create" && r.resource == "jobs" && r.namespace == api::NAMESPACE
    };
    requests.iter().filter(created).map(|request| request.name.clone()).collect()
}

/// A ClusterOperator of an add-on, with this status of condition `Upgradeable`.
async fn set_upgradeable(client: &Client, status: &str) {
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", "ClusterOperator"));
    let operators: Api<DynamicObject> = Api::all_with(client.clone(), &resource);
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator",
        "metadata": {"name": "storage-add-on"}, "spec": {}});
    let created = operators.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await;
    assert!(created.is_ok() || matches!(&created, Err(kube::Error::Api(e)) if e.code == 409), "{created:?}");
    let condition = json!({"type": "Upgradeable", "status": status, "reason": "PoolBusy", "message": "a pool updates",
        "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let patch = Patch::Merge(json!({"status": {"conditions": [condition]}}));
    operators.patch_status("storage-add-on", &PatchParams::default(), &patch).await.unwrap();
}

/// What was refused is refused again by the next process, and nothing of it was applied.
#[tokio::test(flavor = "multi_thread")]
async fn release_that_is_refused_stays_so_when_the_daemon_is_killed() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.2.0"]).await.unwrap();
    let refused = |object: &ClusterVersion| object.says("ReleaseAccepted=False", &["MultipleMinorVersionsUpdate"]);
    cluster.request(&releases[1]).await.unwrap();
    let before = cluster.until("1.2.0 to be refused", refused).await.unwrap();
    let killed = Timestamp::now();
    cluster.node.crash().await.unwrap();
    cluster.rolled_out(&releases[0], killed).await.unwrap();
    let after = cluster.until("1.2.0 to be refused again", refused).await.unwrap();
    assert_eq!(before.status.unwrap().history, after.status.unwrap().history);
    let written: Vec<_> = cluster.writes().unwrap().into_iter().filter(|write| write.at > killed).collect();
    assert_eq!(written, [], "nothing of the refused release is applied");
    cluster.patch(json!({"spec": {"desiredUpdate": {"force": true}}})).await.unwrap();
    let updated = cluster.completed(&releases[1]).await.unwrap();
    assert!(newest(&updated).accepted_risks.contains("MultipleMinorVersionsUpdate"), "{:?}", newest(&updated));
    cluster.close().await.unwrap();
}
