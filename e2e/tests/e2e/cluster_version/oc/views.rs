//! What `oc` shows of a cluster: tables that the API server makes, and the progress of an update with its nodes.

use cvo::testing::api::ClusterVersion;
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::{Value, json};

use e2e::administrator::{Administrator, oc};
use e2e::conditions::Conditions;
use e2e::objects::create;

use super::scenario::Scenario;
use super::until_beta_is_waited_for;

const MACHINE_CONFIGS: &str = "/apis/machineconfiguration.openshift.io/v1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The cells of a table, as `oc get` asks for it: those of one object, by the names of the columns.
async fn row(client: &Client, resource: &str, name: &str) -> Vec<(String, Value)> {
    let path = format!("/apis/config.openshift.io/v1/{resource}/{name}");
    let request = http::Request::get(path).header("Accept", TABLE).body(Vec::new()).unwrap();
    let table: Value = client.request(request).await.unwrap();
    let columns = table["columnDefinitions"].as_array().unwrap().iter();
    let names = columns.map(|column| column["name"].as_str().unwrap().to_owned());
    names.zip(table["rows"][0]["cells"].as_array().unwrap().iter().cloned()).collect()
}

/// Columns and cells without those that are ages.
pub(super) async fn tables_show(scenario: &Scenario, version: &str) {
    let client = &scenario.cluster.client;
    let without_ages = |row: Vec<(String, Value)>| -> Value {
        let cells = row.into_iter().filter(|(name, _)| name != "Since");
        cells.map(|(name, cell)| json!([name, cell])).collect()
    };
    let of_version = row(client, "clusterversions", "version").await;
    assert!(of_version.iter().any(|(name, cell)| name == "Since" && cell.is_string()), "{of_version:?}");
    let status = format!("Cluster version is {version}");
    let expected = json!([
        ["Name", "version"],
        ["Version", version],
        ["Available", "True"],
        ["Progressing", "False"],
        ["Status", status]
    ]);
    assert_eq!(without_ages(of_version), expected, "printer columns of clusterversions");
    let of_operator = without_ages(row(client, "clusteroperators", "beta").await);
    let expected = json!([
        ["Name", "beta"],
        ["Version", version],
        ["Available", "True"],
        ["Progressing", "False"],
        ["Degraded", "False"]
    ]);
    assert_eq!(of_operator, expected, "printer columns of clusteroperators");
}

/// A definition of a kind with one version, of which everything is kept.
fn definition(kind: &str, plural: &str) -> Value {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.machineconfiguration.openshift.io")},
        "spec": {
            "group": "machineconfiguration.openshift.io", "scope": "Cluster",
            "names": {"kind": kind, "plural": plural, "singular": kind.to_lowercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

/// A pool of control plane nodes without any, and one of workers with one node that runs the configuration of 1.0.0.
pub(super) async fn add_nodes(scenario: &Scenario) {
    let client = &scenario.cluster.client;
    for (kind, plural) in [("MachineConfig", "machineconfigs"), ("MachineConfigPool", "machineconfigpools")] {
        create(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition(kind, plural)).await;
    }
    let object = |kind: &str, name: &str, spec: Value, annotations: Value| {
        json!({"apiVersion": "machineconfiguration.openshift.io/v1", "kind": kind,
            "metadata": {"name": name, "annotations": annotations}, "spec": spec})
    };
    for version in ["1.0.0", "1.0.1"] {
        let annotations = json!({"machineconfiguration.openshift.io/release-image-version": version});
        let config = object("MachineConfig", &rendered(version), json!({}), annotations);
        create(client, &format!("{MACHINE_CONFIGS}/machineconfigs"), &config).await;
    }
    for pool in ["master", "worker"] {
        let selector = json!({"matchLabels": {format!("node-role.kubernetes.io/{pool}"): ""}});
        let spec = json!({"nodeSelector": selector, "configuration": {"name": rendered("1.0.0")}});
        create(
            client,
            &format!("{MACHINE_CONFIGS}/machineconfigpools"),
            &object("MachineConfigPool", pool, spec, json!({})),
        )
        .await;
    }
    configure_node(scenario, "1.0.0").await;
    let name = "machine-config-operator";
    let namespace = format!("openshift-{name}");
    create(client, "/api/v1/namespaces", &json!({"metadata": {"name": namespace}})).await;
    let labels = json!({"app": name});
    let deployment = json!({"metadata": {"name": name}, "spec": {"replicas": 0, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels},
            "spec": {"containers": [{"name": name, "image": "r.invalid/x"}]}}}});
    create(client, &format!("/apis/apps/v1/namespaces/{namespace}/deployments"), &deployment).await;
}

fn rendered(version: &str) -> String {
    format!("rendered-worker-{version}")
}

/// The node runs the configuration of this release.
async fn configure_node(scenario: &Scenario, version: &str) {
    let nodes: Api<Node> = Api::all(scenario.cluster.client.clone());
    let of = |key: &str| format!("machineconfiguration.openshift.io/{key}");
    let metadata = json!({
        "labels": {"node-role.kubernetes.io/worker": ""},
        "annotations": {of("currentConfig"): rendered(version), of("desiredConfig"): rendered(version),
            of("state"): "Done"},
    });
    let patch = Patch::Merge(json!({"metadata": metadata}));
    nodes.patch("fake-0", &PatchParams::default(), &patch).await.unwrap();
}

pub(super) async fn of_a_cluster_at_rest(who: &Administrator) {
    who.run(oc("adm upgrade status").says(&["The cluster is not updating."])).await;
    who.run(oc("version").says(&["Server Version: 1.0.0"])).await;
    let header = ["NAME      VERSION   AVAILABLE   PROGRESSING   SINCE", "version   1.0.0     True        False"];
    who.run(oc("get clusterversion").says(&header)).await;
    who.run(oc("get co").says(&["VERSION   AVAILABLE   PROGRESSING   DEGRADED   SINCE", "alpha", "1.0.0"])).await;
    let stable = "adm wait-for-stable-cluster --minimum-stable-period=2s --timeout=60s";
    who.run(oc(stable).says(&["All clusteroperators are stable"])).await;
}

/// An operator of the release says that it is degraded, and goes on to do so.
pub(super) async fn break_beta(scenario: &Scenario) {
    scenario.cluster.simulation.hold("beta");
    let conditions = [("Available", "True"), ("Progressing", "False"), ("Degraded", "True")].map(|(type_, status)| {
        json!({"type": type_, "status": status, "reason": "DiskFull", "message": "beta has no room",
            "lastTransitionTime": "2026-01-01T00:00:00Z"})
    });
    let patch = json!({"status": {"conditions": conditions}}).to_string().into_bytes();
    let report = http::Request::patch("/apis/config.openshift.io/v1/clusteroperators/beta/status");
    let report = report.header("Content-Type", "application/merge-patch+json").body(patch).unwrap();
    scenario.cluster.client.request::<Value>(report).await.unwrap();
    let failing = |object: &ClusterVersion| object.has("Failing=True");
    scenario.cluster.until("the operator to be noticed", failing).await.unwrap();
}

pub(super) async fn mend_beta(scenario: &Scenario) {
    scenario.cluster.simulation.release("beta");
    let mended = |object: &ClusterVersion| object.has("Failing=False");
    scenario.cluster.until("the operator to be noticed", mended).await.unwrap();
}

pub(super) async fn of_a_failing_cluster(scenario: &Scenario, who: &Administrator) {
    break_beta(scenario).await;
    let failing = ["Failing=True:", "Reason: ClusterOperatorDegraded", "beta", "DiskFull", "beta has no room"];
    who.run(oc("adm upgrade").says(&failing)).await;
    let refused = ["the cluster is experiencing an error reconciling \"1.0.0\"", "--allow-upgrade-with-warnings"];
    who.run(oc("adm upgrade --to 1.0.1").fails().says(&refused)).await;
    let issues =
        ["Failing=True:", "issues that apply to this cluster but which were not included in --accept: Failing"];
    let line = "adm upgrade recommend --accept FailedToCompletePrecheck --version 1.0.1";
    who.run(oc(line).fails().says(&issues)).await;
    who.run(oc("get co").says(&["beta 1.0.0 True False True"])).await;
    mend_beta(scenario).await;
}

/// One of the operators has not reached the release yet.
pub(super) async fn of_an_update(scenario: &Scenario, who: &Administrator) {
    let next = scenario.release("1.0.1");
    scenario.cluster.simulation.hold("beta");
    who.run(oc("adm upgrade --to 1.0.1").asks("1.0.1", &next.image)).await;
    until_beta_is_waited_for(&scenario.cluster, next).await;
    let update = [
        "= Control Plane =",
        "Assessment:      Progressing",
        "Target Version:  1.0.1 (from 1.0.0)",
        "Completion:      50% (2 operators updated, 0 updating, 2 waiting)",
        "Operator Health: 4 Healthy",
        "= Worker Upgrade =",
        "Update is proceeding well",
    ];
    who.run(oc("adm upgrade status --details all").says(&update)).await;
    who.run(oc("get clusterversion").says(&["version   1.0.0     True        True"])).await;
    scenario.cluster.simulation.release("beta");
    scenario.cluster.completed(next).await.unwrap();
    let completed = ["Update to 1.0.1 successfully completed at", "= Worker Upgrade ="];
    who.run(oc("adm upgrade status").says(&completed)).await;
    configure_node(scenario, "1.0.1").await;
    who.run(oc("adm upgrade status").says(&["The cluster is not updating."])).await;
    who.run(oc("version").says(&["Server Version: 1.0.1"])).await;
}
