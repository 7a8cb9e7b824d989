//! Steps that cannot be carried out as they stand, and what each of them waits for.

use cvo::testing::api::olm::NAMESPACE;
use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::World;
use super::{any_size, csv, definition, message, operator, owners, phase, step};

const RULE: (&str, &str) = ("monitoring.coreos.com/v1", "PrometheusRule");

/// An operator `name` that owns nothing.
fn plain_csv(name: &str) -> Value {
    let mut object = csv("v1", "");
    object["metadata"]["name"] = json!(name);
    object["spec"]["customresourcedefinitions"] = json!({});
    object
}

fn object((api_version, kind): (&str, &str), name: &str) -> Value {
    json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": name}})
}

/// The definition of a kind of this group that takes any spec.
fn kind_of(group: &str, kind: &str, plural: &str) -> Value {
    let mut object = definition(&json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    object["metadata"]["name"] = json!(format!("{plural}.{group}"));
    object["spec"]["group"] = json!(group);
    object["spec"]["names"] = json!({"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
        "listKind": format!("{kind}List")});
    object
}

fn states(plan: &InstallPlan) -> Vec<String> {
    let steps = plan.status.iter().flat_map(|status| &status.plan);
    steps.map(|step| json!(step.status).as_str().unwrap().to_owned()).collect()
}

impl World {
    /// A plan of these steps, approved once all of them are there.
    async fn plan_of(&self, name: &str, generation: i64, csv: &Value, steps: &[Value]) {
        self.plan(name, generation, false, std::slice::from_ref(csv)).await;
        let all: Vec<&Value> = steps.iter().collect();
        let of_csv = step(&csv["metadata"]["name"], csv);
        let status = json!({"status": {"plan": std::iter::once(&of_csv).chain(all).collect::<Vec<_>>()}});
        self.installs().patch_status(name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        self.approve(name).await;
    }

    /// The plan, once all of this is said of it.
    async fn plan_says(&self, name: &str, words: &[&str]) -> InstallPlan {
        let all = |it: &InstallPlan| words.iter().all(|word| message(it).contains(word));
        self.until_plan(&format!("{name} to say {words:?}"), name, all).await
    }

    async fn uid(&self, kind: &str, name: &str) -> Value {
        self.found(kind, true, name).await.unwrap()["metadata"]["uid"].clone()
    }
}

/// Kinds that are no part of plans, that nobody serves, and that the plan itself brings. A step that is optional does without its kind.
#[tokio::test(flavor = "multi_thread")]
async fn step_of_a_kind_that_is_not_served_waits_for_it_unless_it_is_optional() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    let (one, name) = (plain_csv("one.v1"), json!("one.v1"));
    let before = world.writes().len();
    let (deployment, rule) = (object(("apps/v1", "Deployment"), "web"), object(RULE, "alerts"));
    world.plan_of("install-a", 1, &one, &[step(&name, &deployment), step(&name, &rule)]).await;
    let unknown = "api-server resource not found installing PrometheusRule alerts: GroupVersionKind monitoring.coreos.com/v1, Kind=PrometheusRule not found on the cluster";
    let unsupported =
        "Deployment web: objects of the kind Deployment.apps are not part of a plan; remove it from the bundle";
    let told = world.plan_says("install-a", &["2 steps cannot be carried out", unknown, unsupported]).await;
    assert_eq!(
        (phase(&told), states(&told)),
        (
            InstallPlanPhase::Installing,
            vec!["Unknown".to_owned(), "UnsupportedResource".to_owned(), "Unknown".to_owned(),]
        )
    );
    let written: Vec<String> = world.writes().split_off(before).iter().map(|it| it.resource_path()).collect();
    assert!(written.iter().all(|path| path.contains("installplans")), "{written:?}");

    let mut optional = step(&json!("two.v1"), &rule);
    optional["optional"] = json!(true);
    let map = object(("v1", "ConfigMap"), "two");
    world.plan_of("install-b", 2, &plain_csv("two.v1"), &[optional, step(&json!("two.v1"), &map)]).await;
    let told = world.complete("install-b").await;
    assert_eq!(states(&told), ["Created", "NotCreated", "Created"]);

    // A plan that brings the kind has objects of it too. The first one, without what is no part of a plan, goes on by itself.
    let repaired = json!({"status": {"plan": [step(&name, &one), step(&name, &rule)]}});
    world.installs().patch_status("install-a", &PatchParams::default(), &Patch::Merge(repaired)).await.unwrap();
    world.plan_says("install-a", &["retrying execution due to error: api-server resource not found installing PrometheusRule alerts: GroupVersionKind"]).await;
    let three = json!("three.v1");
    let rules = kind_of("monitoring.coreos.com", "PrometheusRule", "prometheusrules");
    let own = object(RULE, "own");
    world.plan_of("install-c", 3, &plain_csv("three.v1"), &[step(&three, &rules), step(&three, &own)]).await;
    let told = world.complete("install-c").await;
    assert_eq!(states(&told), ["Created", "Created", "Created"]);
    assert_eq!(owners(&world.found("prometheusrules", true, "own").await.unwrap()), ["three.v1"]);
    world.complete("install-a").await;
    assert!(world.found("prometheusrules", true, "alerts").await.is_some());
    world.cluster.down().await.unwrap();
}

/// Each says what it waits for, and goes on once somebody has done it.
#[tokio::test(flavor = "multi_thread")]
async fn secret_that_is_not_there_and_names_that_are_taken_are_told() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    let (one, name) = (plain_csv("one.v1"), json!("one.v1"));
    let secret = |name: &Value| step(name, &object(("v1", "Secret"), "pull"));
    world.plan_of("install-a", 1, &one, &[secret(&name)]).await;
    let text = format!("Secret pull: there is no Secret {NAMESPACE}/pull to copy; create it");
    world.plan_says("install-a", &[&text]).await;
    assert!(world.found("csv", true, "one.v1").await.is_none(), "nothing is written before all can be");
    let original = |data: &str| {
        json!({"apiVersion": "v1", "kind": "Secret", "type": "example.com/pull",
            "metadata": {"name": "pull", "namespace": NAMESPACE}, "data": {"key": data}})
    };
    world.apply(&original("YQ==")).await;
    assert_eq!(states(&world.complete("install-a").await), ["Created", "Created"]);
    let copied = world.found("secret", true, "pull").await.unwrap();
    let said = (&copied["data"]["key"], &copied["type"], owners(&copied));
    assert_eq!(said, (&json!("YQ=="), &json!("example.com/pull"), vec!["one.v1"]));
    // One that is there stays as it is.
    world.apply(&original("Yg==")).await;
    world.plan_of("install-b", 2, &plain_csv("two.v1"), &[secret(&json!("two.v1"))]).await;
    assert_eq!(states(&world.complete("install-b").await), ["Created", "Present"]);
    assert_eq!(world.found("secret", true, "pull").await.unwrap(), copied);

    let define = |csv: &Value, plural: &str| step(csv, &kind_of("example.com", "Gear", plural));
    let (three, four) = (json!("three.v1"), json!("four.v1"));
    world.plan_of("install-c", 3, &plain_csv("three.v1"), &[define(&three, "gears")]).await;
    world.complete("install-c").await;
    world.plan_of("install-d", 4, &plain_csv("four.v1"), &[define(&four, "cogs")]).await;
    let text = "CustomResourceDefinition cogs.example.com: the API server does not accept its names: ";
    let told = world.plan_says("install-d", &[text, "\"GearList\" is already in use"]).await;
    assert_eq!(
        (phase(&told), states(&told)),
        (InstallPlanPhase::Installing, vec!["Created".to_owned(), "WaitingForApi".to_owned(),])
    );
    world.cluster.kubectl(["delete", "crd", "gears.example.com"]).await.unwrap();
    let told = world.complete("install-d").await;
    assert_eq!((states(&told), message(&told)), (vec!["Created".to_owned(), "Created".to_owned()], String::new()));
    world.cluster.down().await.unwrap();
}

/// An administrator may take the risk that objects do not fit any more, for a definition of a single operator, and says so on it. What
/// is shared by the versions of the operator stays the same object all the time.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn risk_of_a_stricter_definition_is_taken_for_its_only_owner() {
    let world = World::up().await;
    world.group("one").await;
    world.start_plans();
    world.plan("install-a", 1, true, &operator("v1", "", &any_size())).await;
    world.complete("install-a").await;
    let shared = async || {
        let mut uids = Vec::new();
        for kind in ["serviceaccount", "service", "configmap"] {
            uids.push(world.uid(kind, "widgets").await);
        }
        uids.push(world.found("service", true, "widgets").await.unwrap()["spec"]["clusterIP"].clone());
        uids
    };
    let first = shared().await;
    let large = json!({"apiVersion": "example.com/v1", "kind": "Widget",
        "metadata": {"name": "large", "namespace": "shop"}, "spec": {"size": 900}});
    world.apply(&large).await;
    let annotated = ["annotate", "crd", "widgets.example.com", "olm.operatorframework.io/crd-safety=warn"];
    world.cluster.kubectl(annotated).await.unwrap();
    let at_most = |size: u64| {
        let mut strict = any_size();
        strict["properties"]["size"]["maximum"] = json!(size);
        strict
    };
    world.plan("install-b", 2, true, &operator("v2", "widgets.v1", &at_most(10))).await;
    world.complete("install-b").await;
    let event = world.event("CRDValidation", "InstallPlan").await;
    assert_eq!(event.involved_object.name.as_deref(), Some("install-b"));
    assert_eq!(event.involved_object.field_path.as_deref(), Some("status.plan[1]"));
    let note = event.message.unwrap_or_default();
    assert!(
        note.contains("shop/large: spec.size: must be at most 10") && event.type_.as_deref() == Some("Warning"),
        "{note}"
    );
    assert_eq!(shared().await, first, "they are the same objects");

    // Once an operator of another namespace owns it too, it is no risk of one of them.
    world.cluster.kubectl(["create", "namespace", "mall"]).await.unwrap();
    let mut other = csv("v1", "");
    other["metadata"] = json!({"name": "others.v1", "namespace": "mall"});
    world.apply(&other).await;
    let next = operator("v3", "widgets.v2", &at_most(5));
    world.plan("install-c", 3, true, &next).await;
    world.plan_says("install-c", &["shop/large: spec.size: must be at most 5", "too restrictive"]).await;
    assert!(world.found("csv", true, "widgets.v3").await.is_none());
    world.cluster.kubectl(["delete", "csv", "-n", "mall", "others.v1"]).await.unwrap();
    world.complete("install-c").await;
    assert_eq!(shared().await, first, "over three versions");

    let mut other = operator("v4", "widgets.v3", &at_most(5));
    other[1]["spec"]["versions"][0]["name"] = json!("v2");
    world.plan("install-d", 4, true, &other).await;
    let text = "risk of data loss updating \"widgets.example.com\": new CRD removes version v1 that is listed as a stored version";
    world.plan_says("install-d", &[text]).await;
    assert!(world.found("csv", true, "widgets.v4").await.is_none());
    world.cluster.down().await.unwrap();
}
