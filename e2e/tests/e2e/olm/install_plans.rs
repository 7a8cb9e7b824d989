//! InstallPlans as a client writes them: when they are carried out, what comes of it, and what is refused.

mod by_hand;
mod components;
mod converted;
mod definitions;
mod disturbed;
mod large;
mod refusals;
mod scoped;

use std::time::Duration;

use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use e2e::harness::Cvo;
use e2e::harness::audit::{self, Request};
use e2e::olm::{self, USER};
use e2e::random::SeededRandom;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{DynamicObject, ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World};

/// How often the process is killed, and how long it may work before.
const KILLS: usize = 6;
const LIFE: Duration = Duration::from_millis(700);

const RBAC: &str = "rbac.authorization.k8s.io/v1";

impl World {
    /// The process, with the rights that a release gives it.
    async fn start_with_the_rights_of_the_release(&self) {
        olm::grant(&self.cluster).await.unwrap();
        self.start_limited();
    }

    fn start_limited(&self) {
        let process = olm::limited(&self.cluster, &self.catalog_ports).unwrap().log_level("info,cvo=debug");
        self.spawn_plans(process);
    }

    /// Nothing but plans is looked after, so that all writes are theirs.
    fn spawn_plans(&self, process: Cvo) {
        let process = process.flag("--secure-port", "0").flag("--loops", "subscriptions");
        self.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    }

    fn start_plans(&self) {
        self.spawn_plans(self.process(PROCESS));
    }

    /// Writes a plan with these steps, each of which belongs to the first one. It has an owner, as one that was made for a Subscription.
    async fn plan(&self, name: &str, generation: i64, approved: bool, manifests: &[Value]) {
        let csv = manifests[0]["metadata"]["name"].clone();
        let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": name, "namespace": "shop", "ownerReferences": [self.owner().await]},
            "spec": {"approval": "Manual", "approved": approved, "generation": generation,
                "clusterServiceVersionNames": [csv]}});
        let plan: InstallPlan = serde_json::from_value(plan).unwrap();
        self.installs().create(&Default::default(), &plan).await.unwrap();
        let steps: Vec<Value> = manifests.iter().map(|manifest| step(&csv, manifest)).collect();
        let phase = if approved { "Installing" } else { "RequiresApproval" };
        let status = json!({"status": {"phase": phase, "catalogSources": [], "plan": steps}});
        self.installs().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    }

    /// The namespace as the owner of an object.
    async fn owner(&self) -> Value {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        let uid = namespaces.get("shop").await.unwrap().metadata.uid;
        json!({"apiVersion": "v1", "kind": "Namespace", "name": "shop", "uid": uid})
    }

    fn installs(&self) -> Api<InstallPlan> {
        Api::namespaced(self.client.clone(), "shop")
    }

    async fn approve(&self, name: &str) {
        let patch = Patch::Merge(json!({"spec": {"approved": true}}));
        self.installs().patch(name, &PatchParams::default(), &patch).await.unwrap();
    }

    async fn until_plan(&self, what: &str, name: &str, ok: impl FnMut(&InstallPlan) -> bool) -> InstallPlan {
        self.cluster.until(what, &[PROCESS]).within(LIMIT).existing(self.installs(), name, ok).await.unwrap()
    }

    async fn complete(&self, name: &str) -> InstallPlan {
        self.until_plan("the plan to be complete", name, |it| phase(it) == InstallPlanPhase::Complete).await
    }

    /// An object, if it exists.
    async fn found(&self, kind: &str, namespaced: bool, name: &str) -> Option<Value> {
        let args: &[&str] = if namespaced { &["-n", "shop"] } else { &[] };
        let mut all = vec!["get", kind, name, "-o", "json", "--ignore-not-found"];
        all.extend(args);
        let text = self.cluster.kubectl(all).await.unwrap();
        if text.trim().is_empty() { None } else { Some(serde_json::from_str(&text).unwrap()) }
    }

    /// What the process has created or changed beside its lease and reports.
    fn writes(&self) -> Vec<Request> {
        let all = audit::requests(&self.cluster.audit_log(), USER).unwrap();
        let others =
            ["leases", "events", "clusteroperators", "catalogsources", "endpointslices", "services", "operatorhubs"];
        let is_real = |it: &Request| it.wrote() && !others.contains(&it.resource.as_str());
        all.into_iter().filter(is_real).collect()
    }
}

fn phase(plan: &InstallPlan) -> InstallPlanPhase {
    plan.status.as_ref().map(|status| status.phase.clone()).unwrap_or_default()
}

fn message(plan: &InstallPlan) -> String {
    plan.status.as_ref().map(|status| status.message.clone()).unwrap_or_default()
}

fn assert_one_write_for_each_object(writes: &[Request]) {
    let of_objects =
        writes.iter().filter(|it| it.subresource.is_empty()).map(|it| format!("{} {}", it.verb, it.resource));
    let mut objects: Vec<String> = of_objects.collect();
    objects.sort();
    let expected = [
        "create clusterserviceversions",
        "update clusterrolebindings",
        "update clusterroles",
        "update configmaps",
        "update customresourcedefinitions",
        "update rolebindings",
        "update roles",
        "update serviceaccounts",
    ];
    assert_eq!(objects, expected);
}

fn step(csv: &Value, manifest: &Value) -> Value {
    let version = manifest["apiVersion"].as_str().unwrap();
    let (group, version) = version.split_once('/').unwrap_or(("", version));
    let metadata = &manifest["metadata"];
    let name = metadata["name"].as_str().or(metadata["generateName"].as_str());
    json!({"resolving": csv, "status": "Unknown", "resource": {"sourceName": "main", "sourceNamespace": "shop",
        "group": group, "version": version, "kind": manifest["kind"], "name": name,
        "manifest": manifest.to_string()}})
}

fn csv(version: &str, replaces: &str) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": format!("widgets.{version}")},
        "spec": {"displayName": "widgets", "replaces": replaces,
            "install": {"strategy": "deployment", "spec": {"deployments": []}},
            "customresourcedefinitions": {"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]}}})
}

fn definition(spec: &Value) -> Value {
    let schema = json!({"type": "object", "properties": {"spec": spec}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]}})
}

fn any_size() -> Value {
    json!({"type": "object", "properties": {"size": {"type": "integer"}}})
}

/// An operator with what belongs to it.
fn operator(version: &str, replaces: &str, spec: &Value) -> Vec<Value> {
    let named = |name: &str| json!({"name": name});
    let rules = json!([{"apiGroups": ["example.com"], "resources": ["widgets"], "verbs": ["get", "list"]}]);
    let subjects = json!([{"kind": "ServiceAccount", "name": "widgets", "namespace": "shop"}]);
    let role = |kind: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": "widgets"});
    vec![
        csv(version, replaces),
        definition(spec),
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": named("widgets")}),
        json!({"apiVersion": RBAC, "kind": "Role", "metadata": named("widgets"), "rules": rules}),
        json!({"apiVersion": RBAC, "kind": "RoleBinding", "metadata": named("widgets"), "roleRef": role("Role"),
            "subjects": subjects}),
        json!({"apiVersion": RBAC, "kind": "ClusterRole", "metadata": named("widgets"), "rules": rules}),
        json!({"apiVersion": RBAC, "kind": "ClusterRoleBinding", "metadata": named("widgets"),
            "roleRef": role("ClusterRole"), "subjects": subjects}),
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": named("widgets"), "data": {"version": version}}),
        json!({"apiVersion": "v1", "kind": "Service", "metadata": named("widgets"),
            "spec": {"ports": [{"port": 443, "name": "https"}], "selector": {"app": "widgets"}}}),
    ]
}

fn owners(object: &Value) -> Vec<&str> {
    let all = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    all.map(|it| it["name"].as_str().unwrap()).collect()
}

/// Nothing is written before an approval. Then each object is there with its owner, with the rights that a release gives the process; a
/// second process writes nothing; and the next version owns what it shares with the one before.
#[tokio::test(flavor = "multi_thread")]
async fn approved_plan_becomes_objects_and_no_other_does() {
    let world = World::up().await;
    world.group("one").await;
    world.start_with_the_rights_of_the_release().await;
    world.plan("install-a", 1, false, &operator("v1", "", &any_size())).await;
    // A plan that is approved shows that the process has seen the other one.
    let alone = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "other.v1"}, "spec": csv("v1", "")["spec"].clone()});
    let mut alone = alone;
    alone["spec"]["customresourcedefinitions"] = json!({});
    world.plan("install-other", 2, true, &[alone]).await;
    world.complete("install-other").await;
    assert_eq!(phase(&world.installs().get("install-a").await.unwrap()), InstallPlanPhase::RequiresApproval);
    assert!(world.found("csv", true, "widgets.v1").await.is_none());
    world.approve("install-a").await;
    let plan = world.complete("install-a").await;
    let status = plan.status.unwrap();
    assert!(
        status.conditions.iter().any(|it| it.type_ == "Installed" && it.status == "True"),
        "{:?}",
        status.conditions
    );
    assert!(status.start_time.is_some() && status.message.is_empty());
    let steps: Vec<String> = status.plan.iter().map(|it| json!(it.status).as_str().unwrap().to_owned()).collect();
    assert!(steps.iter().all(|it| it == "Created"), "{steps:?}");
    for kind in ["serviceaccount", "role", "rolebinding", "configmap", "service"] {
        let object = world.found(kind, true, "widgets").await.unwrap();
        assert_eq!(owners(&object), ["widgets.v1"], "{kind}");
        assert_eq!(object["metadata"]["labels"]["olm.managed"], "true");
    }
    for kind in ["clusterrole", "clusterrolebinding"] {
        let labels = world.found(kind, false, "widgets").await.unwrap()["metadata"]["labels"].clone();
        let expected = json!({"olm.managed": "true", "olm.owner": "widgets.v1", "olm.owner.namespace": "shop",
            "olm.owner.kind": "ClusterServiceVersion"});
        assert_eq!(labels, expected, "{kind}");
    }
    let before = world.writes().len();
    world.cluster.kill(PROCESS).unwrap();
    world.start_limited();
    world.plan("install-b", 3, true, &operator("v2", "widgets.v1", &any_size())).await;
    world.complete("install-b").await;
    let map = world.found("configmap", true, "widgets").await.unwrap();
    assert_eq!((owners(&map), &map["data"]["version"]), (vec!["widgets.v1", "widgets.v2"], &json!("v2")));
    let role = world.found("clusterrole", false, "widgets").await.unwrap();
    assert_eq!(role["metadata"]["labels"]["olm.owner"], "widgets.v2");
    let annotations =
        world.found("crd", false, "widgets.example.com").await.unwrap()["metadata"]["annotations"].clone();
    let alongside: Vec<&Value> = annotations.as_object().unwrap().values().collect();
    assert_eq!(alongside, [&json!("shop/widgets.v2"), &json!("shop/widgets.v1")].as_slice(), "{annotations}");
    assert_one_write_for_each_object(&world.writes().split_off(before));
    let all = audit::requests(&world.cluster.audit_log(), USER).unwrap();
    let refused: Vec<&Request> = all.iter().filter(|it| it.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    world.cluster.down().await.unwrap();
}

/// Without exactly one group, or the account that it names, nothing is installed and the plan says why; it goes on by itself.
#[tokio::test(flavor = "multi_thread")]
async fn plan_waits_for_the_one_group_and_goes_on_by_itself() {
    let world = World::up().await;
    world.start_plans();
    world.plan("install-a", 1, true, &operator("v1", "", &any_size())).await;
    let text = "attenuated service account query failed - no operator group found that is managing this namespace";
    world.until_plan("that there is none", "install-a", |it| message(it) == text).await;
    let accounted = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "one", "namespace": "shop"}, "spec": {"serviceAccountName": "robot"}});
    world.apply(&accounted).await;
    let text = "attenuated service account query failed - please make sure the service account exists. sa=robot \
        operatorgroup=shop/one";
    world.until_plan("that the account is missing", "install-a", |it| message(it) == text).await;
    world.group("two").await;
    let text =
        "attenuated service account query failed - more than one operator group(s) are managing this namespace count=2";
    let told = world.until_plan("that there are two", "install-a", |it| message(it) == text).await;
    let conditions = told.status.unwrap().conditions;
    assert!(conditions.iter().any(|it| it.reason == "InstallCheckFailed" && it.message == text), "{conditions:?}");
    assert!(world.found("csv", true, "widgets.v1").await.is_none());
    world.cluster.kubectl(["delete", "operatorgroup", "-n", "shop", "one"]).await.unwrap();
    let plan = world.complete("install-a").await;
    assert_eq!(message(&plan), "");
    world.cluster.down().await.unwrap();
}

/// A definition that an object would not fit any more is refused before the first write, together with all else that is wrong.
#[tokio::test(flavor = "multi_thread")]
async fn definition_that_an_object_does_not_fit_is_refused_before_the_first_write() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    world.plan("install-a", 1, true, &operator("v1", "", &any_size())).await;
    world.complete("install-a").await;
    for (name, size) in [("small", 3), ("large", 900)] {
        let object = json!({"apiVersion": "example.com/v1", "kind": "Widget",
            "metadata": {"name": name, "namespace": "shop"}, "spec": {"size": size}});
        world.apply(&object).await;
    }
    let mut strict = any_size();
    strict["properties"]["size"]["maximum"] = json!(10);
    let mut steps = operator("v2", "widgets.v1", &strict);
    steps.push(json!({"apiVersion": RBAC, "kind": "Role", "metadata": {"name": "bad"},
        "rules": [{"apiGroups": [""], "resources": ["pods"]}]}));
    let version =
        world.found("crd", false, "widgets.example.com").await.unwrap()["metadata"]["resourceVersion"].clone();
    world.plan("install-b", 2, true, &steps).await;
    let told = world.until_plan("what is wrong", "install-b", |it| message(it).contains("too restrictive")).await;
    let text = message(&told);
    for part in ["retrying execution due to error: 2 steps", "shop/large: spec.size: must be at most 10", "Role bad"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("shop/small"), "{text}");
    assert!(world.found("csv", true, "widgets.v2").await.is_none());
    assert_eq!(world.found("crd", false, "widgets.example.com").await.unwrap()["metadata"]["resourceVersion"], version);
    // Without them it goes on.
    let fixed: Vec<Value> =
        operator("v2", "widgets.v1", &strict).iter().map(|it| step(&json!("widgets.v2"), it)).collect();
    world.cluster.kubectl(["delete", "widget", "-n", "shop", "large"]).await.unwrap();
    let status = Patch::Merge(json!({"status": {"plan": fixed}}));
    world.installs().patch_status("install-b", &PatchParams::default(), &status).await.unwrap();
    world.complete("install-b").await;
    world.cluster.down().await.unwrap();
}

/// However often the process is killed meanwhile, each object is created once, and of the plans the newest five are left.
#[tokio::test(flavor = "multi_thread")]
async fn plan_completes_with_no_step_doubled_although_the_process_is_killed() {
    let seed = SeededRandom::seed();
    let random = SeededRandom::new(seed, 0, 0);
    let world = World::up().await;
    world.group("one").await;
    let maps = (0..60).map(|at| {
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "map-"}, "data": {"at": at.to_string()}})
    });
    let steps: Vec<Value> = operator("v1", "", &any_size()).into_iter().chain(maps).collect();
    for generation in 1..=6 {
        world.plan(&format!("install-{generation}"), generation, true, &steps).await;
    }
    for _ in 0..KILLS {
        world.start_plans();
        tokio::time::sleep(random.duration(LIFE)).await;
        world.cluster.kill(PROCESS).unwrap();
    }
    world.start_plans();
    let api: Api<DynamicObject> = Api::namespaced_with(
        world.client.clone(),
        "shop",
        &kube::core::ApiResource::erase::<k8s_openapi::api::core::v1::ConfigMap>(&()),
    );
    let wait = world.cluster.until("the newest plans alone", &[PROCESS]).within(LIMIT);
    wait.holds(async || {
        let plans = world.plans().await;
        plans.len() == 5 && plans.iter().all(|it| phase(it) == InstallPlanPhase::Complete)
    })
    .await
    .unwrap();
    let managed = ListParams::default().labels("olm.managed=true");
    let maps = api.list(&managed).await.unwrap().items;
    // One for each step of each plan, and the one that all of them share.
    assert_eq!(maps.len(), 6 * 60 + 1, "seed {seed}");
    assert!(world.writes().iter().filter(|it| it.resource == "clusterserviceversions").count() <= 1, "seed {seed}");
    let before = world.writes().len();
    world.cluster.kill(PROCESS).unwrap();
    world.start_plans();
    world.plan("install-7", 7, true, &operator("v1", "", &any_size())).await;
    world.complete("install-7").await;
    // A second pass writes nothing but the status, and deletes the oldest plan.
    let wait = world.cluster.until("the oldest plan to go", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.plans().await.len() == 5).await.unwrap();
    let after: Vec<String> = world.writes().split_off(before).iter().map(|it| it.resource_path()).collect();
    assert_eq!(after.len(), 2, "{after:?}");
    world.cluster.down().await.unwrap();
}
