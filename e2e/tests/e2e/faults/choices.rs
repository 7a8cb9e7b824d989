//! What the cluster filters by changes while the daemon runs: capabilities, gates and overrides take effect at once, in
//! the process that runs, and nothing that was managed becomes unmanaged by moving.

use std::collections::BTreeSet;

use cvo::api::{ClusterVersion, progress::Progress};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, PostParams},
};
use serde_json::{Value, json};

use e2e::theatre::{
    PATIENCE, Theatre,
    release::{Release, setting},
    says,
};

const CAPABILITY: &str = "capability.openshift.io/name";
const GATE: &str = "release.openshift.io/feature-gate";

/// Component beta gets four more objects, and alpha the kind that gates are told by: a fresh cluster has it only once the
/// release brings it.
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
        release.put(&format!("0000_20_beta_11_{name}.json"), &object.to_string());
    }
    // Gates are told in the status, which is created along with the rest: no subresource.
    let definition = setting("FeatureGate", "featuregates");
    release.put("0000_10_alpha_03_featuregates.json", &definition.to_string());
}

fn maps(theatre: &Theatre, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(theatre.client.clone(), namespace)
}

/// The version that wrote the ConfigMap; `None` if it is not there.
async fn written_by(theatre: &Theatre, namespace: &str, name: &str) -> Option<String> {
    let map = maps(theatre, namespace).get_opt(name).await.unwrap()?;
    Some(map.data.unwrap()["release"].clone())
}

async fn until_written(theatre: &Theatre, namespace: &str, name: &str, version: &str) {
    let is = |map: Option<&ConfigMap>| {
        map.is_some_and(|map| map.data.as_ref().is_some_and(|data| data["release"] == version))
    };
    let what = format!("{namespace}/{name} as {version} has it");
    theatre.until_object(&what, maps(theatre, namespace), name, PATIENCE, is).await;
}

fn enabled(object: &ClusterVersion) -> Vec<String> {
    object.status.as_ref().unwrap().capabilities.enabled_capabilities.clone()
}

fn implicit(object: &ClusterVersion) -> &str {
    says(object, "ImplicitlyEnabledCapabilities", "True").map_or("", |c| c.message.as_str())
}

fn unmanaged(namespaces: &[&str]) -> Value {
    let entry = |namespace: &&str| json!({"group": "", "kind": "ConfigMap", "namespace": namespace, "name": "settings", "unmanaged": true});
    json!({"spec": {"overrides": namespaces.iter().map(entry).collect::<Vec<_>>()}})
}

async fn decide_gates(theatre: &Theatre, version: &str, gates: &[&str]) {
    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", "FeatureGate"));
    let enabled: Vec<Value> = gates.iter().map(|gate| json!({"name": gate})).collect();
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "FeatureGate", "metadata": {"name": "cluster"},
        "spec": {}, "status": {"featureGates": [{"version": version, "enabled": enabled}]},
    });
    let object: DynamicObject = serde_json::from_value(object).unwrap();
    let api: Api<DynamicObject> = Api::all_with(theatre.client.clone(), &kind);
    api.create(&PostParams::default(), &object).await.unwrap();
}

/// §10.8, §10.9, §10.16: see each step. Also C10 and C16 of payload-and-apply §9.3.
#[tokio::test(flavor = "multi_thread")]
async fn capabilities_gates_and_overrides_take_effect_at_once() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0", "1.0.1"]).await;
    prepare(&releases[0], &[]);
    prepare(&releases[1], &[(CAPABILITY, "Insights")]);
    theatre.patch(json!({"spec": {"capabilities": {"baselineCapabilitySet": "None"}}})).await;
    theatre.run_daemon();
    let installed = theatre.completed(&releases[0]).await;
    assert_eq!(enabled(&installed), Vec::<String>::new());
    assert_eq!(installed.status.as_ref().unwrap().capabilities.known_capabilities.len(), 17);
    for (name, there) in [("console", false), ("gated", false), ("ungated", true), ("moves", true)] {
        assert_eq!(written_by(&theatre, "beta", name).await.is_some(), there, "{name} after the install");
    }
    let whole =
        |p: &Progress| p.pass.total > 0 && p.pass.done == p.pass.total && p.nodes.iter().all(|n| n.done == n.total);
    theatre.until_progress("all that takes part to be done", whole).await;

    gains_a_capability(&theatre, &releases[0]).await;
    gains_a_gate(&theatre, &releases[0]).await;
    updates_with_overrides_that_come_and_go(&theatre, &releases).await;

    // A fresh process still looks after what was implied.
    theatre.restart_daemon().await;
    maps(&theatre, "beta").delete("moves", &DeleteParams::default()).await.unwrap();
    until_written(&theatre, "beta", "moves", "1.0.1").await;
    assert_eq!(theatre.past_pods().await.len(), 3, "one a release, and the one that was restarted");

    let requests = theatre.requests();
    let about = requests.iter().filter(|r| r.resource == "featuregates");
    let times: BTreeSet<_> = about.map(|r| (r.at, r.verb.clone())).collect();
    // The server ends the first watch of a kind that has only just come into being.
    assert!(times.len() <= 2 * 3 + 1, "at most two requests a process: {times:?}");
    theatre.close().await;
}

async fn gains_a_capability(theatre: &Theatre, release: &Release) {
    theatre.patch(json!({"spec": {"capabilities": {"additionalEnabledCapabilities": ["Console"]}}})).await;
    until_written(theatre, "beta", "console", "1.0.0").await;
    let object = theatre.completed(release).await;
    assert_eq!((enabled(&object), implicit(&object)), (vec!["Console".to_owned()], ""));
    theatre.patch(json!({"spec": {"capabilities": {"additionalEnabledCapabilities": null}}})).await;
    let object = theatre.until("Console to be told", |object| implicit(object).contains("Console")).await;
    assert_eq!(enabled(&object), ["Console"], "what is enabled stays enabled");
}

async fn gains_a_gate(theatre: &Theatre, release: &Release) {
    decide_gates(theatre, "1.0.0", &["Lab"]).await;
    until_written(theatre, "beta", "gated", "1.0.0").await;
    theatre.completed(release).await;
    assert!(written_by(theatre, "beta", "ungated").await.is_some(), "leaving out never deletes");
    assert_eq!(theatre.past_pods().await.len(), 1, "in the same process");
}

async fn updates_with_overrides_that_come_and_go(theatre: &Theatre, releases: &[Release]) {
    theatre.crew.hold("alpha");
    theatre.ask_for(&releases[1]).await;
    let parked = |p: &Progress| {
        let alpha = p.nodes.iter().find(|node| node.id.ends_with("/alpha"));
        p.release.version == "1.0.1" && alpha.is_some_and(|n| n.waiting.iter().any(|w| w.kind == "ClusterOperator"))
    };
    theatre.until_progress("the update to wait for alpha", parked).await;
    let total =
        |object: &ClusterVersion| says(object, "Progressing", "True").map(|c| c.message.clone()).unwrap_or_default();
    let before = total(&theatre.until("the count", |object| total(object).contains(" of ")).await);
    theatre.patch(unmanaged(&["beta", "gamma"])).await;
    let count = |text: &str| text.split(" of ").nth(1).and_then(|rest| rest.split(' ').next()).map(str::to_owned);
    let fewer = |object: &ClusterVersion| {
        let (was, is) = (count(&before), count(&total(object)));
        was.zip(is).is_some_and(|(was, is)| is.parse::<u32>().unwrap() + 2 == was.parse::<u32>().unwrap())
    };
    theatre.until("two fewer to take part", fewer).await;
    theatre.patch(unmanaged(&["beta"])).await;
    theatre.crew.release("alpha");
    let updated = theatre.completed(&releases[1]).await;
    // Name and the release it is from.
    let expected = [
        ("gated", "1.0.1", "nothing is decided for 1.0.1, so what was decided holds"),
        ("ungated", "1.0.0", "the same"),
        ("moves", "1.0.1", "it takes its capability along"),
        ("console", "1.0.1", "what is enabled stays enabled"),
        ("settings", "1.0.0", "unmanaged"),
    ];
    for (name, version, why) in expected {
        assert_eq!(written_by(theatre, "beta", name).await.as_deref(), Some(version), "{name}: {why}");
    }
    assert_eq!(written_by(theatre, "gamma", "settings").await.as_deref(), Some("1.0.1"), "its override was taken back");
    assert_eq!(enabled(&updated), ["Console", "Insights"]);
    assert!(implicit(&updated).contains("Console, Insights"), "{}", implicit(&updated));

    theatre.patch(unmanaged(&[])).await;
    until_written(theatre, "beta", "settings", "1.0.1").await;
    theatre.completed(&releases[1]).await;
}
