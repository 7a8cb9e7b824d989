//! However much the API server says, conditions, progress record and `cvo status` stay short enough to read, and the
//! daemon's log has all of it.

use cvo::testing::api::progress::{CONFIG_MAP, KEY};
use cvo::testing::api::{ClusterVersion, NAMESPACE};
use e2e::conditions::Conditions;
use e2e::signing::TRUSTED;
use e2e::simulator::cluster::SimulatedCluster;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Map, Value, json};

const DEFINITIONS: usize = 17;
const RULES: usize = 30;

/// Its rules call a function that no API server knows, and the server's answer names each of them.
fn definition(number: usize) -> Value {
    let rule = |n: usize| {
        let rules = json!([{"rule": format!("unknownFunction{n}(self)"), "message": "never shown"}]);
        (format!("field{n}"), json!({"type": "string", "x-kubernetes-validations": rules}))
    };
    let fields: Map<String, Value> = (0..RULES).map(rule).collect();
    let schema = json!({"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}});
    let plural = format!("refused{number}s");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": format!("{plural}.lab.example.com"),
            "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"},
        },
        "spec": {
            "group": "lab.example.com",
            "scope": "Cluster",
            "names": {"kind": format!("Refused{number}"), "plural": plural},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn long_answers_are_shortened_and_whole_only_in_the_log() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let refused = cluster.lay_out_sample("1.0.1").unwrap();
    for number in 0..DEFINITIONS {
        // A component each, so that they fail side by side.
        refused.put(&format!("0000_10_refused{number}_00.yaml"), &definition(number).to_string()).unwrap();
    }
    cluster.sign(&refused, TRUSTED).await.unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    cluster.request(&refused).await.unwrap();

    let failing = |object: &ClusterVersion| object.says("Failing=True", &["is invalid"]);
    cluster.until("the definitions to be refused", failing).await.unwrap();
    let all_failing = |progress: &cvo::testing::api::progress::Progress| {
        progress.nodes.iter().filter(|node| node.error.contains("is invalid")).count() == DEFINITIONS
    };
    cluster.until_progress("every definition to be refused", all_failing).await.unwrap();
    let summed_up = |object: &ClusterVersion| {
        object.condition("Failing=True").is_some_and(|c| c.message.contains("Several errors") && c.message.len() > 3000)
    };
    let object = cluster.until("all of that to be reported", summed_up).await.unwrap();

    let message = &object.condition("Failing=True").unwrap().message;
    println!("Failing has {} bytes:\n{message}", message.len());
    assert!(message.len() <= 4096, "{} bytes", message.len());
    assert!(message.contains(" more; `cvo status` and the log of the daemon have all of them"), "{message}");
    let causes: Vec<&str> = message.lines().filter(|line| line.contains("is invalid")).collect();
    assert!(causes.iter().all(|cause| cause.len() < 510 && cause.contains(" bytes left out) ")), "{causes:#?}");
    for condition in &object.status.as_ref().unwrap().conditions {
        assert!(condition.message.len() <= 4096, "{}: {} bytes", condition.type_, condition.message.len());
    }

    let records: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let record = records.get(CONFIG_MAP).await.unwrap().data.unwrap()[KEY].clone();
    println!("the progress record has {} bytes", record.len());
    assert!(record.len() < DEFINITIONS * 1000 + 10_000, "{} bytes", record.len());

    let shown = cluster.control_plane.cvo(["status"]).run().await.unwrap().stdout;
    println!("cvo status prints {} lines and {} bytes:\n{shown}", shown.lines().count(), shown.len());
    assert!(
        shown.lines().count() < 80 && shown.len() < 30_000,
        "{} lines, {} bytes",
        shown.lines().count(),
        shown.len()
    );

    let log = std::fs::read_to_string(cluster.daemon_log()).unwrap();
    for number in 0..DEFINITIONS {
        let name = format!("refused{number}s.lab.example.com");
        let lines = log.lines().filter(|line| line.contains("cannot apply a manifest") && line.contains(&name));
        let lines: Vec<&str> = lines.collect();
        let whole = |line: &&str| (0..RULES).all(|n| line.contains(&format!("unknownFunction{n}(")));
        assert!(lines.len() == 1 && lines.iter().all(whole), "{name} is in {} lines of the log", lines.len());
    }
    cluster.stop_daemon().await.unwrap();
    cluster.close().await.unwrap();
}
