//! Operator objects: what belongs to an operator while it is installed, updated and removed.

use cvo::testing::api::olm::cluster_service_version::Phase;
use cvo::testing::api::olm::operator::{Component, Operator};
use cvo::testing::api::olm::subscription::Subscription;
use e2e::harness::audit::{self, Request};
use e2e::olm::{PROCESS, USER};
use e2e::operators::Version;
use k8s_openapi::api::apps::v1::Deployment;
use kube::api::Patch;
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::subscriptions::with_rights;
use super::super::{LIMIT, World};
use super::{COLLECTED, SHOP, in_shop};

const NAME: &str = "widgets.shop";
const KEY: &str = "operators.coreos.com/widgets.shop";
/// Kinds of the components of an operator that is installed.
const KINDS: [&str; 9] = [
    "ClusterServiceVersion",
    "CustomResourceDefinition",
    "Deployment",
    "InstallPlan",
    "OperatorCondition",
    "Role",
    "RoleBinding",
    "ServiceAccount",
    "Subscription",
];

fn refs(operator: &Operator) -> &[Component] {
    operator.status.as_ref().and_then(|it| it.components.as_ref()).map_or(&[], |it| &it.refs)
}

fn kinds(operator: &Operator) -> Vec<&str> {
    refs(operator).iter().filter_map(|it| it.reference.kind.as_deref()).collect()
}

fn names<'a>(operator: &'a Operator, kind: &str) -> Vec<&'a str> {
    let of = refs(operator).iter().filter(|it| it.reference.kind.as_deref() == Some(kind));
    of.filter_map(|it| it.reference.name.as_deref()).collect()
}

/// Types of the conditions of the component of a kind that are true.
fn said<'a>(operator: &'a Operator, kind: &str) -> Vec<&'a str> {
    let of = refs(operator).iter().filter(|it| it.reference.kind.as_deref() == Some(kind));
    let all = of.flat_map(|it| &it.conditions).filter(|it| json!(it.status) == "True");
    all.map(|it| it.type_.as_str()).collect()
}

/// Whether this version, and no other, is installed by this plan.
fn is_installed(operator: &Operator, csv: &str, plan: &str) -> bool {
    is_installed_as(operator, &KINDS, csv, plan)
}

fn is_installed_as(operator: &Operator, components: &[&str], csv: &str, plan: &str) -> bool {
    kinds(operator) == components
        && names(operator, "ClusterServiceVersion") == [csv]
        && names(operator, "InstallPlan") == [plan]
        && said(operator, "ClusterServiceVersion") == ["Succeeded"]
        && said(operator, "Deployment").contains(&"Available")
        && said(operator, "InstallPlan") == ["Installed"]
}

impl World {
    fn operators(&self) -> Api<Operator> {
        Api::all(self.client.clone())
    }

    async fn operator(&self, what: &str, ok: impl FnMut(&Operator) -> bool) -> Operator {
        self.cluster.until(what, &[PROCESS]).within(COLLECTED).existing(self.operators(), NAME, ok).await.unwrap()
    }

    async fn operator_gone(&self) {
        let wait = self.cluster.until("the Operator to be gone", &[PROCESS]).within(LIMIT);
        wait.object(self.operators(), NAME, |it| it.is_none()).await.unwrap();
    }

    /// Name of the plan that has installed this version, once the Subscription says so.
    async fn by_plan(&self, csv: &str, generation: i64) -> String {
        let is_there = |it: &Subscription| {
            it.status
                .as_ref()
                .is_some_and(|it| it.installed_csv == csv && it.install_plan_generation == Some(generation))
        };
        let subscription = self.subscription(&format!("{csv} by plan {generation}"), "widgets", is_there).await;
        self.csv(csv, &Phase::Succeeded).await;
        subscription.status.unwrap().install_plan_ref.unwrap().name.unwrap()
    }

    /// What the process has written, beside what it writes whatever happens.
    fn wrote(&self, from: usize) -> Vec<Request> {
        let others = [
            "leases",
            "events",
            "clusteroperators",
            "catalogsources",
            "endpointslices",
            "services",
            "secrets",
            "subjectaccessreviews",
            "tokenreviews",
        ];
        let all = audit::requests(&self.cluster.audit_log(), USER).unwrap();
        all.into_iter().skip(from).filter(|it| it.wrote() && !others.contains(&it.resource.as_str())).collect()
    }

    fn requests(&self) -> usize {
        audit::requests(&self.cluster.audit_log(), USER).unwrap().len()
    }

    /// Somebody deletes the object: it comes back as it was, and nothing else has been written since these requests.
    async fn comes_back(&self, from: usize, before: &Operator) -> Operator {
        self.kubectl(&format!("delete operator {NAME} --wait=false")).await;
        let is_back = |it: &Operator| it.uid() != before.uid() && it.status == before.status;
        let back = self.operator("the Operator to come back", is_back).await;
        let wrote: Vec<String> =
            self.wrote(from).iter().map(|it| format!("{} {}", it.verb, it.resource_path())).collect();
        assert_eq!(wrote, ["create operators", "update operators/status"]);
        back
    }

    /// Every component has had its label since it was made, but for the Subscription, which somebody else has made.
    fn nothing_was_labelled_afterwards(&self) {
        let patches = self.wrote(0).into_iter().filter(|it| it.verb == "patch" && it.subresource.is_empty());
        let patches: Vec<String> = patches.map(|it| format!("{} {}", it.resource, it.name)).collect();
        let expected = ["clusterserviceversions widgets.v1", "subscriptions widgets"];
        let mut of_operator: Vec<&str> =
            patches.iter().map(String::as_str).filter(|it| it.contains("widgets")).collect();
        of_operator.sort_unstable();
        assert_eq!(of_operator, expected, "{patches:?}");
    }

    async fn labels(&self, kind: &str, name: &str) -> Value {
        let text = self.kubectl(&format!("get {kind} {name} -n {SHOP} -o json")).await;
        serde_json::from_str::<Value>(&text).unwrap()["metadata"]["labels"].clone()
    }
}

/// Widgets in two versions, of which the second one has another image.
fn widgets() -> [Version; 2] {
    let first = Version { kind: "Widget", ..Version::new("widgets.v1") };
    let second =
        Version { name: "widgets.v2", replaces: "widgets.v1", image: "registry.invalid/operator:2", ..first.clone() };
    [first, second]
}

async fn subscribed(world: &World) {
    world.offer(&widgets()[..1]).await;
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1"),
        "updateStrategy": {"registryPoll": {"interval": "1h"}}});
    world.create(SHOP, "main", spec).await;
    world.group("one").await;
    world.subscribe("widgets", &json!({})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn operator_object_follows_an_operator_from_its_subscription_to_its_last_component() {
    let world = with_rights().await;
    subscribed(&world).await;
    let plan = world.by_plan("widgets.v1", 1).await;
    let first = world.operator("all components", |it| is_installed(it, "widgets.v1", &plan)).await;
    let components = json!(first.status)["components"].clone();
    assert_eq!(components["labelSelector"], json!({"matchExpressions": [{"key": KEY, "operator": "Exists"}]}));
    assert_eq!(components["refs"][2]["apiVersion"], "apps/v1");
    assert_eq!(components["refs"][2]["namespace"], SHOP);
    assert_eq!(components["refs"][1]["namespace"], Value::Null);
    let of_objects = world.wrote(0).into_iter().filter(|it| it.resource == "operators");
    let of_objects: Vec<String> = of_objects.map(|it| format!("{} {}", it.verb, it.resource_path())).collect();
    assert!(of_objects.len() <= 4 && of_objects[0] == "create operators", "{of_objects:?}");
    world.nothing_was_labelled_afterwards();
    let first = world.comes_back(world.requests(), &first).await;

    // Another process finds everything as it is. That it has looked is seen by what comes back.
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    let from = world.requests();
    world.start_with_rights();
    let first = world.comes_back(from, &first).await;

    // The next version: its plan is the newest.
    world.offer(&widgets()).await;
    let poll = json!({"spec": {"updateStrategy": {"registryPoll": {"interval": "1s"}}}});
    world.sources(SHOP).patch("main", &Default::default(), &Patch::Merge(poll)).await.unwrap();
    let next = world.by_plan("widgets.v2", 2).await;
    world.csv_gone("widgets.v1").await;
    let second = world.operator("the next version", |it| is_installed(it, "widgets.v2", &next)).await;
    assert_eq!(second.uid(), first.uid(), "it is the same object");
    assert_eq!(world.labels("installplan", &plan).await.get(KEY), None, "the older plan");
    assert_eq!(world.labels("installplan", &next).await[KEY], "");

    // Only the ClusterServiceVersion is deleted: it comes again by a third plan.
    world.kubectl("delete csv widgets.v2 -n shop --wait=false").await;
    let again = world.by_plan("widgets.v2", 3).await;
    let third = world.operator("it to come again", |it| is_installed(it, "widgets.v2", &again)).await;
    assert_eq!(third.uid(), first.uid());

    // Without its Subscription it is the same operator, and what is left of it is named to the end.
    world.kubectl("delete subscription widgets -n shop").await;
    let alone = |it: &Operator| names(it, "Subscription").is_empty() && names(it, "InstallPlan").is_empty();
    let left = world.operator("Subscription and plan to be gone", alone).await;
    assert_eq!(names(&left, "ClusterServiceVersion"), ["widgets.v2"]);
    world.kubectl("delete csv widgets.v2 -n shop --wait=false").await;
    let left = world.operator("the definition alone", |it| kinds(it) == ["CustomResourceDefinition"]).await;
    assert_eq!(names(&left, "CustomResourceDefinition"), ["widgets.widgets.example.com"]);
    world.kubectl("delete crd widgets.widgets.example.com").await;
    world.operator_gone().await;
    world.down_with_rights().await;
}

/// What was made without a Subscription is labelled once when there is one, and nothing of it restarts. Whoever labels an object makes it
/// a component.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn what_was_there_before_its_subscription_is_labelled_once_and_goes_on() {
    let world = with_rights().await;
    world.group("one").await;
    let version = Version::new("widgets.v1");
    let rbac = "rbac.authorization.k8s.io";
    let rule = json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]});
    let subject = json!({"kind": "ServiceAccount", "name": "widgets", "namespace": SHOP});
    let role = json!({"apiGroup": rbac, "kind": "Role", "name": "by-hand"});
    for object in [
        in_shop("v1", "ServiceAccount", "widgets", json!({})),
        in_shop(&format!("{rbac}/v1"), "Role", "by-hand", json!({"rules": [rule]})),
        in_shop(&format!("{rbac}/v1"), "RoleBinding", "by-hand", json!({"roleRef": role, "subjects": [subject]})),
    ] {
        world.apply(&object).await;
    }
    let mut made = version.csv();
    made["metadata"]["namespace"] = json!(SHOP);
    world.apply(&made).await;
    let before = world.csv("widgets.v1", &Phase::Succeeded).await;
    let deployments: Api<Deployment> = Api::namespaced(world.client.clone(), SHOP);
    let deployment = deployments.get("widgets-operator").await.unwrap();
    assert_eq!(deployment.labels().get(KEY), None);
    assert!(world.operators().get_opt(NAME).await.unwrap().is_none(), "nobody asks for a package yet");

    world.offer(&[version]).await;
    world.create(SHOP, "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.subscribe("widgets", &json!({})).await;
    let plan = world.by_plan("widgets.v1", 1).await;
    let without_a_kind: Vec<&str> = KINDS.into_iter().filter(|kind| *kind != "CustomResourceDefinition").collect();
    world.operator("all components", |it| is_installed_as(it, &without_a_kind, "widgets.v1", &plan)).await;
    let labelled = deployments.get("widgets-operator").await.unwrap();
    assert_eq!(labelled.labels().get(KEY).map(String::as_str), Some(""));
    assert_eq!((labelled.uid(), labelled.metadata.generation), (deployment.uid(), deployment.metadata.generation));
    let after = world.csv("widgets.v1", &Phase::Succeeded).await;
    assert_eq!(after.status.unwrap().conditions, before.status.unwrap().conditions, "it has been in no other phase");
    let patches = world.wrote(0).into_iter().filter(|it| it.verb == "patch" && it.subresource.is_empty());
    let of_deployment = patches.filter(|it| it.resource == "deployments").count();
    assert_eq!(of_deployment, 1);

    // Objects of others, as long as they have the label.
    let extra = ["ConfigMap", "Namespace", "Secret"];
    for (kind, name) in [("namespace", "shop"), ("configmap", "extra -n shop"), ("secret", "extra -n shop")] {
        if kind != "namespace" {
            let of = if kind == "secret" { "secret generic" } else { kind };
            world.kubectl(&format!("create {of} {name}")).await;
        }
        world.kubectl(&format!("label {kind} {name} olm.managed=true {KEY}=")).await;
    }
    let named = |it: &Operator| extra.iter().all(|kind| names(it, kind).len() == 1);
    world.operator("what others have labelled", named).await;
    world.kubectl(&format!("label configmap extra -n shop {KEY}-")).await;
    world.operator("what has no label any more", |it| names(it, "ConfigMap").is_empty()).await;
    // One that somebody has written is his, and says how components are labelled.
    let own = json!({"apiVersion": "operators.coreos.com/v1", "kind": "Operator", "metadata": {"name": "suite.all"}, "spec": {}});
    world.apply(&own).await;
    let wait = world.cluster.until("its selector", &[PROCESS]).within(LIMIT);
    let own = wait.existing(world.operators(), "suite.all", |it| it.status.is_some()).await.unwrap();
    assert_eq!(
        json!(own.status)["components"]["labelSelector"]["matchExpressions"][0]["key"],
        "operators.coreos.com/suite.all"
    );
    world.down_with_rights().await;
}
