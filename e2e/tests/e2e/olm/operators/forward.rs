//! A version that has failed: it holds what is asked for until its OperatorGroup lets a later version take its place that names it.

use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use cvo::testing::api::olm::subscription::{State, Subscription};
use e2e::operators::Version;
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, ResourceExt};
use serde_json::json;

use super::super::World;
use super::super::subscriptions::{condition, with_rights};
use super::{SHOP, csv, group, image};

/// The second one fails.
pub(super) fn widgets() -> [Version; 3] {
    let version = |name, replaces, image| Version { kind: "Widget", replaces, image, ..Version::new(name) };
    let first = version("widgets.v1", "", "registry.invalid/operator:1");
    let second = Version { fails: true, ..version("widgets.v2", "widgets.v1", "registry.invalid/operator:2") };
    [first, second, version("widgets.v3", "widgets.v2", "registry.invalid/operator:3")]
}

impl World {
    async fn deployment(&self) -> Deployment {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), SHOP);
        deployments.get("widgets-operator").await.unwrap()
    }

    /// The group lets a version be replaced that has failed.
    pub(super) async fn fail_forward(&self) {
        let spec = json!({"targetNamespaces": [SHOP], "upgradeStrategy": "TechPreviewUnsafeFailForward"});
        self.apply(&group("one", spec)).await;
    }

    /// Until the Subscription cannot be met, for this reason and with these words.
    async fn refused(&self, name: &str, reason: &str, words: &[&str]) {
        let is_so = |it: &Subscription| {
            condition(it, "ResolutionFailed")
                .is_some_and(|(found, text)| found == reason && words.iter().all(|words| text.contains(words)))
        };
        self.subscription(&format!("{reason}: {words:?}"), name, is_so).await;
    }

    async fn installed(&self, name: &str, csv: &str) {
        let is_so = |it: &Subscription| {
            let status = it.status.as_ref().map(|it| (it.installed_csv.as_str(), &it.state));
            status == Some((csv, &State::AtLatestKnown)) && condition(it, "ResolutionFailed").is_none()
        };
        self.subscription(&format!("{csv} and nothing else"), name, is_so).await;
    }

    fn csvs(&self) -> Api<ClusterServiceVersion> {
        Api::namespaced(self.client.clone(), SHOP)
    }
}

impl World {
    /// A catalog with these versions, which is looked at again each second, and a Subscription that begins with the first one.
    async fn subscribed(&self, versions: &[Version]) {
        self.offer(versions).await;
        let poll = json!({"registryPoll": {"interval": "1s"}});
        let spec = json!({"sourceType": "grpc", "image": self.image("catalogs/main:v1"), "updateStrategy": poll});
        self.create(SHOP, "main", spec).await;
        self.subscribe("widgets", &json!({"startingCSV": "widgets.v1"})).await;
    }
}

/// The new pods never become ready. Those of the version before run on, and the next version waits until the group allows it.
#[tokio::test(flavor = "multi_thread")]
async fn version_that_has_failed_is_replaced_once_its_group_allows_it() {
    let world = with_rights().await;
    world.group("one").await;
    world.subscribed(&widgets()).await;
    let failed = world.csv("widgets.v2", &Phase::Failed).await;
    assert_eq!(failed.status.unwrap().reason, "InstallCheckFailed");
    let deployment = world.deployment().await;
    assert_eq!(deployment.status.as_ref().unwrap().available_replicas, Some(1), "that of the version before");
    // Not allowed: both versions count, and only one of them can.
    let unreferenced = "clusterserviceversion widgets.v1 exists and is not referenced by a subscription";
    world.refused("widgets", "ConstraintsNotSatisfiable", &[unreferenced, "subscription widgets"]).await;
    world.csv("widgets.v1", &Phase::Replacing).await;
    assert!(world.csvs().get_opt("widgets.v3").await.unwrap().is_none());

    world.fail_forward().await;
    let third = world.csv("widgets.v3", &Phase::Succeeded).await;
    assert_eq!(third.spec.replaces, "widgets.v2");
    for name in ["widgets.v1", "widgets.v2"] {
        world.csv_gone(name).await;
    }
    world.installed("widgets", "widgets.v3").await;
    assert_eq!(world.complete_plans().await, [["widgets.v1"], ["widgets.v2"], ["widgets.v3"]]);
    let after = world.deployment().await;
    assert_eq!((after.uid(), image(&after).as_str()), (deployment.uid(), "registry.invalid/operator:3"));
    assert!(after.spec.unwrap().template.spec.unwrap().node_selector.is_none(), "what made it fail is gone");
    world.down_with_rights().await;
}

/// The version that has failed is withdrawn. One that does not name it is no way out, and one whose range has it is.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "waits for catalogs again and again"]
async fn version_that_has_failed_is_left_only_by_one_that_may_replace_it() {
    let world = with_rights().await;
    world.fail_forward().await;
    let [first, failing, _] = widgets();
    world.subscribed(&[first.clone(), failing]).await;
    world.csv("widgets.v2", &Phase::Failed).await;
    // Whoever has installed another operator has looked at what is offered.
    let alone = Version::new("alone.v1");
    let next = Version { name: "widgets.v3", replaces: "widgets.v1", ..first.clone() };
    world.subscribe("alone", &json!({})).await;
    world.offer(&[first.clone(), next.clone(), alone.clone()]).await;
    world.csv("alone.v1", &Phase::Succeeded).await;
    world.installed("widgets", "widgets.v2").await;
    world.csv("widgets.v2", &Phase::Failed).await;
    assert!(world.csvs().get_opt("widgets.v3").await.unwrap().is_none());

    let next = Version { skip_range: ">=2.0.0 <3.0.0", ..next };
    world.offer(&[first, next, alone]).await;
    let third = world.csv("widgets.v3", &Phase::Succeeded).await;
    assert_eq!(third.spec.replaces, "widgets.v2");
    for name in ["widgets.v1", "widgets.v2"] {
        world.csv_gone(name).await;
    }
    unfinished(&world).await;
    world.down_with_rights().await;
}

/// Before a version that has failed stands one that has never been installed: nobody can say what counts, so that nothing is looked for
/// until one of them is gone.
async fn unfinished(world: &World) {
    let mut waiting = csv("1.0.0", "");
    waiting["spec"]["minKubeVersion"] = json!("99.0.0");
    world.apply(&waiting).await;
    world.csv("server.v1.0.0", &Phase::Pending).await;
    let mut failing = csv("2.0.0", "1.0.0");
    failing["spec"]["install"]["strategy"] = json!("none");
    world.apply(&failing).await;
    world.csv("server.v2.0.0", &Phase::Failed).await;
    let words = "csv shop/server.v1.0.0 in phase Pending instead of Replacing";
    world.refused("widgets", "ErrorPreventedResolution", &[words]).await;
    world.kubectl("delete csv server.v2.0.0 -n shop --wait=false").await;
    world.installed("widgets", "widgets.v3").await;
}
