//! The filters of manifests change while the daemon runs: capabilities, feature gates and overrides take effect at once in
//! the running process, and a managed object that moves to another capability stays managed.

use std::collections::BTreeSet;

use cvo::testing::api::{ClusterVersion, progress::Progress};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::DeleteParams};
use serde_json::{Value, json};

use e2e::conditions::Conditions;
use e2e::simulator::{
    cluster::{LIMIT, SimulatedCluster},
    releases::Release,
    sample::config_kind,
};

const CAPABILITY: &str = "capability.openshift.io/name";
const GATE: &str = "release.openshift.io/feature-gate";

/// Adds four objects to component beta, and the FeatureGate kind to alpha: a fresh cluster serves it only once the release
/// is applied.
fn prepare(release: &Release, moves: &[(&str, &str)]) {
    let part = |name: &str, annotations: &[(&str, &str)]| {
        let mut all = json!({"include.release.openshift.io/self-managed-high-availability": "true"});
        for (key, value) in annotations {
            all[*key] = json!(value);
        }
        json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"release": release.version},
            "metadata": {"name": name, "namespace": "beta", "annotations": all},
        })
    };
    let parts = [
        part("console", &[(CAPABILITY, "Console")]),
        part("gated", &[(GATE, "Lab")]),
        part("ungated", &[(GATE, "-Lab")]),
        part("moves", moves),
    ];
    for object in parts {
        let name = object["metadata"]["name"].as_str().unwrap();
        release.put(&format!("0000_20_beta_11_{name}.json"), &object.to_string()).unwrap();
    }
    // No status subresource: the status with the gates is created together with the object.
    let definition = config_kind("FeatureGate", "featuregates");
    release.put("0000_10_alpha_03_featuregates.json", &definition.to_string()).unwrap();
}

fn maps(cluster: &SimulatedCluster, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(cluster.client.clone(), namespace)
}

/// The version that wrote the ConfigMap; `None` if it does not exist.
async fn written_by(cluster: &SimulatedCluster, namespace: &str, name: &str) -> Option<String> {
    let map = maps(cluster, namespace).get_opt(name).await.unwrap()?;
    Some(map.data.unwrap()["release"].clone())
}

async fn until_written(cluster: &SimulatedCluster, namespace: &str, name: &str, version: &str) {
    let is = |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.data.as_ref().is_some_and(|data| data["release"] == version))
    };
    let what = format!("{namespace}/{name} as in {version}");
    cluster.until_object(&what, maps(cluster, namespace), name, LIMIT, is).await.unwrap();
}

fn enabled(object: &ClusterVersion) -> Vec<String> {
    object.status.as_ref().unwrap().capabilities.enabled_capabilities.clone()
}

fn implicit(object: &ClusterVersion) -> String {
    object.condition("ImplicitlyEnabledCapabilities=True").unwrap_or_default().message
}

fn unmanaged(namespaces: &[&str]) -> Value {
    let entry = |namespace: &&str| json!({"group": "", "kind": "ConfigMap", "namespace": namespace, "name": "settings", "unmanaged": true});
    json!({"spec": {"overrides": namespaces.iter().map(entry).collect::<Vec<_>>()}})
}

#[tokio::test(flavor = "multi_thread")]
async fn capabilities_gates_and_overrides_take_effect_at_once() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    prepare(&releases[0], &[]);
    prepare(&releases[1], &[(CAPABILITY, "Insights")]);
    cluster.patch(json!({"spec": {"capabilities": {"baselineCapabilitySet": "None"}}})).await.unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    let installed = cluster.completed(&releases[0]).await.unwrap();
    assert_eq!(enabled(&installed), Vec::<String>::new());
    assert_eq!(installed.status.as_ref().unwrap().capabilities.known_capabilities.len(), 17);
    for (name, there) in [("console", false), ("gated", false), ("ungated", true), ("moves", true)] {
        assert_eq!(written_by(&cluster, "beta", name).await.is_some(), there, "{name} after the install");
    }
    let whole = |p: &Progress| {
        p.rollout.total > 0 && p.rollout.done == p.rollout.total && p.nodes.iter().all(|n| n.done == n.total)
    };
    cluster.until_progress("all included manifests to be done", whole).await.unwrap();

    gains_a_capability(&cluster, &releases[0]).await;
    gains_a_gate(&cluster, &releases[0]).await;
    updates_with_overrides_that_come_and_go(&cluster, &releases).await;

    // A fresh process still reconciles what was implicitly enabled.
    cluster.node.restart().await.unwrap();
    maps(&cluster, "beta").delete("moves", &DeleteParams::default()).await.unwrap();
    until_written(&cluster, "beta", "moves", "1.0.1").await;
    assert_eq!(cluster.node.images().await.len(), 3, "one for each release, and the one that was restarted");

    let requests = cluster.requests().unwrap();
    let about = requests.iter().filter(|r| r.resource == "featuregates");
    let times: BTreeSet<_> = about.map(|r| (r.at, r.verb.clone())).collect();
    // The server ends the first watch of a kind that has just been created.
    assert!(times.len() <= 2 * 3 + 1, "at most two requests for each process: {times:?}");
    cluster.close().await.unwrap();
}

async fn gains_a_capability(cluster: &SimulatedCluster, release: &Release) {
    cluster.patch(json!({"spec": {"capabilities": {"additionalEnabledCapabilities": ["Console"]}}})).await.unwrap();
    until_written(cluster, "beta", "console", "1.0.0").await;
    // The manifest and the status are written beside each other.
    let object = cluster.until("Console to be enabled", |object| enabled(object) == ["Console"]).await.unwrap();
    assert_eq!(implicit(&object), "");
    cluster.completed(release).await.unwrap();
    cluster.patch(json!({"spec": {"capabilities": {"additionalEnabledCapabilities": null}}})).await.unwrap();
    let object = cluster.until("Console to be reported", |object| implicit(object).contains("Console")).await.unwrap();
    assert_eq!(enabled(&object), ["Console"], "what is enabled stays enabled");
}

async fn gains_a_gate(cluster: &SimulatedCluster, release: &Release) {
    cluster.enable_gates("1.0.0", &["Lab"]).await.unwrap();
    until_written(cluster, "beta", "gated", "1.0.0").await;
    cluster.completed(release).await.unwrap();
    assert!(written_by(cluster, "beta", "ungated").await.is_some(), "an object that is excluded is not deleted");
    assert_eq!(cluster.node.images().await.len(), 1, "in the same process");
}

async fn updates_with_overrides_that_come_and_go(cluster: &SimulatedCluster, releases: &[Release]) {
    cluster.simulation.hold("alpha");
    cluster.request(&releases[1]).await.unwrap();
    let parked = |p: &Progress| {
        let alpha = p.nodes.iter().find(|node| node.id.ends_with("/alpha"));
        p.release.version == "1.0.1" && alpha.is_some_and(|n| n.waiting.iter().any(|w| w.kind == "ClusterOperator"))
    };
    cluster.until_progress("the update to wait for alpha", parked).await.unwrap();
    let total = |object: &ClusterVersion| object.condition("Progressing=True").unwrap_or_default().message;
    let before = total(&cluster.until("the count", |object| total(object).contains(" of ")).await.unwrap());
    cluster.patch(unmanaged(&["beta", "gamma"])).await.unwrap();
    let count = |text: &str| text.split(" of ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    let fewer = |object: &ClusterVersion| {
        let (was, is) = (count(&before), count(&total(object)));
        was.zip(is).is_some_and(|(was, is)| is.parse::<u32>().unwrap() + 2 == was.parse::<u32>().unwrap())
    };
    cluster.until("two fewer to be included", fewer).await.unwrap();
    cluster.patch(unmanaged(&["beta"])).await.unwrap();
    cluster.simulation.release("alpha");
    let updated = cluster.completed(&releases[1]).await.unwrap();
    // Name, and the release that wrote it.
    let expected = [
        ("gated", "1.0.1", "gates of 1.0.1 are unknown, so those of 1.0.0 stay in effect"),
        ("ungated", "1.0.0", "the same"),
        ("moves", "1.0.1", "its new capability is enabled implicitly"),
        ("console", "1.0.1", "what is enabled stays enabled"),
        ("settings", "1.0.0", "unmanaged"),
    ];
    for (name, version, why) in expected {
        assert_eq!(written_by(cluster, "beta", name).await.as_deref(), Some(version), "{name}: {why}");
    }
    assert_eq!(written_by(cluster, "gamma", "settings").await.as_deref(), Some("1.0.1"), "its override was removed");
    assert_eq!(enabled(&updated), ["Console", "Insights"]);
    assert!(implicit(&updated).contains("Console, Insights"), "{}", implicit(&updated));

    cluster.patch(unmanaged(&[])).await.unwrap();
    until_written(cluster, "beta", "settings", "1.0.1").await;
    cluster.completed(&releases[1]).await.unwrap();
}
