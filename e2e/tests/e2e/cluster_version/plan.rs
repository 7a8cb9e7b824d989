//! What `cvo plan` says before an update of a real release is what the daemon then does, in the planned stages. The plan
//! is the same from the cluster and from the two releases, and needs only the right to read.

use cvo::testing::cluster::Kinds;
use e2e::harness::{Cvo, audit, is_oldest_kubernetes};
use e2e::real_payload::{lay_out, lay_out_whole, manifests};
use e2e::simulator::requests::writes as writes_of;
use e2e::simulator::{cluster::SimulatedCluster, simulation::Workloads};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DynamicObject, PostParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A user who may read everything and write nothing.
const PLANNER: &str = "planner";

/// A write as the audit log names it: effect, and `group/resource/ namespace/name`.
type Write = (String, String);

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn update_writes_exactly_what_the_plan_said() {
    let Some(manifests) = manifests() else { return };
    let mut cluster = SimulatedCluster::start(Workloads::Simulated).await.unwrap();
    let releases = lay_out(&manifests, &cluster).await.unwrap();
    let [first, second] = &releases;
    cluster.install(first).await.unwrap();
    cluster.simulate(&releases, Duration::ZERO).unwrap();
    cluster.run_daemon(first).await.unwrap();
    cluster.completed(first).await.unwrap();

    let kinds = Kinds::default();
    kinds.refresh(&cluster.client).await.unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig().display().to_string();
    let to = second.folder.display().to_string();
    let from_cluster = ["--kubeconfig", &kubeconfig, "--from", "cluster", "--to", &to, "--to-image", &second.image];
    let (code, plan) = run_plan(&from_cluster).await;
    let planned = writes(&plan, &kinds);
    assert_eq!(code, Some(0), "nothing blocks the update: {:#}", plan["blockers"]);

    let from = first.folder.display().to_string();
    let dirs = ["--from", &from, "--from-image", &first.image, "--to", &to, "--to-image", &second.image];
    let (code, without_cluster) = run_plan(&dirs).await;
    assert_eq!((code, writes(&without_cluster, &kinds)), (Some(0), planned.clone()), "nobody changed anything");

    allow_reading(&cluster).await;
    let (code, readers) = run_plan(&[from_cluster.as_slice(), &["--as", PLANNER]].concat()).await;
    assert_eq!(writes(&readers, &kinds), planned, "a plan needs no right to write");
    let blocks = readers["blockers"].as_array().unwrap().iter().filter(|b| text(b, "severity") == "blocks");
    let missing = blocks.map(|b| (text(b, "cause"), text(b, "object")));
    let expected = ["deployments.apps", "configmaps"].map(|object| ("permission".to_owned(), object.to_owned()));
    assert_eq!(
        (code, missing.collect::<Vec<_>>()),
        (Some(3), expected.to_vec()),
        "and names the rights that are missing"
    );

    let asked = Timestamp::now();
    cluster.request(second).await.unwrap();
    cluster.completed(second).await.unwrap();
    let during = audit::within(&cluster.requests().unwrap(), asked..Timestamp::now());
    let done = writes_of(&during).into_iter().filter(|request| request.wrote());
    let done: Vec<Write> = done.map(|request| (request.effect().to_owned(), request.object())).collect();
    let (expected, happened): (BTreeSet<_>, BTreeSet<_>) = (planned.keys().collect(), done.iter().collect());
    assert_eq!(happened, expected, "what was planned was done, and nothing else");
    assert_eq!(done.len(), expected.len(), "each once: {done:#?}");
    assert_eq!(done.len(), 33);
    let stages: Vec<u64> = done.iter().map(|write| planned[write]).collect();
    assert!(stages.is_sorted(), "in the planned order of stages: {done:#?}, stages {stages:?}");
    assert!(stages.last() > stages.first(), "in several stages");

    let (code, after) = run_plan(&from_cluster).await;
    assert_eq!((code, writes(&after, &kinds)), (Some(0), BTreeMap::new()), "nothing is left to do");
    cluster.stop_daemon().await.unwrap();
    cluster.close().await.unwrap();
}

/// Exit code and plan.
async fn run_plan(arguments: &[&str]) -> (Option<i32>, Value) {
    let said = Cvo::new(["plan", "-o", "json"]).args(arguments).run().await.unwrap();
    (said.code, said.json().unwrap())
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The writes that follow from a plan, with the stage of each. An object that is to be replaced gives two.
fn writes(plan: &Value, kinds: &Kinds) -> BTreeMap<Write, u64> {
    let mut found = BTreeMap::new();
    for stage in plan["stages"].as_array().unwrap() {
        for step in stage["nodes"].as_array().unwrap().iter().flat_map(|node| node["steps"].as_array().unwrap()) {
            let verbs: &[&str] = match step["action"].as_str().unwrap() {
                "create" => &["create"],
                "change" => &["update"],
                "replace" => &["delete", "create"],
                "delete" => &["delete"],
                "unknown" => panic!("{step}"),
                _ => &[],
            };
            let (version, object) = (text(step, "apiVersion"), &step["object"]);
            let plural = || kinds.get(&version, &text(object, "kind")).unwrap().plural;
            for verb in verbs {
                let place = format!("{}/{}", text(object, "namespace"), text(object, "name"));
                let name = format!("{}/{}/ {place}", text(object, "group"), plural());
                found.insert(((*verb).to_owned(), name), stage["number"].as_u64().unwrap());
            }
        }
    }
    found
}

/// Gives the planner the right to read.
async fn allow_reading(cluster: &SimulatedCluster) {
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": PLANNER},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]}))
    .unwrap();
    Api::all(cluster.client.clone()).create(&PostParams::default(), &role).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": PLANNER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PLANNER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLANNER}]}))
    .unwrap();
    Api::all(cluster.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
}

/// Of the definitions of the real release, the server is asked for each whether it would take it.
#[tokio::test(flavor = "multi_thread")]
async fn plan_names_the_definitions_that_this_server_refuses() {
    let Some(manifests) = manifests() else { return };
    let (mut cluster, _) = SimulatedCluster::with_installed(&["1.0.0"]).await.unwrap();
    let release = lay_out_whole(&manifests, &cluster).unwrap();
    let kubeconfig = cluster.control_plane.kubeconfig().display().to_string();
    let to = release.folder.display().to_string();
    let from_cluster = ["--kubeconfig", &kubeconfig, "--from", "cluster", "--to", &to, "--to-image", &release.image];
    let (_, plan) = run_plan(&from_cluster).await;
    let blockers = plan["blockers"].as_array().unwrap().iter().filter(|blocker| blocker["cause"] == "serverVersion");
    let named: BTreeMap<String, String> = blockers.map(|b| (text(b, "object"), text(b, "message"))).collect();

    let resource = ApiResource::erase::<CustomResourceDefinition>(&());
    let api: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &resource);
    let dry_run = PostParams { dry_run: true, ..PostParams::default() };
    let payload = release.load().unwrap();
    let mut refused = BTreeMap::new();
    let mut asked = 0;
    for manifest in payload.manifests.iter().filter(|m| m.id.kind == "CustomResourceDefinition") {
        if api.get_opt(&manifest.id.name).await.unwrap().is_some() {
            continue;
        }
        asked += 1;
        let object: DynamicObject = serde_json::from_value(manifest.object().unwrap()).unwrap();
        if let Err(error) = api.create(&dry_run, &object).await {
            refused.insert(manifest.id.to_string(), error.to_string());
        }
    }
    println!("{} of {asked} definitions are refused: {named:#?}", refused.len());
    assert!(asked > 80, "{asked}");
    assert_eq!(refused.is_empty(), !is_oldest_kubernetes(), "{refused:#?}");
    let (named, refused): (Vec<_>, Vec<_>) = (named.keys().collect(), refused.keys().collect());
    assert_eq!(named, refused);
    cluster.stop_daemon().await.unwrap();
    cluster.close().await.unwrap();
}
