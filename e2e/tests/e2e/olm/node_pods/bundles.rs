//! Bundles in images that the node alone may read: a pod says what is in each, and is removed.

use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use cvo::testing::api::olm::subscription::Subscription;
use e2e::harness::files;
use e2e::operators::{Version, catalog};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

use super::super::subscriptions::condition;
use super::{LIMIT, PROCESS, World};

/// The label of the pods.
const READS: &str = "operatorframework.io/bundle-unpack-ref";
/// What no node has, until one gets it.
const DISK: &str = "bundles";

impl World {
    /// A namespace that enforces `restricted`, with a group, and a catalog whose image anybody may read.
    async fn market(&self, namespace: &str, versions: &[(Version, String)], config: &Value) {
        let labels = json!({"pod-security.kubernetes.io/enforce": "restricted"});
        let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "one", "namespace": namespace, "annotations":
                {"operatorframework.io/bundle-unpack-min-retry-interval": "1s"}},
            "spec": {"targetNamespaces": [namespace]}});
        let space = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}});
        let image = format!("catalogs/{namespace}:v1");
        let text = catalog(versions);
        super::super::push(&self.cluster.registry(), &image, &[("configs/c.json", text.as_bytes())], &[]).await;
        self.apply(&format!("{namespace}-namespace"), &[space]).await;
        self.apply(&format!("{namespace}-group"), &[group]).await;
        let spec = json!({"sourceType": "grpc", "image": self.named(&image), "grpcPodConfig": config});
        e2e::olm::create(&self.client, namespace, "market", spec).await.unwrap();
        let subscriptions = versions.iter().map(|(version, _)| {
            json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
                "metadata": {"name": version.package(), "namespace": namespace},
                "spec": {"name": version.package(), "channel": "stable", "source": "market", "sourceNamespace": namespace}})
        });
        self.apply(&format!("{namespace}-subscriptions"), &subscriptions.collect::<Vec<_>>()).await;
    }

    /// Pushes the bundle where only the node can read it, and returns the version with its image.
    async fn hidden(&self, version: Version) -> (Version, String) {
        let repository = format!("node/{}", version.repository());
        let image = version.push_to(&self.cluster.registry(), &repository, &[]).await.unwrap();
        let (_, path) = image.split_once('/').unwrap();
        let named = self.named(path);
        (version, named)
    }

    async fn subscription(&self, namespace: &str, name: &str, what: &str, ok: impl FnMut(&Subscription) -> bool) {
        let api: Api<Subscription> = Api::namespaced(self.client.clone(), namespace);
        let look = async {
            let about = ["get", "subscriptions,pods,installplans", "-n", namespace, "-o", "yaml"];
            let objects = self.cluster.kubectl(about).await.unwrap_or_default();
            format!("{objects}\n{}", files::tail(&self.cluster.log(PROCESS), 40))
        };
        let wait = self.cluster.until(format!("{name}: {what}"), &[PROCESS]).look(look).within(LIMIT * 3);
        wait.existing(api, name, ok).await.unwrap();
    }

    /// The ClusterServiceVersions of the plan, once all of its steps are done.
    async fn planned(&self, namespace: &str, package: &str) -> Vec<String> {
        let planned = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.install_plan_ref.is_some());
        self.subscription(namespace, package, "to be planned", planned).await;
        let plans: Api<InstallPlan> = Api::namespaced(self.client.clone(), namespace);
        let [plan] = &plans.list(&ListParams::default()).await.unwrap().items[..] else { panic!("one plan") };
        let is_done = |it: &InstallPlan| it.status.as_ref().is_some_and(|it| it.phase == InstallPlanPhase::Complete);
        let wait = self.cluster.until("the plan to be carried out", &[PROCESS]).within(LIMIT * 3);
        let plan = wait.existing(plans, plan.metadata.name.as_deref().unwrap(), is_done).await.unwrap();
        plan.spec.cluster_service_version_names
    }

    async fn readers(&self, namespace: &str) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        pods.list(&ListParams::default().labels(READS)).await.unwrap().items
    }

    async fn until_no_readers(&self, namespace: &str) {
        let wait = self.cluster.until("pods of bundles to be removed", &[PROCESS]).within(LIMIT);
        wait.holds(async || self.readers(namespace).await.is_empty()).await.unwrap();
    }

    /// Two at once, whose plan then reads them again; and one that is not there, beside them.
    pub(super) async fn read_bundles(&self) {
        let gears = self.hidden(Version { kind: "Gear", ..Version::new("gears.v1") }).await;
        let widgets = self.hidden(Version { kind: "Widget", ..Version::new("widgets.v1") }).await;
        let none = (Version::new("none.v1"), self.named(&format!("node/bundles/none@sha256:{}", "a".repeat(64))));
        self.market("lacking", &[none], &json!({})).await;
        self.market("tools", &[gears, widgets], &json!({})).await;
        assert_eq!(self.planned("tools", "widgets").await, ["gears.v1", "widgets.v1"]);
        self.kubectl("get crd gears.gears.example.com widgets.widgets.example.com").await;
        self.until_no_readers("tools").await;
        let failed = |it: &Subscription| {
            let told = condition(it, "BundleUnpackFailed");
            told.is_some_and(|(reason, text)| {
                let by_node = ["on a node", "none@sha256:"].iter().all(|word| text.contains(word));
                let by_kubelet = ["ErrImagePull", "ImagePullBackOff"].iter().any(|word| text.contains(word));
                reason == "BundleUnpackFailed" && by_node && by_kubelet
            })
        };
        self.subscription("lacking", "none", "to say what the kubelet says", failed).await;
        self.kubectl("delete subscriptions none -n lacking").await;
    }

    /// The process is killed while a pod waits for a node. The next one removes that pod, and reads the bundle by another one.
    pub(super) async fn restart_while_a_bundle_is_read(&self) {
        let bolts = self.hidden(Version { kind: "Bolt", ..Version::new("bolts.v1") }).await;
        self.market("slow", &[bolts], &json!({"nodeSelector": {DISK: "yes"}})).await;
        let unpacking = |it: &Subscription| condition(it, "BundleUnpacking").is_some();
        self.subscription("slow", "bolts", "to be unpacked", unpacking).await;
        let wait = self.cluster.until("a pod that reads it", &[PROCESS]).within(LIMIT);
        wait.holds(async || self.readers("slow").await.len() == 1).await.unwrap();
        let first = self.readers("slow").await.remove(0).metadata.uid;
        self.cluster.kill(PROCESS).unwrap();
        self.start(self.cluster.port("metrics")).await;
        let wait = self.cluster.until("another pod that reads it", &[PROCESS]).within(LIMIT * 2);
        let is_other = async || {
            let readers = self.readers("slow").await;
            readers.len() == 1 && readers.iter().all(|pod| pod.metadata.uid != first)
        };
        wait.holds(is_other).await.unwrap();
        self.kubectl(&format!("label node {} {DISK}=yes", self.cluster.node_name())).await;
        assert_eq!(self.planned("slow", "bolts").await, ["bolts.v1"]);
        self.until_no_readers("slow").await;
    }
}
