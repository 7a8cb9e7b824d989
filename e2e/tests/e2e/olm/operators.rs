//! Operators that run and follow each other: from ClusterServiceVersions to Deployments, whose pods kwok plays. The process has the
//! rights that the release gives it, and no others.

mod accounts;
mod chains;
mod config;
mod copies;
mod disturbed;
mod drift;
mod figures;
mod forward;
mod groups;
mod held;
mod installed;
mod objects;
mod required;
mod sample;
mod serving;
mod taken;
mod tenants;
mod unable;
mod writers;

use std::ops::RangeInclusive;
use std::time::Duration;

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, ClusterServiceVersionStatus, Phase};
use e2e::harness::{Cluster, Options, named};
use e2e::olm::{self, PROCESS};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::LIMIT;

/// The garbage collector looks once in 30 s for kinds that are new.
const COLLECTED: Duration = Duration::from_secs(90);
const SHOP: &str = "shop";
/// How many catalogs of a cluster have a port.
const PORTS: u16 = 3;

/// A cluster with a node that kwok plays, and the namespace `shop`.
struct World {
    cluster: Cluster,
    client: Client,
    ports: RangeInclusive<u16>,
}

impl World {
    async fn up() -> World {
        let cluster = Cluster::up(Options { kwok: true, audit: true, ..Options::default() }).await.unwrap();
        olm::prepare(&cluster).await.unwrap();
        olm::grant(&cluster).await.unwrap();
        cluster.add_fake_nodes(0..1).await.unwrap();
        let client = cluster.client().await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = Namespace { metadata: named(SHOP), ..Namespace::default() };
        namespaces.create(&Default::default(), &namespace).await.unwrap();
        let ports = olm::catalog_ports(&cluster, PORTS).unwrap();
        World { cluster, client, ports }
    }

    /// Ends the cluster. The process has asked for nothing that the release does not allow it, and what it has made is marked.
    async fn down(self) {
        let forbidden = olm::forbidden(&self.cluster).await.unwrap();
        let unmarked = olm::unmarked(&self.cluster, &self.client).await.unwrap();
        self.cluster.down().await.unwrap();
        assert_eq!((forbidden, unmarked), (Vec::new(), Vec::new()), "forbidden, unmarked");
    }

    fn start(&self) {
        let process = olm::limited(&self.cluster, &self.ports).unwrap();
        let process = process.log_level("info,cvo=debug").flag("--secure-port", "0");
        self.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    }

    /// Starts the process, and waits until it has installed this version.
    async fn install(&self, version: &Value) -> ClusterServiceVersion {
        self.start();
        self.group("one").await;
        self.account().await;
        self.apply(version).await;
        self.until_succeeded(version["metadata"]["name"].as_str().unwrap()).await
    }

    fn csvs(&self) -> Api<ClusterServiceVersion> {
        Api::namespaced(self.client.clone(), SHOP)
    }

    fn deployments(&self) -> Api<Deployment> {
        Api::namespaced(self.client.clone(), SHOP)
    }

    async fn deployment(&self) -> Deployment {
        self.deployments().get("server").await.unwrap()
    }

    /// Creates the object, or gives it this content.
    async fn apply(&self, object: &Value) {
        let file = self.cluster.dir().join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        let file = file.display().to_string();
        self.cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-f", &file]).await.unwrap();
    }

    async fn kubectl<const N: usize>(&self, arguments: [&str; N]) -> String {
        self.cluster.kubectl(arguments).await.unwrap()
    }

    /// The ClusterServiceVersion as soon as it is so.
    async fn until(
        &self,
        what: &str,
        name: &str,
        mut ok: impl FnMut(&ClusterServiceVersionStatus) -> bool,
    ) -> ClusterServiceVersion {
        let wait = self.cluster.until(format!("{name}: {what}"), &[PROCESS]).within(LIMIT);
        wait.existing(self.csvs(), name, |it| it.status.as_ref().is_some_and(&mut ok)).await.unwrap()
    }

    async fn until_succeeded(&self, name: &str) -> ClusterServiceVersion {
        self.until("to succeed", name, |it| it.phase == Phase::Succeeded).await
    }

    async fn until_gone(&self, name: &str) {
        let wait = self.cluster.until(format!("{name} to be gone"), &[PROCESS]).within(LIMIT);
        wait.object(self.csvs(), name, |it| it.is_none()).await.unwrap();
    }

    /// An OperatorGroup that selects its own namespace.
    async fn group(&self, name: &str) {
        self.apply(&group(name, json!({"targetNamespaces": [SHOP]}))).await;
    }

    /// The account of the operator, with the rights that it asks for.
    async fn account(&self) {
        self.apply(&in_shop("v1", "ServiceAccount", "server", json!({}))).await;
        self.rights().await;
    }

    async fn rights(&self) {
        let rbac = "rbac.authorization.k8s.io";
        let role = json!({"rules": [rule()]});
        self.apply(&in_shop(&format!("{rbac}/v1"), "Role", "server", role)).await;
        let subject = json!({"kind": "ServiceAccount", "name": "server", "namespace": SHOP});
        let binding = json!({"roleRef": {"apiGroup": rbac, "kind": "Role", "name": "server"}, "subjects": [subject]});
        self.apply(&in_shop(&format!("{rbac}/v1"), "RoleBinding", "server", binding)).await;
    }

    /// The rights that the account has in its namespace, in all of them.
    async fn rights_everywhere(&self) {
        let rbac = "rbac.authorization.k8s.io";
        let of = |kind: &str| json!({"apiVersion": format!("{rbac}/v1"), "kind": kind, "metadata": {"name": "server"}});
        let mut role = of("ClusterRole");
        role["rules"] = json!([rule()]);
        self.apply(&role).await;
        let mut binding = of("ClusterRoleBinding");
        binding["roleRef"] = json!({"apiGroup": rbac, "kind": "ClusterRole", "name": "server"});
        binding["subjects"] = json!([{"kind": "ServiceAccount", "name": "server", "namespace": SHOP}]);
        self.apply(&binding).await;
    }
}

pub(super) fn rule() -> Value {
    json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "update"]})
}

pub(super) fn in_shop(api_version: &str, kind: &str, name: &str, content: Value) -> Value {
    let mut object = json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name, "namespace": SHOP}});
    object.as_object_mut().unwrap().extend(content.as_object().unwrap().clone());
    object
}

pub(super) fn group(name: &str, spec: Value) -> Value {
    in_shop("operators.coreos.com/v1", "OperatorGroup", name, json!({"spec": spec}))
}

/// A version of the operator: `server.v<version>` with the Deployment `server`, whose pods run as the account of that name.
pub(super) fn csv(version: &str, replaces: &str) -> Value {
    let pod = json!({
        "serviceAccountName": "server",
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
        "containers": [{"name": "server", "image": format!("registry.example.com/server:{version}")}],
    });
    let labels = json!({"app": "server"});
    let deployment = json!({"name": "server", "label": {"tier": "one"}, "spec": {
        "replicas": 1, "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels, "annotations": {"own": "kept"}}, "spec": pod},
    }});
    let modes = ["OwnNamespace", "AllNamespaces"].map(|mode| json!({"type": mode, "supported": true}));
    let mut spec = json!({
        "displayName": "Server", "version": version, "installModes": modes,
        "install": {"strategy": "deployment", "spec": {
            "deployments": [deployment],
            "permissions": [{"serviceAccountName": "server", "rules": [rule()]}],
        }},
    });
    if !replaces.is_empty() {
        spec["replaces"] = json!(format!("server.v{replaces}"));
    }
    let mut object = in_shop(
        "operators.coreos.com/v1alpha1",
        "ClusterServiceVersion",
        &format!("server.v{version}"),
        json!({"spec": spec}),
    );
    object["metadata"]["annotations"] = json!({"example.com/told": "to pods"});
    object
}

/// The image of its first container.
fn image(deployment: &Deployment) -> String {
    let spec = serde_json::to_value(deployment).unwrap();
    let image = spec.pointer("/spec/template/spec/containers/0/image").and_then(Value::as_str);
    image.unwrap_or_default().to_owned()
}

/// Phase and reason of each step so far.
fn history(csv: &ClusterServiceVersion) -> Vec<String> {
    let conditions = &csv.status.as_ref().unwrap().conditions;
    conditions.iter().map(|it| format!("{:?}/{}", it.phase, it.reason)).collect()
}
