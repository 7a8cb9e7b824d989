//! What a release does not set any more goes, in kinds without merge rules, and nothing else: what other field managers own
//! stays, and defaults are not written again and again.

use jiff::Timestamp;
use kube::Api;
use kube::api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

use cvo::testing::api::FIELD_MANAGER;
use e2e::harness::audit;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::releases::Release;
use e2e::simulator::requests;

/// A field manager that is not ours.
const OTHER: &str = "other";
/// As the machine-config controller keeps which nodes have their turn, once under the name of the daemon.
const CLAIMED: &str = "machineconfiguration.openshift.io/claimed";

/// With defaults at every depth, a list map, an atomic list with a default inside, a set, and a map without schema.
fn definition() -> Value {
    let text = || json!({"type": "string"});
    let rule = json!({"type": "object", "properties": {
        "alert": text(), "for": text(), "action": {"type": "string", "default": "replace"}}});
    let group = json!({"type": "object", "required": ["name"], "properties": {
        "name": text(), "note": text(), "rules": {"type": "array", "items": rule}}});
    let spec = json!({"type": "object", "properties": {
        "size": text(),
        "colour": {"type": "string", "default": "blue"},
        "nested": {"type": "object", "default": {}, "properties": {"a": text(), "b": {"type": "integer", "default": 7}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true},
        "groups": {"type": "array", "items": group,
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"]},
        "names": {"type": "array", "items": text(), "x-kubernetes-list-type": "set"},
    }});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "gadgets.lab.example.com"},
        "spec": {
            "group": "lab.example.com",
            "scope": "Namespaced",
            "names": {"kind": "Gadget", "listKind": "GadgetList", "plural": "gadgets", "singular": "gadget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "properties": {"spec": spec}}}}],
        },
    })
}

fn gadget(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "lab.example.com/v1", "kind": "Gadget", "metadata": {"name": name, "namespace": "alpha"}, "spec": spec})
}

/// With everything that the next release drops.
fn full() -> Value {
    json!({
        "size": "1",
        "colour": "red",
        "nested": {"a": "x"},
        "any": {"kept": {"deep": 1}, "shared": 1, "gone": {"deep": 1}},
        "groups": [
            {"name": "kept", "note": "n", "rules": [{"alert": "A", "for": "5m"}, {"alert": "B"}]},
            {"name": "gone", "rules": []},
        ],
        "names": ["kept", "gone"],
    })
}

/// `full` with the defaults of the kind.
fn full_with_defaults() -> Value {
    let mut spec = full();
    spec["nested"]["b"] = json!(7);
    for rule in spec["groups"][0]["rules"].as_array_mut().unwrap() {
        rule["action"] = json!("replace");
    }
    spec
}

fn reduced() -> Value {
    json!({
        "size": "1",
        "any": {"kept": {"deep": 1}},
        "groups": [{"name": "kept", "rules": [{"alert": "A"}, {"alert": "B"}]}],
        "names": ["kept"],
    })
}

/// `reduced` with the defaults of the kind.
fn reduced_with_defaults() -> Value {
    let mut spec = reduced();
    spec["colour"] = json!("blue");
    spec["nested"] = json!({"b": 7});
    spec["groups"][0]["rules"] = json!([{"action": "replace", "alert": "A"}, {"action": "replace", "alert": "B"}]);
    spec
}

fn policy(full: bool) -> Value {
    let rule = json!({"apiGroups": ["lab.example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["gadgets"]});
    let mut spec = json!({"matchConstraints": {"resourceRules": [rule]}, "validations": [{"expression": "true"}]});
    if full {
        spec["matchConditions"] = json!([{"name": "mine", "expression": "true"}]);
        spec["validations"][0]["message"] = json!("never");
    }
    json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": "lab"}, "spec": spec})
}

fn flow(full: bool) -> Value {
    let rule = json!({"subjects": [{"kind": "User", "user": {"name": "lab"}}],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/lab"]}]});
    let mut spec =
        json!({"priorityLevelConfiguration": {"name": "workload-low"}, "matchingPrecedence": 9000, "rules": [rule]});
    if full {
        spec["distinguisherMethod"] = json!({"type": "ByUser"});
    }
    json!({"apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema", "metadata": {"name": "lab"}, "spec": spec})
}

fn put(release: &Release, objects: &[Value]) {
    for (number, object) in objects.iter().enumerate() {
        let mut object = object.clone();
        object["metadata"]["annotations"]["include.release.openshift.io/self-managed-high-availability"] =
            json!("true");
        release.put(&format!("0000_10_alpha_06_{number:02}.json"), &object.to_string()).unwrap();
    }
}

struct Objects<'a>(&'a SimulatedCluster);

impl Objects<'_> {
    fn api(&self, object: &Value) -> Api<DynamicObject> {
        let (group, version) = object["apiVersion"].as_str().unwrap().split_once('/').unwrap();
        let kind = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, object["kind"].as_str().unwrap()));
        match object["metadata"]["namespace"].as_str() {
            Some(namespace) => Api::namespaced_with(self.0.client.clone(), namespace, &kind),
            None => Api::all_with(self.0.client.clone(), &kind),
        }
    }

    /// POST by a field manager.
    async fn create(&self, manager: &str, object: &Value) {
        let params = PostParams { field_manager: Some(manager.to_owned()), ..PostParams::default() };
        self.api(object).create(&params, &serde_json::from_value(object.clone()).unwrap()).await.unwrap();
    }

    /// By an update under the name of the daemon.
    async fn claim(&self, object: &Value) {
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let patch = Patch::Merge(json!({"metadata": {"annotations": {CLAIMED: "n1"}}}));
        self.api(object).patch(object["metadata"]["name"].as_str().unwrap(), &params, &patch).await.unwrap();
    }

    async fn claimed(&self, object: &Value) -> Option<String> {
        let object = self.api(object).get(object["metadata"]["name"].as_str().unwrap()).await.unwrap();
        object.metadata.annotations?.get(CLAIMED).cloned()
    }

    /// Server-side apply by another field manager.
    async fn apply(&self, object: &Value) {
        let name = object["metadata"]["name"].as_str().unwrap();
        self.api(object).patch(name, &PatchParams::apply(OTHER), &Patch::Apply(object)).await.unwrap();
    }

    /// Fields that we do not set, and one that it then shares with us.
    async fn add_fields_of_another_manager(&self) {
        let mut addition = gadget(
            "own",
            json!({
                "any": {"shared": 1, "added": true},
                "groups": [{"name": "added", "rules": [{"alert": "C"}]}],
                "names": ["added"],
            }),
        );
        addition["metadata"]["labels"] = json!({"added": "1"});
        self.apply(&addition).await;
        let mut condition = policy(false);
        condition["spec"] = json!({"matchConditions": [{"name": "added", "expression": "true"}]});
        self.apply(&condition).await;
    }

    async fn spec(&self, object: &Value) -> Value {
        self.api(object).get(object["metadata"]["name"].as_str().unwrap()).await.unwrap().data["spec"].clone()
    }

    async fn labels(&self, object: &Value) -> Value {
        json!(self.api(object).get(object["metadata"]["name"].as_str().unwrap()).await.unwrap().metadata.labels)
    }

    /// A rollout of a restarted daemon, which must not write anything.
    async fn assert_second_rollout_writes_nothing(&self, release: &Release) {
        let restarted = Timestamp::now();
        self.0.node.restart().await.unwrap();
        self.0.rolled_out(release, restarted).await.unwrap();
        let requests = audit::within(&self.0.requests().unwrap(), restarted..Timestamp::now());
        assert!(!requests.is_empty(), "the daemon's requests are told apart");
        assert_eq!(
            requests::writes(&requests),
            Vec::<&audit::Request>::new(),
            "a second rollout of {}",
            release.version
        );
    }
}

/// The objects of two releases: the second drops what the first has set.
fn lay_out(releases: &[Release]) {
    let mut labelled = gadget("own", full());
    labelled["metadata"]["labels"] = json!({"kept": "1", "gone": "1"});
    let mut unlabelled = gadget("own", reduced());
    unlabelled["metadata"]["labels"] = json!({"kept": "1"});
    put(
        &releases[0],
        &[
            definition(),
            labelled,
            policy(true),
            flow(true),
            gadget("original", reduced()),
            gadget("foreign", reduced()),
            gadget("late", full()),
        ],
    );
    put(
        &releases[1],
        &[
            definition(),
            unlabelled,
            policy(false),
            flow(false),
            gadget("original", reduced()),
            gadget("foreign", reduced()),
            gadget("late", reduced()),
        ],
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn dropped_fields_go_and_those_of_others_stay() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    lay_out(&releases);
    Objects(&cluster).create("installer", &definition()).await;
    cluster.control_plane.kubectl(["create", "namespace", "alpha"]).await.unwrap();
    let wait = ["wait", "--for=condition=Established", "--timeout=60s", "crd/gadgets.lab.example.com"];
    cluster.control_plane.kubectl(wait).await.unwrap();
    // Written by plain updates: by an orchestrator with the same field manager, and by somebody else.
    for (manager, name) in [(FIELD_MANAGER, "original"), (FIELD_MANAGER, "late"), (OTHER, "foreign")] {
        Objects(&cluster).create(manager, &gadget(name, full())).await;
    }

    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let objects = Objects(&cluster);
    let [own, original, foreign, late] = ["own", "original", "foreign", "late"].map(|name| gadget(name, json!({})));
    assert_eq!(objects.spec(&original).await, reduced_with_defaults(), "taken over");
    let theirs = full_with_defaults();
    assert_eq!(objects.spec(&foreign).await, theirs, "what another manager has set stays");
    assert_eq!(objects.spec(&late).await, theirs, "nothing is dropped yet");
    for object in [&own, &original, &late] {
        objects.claim(object).await;
    }
    objects.assert_second_rollout_writes_nothing(&releases[0]).await;

    objects.add_fields_of_another_manager().await;
    cluster.request(&releases[1]).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    let objects = Objects(&cluster);
    let mut expected = reduced_with_defaults();
    expected["any"]["shared"] = json!(1);
    expected["any"]["added"] = json!(true);
    expected["names"] = json!(["kept", "added"]);
    expected["groups"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "added", "rules": [{"action": "replace", "alert": "C"}]}));
    assert_eq!(objects.spec(&own).await, expected);
    assert_eq!(objects.labels(&own).await, json!({"kept": "1", "added": "1"}));
    assert_eq!(
        objects.spec(&late).await,
        reduced_with_defaults(),
        "an object of plain updates that was as desired before"
    );
    assert_eq!(objects.spec(&original).await, reduced_with_defaults());
    assert_eq!(objects.spec(&foreign).await, theirs);
    for object in [&own, &original, &late] {
        assert_eq!(objects.claimed(object).await.as_deref(), Some("n1"), "no release has set it: {object}");
    }
    let spec = objects.spec(&policy(false)).await;
    assert_eq!(spec["matchConditions"], json!([{"name": "added", "expression": "true"}]));
    assert_eq!(spec["validations"], json!([{"expression": "true"}]));
    assert_eq!(spec["matchConstraints"]["resourceRules"][0]["scope"], "*", "a default");
    assert_eq!(objects.spec(&flow(false)).await.get("distinguisherMethod"), None);
    objects.assert_second_rollout_writes_nothing(&releases[1]).await;
    cluster.close().await.unwrap();
}
