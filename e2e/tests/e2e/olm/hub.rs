//! The default catalogs of the release, and what OperatorHub says of them.

use std::collections::BTreeMap;

use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::operator_hub::OperatorHub;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World};

const CONFIG: &str = "default-catalog-sources";

/// Two default catalogs with this tag.
fn data(world: &World, tag: &str) -> Value {
    let source = |name: &str| {
        json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "CatalogSource", "metadata": {"name": name},
            "spec": {"sourceType": "grpc", "image": world.image(&format!("catalogs/{name}:{tag}"))}})
        .to_string()
    };
    json!({"one": source("one"), "two": source("two")})
}

impl World {
    /// Waits until the CatalogSource has this image, or is gone.
    async fn image_of(&self, name: &str, image: Option<String>) -> Option<CatalogSource> {
        let what = format!("{name} to be {image:?}");
        let wait = self.cluster.until(what, &[PROCESS]).within(LIMIT);
        let is_so = |source: Option<&CatalogSource>| {
            let live = source.filter(|source| source.metadata.deletion_timestamp.is_none());
            live.map(|source| &source.spec.image) == image.as_ref()
        };
        wait.object(self.sources(GLOBAL_CATALOG_NAMESPACE), name, is_so).await.unwrap()
    }

    async fn hub(&self, spec: Value) {
        let hubs: Api<OperatorHub> = Api::all(self.client.clone());
        hubs.patch("cluster", &PatchParams::default(), &Patch::Merge(json!({"spec": spec}))).await.unwrap();
    }

    /// Waits until OperatorHub says of each whether it is disabled.
    async fn hub_says(&self, expected: &[(&str, bool)]) {
        let hubs: Api<OperatorHub> = Api::all(self.client.clone());
        let expected: BTreeMap<&str, (bool, &str)> =
            expected.iter().map(|(name, disabled)| (*name, (*disabled, "Success"))).collect();
        let says = |hub: &OperatorHub| {
            let sources = hub.status.iter().flat_map(|status| &status.sources);
            let said: BTreeMap<&str, (bool, &str)> =
                sources.map(|it| (it.name.as_str(), (it.disabled, it.status.as_str()))).collect();
            said == expected
        };
        let wait = self.cluster.until(format!("OperatorHub to say {expected:?}"), &[PROCESS]).within(LIMIT);
        wait.existing(hubs, "cluster", says).await.unwrap();
    }
}

/// They are made, repaired, moved with the release, and removed as OperatorHub says. Others are left alone.
#[tokio::test(flavor = "multi_thread")]
async fn default_catalogs_follow_the_release_and_operator_hub() {
    let world = World::up().await;
    for image in ["catalogs/one:v1", "catalogs/two:v1"] {
        world.push(image, "one", &[]).await;
    }
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), GLOBAL_CATALOG_NAMESPACE);
    let map = json!({"metadata": {"name": CONFIG}, "data": data(&world, "v1")});
    maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    let hubs: Api<OperatorHub> = Api::all(world.client.clone());
    hubs.create(&Default::default(), &OperatorHub::new("cluster", Default::default())).await.unwrap();
    let custom = json!({"sourceType": "grpc", "image": world.image("catalogs/one:v1")});
    world.create(GLOBAL_CATALOG_NAMESPACE, "custom", custom).await;
    world.start();
    let image = |name: &str, tag: &str| Some(world.image(&format!("catalogs/{name}:{tag}")));
    let first = world.image_of("two", image("two", "v1")).await.unwrap();
    world.image_of("one", image("one", "v1")).await;
    world.hub_says(&[("one", false), ("two", false)]).await;

    // Changed and deleted ones are back.
    let sources = world.sources(GLOBAL_CATALOG_NAMESPACE);
    let patch = Patch::Merge(json!({"spec": {"image": "registry.invalid/other:v1"}}));
    sources.patch("one", &PatchParams::default(), &patch).await.unwrap();
    world.image_of("one", image("one", "v1")).await;
    sources.delete("two", &Default::default()).await.unwrap();
    let wait = world.cluster.until("the deleted one to be back", &[PROCESS]).within(LIMIT);
    wait.existing(sources.clone(), "two", |it| it.metadata.uid != first.metadata.uid).await.unwrap();

    // The next release names other images.
    let patch = Patch::Merge(json!({"data": data(&world, "v2")}));
    maps.patch(CONFIG, &PatchParams::default(), &patch).await.unwrap();
    world.image_of("one", image("one", "v2")).await;
    world.image_of("two", image("two", "v2")).await;

    let one = |disabled: bool| json!([{"name": "one", "disabled": disabled}]);
    world.hub(json!({"disableAllDefaultSources": true, "sources": []})).await;
    world.image_of("one", None).await;
    world.image_of("two", None).await;
    world.hub_says(&[("one", true), ("two", true)]).await;
    world.hub(json!({"sources": one(false)})).await;
    world.image_of("one", image("one", "v2")).await;
    world.hub_says(&[("one", false), ("two", true)]).await;
    assert!(sources.get_opt("two").await.unwrap().is_none());
    world.hub(json!({"disableAllDefaultSources": false, "sources": one(true)})).await;
    world.image_of("two", image("two", "v2")).await;
    world.image_of("one", None).await;
    world.hub_says(&[("one", true), ("two", false)]).await;

    let custom = sources.get("custom").await.unwrap();
    assert_eq!(Some(custom.spec.image), image("one", "v1"), "nobody's default");
    world.cluster.down().await.unwrap();
}
