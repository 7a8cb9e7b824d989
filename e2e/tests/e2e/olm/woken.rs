//! Whatever a Subscription, a plan or an operator depends on, a change of it is acted upon at once: nothing waits for a resync.

use std::time::Duration;

use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::{Json, Router};
use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use e2e::conditions::Conditions;
use e2e::operators::Version;
use e2e::services::webhook::Webhook;
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::Api;
use kube::api::DynamicObject;
use kube::core::ApiResource;
use serde_json::{Value, json};

use super::operators::{csv, group, in_shop, rule};
use super::subscriptions::with_rights;
use super::{LIMIT, PROCESS, World};

/// A change has been acted upon by then. What has failed is tried again after ten seconds by itself.
const SOON: Duration = Duration::from_secs(6);
/// A plan is tried again so long after it has failed, and nothing tells of the rights that its account gets.
const TRIED_AGAIN: Duration = Duration::from_secs(12);
/// The API server looks once in so long whether an API answers that did not.
const AGGREGATED: Duration = Duration::from_secs(90);
const EXCLUDE: &str = "olm.operatorframework.io/exclude-global-namespace-resolution";

/// What changes.
enum Change {
    Apply(Vec<Value>),
    Run(String),
}

/// Who is woken: kind and name, and what is to be seen then that was not to be seen before.
type Woken<'a> = (&'static str, &'a str, &'a dyn Fn(&Value) -> bool);

fn apply<const N: usize>(objects: [Value; N]) -> Change {
    Change::Apply(objects.into())
}

fn run(arguments: impl Into<String>) -> Change {
    Change::Run(arguments.into())
}

fn resource(kind: &str) -> ApiResource {
    let (group, version, plural) = match kind {
        "Deployment" => ("apps", "v1", "deployments"),
        "OperatorGroup" => ("operators.coreos.com", "v1", "operatorgroups"),
        "ClusterServiceVersion" => ("operators.coreos.com", "v1alpha1", "clusterserviceversions"),
        "OperatorCondition" => ("operators.coreos.com", "v2", "operatorconditions"),
        "InstallPlan" => ("operators.coreos.com", "v1alpha1", "installplans"),
        "Subscription" => ("operators.coreos.com", "v1alpha1", "subscriptions"),
        other => panic!("{other}"),
    };
    let api_version = format!("{group}/{version}");
    let [group, version, plural, kind] = [group, version, plural, kind].map(str::to_owned);
    ApiResource { group, version, api_version, kind, plural }
}

impl World {
    fn any(&self, kind: &str) -> Api<DynamicObject> {
        Api::namespaced_with(self.client.clone(), "shop", &resource(kind))
    }

    async fn seen(&self, what: &str, (kind, name, shows): Woken<'_>, limit: Duration) {
        let wait = self.cluster.until(format!("{what}: {kind} {name}"), &[PROCESS]).within(limit);
        wait.existing(self.any(kind), name, |it| shows(&json!(it))).await.unwrap();
    }

    /// One row of the table.
    async fn wakes(&self, what: &str, change: Change, woken: &[Woken<'_>]) {
        for (kind, name, shows) in woken {
            let before = self.any(kind).get_opt(name).await.unwrap();
            assert!(!before.is_some_and(|it| shows(&json!(it))), "{what}: {kind} {name} shows it before");
        }
        match change {
            Change::Apply(objects) => {
                for object in &objects {
                    self.apply(object).await;
                }
            }
            Change::Run(arguments) => drop(self.kubectl(&arguments).await),
        }
        for woken in woken {
            self.seen(what, *woken, SOON).await;
        }
    }
}

fn status<'a>(object: &'a Value, key: &str) -> &'a str {
    object["status"][key].as_str().unwrap_or_default()
}

fn succeeded(csv: &Value) -> bool {
    status(csv, "phase") == "Succeeded"
}

fn lacks(csv: &Value) -> bool {
    status(csv, "reason") == "RequirementsNotMet"
}

/// A line of the requirements has this state.
fn line(csv: &Value, name: &str, state: &str) -> bool {
    let lines = csv["status"]["requirementStatus"].as_array();
    lines.into_iter().flatten().any(|it| it["name"] == name && it["status"] == state)
}

fn definition(group: &str, plural: &str, kind: &str) -> Value {
    let version =
        json!({"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}});
    json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.{group}")},
        "spec": {"group": group, "scope": "Namespaced", "versions": [version],
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")}}})
}

/// A version that requires one of each.
fn requiring(version: &str, replaces: &str) -> Value {
    let mut csv = csv(version, replaces);
    let spec = &mut csv["spec"];
    spec["customresourcedefinitions"] =
        json!({"required": [{"name": "shelves.example.com", "version": "v1", "kind": "Shelf"}]});
    spec["nativeAPIs"] = json!([{"group": "example.org", "version": "v1", "kind": "Toy"}]);
    spec["apiservicedefinitions"] =
        json!({"required": [{"name": "gadgets", "group": "example.net", "version": "v1", "kind": "Gadget"}]});
    csv
}

fn rbac(kind: &str, name: &str, content: &Value) -> Value {
    let mut object = in_shop("rbac.authorization.k8s.io/v1", kind, name, content.clone());
    if kind.starts_with("Cluster") {
        object["metadata"] = json!({"name": name});
    }
    object
}

fn bound(kind: &str, name: &str) -> Value {
    let role = kind.strip_suffix("Binding").unwrap();
    rbac(
        kind,
        name,
        &json!({"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": "server", "namespace": "shop"}]}),
    )
}

/// The API of gadgets, which is served once `serve_gadgets` has begun.
fn gadgets(port: u16) -> [Value; 2] {
    let name = "gadgets";
    let service = json!({"spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}});
    let registered = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": "v1.example.net"},
        "spec": {"group": "example.net", "version": "v1", "groupPriorityMinimum": 1000, "versionPriority": 15,
            "insecureSkipTLSVerify": true, "service": {"namespace": "shop", "name": name, "port": port}}});
    [in_shop("v1", "Service", name, service), registered]
}

async fn serve_gadgets(world: &World) -> Webhook {
    let kinds = json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "example.net/v1", "resources": [
        {"name": "gadgets", "singularName": "gadget", "namespaced": true, "kind": "Gadget", "verbs": ["get"]}]});
    let router = Router::new()
        .route("/apis/example.net/v1", axum::routing::get(async move || Json(kinds.clone())))
        .fallback(async || StatusCode::NOT_FOUND.into_response());
    Webhook::serve(&world.cluster, "gadgets", router).await.unwrap()
}

/// From nothing to an operator that has succeeded.
async fn requirements(world: &World) {
    let name = "server.v1.0.0";
    let row = async |what: &str, change: Change, shows: fn(&Value) -> bool| {
        world.wakes(what, change, &[("ClusterServiceVersion", name, &shows)]).await;
    };
    let no_group = |it: &Value| status(it, "reason") == "NoOperatorGroup";
    row("a ClusterServiceVersion is made", apply([requiring("1.0.0", "")]), no_group).await;
    let own = json!({"targetNamespaces": ["shop"]});
    row("an OperatorGroup is made", apply([group("one", own)]), lacks).await;
    let shelves = definition("example.com", "shelves", "Shelf");
    row("a definition is made", apply([shelves]), |it| line(it, "shelves.example.com", "Present")).await;
    let toys = definition("example.org", "toys", "Toy");
    row("a kind appears", apply([toys]), |it| line(it, "v1.example.org", "Present")).await;
    let account = in_shop("v1", "ServiceAccount", "server", json!({}));
    row("a ServiceAccount is made", apply([account]), |it| line(it, "server", "PresentNotSatisfied")).await;
    let rules = json!({"rules": [rule()]});
    world.apply(&rbac("Role", "server", &rules)).await;
    let has_rights = |it: &Value| line(it, "server", "Present");
    row("a RoleBinding is made", apply([bound("RoleBinding", "server")]), has_rights).await;

    // The API is registered, and does not answer.
    let port = world.cluster.port("gadgets");
    for object in gadgets(port) {
        world.apply(&object).await;
    }
    let services: Api<APIService> = Api::all(world.client.clone());
    let is = async |state: &str| {
        let wait = world.cluster.until(format!("the API of gadgets to be {state}"), &[PROCESS]).within(AGGREGATED);
        wait.existing(services.clone(), "v1.example.net", |it| it.has(state)).await.unwrap();
    };
    is("Available=False").await;
    let last = world.any("ClusterServiceVersion").get(name).await.unwrap();
    assert!(lacks(&json!(last)), "it waits for the API");
    let _gadgets = serve_gadgets(world).await;
    is("Available=True").await;
    world.seen("an APIService is available", ("ClusterServiceVersion", name, &succeeded), SOON * 2).await;
    rights(&row, &rules).await;
    definitions(&row).await;
    world.kubectl("delete apiservice v1.example.net").await;
    world.seen("an APIService is deleted", ("ClusterServiceVersion", name, &lacks), SOON).await;
    // A definition serves the kind as well.
    row("another serves the kind", apply([definition("example.net", "gadgets", "Gadget")]), succeeded).await;
}

async fn rights(row: &impl AsyncFn(&str, Change, fn(&Value) -> bool), rules: &Value) {
    let none = json!({"rules": []});
    row("a Role loses a rule", apply([rbac("Role", "server", &none)]), lacks).await;
    row("a Role gets it back", apply([rbac("Role", "server", rules)]), succeeded).await;
    row("a RoleBinding is deleted", run("delete rolebinding server -n shop"), lacks).await;
    let for_all = [rbac("ClusterRole", "server", rules), bound("ClusterRoleBinding", "server")];
    row("a ClusterRoleBinding is made", apply(for_all), succeeded).await;
    row("a ClusterRole loses a rule", apply([rbac("ClusterRole", "server", &none)]), lacks).await;
    row("a ClusterRole gets it back", apply([rbac("ClusterRole", "server", rules)]), succeeded).await;
    row("a ServiceAccount is deleted", run("delete serviceaccount server -n shop"), lacks).await;
    let account = in_shop("v1", "ServiceAccount", "server", json!({}));
    row("a ServiceAccount is made again", apply([account]), succeeded).await;
}

/// What it requires goes, in either way.
async fn definitions(row: &impl AsyncFn(&str, Change, fn(&Value) -> bool)) {
    let shelves = definition("example.com", "shelves", "Shelf");
    let mut without = shelves.clone();
    let versions = without.pointer_mut("/spec/versions").unwrap().as_array_mut().unwrap();
    versions[0]["served"] = json!(false);
    let mut next = versions[0].clone();
    next["name"] = json!("v2");
    next["served"] = json!(true);
    next["storage"] = json!(false);
    versions.push(next);
    row("a definition serves the version no more", apply([without]), lacks).await;
    row("a definition serves it again", apply([shelves.clone()]), succeeded).await;
    row("a definition is deleted", run("delete crd shelves.example.com"), lacks).await;
    row("a definition is made again", apply([shelves]), succeeded).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_anything_that_an_operator_depends_on_is_acted_upon_at_once() {
    let world = with_rights().await;
    requirements(&world).await;
    let (first, next) = ("server.v1.0.0", "server.v2.0.0");
    let kind = "ClusterServiceVersion";
    let before = json!(world.any("Deployment").get("server").await.unwrap());
    let is_other = |it: &Value| it["metadata"]["uid"] != before["metadata"]["uid"];
    let deleted = run("delete deployment server -n shop --wait=false");
    world.wakes("a Deployment is deleted", deleted, &[("Deployment", "server", &is_other)]).await;
    world.seen("its pods to be ready", (kind, first, &succeeded), LIMIT).await;
    world.kubectl("cordon fake-0").await;
    // That it waits is told later.
    let unready = |it: &Value| status(it, "phase") == "Installing";
    let lost = run("delete pods -n shop --all --force --grace-period=0");
    world.wakes("a Deployment is not available", lost, &[(kind, first, &unready)]).await;
    world.wakes("a Deployment is available", run("uncordon fake-0"), &[(kind, first, &succeeded)]).await;

    let condition = |status: &str| {
        let said = json!({"type": "Upgradeable", "status": status, "reason": "Busy", "message": "it migrates data",
            "lastTransitionTime": "2026-01-02T03:04:05Z"});
        in_shop("operators.coreos.com/v2", "OperatorCondition", first, json!({"spec": {"conditions": [said]}}))
    };
    let taken = |it: &Value| {
        let generation = it.pointer("/status/conditions/0/observedGeneration");
        generation.is_some_and(|generation| *generation == it["metadata"]["generation"])
    };
    let says_no = apply([condition("False")]);
    world.wakes("an OperatorCondition is written", says_no, &[("OperatorCondition", first, &taken)]).await;
    let replacing = |it: &Value| status(it, "phase") == "Replacing";
    let held = |it: &Value| status(it, "reason") == "OperatorConditionNotUpgradeable";
    let woken: [Woken<'_>; 2] = [(kind, first, &replacing), (kind, next, &held)];
    world.wakes("a ClusterServiceVersion replaces another", apply([requiring("2.0.0", "1.0.0")]), &woken).await;
    world.wakes("an OperatorCondition changes", apply([condition("True")]), &[(kind, next, &succeeded)]).await;

    let unselected = |it: &Value| status(it, "reason") == "NoTargetNamespaces";
    let selector = json!({"selector": {"matchLabels": {"shelf": "one"}}, "targetNamespaces": []});
    world.wakes("an OperatorGroup changes", apply([group("one", selector)]), &[(kind, next, &unselected)]).await;
    let selects = |it: &Value| it["status"]["namespaces"] == json!(["shop"]);
    let woken: [Woken<'_>; 2] = [("OperatorGroup", "one", &selects), (kind, next, &succeeded)];
    world.wakes("a Namespace gets a label", run("label namespace shop shelf=one"), &woken).await;
    let alone = |it: &Value| status(it, "reason") == "NoOperatorGroup";
    let deleted = run("delete operatorgroup one -n shop");
    world.wakes("an OperatorGroup is deleted", deleted, &[(kind, next, &alone)]).await;
    world.down_with_rights().await;
}

/// A CatalogSource of this image.
fn catalog(namespace: &str, name: &str, image: &str, priority: i32) -> Value {
    json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource",
        "metadata": {"name": name, "namespace": namespace},
        "spec": {"sourceType": "grpc", "image": image, "priority": priority}})
}

/// Whether a condition is true and its message has these words.
fn says(object: &Value, type_: &str, words: &str) -> bool {
    object.says(&format!("{type_}=True"), &[words])
}

fn planned(subscription: &Value) -> &str {
    subscription.pointer("/status/installPlanRef/name").and_then(Value::as_str).unwrap_or_default()
}

impl World {
    /// The Subscription that waits for an approval, and the name of its plan.
    async fn waits_for_approval(&self, csv: &str) -> String {
        let waits = |it: &Value| {
            let pending = it.condition("InstallPlanPending=True").is_some_and(|it| it.reason == "RequiresApproval");
            pending && status(it, "currentCSV") == csv
        };
        self.seen("a plan", ("Subscription", "widgets", &waits), LIMIT).await;
        planned(&json!(self.any("Subscription").get("widgets").await.unwrap())).to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn change_of_anything_that_a_subscription_or_a_plan_depends_on_is_acted_upon_at_once() {
    let world = with_rights().await;
    let gears = Version { kind: "Gear", ..Version::new("gears.v1") };
    let first = Version { kind: "Widget", requires: ("Gear", "gears.example.com"), ..Version::new("widgets.v1") };
    let next = Version { name: "widgets.v2", replaces: "widgets.v1", ..first.clone() };
    let later = Version { name: "gears.v2", ..gears.clone() };
    world.offer_in("catalogs/gears:v1", std::slice::from_ref(&gears)).await;
    world.offer_in("catalogs/gears:v2", std::slice::from_ref(&later)).await;
    world.offer_in("catalogs/main:v1", std::slice::from_ref(&first)).await;
    world.offer_in("catalogs/main:v2", &[first, next]).await;
    let image = |name: &str| world.image(&format!("catalogs/{name}"));
    let subscription = |shows| -> [Woken<'_>; 1] { [("Subscription", "widgets", shows)] };
    let fails = |it: &Value, words: &str| says(it, "ResolutionFailed", words);

    world.subscribe("widgets", &json!({"installPlanApproval": "Manual"})).await;
    let no_group = |it: &Value| fails(it, "found 0 operatorGroups");
    world.seen("what is missing", ("Subscription", "widgets", &no_group), LIMIT).await;
    let own = group("one", json!({"targetNamespaces": ["shop"]}));
    let no_catalog = |it: &Value| fails(it, "main") && !no_group(it);
    world.wakes("an OperatorGroup is made", apply([own.clone()]), &subscription(&no_catalog)).await;
    let no_gears = |it: &Value| fails(it, "Gear");
    let main = catalog("shop", "main", &image("main:v1"), 0);
    world.wakes("a CatalogSource is made", apply([main]), &subscription(&no_gears)).await;
    let chosen = |it: &Value| status(it, "currentCSV") == "widgets.v1";
    let a = catalog("shop", "a", &image("gears:v1"), 0);
    world.wakes("another CatalogSource is made", apply([a]), &subscription(&chosen)).await;
    let plan = world.waits_for_approval("widgets.v1").await;
    // Its version is another one, and it comes last.
    world.apply(&catalog("shop", "b", &image("gears:v2"), -10)).await;
    world.until("its content", ("shop", "b"), |it| it.has("ContentLoaded=True")).await;
    let is_other = |it: &Value| !planned(it).is_empty() && planned(it) != plan;
    let b = catalog("shop", "b", &image("gears:v2"), 10);
    world.wakes("the priority of a CatalogSource changes", apply([b]), &subscription(&is_other)).await;

    let unhealthy = |it: &Value| it.has("CatalogSourcesUnhealthy=True");
    let healthy = |it: &Value| !it.has("CatalogSourcesUnhealthy=True");
    let broken = catalog(GLOBAL_CATALOG_NAMESPACE, "broken", &image("none:v1"), 0);
    world.wakes("a CatalogSource of all namespaces is broken", apply([broken]), &subscription(&unhealthy)).await;
    let excluded = run(format!("annotate operatorgroup one -n shop {EXCLUDE}=true"));
    world.wakes("an annotation excludes it", excluded, &subscription(&healthy)).await;
    world.waits_for_approval("widgets.v1").await;
    let newer = |it: &Value| status(it, "currentCSV") == "widgets.v2";
    let main = catalog("shop", "main", &image("main:v2"), 0);
    world.wakes("the content of a CatalogSource changes", apply([main]), &subscription(&newer)).await;
    let plan = world.waits_for_approval("widgets.v2").await;
    plans(&world, &plan).await;

    let installed = |it: &Value| status(it, "installedCSV") == "widgets.v2" && status(it, "state") == "AtLatestKnown";
    world.seen("it to be installed", ("Subscription", "widgets", &installed), LIMIT).await;
    let again = |it: &Value| !planned(it).is_empty() && planned(it) != plan;
    let deleted = run("delete csv widgets.v2 -n shop --wait=false");
    world.wakes("a ClusterServiceVersion is deleted", deleted, &subscription(&again)).await;
    let again = world.waits_for_approval("widgets.v2").await;
    rights_of_the_account(&world, &again).await;
    world.down_with_rights().await;
}

/// The group names an account again, which has no rights until somebody gives it some.
async fn rights_of_the_account(world: &World, plan: &str) {
    world.apply(&group("one", json!({"targetNamespaces": ["shop"], "serviceAccountName": "robot"}))).await;
    let names = |it: &Value| it.pointer("/status/serviceAccountRef/name").is_some_and(|it| it == "robot");
    world.seen("the account of the group", ("OperatorGroup", "one", &names), LIMIT).await;
    let refused = |it: &Value| status(it, "message").contains("User \"system:serviceaccount:shop:robot\"");
    let approved = run(format!("patch installplan {plan} -n shop --type=merge -p {{\"spec\":{{\"approved\":true}}}}"));
    world.wakes("an InstallPlan is approved", approved, &[("InstallPlan", plan, &refused)]).await;
    world.kubectl("create rolebinding robot -n shop --clusterrole=cluster-admin --serviceaccount=shop:robot").await;
    let complete = |it: &Value| status(it, "phase") == "Complete";
    world.seen("a RoleBinding is made", ("InstallPlan", plan, &complete), TRIED_AGAIN).await;
}

/// The plan waits for an approval; in the end it is carried out.
async fn plans(world: &World, plan: &str) {
    let message = |it: &Value, words: &str| status(it, "message").contains(words);
    let two = |it: &Value| message(it, "count=2");
    let missing = |it: &Value| message(it, "please make sure the service account exists");
    let exists = |it: &Value| message(it, "User \"system:serviceaccount:shop:robot\"");
    let complete = |it: &Value| status(it, "phase") == "Complete";
    let woken = |shows| -> [Woken<'_>; 1] { [("InstallPlan", plan, shows)] };
    world.apply(&group("two", json!({"targetNamespaces": ["shop"]}))).await;
    let approved = run(format!("patch installplan {plan} -n shop --type=merge -p {{\"spec\":{{\"approved\":true}}}}"));
    world.wakes("an InstallPlan is approved", approved, &woken(&two)).await;
    let account = group("one", json!({"targetNamespaces": ["shop"], "serviceAccountName": "robot"}));
    world.apply(&account).await;
    let deleted = run("delete operatorgroup two -n shop");
    world.wakes("an OperatorGroup is deleted", deleted, &woken(&missing)).await;
    let robot = in_shop("v1", "ServiceAccount", "robot", json!({}));
    world.wakes("a ServiceAccount is made", apply([robot]), &woken(&exists)).await;
    let without = group("one", json!({"targetNamespaces": ["shop"]}));
    world.wakes("an OperatorGroup changes", apply([without]), &woken(&complete)).await;
}
