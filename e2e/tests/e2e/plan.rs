//! What `cvo plan` says before an update of a real release is what the daemon then does, in the stages it said; from
//! the cluster and from the two releases alike, and with no right but to read.

use cvo::api::{ClusterVersion, NAME};
use cvo::cluster::Kinds;
use e2e::harness::{Programs, audit, programs};
use e2e::real_payload::simulated::{DAEMON_USER, SimulatedCluster};
use e2e::real_payload::{Release, lay_out, manifests, signer::Signer};
use jiff::Timestamp;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding};
use kube::api::{Api, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use tokio::process::Command;

/// Generous: other things may run on the machine.
const LIMIT: Duration = Duration::from_secs(600);
/// Somebody who may read everything and write nothing.
const PLANNER: &str = "planner";

/// A write as the audit log names it: verb, and `group/resource/ namespace/name`.
type Write = (String, String);

#[tokio::test(flavor = "multi_thread")]
async fn a_plan_of_a_real_update_is_what_happens() {
    let Some(manifests) = manifests() else { return };
    let programs = Programs::find().unwrap();
    let stage = SimulatedCluster::build(programs.clone()).await.unwrap();
    let signer = Signer::new(&stage.cluster.dir(), &programs.cvo).unwrap();
    let releases = lay_out(&manifests, &stage.store(), signer).unwrap();
    let [first, second] = &releases;
    stage.install(first).await.unwrap();
    stage.start(&releases, Duration::ZERO).unwrap();
    stage.completed(first, LIMIT).await.unwrap();

    let kinds = Kinds::default();
    kinds.refresh(&stage.client).await.unwrap();
    let kubeconfig = stage.cluster.kubeconfig().display().to_string();
    let to = second.folder.display().to_string();
    let from_cluster = ["--kubeconfig", &kubeconfig, "--from", "cluster", "--to", &to, "--to-image", &second.image];
    let (code, plan) = run_plan(&from_cluster).await;
    let planned = writes(&plan, &kinds);
    assert_eq!(code, Some(0), "nothing stands in the way: {:#}", plan["blockers"]);

    let from = first.folder.display().to_string();
    let dirs = ["--from", &from, "--from-image", &first.image, "--to", &to, "--to-image", &second.image];
    let (code, without_cluster) = run_plan(&dirs).await;
    assert_eq!((code, writes(&without_cluster, &kinds)), (Some(0), planned.clone()), "nobody changed anything");

    allow_reading(&stage).await;
    let (code, readers) = run_plan(&[from_cluster.as_slice(), &["--as", PLANNER]].concat()).await;
    assert_eq!(writes(&readers, &kinds), planned, "a plan needs no right to write");
    let missing = readers["blockers"].as_array().unwrap().iter().map(|b| (text(b, "cause"), text(b, "object")));
    let expected = ["deployments.apps", "configmaps"].map(|object| ("permission".to_owned(), object.to_owned()));
    assert_eq!((code, missing.collect::<Vec<_>>()), (Some(3), expected.to_vec()), "and says which are missing");

    let asked = Timestamp::now();
    update(&stage, second).await;
    stage.completed(second, LIMIT).await.unwrap();
    let requests = audit::requests(&stage.cluster.audit_log(), DAEMON_USER).unwrap();
    let during = audit::within(&requests, asked..Timestamp::now());
    let done = audit::writes(&during).into_iter().filter(|request| request.wrote());
    let done: Vec<Write> = done.map(|request| (request.verb.clone(), request.object())).collect();
    let (wanted, happened): (BTreeSet<_>, BTreeSet<_>) = (planned.keys().collect(), done.iter().collect());
    assert_eq!(happened, wanted, "what was planned was done, and nothing else");
    assert_eq!(done.len(), wanted.len(), "each once: {done:#?}");
    assert_eq!(done.len(), 33);
    let stages: Vec<u64> = done.iter().map(|write| planned[write]).collect();
    assert!(stages.is_sorted(), "in the planned order of stages: {done:#?}, stages {stages:?}");
    assert!(stages.last() > stages.first(), "several stages take part");

    let (code, after) = run_plan(&from_cluster).await;
    assert_eq!((code, writes(&after, &kinds)), (Some(0), BTreeMap::new()), "nothing is left to do");
    stage.stop().await.unwrap();
    stage.cluster.down().await.unwrap();
}

/// Exit code, and the plan; shows what was said on standard error where there is none.
async fn run_plan(arguments: &[&str]) -> (Option<i32>, Value) {
    let mut command = Command::new(programs::cvo().unwrap());
    let output = command.args(["plan", "-o", "json"]).args(arguments).output().await.unwrap();
    let plan = serde_json::from_slice(&output.stdout);
    let plan = plan.unwrap_or_else(|e| panic!("{arguments:?}: {e}: {}", String::from_utf8_lossy(&output.stderr)));
    (output.status.code(), plan)
}

fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

/// The writes that a plan foretells, with the stage of each. A kind that is to be replaced would be two.
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

/// Gives the planner what reading takes.
async fn allow_reading(stage: &SimulatedCluster) {
    let role: ClusterRole = serde_json::from_value(json!({"metadata": {"name": PLANNER},
        "rules": [{"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "watch"]}]}))
    .unwrap();
    Api::all(stage.client.clone()).create(&PostParams::default(), &role).await.unwrap();
    let binding: ClusterRoleBinding = serde_json::from_value(json!({"metadata": {"name": PLANNER},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": PLANNER},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": PLANNER}]}))
    .unwrap();
    Api::all(stage.client.clone()).create(&PostParams::default(), &binding).await.unwrap();
}

async fn update(stage: &SimulatedCluster, release: &Release) {
    let versions: Api<ClusterVersion> = Api::all(stage.client.clone());
    let patch = Patch::Merge(json!({"spec": {"desiredUpdate": {"image": release.image}}}));
    versions.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
}
