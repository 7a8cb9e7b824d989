//! Subscriptions: what is planned for them, and what they say.

use cvo::testing::api::olm::install_plan::InstallPlan;
use cvo::testing::api::olm::subscription::{State, Subscription};
use e2e::operators::{Version, catalog};
use kube::Api;
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World, push};

impl World {
    /// A catalog `main` of these versions in the namespace `shop`.
    pub(super) async fn offer(&self, versions: &[Version]) {
        let registry = self.cluster.registry();
        let mut offered = Vec::new();
        for version in versions {
            offered.push((version.clone(), version.push(&registry).await.unwrap()));
        }
        let text = catalog(&offered);
        push(&registry, "catalogs/main:v1", &[("configs/catalog.json", text.as_bytes())], &[]).await;
    }

    pub(super) async fn subscribe(&self, package: &str, more: &Value) {
        let mut spec = json!({"name": package, "channel": "stable", "source": "main", "sourceNamespace": "shop"});
        let all = spec.as_object_mut().unwrap();
        all.extend(more.as_object().into_iter().flatten().map(|(key, value)| (key.clone(), value.clone())));
        let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
            "metadata": {"name": package, "namespace": "shop"}, "spec": spec});
        self.apply(&object).await;
    }

    pub(super) async fn group(&self, name: &str) {
        let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": name, "namespace": "shop"}, "spec": {"targetNamespaces": ["shop"]}});
        self.apply(&object).await;
    }

    pub(super) async fn subscription(
        &self,
        what: &str,
        name: &str,
        ok: impl FnMut(&Subscription) -> bool,
    ) -> Subscription {
        let api: Api<Subscription> = Api::namespaced(self.client.clone(), "shop");
        self.cluster.until(what, &[PROCESS]).within(LIMIT).existing(api, name, ok).await.unwrap()
    }

    pub(super) async fn plans(&self) -> Vec<InstallPlan> {
        let api: Api<InstallPlan> = Api::namespaced(self.client.clone(), "shop");
        api.list(&Default::default()).await.unwrap().items
    }
}

/// Reason and message of a condition that is true.
pub(super) fn condition(subscription: &Subscription, type_: &str) -> Option<(String, String)> {
    let status = json!(subscription);
    let all = status.pointer("/status/conditions")?.as_array()?.clone();
    let found = all.into_iter().find(|it| it["type"] == type_ && it["status"] == "True")?;
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    Some((text("reason"), text("message")))
}

/// Without a group nothing is looked for. With one a plan is made that waits for an approval, and a newer content of the catalog takes
/// its place.
#[tokio::test(flavor = "multi_thread")]
async fn plan_is_made_for_subscriptions_and_what_they_depend_on() {
    let world = World::up().await;
    let gears = Version { kind: "Gear", ..Version::new("gears.v1") };
    let widgets = Version { kind: "Widget", requires: ("Gear", "gears.example.com"), ..Version::new("widgets.v1") };
    world.offer(&[gears.clone(), widgets.clone()]).await;
    world.start();
    world
        .create(
            "shop",
            "main",
            json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1"),
        "updateStrategy": {"registryPoll": {"interval": "10s"}}}),
        )
        .await;
    world.subscribe("widgets", &json!({"installPlanApproval": "Manual"})).await;
    let expected = "found 0 operatorGroups, expected 1";
    let said = |it: &Subscription| condition(it, "ResolutionFailed").is_some_and(|(_, text)| text == expected);
    world.subscription("what is missing", "widgets", said).await;
    world.group("one").await;
    let pending =
        |it: &Subscription| condition(it, "InstallPlanPending").is_some_and(|(reason, _)| reason == "RequiresApproval");
    let found = world.subscription("a plan", "widgets", pending).await;
    let status = found.status.as_ref().unwrap();
    assert_eq!((status.current_csv.as_str(), &status.state), ("widgets.v1", &State::UpgradePending));
    assert_eq!(condition(&found, "ResolutionFailed"), None);
    let [plan] = &world.plans().await[..] else { panic!("one plan") };
    assert_eq!(plan.spec.cluster_service_version_names, ["gears.v1", "widgets.v1"]);
    let steps =
        plan.status.as_ref().unwrap().plan.iter().map(|step| format!("{} {}", step.resource.kind, step.resource.name));
    let steps: Vec<String> = steps.collect();
    for expected in [
        "ClusterServiceVersion widgets.v1",
        "CustomResourceDefinition gears.gears.example.com",
        "Subscription gears-stable-main-shop",
        "ServiceAccount widgets",
    ] {
        assert!(steps.iter().any(|step| step == expected), "{expected} is not in {steps:?}");
    }
    // A restart changes nothing.
    world.cluster.kill(PROCESS).unwrap();
    world.start();
    let next = Version { kind: "Widget", replaces: "widgets.v1", ..Version::new("widgets.v2") };
    world.offer(&[gears, widgets, next]).await;
    let chosen = |it: &Subscription| it.status.as_ref().is_some_and(|status| status.current_csv == "widgets.v2");
    world.subscription("the newer version", "widgets", chosen).await;
    let [newer] = &world.plans().await[..] else { panic!("one plan") };
    assert_eq!(newer.spec.cluster_service_version_names, ["widgets.v2"]);
    assert!(newer.metadata.uid != plan.metadata.uid);
    world.cluster.down().await.unwrap();
}
