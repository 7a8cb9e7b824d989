//! Settings of the cluster that go into manifests: what takes them in follows them without a restart.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use e2e::theatre::{Theatre, release::setting, says};

/// A second is what is promised; the machine may be busy with other tests.
const SOON: Duration = Duration::from_secs(10);

const INCLUDE: &str = "include.release.openshift.io/self-managed-high-availability";

/// The definition of a kind of the cluster's configuration whose status is written apart from the rest.
fn definition(kind: &str, plural: &str) -> Value {
    let mut object = setting(kind, plural);
    object["spec"]["versions"][0]["subresources"] = json!({"status": {}});
    object
}

/// An operator that is to be told of the proxy.
fn courier() -> Value {
    let labels = json!({"app": "courier"});
    let annotations = json!({INCLUDE: "true", "config.openshift.io/inject-proxy": "main"});
    json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "courier", "namespace": "delta", "annotations": annotations},
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

/// §10.24: the proxy and the TLS settings of a running cluster, with objects that are absent at first.
#[tokio::test(flavor = "multi_thread")]
async fn workloads_and_configurations_follow_the_clusters_settings() {
    let (mut theatre, releases) = Theatre::open(&["1.0.0"]).await;
    let release = &releases[0];
    release.put("0000_10_alpha_03_proxies.json", &definition("Proxy", "proxies").to_string());
    release.put("0000_10_alpha_03_apiservers.json", &definition("APIServer", "apiservers").to_string());
    release.put("0000_30_delta_45_courier.json", &courier().to_string());
    release.put("0000_30_delta_46_config.json", &configuration().to_string());
    theatre.run_daemon();
    theatre.completed(release).await;

    let deployments: Api<Deployment> = Api::namespaced(theatre.client.clone(), "delta");
    let maps: Api<ConfigMap> = Api::namespaced(theatre.client.clone(), "delta");
    assert_eq!(environment(Some(&deployments.get("courier").await.unwrap())), Some(BTreeMap::new()));
    let text =
        |map: Option<&ConfigMap>| map.and_then(|m| m.data.as_ref()?.get("config.yaml").cloned()).unwrap_or_default();
    let installed = text(Some(&maps.get("operator-config").await.unwrap()));
    assert!(installed.starts_with(CONFIGURATION) && installed.contains("minTLSVersion: VersionTLS12"), "{installed}");

    let api = |kind: &str, plural: &str| -> Api<DynamicObject> {
        let gvk = GroupVersionKind::gvk("config.openshift.io", "v1", kind);
        Api::all_with(theatre.client.clone(), &ApiResource::from_gvk_with_plural(&gvk, plural))
    };
    let proxies = api("Proxy", "proxies");
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"}});
    proxies.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    for address in ["http://proxy.invalid:3128", "http://other.invalid:3128"] {
        let status = json!({"status": {"httpProxy": address, "httpsProxy": address, "noProxy": ".cluster.local"}});
        proxies.patch_status("cluster", &PatchParams::default(), &Patch::Merge(&status)).await.unwrap();
        let told = |object: Option<&Deployment>| {
            environment(object).is_some_and(|e| {
                e.get("HTTPS_PROXY").is_some_and(|v| v == address)
                    && e.get("NO_PROXY").is_some_and(|v| v == ".cluster.local")
            })
        };
        let what = format!("the courier to be told of {address}");
        let after = theatre.until_object(&what, deployments.clone(), "courier", SOON, told).await;
        println!("told of {address} after {after:?}");
    }

    let servers = api("APIServer", "apiservers");
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"},
        "spec": {"tlsSecurityProfile": {"type": "Modern"}}});
    servers.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let modern = |map: Option<&ConfigMap>| text(map).contains("minTLSVersion: VersionTLS13");
    let after = theatre.until_object("the Modern profile", maps.clone(), "operator-config", SOON, modern).await;
    println!("told of the profile after {after:?}");
    let told = text(Some(&maps.get("operator-config").await.unwrap()));
    assert!(told.starts_with(CONFIGURATION) && !told.contains("TLS_ECDHE"), "{told}");

    theatre.until("it to be completed still", |object| says(object, "Failing", "False").is_some()).await;
    assert_eq!(theatre.past_pods().await.len(), 1, "without a restart");
    let requests = theatre.requests();
    let read =
        |resource: &str| requests.iter().filter(|r| r.resource == resource && r.code < 300 && r.verb == "get").count();
    println!("read {} and {} times by name", read("proxies"), read("apiservers"));
    assert!(read("proxies") <= 4 && read("apiservers") <= 2, "no more than once a change");
    theatre.close().await;
}
