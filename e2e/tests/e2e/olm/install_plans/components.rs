//! A namespace whose group asks for plans of each operator, and plans that follow each other.

use cvo::testing::api::olm::install_plan::{InstallPlan, InstallPlanPhase};
use cvo::testing::api::olm::subscription::Subscription;
use e2e::operators::Version;
use serde_json::json;

use super::super::World;
use super::super::subscriptions::condition;
use super::phase;

/// Changes of the catalog while a plan waits.
const CHANGES: usize = 100;

/// They live as long as the test.
fn leaked(text: String) -> &'static str {
    Box::leak(text.into_boxed_str())
}

impl World {
    /// What there is of each plan: its generation, its phase and its ClusterServiceVersions.
    async fn told(&self) -> Vec<(i64, InstallPlanPhase, String)> {
        let mut told: Vec<_> = self.plans().await.iter().map(of).collect();
        told.sort_by_key(|it| it.0);
        told
    }
}

fn of(plan: &InstallPlan) -> (i64, InstallPlanPhase, String) {
    (plan.spec.generation.unwrap(), phase(plan), plan.spec.cluster_service_version_names.join(" "))
}

fn waits(subscription: &Subscription) -> bool {
    condition(subscription, "InstallPlanPending").is_some_and(|(it, _)| it == "RequiresApproval")
}

/// One that asks for an approval holds its own operator, with what that depends on, and no other.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn operator_that_waits_for_an_approval_holds_no_other() {
    let world = World::up().await;
    let gears = Version { kind: "Gear", ..Version::new("gears.v1") };
    let widgets = Version { kind: "Widget", requires: ("Gear", "gears.example.com"), ..Version::new("widgets.v1") };
    world.offer(&[gears, widgets, Version::new("others.v1")]).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.subscribe("widgets", &json!({"installPlanApproval": "Manual"})).await;
    world.subscribe("others", &json!({})).await;
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "one", "namespace": "shop", "annotations": {"olm.operatorframework.io/plans": "per-operator"}},
        "spec": {"targetNamespaces": ["shop"]}});
    world.apply(&group).await;
    world.start();
    let held = world.subscription("a plan that waits", "widgets", waits).await;
    let installed = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.installed_csv == "others.v1");
    let free = world.subscription("the other to be installed", "others", installed).await;
    let mut told = world.told().await;
    told.sort_by(|one, other| one.2.cmp(&other.2));
    let of = |told: &[(i64, InstallPlanPhase, String)]| {
        told.iter().map(|it| (it.1.clone(), it.2.clone())).collect::<Vec<_>>()
    };
    let expected = [
        (InstallPlanPhase::RequiresApproval, "gears.v1 widgets.v1".to_owned()),
        (InstallPlanPhase::Complete, "others.v1".to_owned()),
    ];
    assert_eq!(of(&told), expected);
    let mut generations: Vec<i64> = told.iter().map(|it| it.0).collect();
    generations.sort_unstable();
    assert_eq!(generations, [1, 2]);
    let name = |it: &Subscription| it.status.as_ref().unwrap().install_plan_ref.as_ref().unwrap().name.clone().unwrap();
    assert_ne!(name(&held), name(&free), "each says which plan is its own");
    let owners = world.installs().get(&name(&held)).await.unwrap().metadata.owner_references.unwrap();
    assert_eq!(owners.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["widgets"]);
    world.approve(&name(&held)).await;
    world.complete(&name(&held)).await;
    assert!(world.found("csv", true, "gears.v1").await.is_some());
    world.cluster.down().await.unwrap();
}

/// However often the catalog changes, one plan waits for an approval at any time, and those before it have ended.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn at_most_one_plan_waits_over_a_hundred_changes_of_the_catalog() {
    let world = World::up().await;
    let mut versions = vec![Version::new("widgets.v1")];
    world.offer(&versions).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.subscribe("widgets", &json!({"installPlanApproval": "Manual"})).await;
    world.group("one").await;
    world.start();
    world.subscription("the first plan", "widgets", waits).await;
    for change in 2..=CHANGES + 1 {
        let before = versions.last().unwrap().name;
        let next = Version { replaces: before, ..Version::new(leaked(format!("widgets.v{change}"))) };
        versions.push(next.clone());
        // The others are in the registry.
        let image = next.push(&world.cluster.registry()).await.unwrap();
        let tag = world.offer_as(change, &versions, &image).await;
        let spec = json!({"spec": {"image": tag}});
        world.sources("shop").patch("main", &Default::default(), &kube::api::Patch::Merge(spec)).await.unwrap();
        let current = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.current_csv == next.name);
        let found = world.subscription(next.name, "widgets", current).await;
        let told = world.told().await;
        let expected = [(InstallPlanPhase::RequiresApproval, next.name.to_owned())];
        let waiting: Vec<_> = told.iter().map(|it| (it.1.clone(), it.2.clone())).collect();
        assert_eq!(waiting, expected, "change {change}");
        let named = found.status.unwrap().install_plan_ref.unwrap().name;
        assert_eq!(named, world.plans().await[0].metadata.name, "change {change}");
    }
    world.cluster.down().await.unwrap();
}

impl World {
    /// Another catalog of these versions, of which only the image of the last one counts. Returns its name.
    async fn offer_as(&self, number: usize, versions: &[Version], image: &str) -> String {
        let offered: Vec<(Version, String)> =
            versions.iter().map(|version| (version.clone(), image.to_owned())).collect();
        let text = e2e::operators::catalog(&offered);
        let name = format!("catalogs/main:v{number}");
        super::super::push(&self.cluster.registry(), &name, &[("configs/catalog.json", text.as_bytes())], &[]).await;
        self.image(&name)
    }
}
