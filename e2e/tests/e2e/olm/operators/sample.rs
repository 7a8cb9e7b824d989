//! The sample operator, with the rights that its bundles ask for: it works with each version of its kind, and says when it must not
//! be replaced.

use std::path::Path;

use cvo::testing::api::olm::operator_condition::OperatorCondition;
use e2e::conditions::Conditions;
use e2e::harness::{Launch, Programs};
use e2e::olm::PROCESS;
use e2e::workspace;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use serde_json::{Value, json};

use super::super::LIMIT;
use super::{SHOP, World, in_shop};

const OPERATOR: &str = "library-operator";

/// The manifests of a bundle: its ClusterServiceVersion and the definition of its kind.
fn manifests(bundle: &str) -> (Value, Value) {
    let folder = workspace::root().join("e2e/packages").join(bundle).join("manifests");
    let read = |path: &Path| serde_yaml::from_slice::<Value>(&std::fs::read(path).unwrap()).unwrap();
    let mut csv = Value::Null;
    let mut definition = Value::Null;
    for entry in std::fs::read_dir(folder).unwrap() {
        let object = read(&entry.unwrap().path());
        match object["kind"].as_str() {
            Some("ClusterServiceVersion") => csv = object,
            _ => definition = object,
        }
    }
    csv["metadata"]["namespace"] = json!(SHOP);
    // So that its pods are scheduled to a node that kwok plays.
    csv.pointer_mut("/spec/install/spec/deployments/0/spec/template/spec").unwrap()["tolerations"] =
        json!([{"key": "kwok.x-k8s.io/node", "operator": "Exists"}]);
    (csv, definition)
}

impl World {
    /// What a plan makes of a bundle, beside its ClusterServiceVersion.
    async fn carry_out(&self, csv: &Value, definition: &Value) {
        self.apply(definition).await;
        self.apply(&in_shop("v1", "ServiceAccount", OPERATOR, json!({}))).await;
        let permissions = csv["spec"]["install"]["spec"]["clusterPermissions"].as_array().unwrap();
        let rules: Vec<&Value> = permissions.iter().flat_map(|it| it["rules"].as_array().unwrap()).collect();
        let of_cluster = |kind: &str, content: Value| {
            let mut object = json!({"apiVersion": "rbac.authorization.k8s.io/v1", "kind": kind,
                "metadata": {"name": OPERATOR}});
            object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
            object
        };
        self.apply(&of_cluster("ClusterRole", json!({"rules": rules}))).await;
        let subject = json!({"kind": "ServiceAccount", "name": OPERATOR, "namespace": SHOP});
        let role = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": OPERATOR});
        self.apply(&of_cluster("ClusterRoleBinding", json!({"roleRef": role, "subjects": [subject]}))).await;
    }

    /// Its program with the arguments of the Deployment, as its account.
    fn run_operator(&self, csv: &Value) {
        let user = format!("system:serviceaccount:{SHOP}:{OPERATOR}");
        let user = self.cluster.kubeconfig_as(OPERATOR, &user, &["system:authenticated"]).unwrap();
        let container = "/spec/install/spec/deployments/0/spec/template/spec/containers/0";
        let arguments: Vec<String> = serde_json::from_value(csv.pointer(container).unwrap()["args"].clone()).unwrap();
        let launch = Launch::new(OPERATOR, Programs::find().unwrap().lab, arguments)
            .env("KUBECONFIG", user.display().to_string())
            .env("WATCH_NAMESPACE", SHOP)
            .env("POD_NAMESPACE", SHOP)
            .env("OPERATOR_CONDITION_NAME", csv["metadata"]["name"].as_str().unwrap());
        self.cluster.spawn(launch).unwrap();
    }

    async fn until_kept(&self, name: &str, version: &str) {
        let maps: Api<ConfigMap> = Api::namespaced(self.client.clone(), SHOP);
        let kept = |it: &ConfigMap| it.data.as_ref().is_some_and(|data| data["version"] == version);
        let wait = self.cluster.until(format!("{name} to be kept by {version}"), &[PROCESS, OPERATOR]).within(LIMIT);
        wait.existing(maps, name, kept).await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn sample_operator_goes_through_its_versions() {
    let world = World::up().await;
    world.start();
    world.apply(&super::group("one", json!({"targetNamespaces": [SHOP]}))).await;
    let (ink, inks) = manifests("ink/1.0.0");
    world.apply(&inks).await;
    assert_eq!(ink["metadata"]["name"], "ink.v1.0.0");
    let shelf = json!({"apiVersion": "library.example.com/v1alpha1", "kind": "Shelf",
        "metadata": {"name": "first", "namespace": SHOP}, "spec": {"books": ["one"]}});
    let versions = ["1.0.0", "1.1.0", "2.0.0", "2.1.0"];
    for (number, version) in versions.into_iter().enumerate() {
        let (csv, definition) = manifests(&format!("library/{version}"));
        let name = csv["metadata"]["name"].as_str().unwrap().to_owned();
        world.carry_out(&csv, &definition).await;
        world.apply(&csv).await;
        world.until_succeeded(&name).await;
        if number == 0 {
            world.apply(&shelf).await;
        } else {
            world.until_gone(&format!("library.v{}", versions[number - 1])).await;
            assert!(world.cluster.terminate(OPERATOR, LIMIT).await.unwrap());
        }
        world.run_operator(&csv);
        world.until_kept("first", version).await;
    }
    // The last one is busy until what it waits for is there.
    let conditions: Api<OperatorCondition> = Api::namespaced(world.client.clone(), SHOP);
    let until = async |what: &'static str| {
        let wait = world.cluster.until(what, &[PROCESS, OPERATOR]).within(LIMIT);
        wait.existing(conditions.clone(), "library.v2.1.0", |it| it.has(what)).await.unwrap();
    };
    until("Upgradeable=False").await;
    let mut next = manifests("library/2.1.0").0;
    next["metadata"]["name"] = json!("library.v3.0.0");
    next["spec"]["replaces"] = json!("library.v2.1.0");
    world.apply(&next).await;
    world.until("to be held", "library.v3.0.0", |it| it.reason == "OperatorConditionNotUpgradeable").await;
    world.apply(&in_shop("v1", "ConfigMap", "inventory", json!({}))).await;
    until("Upgradeable=True").await;
    world.until_succeeded("library.v3.0.0").await;
    world.down().await;
}
