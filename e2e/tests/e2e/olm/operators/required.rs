//! What an operator requires is named as long as it is missing, and what comes is seen at once.

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Requirement};
use e2e::faults::proxy::Proxy;
use e2e::faults::source::Faults;
use e2e::olm::{self, PROCESS};
use serde_json::{Value, json};

use super::{World, csv, in_shop};

/// Name, state and message of each line.
fn lines(csv: &ClusterServiceVersion) -> Vec<(String, Requirement, String)> {
    let lines = &csv.status.as_ref().unwrap().requirement_status;
    lines.iter().map(|line| (line.name.clone(), line.status.clone(), line.message.clone())).collect()
}

fn definition(versions: &[&str]) -> Value {
    let version = |name: &&str| {
        json!({"name": name, "served": true, "storage": name == versions.last().unwrap(),
            "schema": {"openAPIV3Schema": {"type": "object"}}})
    };
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "shelves.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "shelves", "singular": "shelf", "kind": "Shelf", "listKind": "ShelfList"},
            "versions": versions.iter().map(version).collect::<Vec<_>>()}})
}

/// An account that a ClusterServiceVersion names is never made because of that: who writes it would have its rights.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_missing_is_named_until_it_is_there() {
    let world = World::up().await;
    world.start();
    world.group("one").await;
    let mut server = csv("1.0.0", "");
    server["spec"]["minKubeVersion"] = json!("1.2.3");
    server["spec"]["customresourcedefinitions"] =
        json!({"owned": [{"name": "shelves.example.com", "version": "v2", "kind": "Shelf"}]});
    server["spec"]["nativeAPIs"] = json!([{"group": "example.com", "version": "v2", "kind": "Shelf"}]);
    world.apply(&server).await;
    let name = "server.v1.0.0";
    let missing = world.until("to be told what is missing", name, |it| it.reason == "RequirementsNotMet").await;
    let [kubernetes, shelves, native, account] = lines(&missing).try_into().unwrap();
    assert_eq!((kubernetes.0.as_str(), kubernetes.1), (name, Requirement::Present));
    let absent = |(name, state, message): (String, Requirement, String)| {
        assert_eq!(state, Requirement::NotPresent);
        format!("{name}: {message}")
    };
    assert_eq!(absent(shelves), "shelves.example.com: CRD is not present");
    assert_eq!(absent(native), "v2.example.com: Native API does not exist");
    assert_eq!(absent(account), "server: Service account does not exist");

    world.apply(&definition(&["v1"])).await;
    let line = |it: &str| it == "CRD version not served";
    world.until("the version", name, |it| it.requirement_status.iter().any(|it| line(&it.message))).await;
    world.apply(&definition(&["v1", "v2"])).await;
    let is_present = |name: &'static str| {
        move |it: &cvo::testing::api::olm::cluster_service_version::ClusterServiceVersionStatus| {
            it.requirement_status.iter().any(|it| it.name == name && it.status == Requirement::Present)
        }
    };
    world.until("the definition", name, is_present("shelves.example.com")).await;
    world.until("the kind", name, is_present("v2.example.com")).await;

    world.apply(&in_shop("v1", "ServiceAccount", "server", json!({}))).await;
    let unsatisfied = |message: &str| message == "Policy rule not satisfied for service account";
    let refused =
        world.until("the account", name, |it| it.requirement_status.iter().any(|it| unsatisfied(&it.message))).await;
    let status = refused.status.unwrap();
    let part = &status.requirement_status.last().unwrap().dependents[0];
    let rule = r#"namespaced rule:{"verbs":["get","update"],"apiGroups":[""],"resources":["configmaps"]}"#;
    assert_eq!((&part.status, part.message.as_str()), (&Requirement::NotSatisfied, rule));
    world.rights().await;
    world.until_succeeded(name).await;

    // What goes is seen at once too.
    world.kubectl(["delete", "rolebinding", "server", "-n", "shop"]).await;
    let lost = world.until("to lose its rights", name, |it| it.reason == "RequirementsNotMet").await;
    assert!(super::history(&lost).contains(&"Failed/RequirementsNotMet".to_owned()), "{:?}", super::history(&lost));
    world.rights().await;
    world.until_succeeded(name).await;
    world.down().await;
}

/// The API server is what the proxy calls it.
#[tokio::test(flavor = "multi_thread")]
async fn operator_that_needs_a_later_kubernetes_goes_on_once_the_api_server_is_that() {
    let world = World::up().await;
    let proxy = Proxy::start(&world.cluster, 1).await.unwrap();
    proxy.say_version("v1.41.3");
    let process = olm::limited(&world.cluster, &world.ports).unwrap().log_level("info,cvo=debug");
    proxy.redirect(&world.cluster.dir().join(format!("{PROCESS}.kubeconfig"))).unwrap();
    world.cluster.spawn(process.flag("--secure-port", "0").launch(PROCESS).unwrap()).unwrap();
    world.group("one").await;
    let mut server = csv("1.0.0", "");
    server["spec"]["minKubeVersion"] = json!("1.42.0");
    server["spec"]["install"]["spec"] = json!({"deployments": []});
    world.apply(&server).await;
    let name = "server.v1.0.0";
    let waiting = world.until("to be told what is missing", name, |it| it.reason == "RequirementsNotMet").await;
    let [(line, state, message)] = lines(&waiting).try_into().unwrap();
    assert_eq!((line.as_str(), state), (name, Requirement::NotPresent));
    assert_eq!(message, "CSV version requirement not met: minKubeVersion (1.42.0) > server version (1.41.3)");
    // It comes back with the next version.
    proxy.set(Faults { away: true, ..Faults::default() });
    proxy.say_version("v1.42.0");
    proxy.set(Faults::default());
    world.until_succeeded(name).await;
    world.down().await;
}
