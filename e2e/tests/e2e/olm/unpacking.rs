//! Subscriptions whose bundles or catalogs are not to be had, until they are.

use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::cluster_service_version::Phase;
use cvo::testing::api::olm::subscription::Subscription;
use e2e::operators::{Version, catalog};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use serde_json::{Value, json};
use std::time::Instant;

use super::subscriptions::{condition, with_rights};
use super::{LIMIT, PROCESS, World, push};

impl World {
    /// A catalog `main` of one version, whose bundle is at `image` of the registry, wherever that is.
    async fn offer_unseen(&self, version: &Version, image: &str) {
        let text = catalog(&[(version.clone(), self.image(image))]);
        push(&self.cluster.registry(), "catalogs/main:v1", &[("configs/catalog.json", text.as_bytes())], &[]).await;
        self.create("shop", "main", json!({"sourceType": "grpc", "image": self.image("catalogs/main:v1")})).await;
    }

    /// As `group`; what cannot be fetched is tried again after a second.
    async fn impatient_group(&self) {
        let object = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "one", "namespace": "shop",
                "annotations": {"operatorframework.io/bundle-unpack-min-retry-interval": "1s"}},
            "spec": {"targetNamespaces": ["shop"]}});
        self.apply(&object).await;
    }

    /// What is said of the bundle of `widgets`, as soon as it has one of these words.
    async fn unpack_failed(&self, words: &str) -> (String, String) {
        let failed = |it: &Subscription| condition(it, "BundleUnpackFailed");
        let said = |it: &Subscription| failed(it).is_some_and(|(_, text)| text.contains(words));
        let found = self.subscription(&format!("its bundle to fail: {words}"), "widgets", said).await;
        failed(&found).unwrap()
    }
}

impl World {
    /// An event of the namespace of this reason, about an object of this kind.
    pub(super) async fn event(&self, reason: &str, kind: &str) -> Event {
        let events: Api<Event> = Api::namespaced(self.client.clone(), "shop");
        let wait = self.cluster.until(format!("an event {reason}"), &[PROCESS]).within(LIMIT);
        let is_it =
            |it: &Event| it.reason.as_deref() == Some(reason) && it.involved_object.kind.as_deref() == Some(kind);
        let changes = e2e::until::changes(events, kube::runtime::watcher::Config::default());
        wait.event(changes, |it: &Event| is_it(it).then(|| it.clone())).await.unwrap()
    }
}

/// A bundle that the registry does not have, then one that is none, over a restart of the API server. Nobody does anything but push the
/// right one.
#[tokio::test(flavor = "multi_thread")]
async fn bundle_that_is_missing_or_broken_is_installed_once_it_can_be() {
    let world = with_rights().await;
    let version = Version { kind: "Widget", ..Version::new("widgets.v1") };
    world.offer_unseen(&version, &version.repository()).await;
    world.impatient_group().await;
    world.subscribe("widgets", &Value::Null).await;
    let (reason, text) = world.unpack_failed("bundle widgets.v1").await;
    assert_eq!(reason, "BundleUnpackFailed", "{text}");
    assert!(text.contains(&world.image(&version.repository())), "{text}");
    assert!(world.plans().await.is_empty(), "no plan is made before its content is there");
    let event = world.event("BundleUnpackFailed", "Subscription").await;
    assert_eq!((event.type_.as_deref(), event.involved_object.name.as_deref()), (Some("Warning"), Some("widgets")));
    assert!(event.message.is_some_and(|text| text.contains("widgets.v1")));

    let registry = world.cluster.registry();
    push(&registry, &version.repository(), &[("metadata/annotations.yaml", b"annotations: {}\n")], &[]).await;
    let (reason, text) = world.unpack_failed("manifests").await;
    assert_eq!(reason, "ErrorPreventedUnpacking", "{text}");
    assert!(world.plans().await.is_empty());

    world.cluster.restart_apiserver().await.unwrap();
    version.push(&registry).await.unwrap();
    world.csv("widgets.v1", &Phase::Succeeded).await;
    let found = world.subscription("nothing to fail", "widgets", |it| condition(it, "BundleUnpackFailed").is_none());
    assert_eq!(condition(&found.await, "BundleUnpacking"), None);
    assert_eq!(world.complete_plans().await, [["widgets.v1"]]);
    world.cluster.down().await.unwrap();
}

/// As long as a catalog that the namespace sees is away, nothing new is installed there, and the condition names it.
#[tokio::test(flavor = "multi_thread")]
async fn catalog_that_is_away_holds_what_is_new_until_it_is_back_or_removed() {
    let world = with_rights().await;
    let version = Version::new("widgets.v1");
    world.offer(std::slice::from_ref(&version)).await;
    for (name, image) in [("main", "catalogs/main:v1"), ("other", "catalogs/other:v1")] {
        let poll = json!({"registryPoll": {"interval": "10s"}});
        let spec = json!({"sourceType": "grpc", "image": world.image(image), "updateStrategy": poll});
        world.create("shop", name, spec).await;
    }
    world.group("one").await;
    world.subscribe("widgets", &Value::Null).await;
    let said = |it: &Subscription| {
        let unhealthy = condition(it, "CatalogSourcesUnhealthy").unwrap_or_default().1;
        let failed = condition(it, "ResolutionFailed").unwrap_or_default().1;
        unhealthy.contains("shop/other") && failed.contains("other") && !unhealthy.contains("shop/main")
    };
    world.subscription("the catalog to be named", "widgets", said).await;
    assert!(world.plans().await.is_empty());
    let event = world.event("ResolutionFailed", "Namespace").await;
    assert_eq!((event.type_.as_deref(), event.involved_object.name.as_deref()), (Some("Warning"), Some("shop")));
    let begun = Instant::now();
    let api: Api<CatalogSource> = world.sources("shop");
    api.delete("other", &Default::default()).await.unwrap();
    let planned = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.install_plan_ref.is_some());
    let found = world.subscription("it to go on", "widgets", planned).await;
    println!("planned {:?} after the catalog was removed", begun.elapsed());
    assert_eq!(condition(&found, "CatalogSourcesUnhealthy"), None);
    world.csv("widgets.v1", &Phase::Succeeded).await;

    // Again, and what is installed already goes on running. It is back as soon as there is an image.
    let next = Version { replaces: "widgets.v1", ..Version::new("widgets.v2") };
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/other:v1")});
    world.create("shop", "other", spec).await;
    world.subscription("the catalog to be named again", "widgets", said).await;
    world.offer(&[version, next]).await;
    world.csv("widgets.v1", &Phase::Succeeded).await;
    world.push("catalogs/other:v1", "gears", &[]).await;
    world.csv("widgets.v2", &Phase::Succeeded).await;
    assert_eq!(world.complete_plans().await, [["widgets.v1"], ["widgets.v2"]]);
    world.cluster.down().await.unwrap();
}
