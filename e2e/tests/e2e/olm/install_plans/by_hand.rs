//! Plans that somebody writes with nothing but names.

use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use e2e::harness::audit;
use e2e::olm::{self, USER};
use e2e::operators::Version;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::super::World;
use super::{message, phase};

/// A namespace that sees these versions, and has the group that it needs.
async fn with_offers() -> World {
    let world = World::up().await;
    let gears = Version { kind: "Gear", ..Version::new("gears.v1") };
    let of = |name, replaces| Version {
        kind: "Widget",
        requires: ("Gear", "gears.example.com"),
        replaces,
        ..Version::new(name)
    };
    world.offer(&[gears, of("widgets.v1", ""), of("widgets.v2", "widgets.v1"), Version::new("others.v1")]).await;
    olm::grant(&world.cluster).await.unwrap();
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world
}

impl World {
    async fn write_by_hand(&self, name: &str, approved: bool, csvs: &[&str]) {
        let plan = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "InstallPlan",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"approval": if approved { "Automatic" } else { "Manual" }, "approved": approved,
                "clusterServiceVersionNames": csvs}});
        let plan: InstallPlan = serde_json::from_value(plan).unwrap();
        self.installs().create(&Default::default(), &plan).await.unwrap();
    }
}

/// It gets the steps of what it names and of what that depends on, waits for an approval, and installs them; nobody has subscribed.
#[tokio::test(flavor = "multi_thread")]
async fn plan_that_names_versions_gets_its_steps_and_waits_for_an_approval() {
    let world = with_offers().await;
    world.write_by_hand("install-abcde", false, &["widgets.v1"]).await;
    world.start_with_rights();
    let waits = |it: &InstallPlan| phase(it) == InstallPlanPhase::RequiresApproval;
    let plan = world.until_plan("its steps", "install-abcde", waits).await;
    let steps =
        plan.status.as_ref().unwrap().plan.iter().map(|it| format!("{} {}", it.resource.kind, it.resource.name));
    let steps: Vec<String> = steps.collect();
    for expected in [
        "ClusterServiceVersion widgets.v1",
        "ClusterServiceVersion gears.v1",
        "CustomResourceDefinition widgets.widgets.example.com",
        "CustomResourceDefinition gears.gears.example.com",
    ] {
        assert!(steps.iter().any(|step| step == expected), "{expected} is not in {steps:?}");
    }
    assert!(!steps.iter().any(|step| step.starts_with("Subscription")), "{steps:?}");
    assert_eq!(plan.spec.cluster_service_version_names, ["widgets.v1"], "what was asked for stays");
    let changes = &plan.metadata.annotations.as_ref().unwrap()["olm.operatorframework.io/changes"];
    assert!(
        changes.starts_with("gears.v1: 1.0.0 is new, because others depend on it\nwidgets.v1: 1.0.0 is new"),
        "{changes}"
    );
    assert!(world.found("csv", true, "widgets.v1").await.is_none());
    world.approve("install-abcde").await;
    world.complete("install-abcde").await;
    for name in ["widgets.v1", "gears.v1"] {
        assert!(world.found("csv", true, name).await.is_some(), "{name}");
    }
    let subscriptions = world.cluster.kubectl(["get", "subscriptions", "-n", "shop", "-o", "name"]).await.unwrap();
    assert_eq!(subscriptions.trim(), "");
    // The next version takes the place of the first one.
    world.write_by_hand("install-next", true, &["widgets.v2"]).await;
    world.complete("install-next").await;
    let next = world.found("csv", true, "widgets.v2").await.unwrap();
    assert_eq!(next["spec"]["replaces"], "widgets.v1");
    let all = audit::requests(&world.cluster.audit_log(), USER).unwrap();
    let refused: Vec<_> = all.iter().filter(|it| it.code == 403).collect();
    assert!(refused.is_empty(), "{refused:?}");
    world.cluster.down().await.unwrap();
}

/// One that names what no catalog has says so, and goes on once its names are corrected.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn plan_that_names_what_no_catalog_has_says_so_until_it_is_corrected() {
    let world = with_offers().await;
    world.write_by_hand("install-wrong", true, &["nothing.v1"]).await;
    world.start_with_rights();
    let text = "no catalog that this namespace sees has the ClusterServiceVersion nothing.v1";
    let wrong = world.until_plan("what is wrong", "install-wrong", |it| message(it).starts_with(text)).await;
    let conditions = json!(wrong.status.unwrap().conditions);
    assert_eq!(
        (&conditions[0]["type"], &conditions[0]["status"]),
        (&json!("Resolved"), &json!("False")),
        "{conditions}"
    );
    let names: Value = json!({"spec": {"clusterServiceVersionNames": ["others.v1"]}});
    world.installs().patch("install-wrong", &PatchParams::default(), &Patch::Merge(names)).await.unwrap();
    world.complete("install-wrong").await;
    assert!(world.found("csv", true, "others.v1").await.is_some());
    world.cluster.down().await.unwrap();
}
