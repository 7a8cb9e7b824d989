//! Cluster configuration that is injected into manifests: what it is injected into follows it without a restart.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use cvo::testing::api::progress::Progress;
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Node},
};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use e2e::conditions::Conditions;
use e2e::simulator::{cluster::SimulatedCluster, sample::config_kind};

/// It should take a second; the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(10);

const INCLUDE: &str = "include.release.openshift.io/self-managed-high-availability";

/// The CustomResourceDefinition of a kind of the cluster configuration with a status subresource.
fn definition(kind: &str, plural: &str) -> Value {
    let mut object = config_kind(kind, plural);
    object["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    object
}

/// A workload that the proxy is injected into.
fn workload() -> Value {
    let labels = json!({"app": "proxied"});
    let annotations = json!({INCLUDE: "true", "config.openshift.io/inject-proxy": "main"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "proxied", "namespace": "delta", "annotations": annotations},
        "spec": {"replicas": 1, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels},
            "spec": {"terminationGracePeriodSeconds": 1, "containers": [
                {"name": "main", "image": "registry.invalid/lab@sha256:00", "terminationMessagePolicy": "FallbackToLogsOnError"}]}}},
    })
}

const CONFIGURATION: &str = "# ours\napiVersion: operator.openshift.io/v1alpha1\nkind: GenericOperatorConfig\n";

fn configuration() -> Value {
    let annotations = json!({INCLUDE: "true", "config.openshift.io/inject-tls": "true"});
    json!({
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "operator-config", "namespace": "delta", "annotations": annotations},
        "data": {"config.yaml": CONFIGURATION},
    })
}

fn environment(object: Option<&Deployment>) -> Option<BTreeMap<String, String>> {
    let container = object?.spec.as_ref()?.template.spec.as_ref()?.containers.first()?;
    let variables = container.env.iter().flatten();
    Some(variables.map(|v| (v.name.clone(), v.value.clone().unwrap_or_default())).collect())
}

fn has_proxy(object: Option<&Deployment>, address: &str) -> bool {
    environment(object).is_some_and(|variables| {
        variables.get("HTTPS_PROXY").is_some_and(|value| value == address)
            && variables.get("NO_PROXY").is_some_and(|value| value == ".cluster.local")
    })
}

/// A workload whose pods cannot start because of a wrong proxy is waited for, and gets the corrected one meanwhile.
async fn correct_the_proxy_of_a_waiting_workload(
    cluster: &SimulatedCluster,
    proxies: &Api<DynamicObject>,
    deployments: &Api<Deployment>,
) {
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let cordon = |yes: bool| Patch::Merge(json!({"spec": {"unschedulable": yes}}));
    nodes.patch("fake-0", &PatchParams::default(), &cordon(true)).await.unwrap();
    let wrong = json!({"status": {"httpsProxy": "http://wrong.invalid:3128"}});
    proxies.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&wrong)).await.unwrap();
    let injected = |object: Option<&Deployment>| has_proxy(object, "http://wrong.invalid:3128");
    cluster.until_object("the wrong proxy", deployments.clone(), "proxied", SOON, injected).await.unwrap();
    let other = json!([{"group": "", "kind": "ConfigMap", "namespace": "x", "name": "y", "unmanaged": true}]);
    cluster.patch(json!({"spec": {"overrides": other}})).await.unwrap();
    let waits = |progress: &Progress| {
        progress.rollout.mode == "update" && progress.nodes.iter().flat_map(|n| &n.waiting).any(|w| w.name == "proxied")
    };
    cluster.until_progress("the workload to be waited for", waits).await.unwrap();
    let right = json!({"status": {"httpsProxy": "http://right.invalid:3128"}});
    proxies.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&right)).await.unwrap();
    let injected = |object: Option<&Deployment>| has_proxy(object, "http://right.invalid:3128");
    cluster.until_object("the corrected proxy", deployments.clone(), "proxied", SOON, injected).await.unwrap();
    nodes.patch("fake-0", &PatchParams::default(), &cordon(false)).await.unwrap();
    let well = |progress: &Progress| progress.rollout.mode == "reconcile";
    cluster.until_progress("the rollout to end", well).await.unwrap();
}

/// The proxy and the TLS settings of a running cluster; the objects that set them do not exist at first.
#[tokio::test(flavor = "multi_thread")]
async fn workloads_and_configurations_follow_the_cluster_configuration() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let release = &releases[0];
    release.put("0000_10_alpha_03_proxies.json", &definition("Proxy", "proxies").to_string()).unwrap();
    release.put("0000_10_alpha_03_apiservers.json", &definition("APIServer", "apiservers").to_string()).unwrap();
    release.put("0000_30_delta_45_proxied.json", &workload().to_string()).unwrap();
    release.put("0000_30_delta_46_config.json", &configuration().to_string()).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(release).await.unwrap();

    let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), "delta");
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "delta");
    assert_eq!(environment(Some(&deployments.get("proxied").await.unwrap())), Some(BTreeMap::new()));
    let text =
        |map: Option<&ConfigMap>| map.and_then(|m| m.data.as_ref()?.get("config.yaml").cloned()).unwrap_or_default();
    let installed = text(Some(&maps.get("operator-config").await.unwrap()));
    assert!(installed.starts_with(CONFIGURATION) && installed.contains("minTLSVersion: VersionTLS12"), "{installed}");

    let api = |kind: &str, plural: &str| -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", kind);
        Api::all_with(cluster.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural))
    };
    let proxies = api("Proxy", "proxies");
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}});
    proxies.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    for address in ["http://proxy.invalid:3128", "http://other.invalid:3128"] {
        let status = json!({"status": {"httpProxy": address, "httpsProxy": address, "noProxy": ".cluster.local"}});
        proxies.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let injected = |object: Option<&Deployment>| has_proxy(object, address);
        let what = format!("the workload to get {address}");
        let (_, after) = cluster.until_object(&what, deployments.clone(), "proxied", SOON, injected).await.unwrap();
        println!("{address} injected after {after:?}");
    }

    correct_the_proxy_of_a_waiting_workload(&cluster, &proxies, &deployments).await;
    let servers = api("APIServer", "apiservers");
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"},
        "spec": {"tlsSecurityProfile": {"type": "Modern"}}});
    servers.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let modern = |map: Option<&ConfigMap>| text(map).contains("minTLSVersion: VersionTLS13");
    let (_, after) =
        cluster.until_object("the Modern profile", maps.clone(), "operator-config", SOON, modern).await.unwrap();
    println!("profile injected after {after:?}");
    let updated = text(Some(&maps.get("operator-config").await.unwrap()));
    assert!(updated.starts_with(CONFIGURATION) && !updated.contains("TLS_ECDHE"), "{updated}");

    cluster.until("the update to be still completed", |object| object.has("Failing=False")).await.unwrap();
    assert_eq!(cluster.node.images().await.len(), 1, "without a restart");
    let requests = cluster.requests().unwrap();
    let read =
        |resource: &str| requests.iter().filter(|r| r.resource == resource && r.code < 300 && r.verb == "get").count();
    println!("read {} and {} times by name", read("proxies"), read("apiservers"));
    assert!(read("proxies") <= 6 && read("apiservers") <= 2, "at most once a change");
    let watches = requests.iter().filter(|r| r.resource == "proxies" && r.verb == "watch" && r.code < 300);
    let ways: BTreeSet<bool> = watches.map(|watch| watch.uri.contains("fieldSelector")).collect();
    assert_eq!(ways.len(), 1, "the proxy is watched once, for manifests and for requests that leave the cluster");
    cluster.close().await.unwrap();
}
