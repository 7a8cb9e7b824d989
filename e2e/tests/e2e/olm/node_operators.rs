//! Operators on a real node, whose programs run in pods: what users who may edit their namespace, and administrators, do with them.

mod targets;

use std::path::PathBuf;
use std::time::Instant;

use e2e::catalogs::push;
use e2e::harness::{Cvo, audit};
use e2e::olm;
use e2e::platform::packages::{self, Offer};
use e2e::platform::{LIMIT, Platform, operators};
use serde_json::{Value, json};

use super::node::FIRST;

const MARKET: &str = "openshift-marketplace";
const INK: Offer = ("ink", &["1.0.0"]);
/// What the catalog offers at first, and later.
const BEFORE: [Offer; 2] = [("library", &["1.0.0", "1.1.0"]), INK];
const AFTER: [Offer; 2] = [("library", &["1.0.0", "1.1.0", "2.0.0"]), INK];

struct World {
    platform: Platform,
    /// Of a user who may edit the namespace `shop` and nothing else.
    user: PathBuf,
    begun: Instant,
}

impl World {
    async fn up() -> Option<World> {
        let platform = Platform::on_a_node().await.unwrap()?;
        operators::prepare(&platform).await.unwrap();
        let first = platform.release(FIRST).await.unwrap();
        platform.publish_graph(&[(&first, FIRST.previous)]).unwrap();
        platform.install(&first).await.unwrap();
        platform.until_completed(&first, LIMIT).await.unwrap();
        operators::until_offered(&platform.cluster, &first, LIMIT).await.unwrap();
        let user = platform.cluster.kubeconfig_as("editor", "editor", &["system:authenticated"]).unwrap();
        let world = World { platform, user, begun: Instant::now() };
        for namespace in ["shop", "mall", "yard"] {
            world.apply(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}})).await;
            world
                .apply(&json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
                "metadata": {"name": "one", "namespace": namespace}, "spec": {"targetNamespaces": [namespace]}}))
                .await;
        }
        world.kubectl("create rolebinding editor --clusterrole=edit --user=editor -n shop").await;
        Some(world)
    }

    fn did(&self, what: &str) {
        println!("{:6.1} s  {what}", self.begun.elapsed().as_secs_f64());
    }

    async fn kubectl(&self, arguments: &str) -> String {
        self.platform.cluster.kubectl(arguments.split(' ')).await.unwrap()
    }

    async fn apply(&self, object: &Value) {
        let file = self.platform.cluster.dir().join("object.json");
        std::fs::write(&file, object.to_string()).unwrap();
        self.kubectl(&format!("apply --server-side -f {}", file.display())).await;
    }

    /// Until a field of an object of a namespace has this value.
    async fn until(&self, namespace: &str, object: &str, field: &str, value: &str) {
        self.kubectl(&format!("wait -n {namespace} {object} --for=jsonpath={field}={value} --timeout=180s")).await;
        self.did(&format!("{object} has {field} {value} in {namespace}"));
    }

    async fn succeeded(&self, namespace: &str, csv: &str) {
        self.kubectl(&format!("wait -n {namespace} csv/{csv} --for=create --timeout=180s")).await;
        self.until(namespace, &format!("csv/{csv}"), "{.status.phase}", "Succeeded").await;
    }

    /// Until a Subscription has a plan for a version that waits for an approval; the name of the plan.
    async fn waits(&self, package: &str, csv: &str) -> String {
        let subscription = format!("subscription/{package}");
        self.until("shop", &subscription, "{.status.currentCSV}", csv).await;
        let reason = "{.status.conditions[?(@.type==\"InstallPlanPending\")].reason}";
        self.until("shop", &subscription, reason, "RequiresApproval").await;
        self.kubectl(&format!("get {subscription} -n shop -o jsonpath={{.status.installPlanRef.name}}")).await
    }

    /// Names of the ClusterServiceVersions of each plan of a namespace that waits for an approval.
    async fn open(&self) -> Vec<Vec<String>> {
        let all: Value = serde_json::from_str(&self.kubectl("get installplans -n shop -o json").await).unwrap();
        let open = all["items"].as_array().unwrap().iter().filter(|it| it["status"]["phase"] == "RequiresApproval");
        open.map(|it| serde_json::from_value(it["spec"]["clusterServiceVersionNames"].clone()).unwrap()).collect()
    }

    /// As the user.
    async fn ask(&self, arguments: &[&str]) -> String {
        let all = ["olm"].iter().chain(arguments).chain(&["-n", "shop"]).copied();
        Cvo::new(all).kubeconfig(self.user.clone()).run().await.unwrap().stdout
    }

    async fn subscribe(&self, package: &str, more: &[&str]) {
        let package = format!("main/{package}:stable");
        self.ask(&[&["subscribe", &package, "--catalog-namespace", MARKET], more].concat()).await;
    }

    async fn offer(&self, offers: &[Offer]) {
        let cluster = &self.platform.cluster;
        let mut blobs = packages::catalog(&self.platform, offers).await.unwrap();
        blobs.push(json!({"schema": "olm.deprecations", "package": "library", "entries": [
            {"reference": {"schema": "olm.bundle", "name": "library.v1.1.0"}, "message": "it loses pages"}]}));
        let text = blobs.iter().map(Value::to_string).collect::<Vec<_>>().join("\n");
        let files: [(&str, &[u8]); 1] = [("configs/catalog.json", text.as_bytes())];
        push(&cluster.registry(), "catalogs/main:v1", &files, &[]).await.unwrap();
    }

    /// The catalog of all namespaces, with what is offered at first.
    async fn market(&self) {
        self.offer(&BEFORE).await;
        let image = format!("{}/catalogs/main:v1", self.platform.cluster.registry_for_pods());
        let poll = json!({"registryPoll": {"interval": "10s"}});
        let spec = json!({"sourceType": "grpc", "image": image, "updateStrategy": poll});
        self.apply(&json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
            "metadata": {"name": "main", "namespace": MARKET}, "spec": spec}))
            .await;
        self.until(MARKET, "catalogsource/main", "{.status.connectionState.lastObservedState}", "READY").await;
    }

    /// Ends the cluster. The process has asked for nothing that it may not.
    async fn close(self) {
        let requests = audit::requests(&self.platform.cluster.audit_log(), olm::USER).unwrap();
        let forbidden: Vec<_> = requests.iter().filter(|request| request.code == 403).collect();
        assert!(forbidden.is_empty(), "{forbidden:?}");
        self.platform.close().await.unwrap();
    }
}

impl World {
    /// What is deprecated is told before anybody approves it, and something newer takes its place.
    async fn is_told_and_replaced(&self) {
        self.subscribe("library", &["--manual"]).await;
        let first = self.waits("library", "library.v1.1.0").await;
        let deprecated = "{.status.conditions[?(@.type==\"BundleDeprecated\")].message}";
        let told = self.kubectl(&format!("get subscription/library -n shop -o jsonpath={deprecated}")).await;
        assert!(told.contains("it loses pages"), "{told}");
        self.did("library.v1.1.0 waits for an approval, and is deprecated");
        self.offer(&AFTER).await;
        assert_ne!(self.waits("library", "library.v2.0.0").await, first);
        assert_eq!(self.open().await, [["ink.v1.0.0", "library.v2.0.0"]]);
        self.did("library.v2.0.0 and ink.v1.0.0 have taken its place");
    }

    /// The first version, approved by a user who may edit the namespace; and what is made with it.
    async fn is_approved(&self) {
        self.kubectl("delete subscription library -n shop").await;
        // Whoever waits for the collector waits for half a minute.
        self.kubectl("delete installplans --all -n shop").await;
        self.subscribe("library", &["--manual", "--starting-csv", "library.v1.0.0"]).await;
        let plan = self.waits("library", "library.v1.0.0").await;
        assert_eq!(self.kubectl("get csv -n shop -o name").await, "");
        self.ask(&["approve", &plan]).await;
        self.succeeded("shop", "library.v1.0.0").await;
        self.apply(&json!({"apiVersion": "library.example.com/v1alpha1", "kind": "Shelf",
            "metadata": {"name": "first", "namespace": "shop"}, "spec": {"books": ["one"]}}))
            .await;
        self.kubectl("wait -n shop configmap/first --for=create --timeout=60s").await;
        self.until("shop", "configmap/first", "{.data.version}", "1.0.0").await;
    }

    /// One that asks for an approval holds all, unless each operator has its own plans.
    async fn holds_others_or_itself(&self) {
        self.waits("library", "library.v1.1.0").await;
        self.subscribe("ink", &[]).await;
        self.waits("ink", "ink.v1.0.0").await;
        assert_eq!(self.open().await, [["ink.v1.0.0", "library.v1.1.0"]]);
        self.kubectl("annotate operatorgroup one -n shop olm.operatorframework.io/plans=per-operator").await;
        self.succeeded("shop", "ink.v1.0.0").await;
        self.waits("library", "library.v1.1.0").await;
        assert_eq!(self.open().await, [["library.v1.1.0"]]);
        assert!(!self.kubectl("get csv -n shop -o name").await.contains("library.v1.1.0"));
    }

    /// Step by step to the head.
    async fn follows(&self) {
        for version in ["1.1.0", "2.0.0"] {
            let csv = format!("library.v{version}");
            let plan = self.waits("library", &csv).await;
            self.ask(&["approve", &plan]).await;
            self.succeeded("shop", &csv).await;
            self.until("shop", "configmap/first", "{.data.version}", version).await;
        }
        self.kubectl("wait -n shop csv/library.v1.1.0 --for=delete --timeout=60s").await;
    }

    /// At once, with what it depends on; and by a plan that somebody writes.
    async fn is_installed_elsewhere(&self) {
        self.apply(&json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": "library", "namespace": "mall"},
            "spec": {"name": "library", "channel": "stable", "source": "main", "sourceNamespace": MARKET}}))
            .await;
        self.succeeded("mall", "library.v2.0.0").await;
        self.succeeded("mall", "ink.v1.0.0").await;
        let made = format!("subscription/ink-stable-main-{MARKET}");
        self.until("mall", &made, "{.status.installedCSV}", "ink.v1.0.0").await;
        self.apply(&json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": "install-abcde", "namespace": "yard"},
            "spec": {"approval": "Manual", "approved": true, "clusterServiceVersionNames": ["ink.v1.0.0"]}}))
            .await;
        self.succeeded("yard", "ink.v1.0.0").await;
        self.until("yard", "installplan/install-abcde", "{.status.phase}", "Complete").await;
    }

    /// Its kind and what people have made of it stay.
    async fn is_removed(&self) {
        self.kubectl("delete subscription library -n shop").await;
        self.kubectl("delete csv library.v2.0.0 -n shop").await;
        self.kubectl("wait -n shop deployment/library-operator --for=delete --timeout=120s").await;
        self.did("library is removed from shop");
        self.kubectl("get shelf first -n shop").await;
        self.kubectl("get csv library.v2.0.0 -n mall").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn operators_are_installed_updated_held_and_removed() {
    let Some(world) = World::up().await else { return };
    world.market().await;
    world.is_told_and_replaced().await;
    world.is_approved().await;
    world.holds_others_or_itself().await;
    world.follows().await;
    world.is_installed_elsewhere().await;
    world.is_removed().await;
    world.close().await;
}
