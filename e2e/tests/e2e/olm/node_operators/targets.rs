//! An operator for one, several and all namespaces, what its Subscription configures, and versions that somebody writes without a plan,
//! one of which never comes up.

use e2e::platform::LIMIT;
use serde_json::{Value, json};

use super::World;

const NAMESPACES: [&str; 3] = ["mall", "shop", "yard"];
const CSV: &str = "library.v1.0.0";

/// A list has an element of this name.
fn has(list: &Value, name: &str) -> bool {
    list.as_array().into_iter().flatten().any(|it| it["name"] == name)
}

impl World {
    /// The group of a namespace.
    async fn regroup(&self, namespace: &str, spec: &Value) {
        self.apply(&json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "one", "namespace": namespace}, "spec": spec}))
            .await;
    }

    async fn get(&self, what: &str) -> Value {
        serde_json::from_str(&self.kubectl(&format!("get {what} -o json")).await).unwrap()
    }

    /// Until the operator has one pod alone, which runs and is so.
    async fn until_pod(&self, what: &str, is_so: impl Fn(&Value) -> bool) {
        let is_alone = async || {
            let pods = self.get("pods -n shop -l app=library-operator").await;
            let [pod] = pods["items"].as_array().unwrap().as_slice() else { return false };
            pod["status"]["phase"] == "Running" && is_so(pod)
        };
        self.platform.cluster.until(what, &[]).within(LIMIT).holds(is_alone).await.unwrap();
        self.succeeded("shop", CSV).await;
    }

    /// Of shelves of this name in all namespaces those of the targets are kept, and no others.
    async fn keeps(&self, name: &str, targets: &[&str]) {
        for namespace in NAMESPACES {
            self.apply(&json!({"apiVersion": "library.example.com/v1alpha1", "kind": "Shelf",
                "metadata": {"name": name, "namespace": namespace}, "spec": {"books": ["one"]}}))
                .await;
        }
        for namespace in targets {
            self.kubectl(&format!("wait -n {namespace} configmap/{name} --for=create --timeout=60s")).await;
        }
        for namespace in NAMESPACES.into_iter().filter(|it| !targets.contains(it)) {
            let found = format!("get configmaps -n {namespace} --field-selector=metadata.name={name} -o name");
            assert_eq!(self.kubectl(&found).await, "", "{name} in {namespace}");
        }
        self.did(&format!("{name}: {targets:?} are kept"));
    }

    /// Until the Operator object names the version, or does not any more. Its kind stays there all the time.
    async fn is_component(&self, expected: bool) {
        let is_so = async || {
            let operator = self.get("operators.operators.coreos.com library.shop").await;
            let refs = &operator["status"]["components"]["refs"];
            has(refs, "shelves.library.example.com") && has(refs, CSV) == expected
        };
        let what = format!("{CSV} to be a component: {expected}");
        self.platform.cluster.until(what, &[]).within(LIMIT).holds(is_so).await.unwrap();
    }

    /// The pods know for which namespaces they work, and are others when the group is.
    async fn works_for_each_kind_of_group(&self) {
        for (name, spec, targets) in [
            ("own", json!({"targetNamespaces": ["shop"]}), vec!["shop"]),
            ("single", json!({"targetNamespaces": ["mall"]}), vec!["mall"]),
            ("several", json!({"targetNamespaces": ["mall", "yard"]}), vec!["mall", "yard"]),
            ("all", json!({}), NAMESPACES.to_vec()),
        ] {
            let told = if name == "all" { String::new() } else { targets.join(",") };
            self.regroup("shop", &spec).await;
            let knows = |pod: &Value| pod["metadata"]["annotations"]["olm.targetNamespaces"] == told.as_str();
            self.until_pod(&format!("a pod for {name}"), knows).await;
            self.keeps(name, &targets).await;
            self.is_component(true).await;
        }
    }

    /// All that a Subscription may say of the pods is there, and they run.
    async fn is_configured(&self) {
        let system = json!({"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]});
        let terms = json!({"nodeSelectorTerms": [{"matchExpressions": [system]}]});
        let config = json!({
            "env": [{"name": "EXTRA", "value": "1"}],
            "envFrom": [{"configMapRef": {"name": "extra", "optional": true}}],
            "volumes": [{"name": "extra", "emptyDir": {}}],
            "volumeMounts": [{"name": "extra", "mountPath": "/extra"}],
            "tolerations": [{"key": "extra", "operator": "Exists"}],
            "resources": {"requests": {"cpu": "11m", "memory": "17Mi"}},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}},
            "annotations": {"extra": "yes"},
        });
        let patch = json!({"spec": {"config": config}});
        self.kubectl(&format!("patch subscription library -n shop --type=merge -p {patch}")).await;
        let is_so = |pod: &Value| {
            let (spec, container) = (&pod["spec"], &pod["spec"]["containers"][0]);
            let tolerations = spec["tolerations"].as_array().into_iter().flatten();
            has(&container["env"], "EXTRA")
                && container["envFrom"] == config["envFrom"]
                && has(&spec["volumes"], "extra")
                && has(&container["volumeMounts"], "extra")
                && { tolerations }.any(|it| it["key"] == "extra")
                && container["resources"]["requests"]["cpu"] == "11m"
                && spec["nodeSelector"] == config["nodeSelector"]
                && spec["affinity"] == config["affinity"]
                && pod["metadata"]["annotations"]["extra"] == "yes"
        };
        self.until_pod("a pod with the config", is_so).await;
    }

    /// A version without a plan, whose pods run this command of the program.
    fn by_hand(&self, number: u32, command: &str) -> Value {
        let labels = json!({"app": "hand"});
        let container = json!({"name": "hand", "image": self.platform.lab_image(), "args": [command]});
        let deployment = json!({"name": "hand", "spec": {"replicas": 1, "progressDeadlineSeconds": 20,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}}}});
        let mut csv = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("hand.v{number}"), "namespace": "yard"},
            "spec": {"displayName": "Hand", "version": format!("{number}.0.0"),
                "installModes": [{"type": "OwnNamespace", "supported": true}],
                "install": {"strategy": "deployment", "spec": {"deployments": [deployment]}}}});
        if number > 1 {
            csv["spec"]["replaces"] = json!(format!("hand.v{}", number - 1));
        }
        csv
    }

    /// The second version ends as soon as it begins. The pods of the first one run on, and the third one waits until the group lets it
    /// take the place of what has failed.
    async fn goes_forward(&self) {
        self.apply(&self.by_hand(1, "pause")).await;
        self.succeeded("yard", "hand.v1").await;
        let uid = async || self.kubectl("get deployment hand -n yard -o jsonpath={.metadata.uid}").await;
        let before = uid().await;
        self.apply(&self.by_hand(2, "no-such-command")).await;
        self.until("yard", "csv/hand.v2", "{.status.reason}", "InstallCheckFailed").await;
        self.apply(&self.by_hand(3, "pause")).await;
        self.until("yard", "csv/hand.v3", "{.status.phase}", "Pending").await;
        self.until("yard", "csv/hand.v1", "{.status.phase}", "Replacing").await;
        self.until("yard", "deployment/hand", "{.status.availableReplicas}", "1").await;

        let forward = json!({"targetNamespaces": ["yard"], "upgradeStrategy": "TechPreviewUnsafeFailForward"});
        self.regroup("yard", &forward).await;
        self.succeeded("yard", "hand.v3").await;
        for name in ["hand.v1", "hand.v2"] {
            self.kubectl(&format!("wait -n yard csv/{name} --for=delete --timeout=60s")).await;
        }
        assert_eq!(uid().await, before, "it is the same Deployment");
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes minutes on a real node"]
async fn operator_works_for_any_targets_as_configured_and_a_version_that_fails_is_left() {
    let Some(world) = World::up().await else { return };
    world.market().await;
    world.subscribe("library", &["--manual", "--starting-csv", CSV]).await;
    let plan = world.waits("library", CSV).await;
    world.ask(&["approve", &plan]).await;
    world.succeeded("shop", CSV).await;
    world.works_for_each_kind_of_group().await;
    world.is_configured().await;
    world.goes_forward().await;
    world.kubectl("delete subscription library -n shop").await;
    world.kubectl(&format!("delete csv {CSV} -n shop")).await;
    world.kubectl("wait -n shop deployment/library-operator --for=delete --timeout=120s").await;
    world.is_component(false).await;
    world.close().await;
}
