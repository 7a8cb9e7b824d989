//! Subscriptions whose bundles or catalogs are not to be had, until they are.

use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::cluster_service_version::Phase;
use cvo::testing::api::olm::subscription::Subscription;
use e2e::conditions::Conditions;
use e2e::harness::Options;
use e2e::olm;
use e2e::operators::{Version, catalog};
use k8s_openapi::api::core::v1::{Event, ResourceQuota};
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
    world.down_with_rights().await;
}

/// As long as a catalog that the namespace sees is away, nothing new is installed there, and the condition names it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
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
    let ready = |it: &CatalogSource| it.has("ContentLoaded=True");
    world.until("its content", ("shop", "other"), ready).await;
    let begun = Instant::now();
    let planned = |it: &Subscription| it.status.as_ref().is_some_and(|it| it.current_csv == "widgets.v2");
    world.subscription("it to go on again", "widgets", planned).await;
    println!("planned {:?} after the catalog was back", begun.elapsed());
    world.csv("widgets.v2", &Phase::Succeeded).await;
    assert_eq!(world.complete_plans().await, [["widgets.v1"], ["widgets.v2"]]);
    world.down_with_rights().await;
}

/// What the API server says of a plan that it does not take stands in the condition, until it takes it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn plan_that_a_quota_refuses_is_made_once_it_may_be() {
    let world = with_rights().await;
    const COUNT: &str = "count/installplans.operators.coreos.com";
    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "none", "namespace": "shop"},
        "spec": {"hard": {COUNT: "0"}}});
    world.apply(&quota).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(world.client.clone(), "shop");
    let counts = |it: &ResourceQuota| {
        it.status.as_ref().and_then(|it| it.hard.as_ref()).is_some_and(|hard| hard.contains_key(COUNT))
    };
    world.cluster.until("the quota to count", &[]).within(LIMIT).existing(quotas, "none", counts).await.unwrap();
    let version = Version::new("widgets.v1");
    world.offer(std::slice::from_ref(&version)).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.subscribe("widgets", &Value::Null).await;
    let (reason, text) = world.unpack_failed("quota: none").await;
    assert_eq!(reason, "EnsureInstallPlanFailed", "{text}");
    world.kubectl("delete resourcequota none -n shop").await;
    world.csv("widgets.v1", &Phase::Succeeded).await;
    assert_eq!(world.complete_plans().await, [["widgets.v1"]]);
    world.cluster.down().await.unwrap();
}

/// A version with an object that no API server takes: the plan ends, and nothing of it was written. A catalog that offers another one
/// instead leads on from what is installed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn plan_with_an_object_that_is_refused_writes_nothing_and_the_next_version_goes_on() {
    let world = World::with(Options { registry: true, audit: true, kwok: true, ..Options::default() }).await;
    world.cluster.add_fake_nodes(0..1).await.unwrap();
    olm::grant(&world.cluster).await.unwrap();
    let process = olm::limited(&world.cluster, &world.catalog_ports).unwrap().log_level("info,cvo=debug");
    let process = process.flag("--secure-port", "0").flag("--install-plan-retry-timeout", "2s");
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    let first = Version::new("widgets.v1");
    let second = Version { kind: "Widget", replaces: "widgets.v1", ..Version::new("widgets.v2") };
    let third = Version { kind: "Widget", replaces: "widgets.v1", ..Version::new("widgets.v3") };
    let registry = world.cluster.registry();
    let refused = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "widgets&invalid"}}).to_string();
    let image = second.push_with(&registry, &[("manifests/refused.yaml", refused.as_bytes())]).await.unwrap();
    let of_first = first.push(&registry).await.unwrap();
    let offer = async |versions: &[(Version, String)]| {
        let text = catalog(versions);
        push(&registry, "catalogs/main:v1", &[("configs/catalog.json", text.as_bytes())], &[]).await
    };
    offer(&[(first.clone(), of_first.clone()), (second, image)]).await;
    let poll = json!({"registryPoll": {"interval": "10s"}});
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1"), "updateStrategy": poll});
    world.create("shop", "main", spec).await;
    world.group("one").await;
    world.subscribe("widgets", &json!({"startingCSV": "widgets.v1"})).await;
    let failed = |it: &Subscription| condition(it, "InstallPlanFailed").is_some();
    let found = world.subscription("the plan to fail", "widgets", failed).await;
    let (reason, text) = condition(&found, "InstallPlanFailed").unwrap();
    assert_eq!(reason, "InstallComponentFailed", "{text}");
    assert!(text.contains("widgets&invalid"), "{text}");
    world.csv("widgets.v1", &Phase::Succeeded).await;
    let left = "get csv,crd,configmap,serviceaccount,role -n shop -o name";
    let left = world.kubectl(left).await;
    assert!(!left.contains("widgets.v2") && !left.contains("widgets.widgets.example.com"), "{left}");
    let of_third = third.push(&registry).await.unwrap();
    offer(&[(first, of_first), (third, of_third)]).await;
    world.csv("widgets.v3", &Phase::Succeeded).await;
    world.csv_gone("widgets.v1").await;
    world.cluster.down().await.unwrap();
}

const SHARED: [&str; 4] =
    ["serviceaccount widgets", "service widgets", "configmap widgets", "deployment widgets-operator"];

impl World {
    /// Uid of each of what versions share, the names of its owners, and how often the Deployment was rolled out.
    async fn shared(&self) -> (Vec<Value>, Vec<Vec<String>>, u32) {
        let (mut uids, mut owners, mut roll_outs) = (Vec::new(), Vec::new(), 0);
        for object in SHARED {
            let text = self.kubectl(&format!("get {object} -n shop -o json")).await;
            let object: Value = serde_json::from_str(&text).unwrap();
            uids.push(object["metadata"]["uid"].clone());
            let all = object["metadata"]["ownerReferences"].as_array().into_iter().flatten();
            owners.push(all.map(|it| it["name"].as_str().unwrap().to_owned()).collect());
            let revision = &object["metadata"]["annotations"]["deployment.kubernetes.io/revision"];
            roll_outs += revision.as_str().map_or(0, |it| it.parse().unwrap());
        }
        (uids, owners, roll_outs)
    }
}

/// What versions share is handed on before the older one goes, so that the collector takes none of it along.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn what_versions_share_outlives_each_of_them() {
    let world = with_rights().await;
    let names = ["widgets.v1", "widgets.v2", "widgets.v3"];
    let registry = world.cluster.registry();
    let object = |kind: &str, rest: Value| {
        let mut object = json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "widgets"}});
        object.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
        object.to_string()
    };
    let service =
        object("Service", json!({"spec": {"ports": [{"port": 443, "name": "https"}], "selector": {"app": "widgets"}}}));
    let map = object("ConfigMap", json!({"data": {"color": "blue"}}));
    let more = [("manifests/service.yaml", service.as_bytes()), ("manifests/map.yaml", map.as_bytes())];
    let (mut offered, mut before) = (Vec::new(), "");
    for name in names {
        let version = Version { replaces: before, ..Version::new(name) };
        let image = version.push_with(&registry, &more).await.unwrap();
        offered.push((version, image));
        before = name;
    }
    let text = catalog(&offered);
    push(&registry, "catalogs/main:v1", &[("configs/catalog.json", text.as_bytes())], &[]).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.subscribe("widgets", &json!({"startingCSV": names[0], "installPlanApproval": "Manual"})).await;
    let mut first = Vec::new();
    for (at, name) in names.into_iter().enumerate() {
        let waits = |it: &Subscription| {
            let planned = it.status.as_ref().is_some_and(|it| it.current_csv == name);
            planned && condition(it, "InstallPlanPending").is_some_and(|(reason, _)| reason == "RequiresApproval")
        };
        let waits = world.subscription(&format!("a plan for {name}"), "widgets", waits).await;
        let plan = waits.status.unwrap().install_plan_ref.unwrap().name.unwrap();
        world
            .kubectl(&format!("patch installplan {plan} -n shop --type=merge -p {{\"spec\":{{\"approved\":true}}}}"))
            .await;
        world.csv(name, &Phase::Succeeded).await;
        if at > 0 {
            world.csv_gone(names[at - 1]).await;
        }
        let now = world.shared().await;
        assert!(now.1.iter().all(|owners| owners.iter().any(|it| it == name)), "{:?}", now.1);
        assert_eq!(now.2, at as u32 + 1, "the Deployment is rolled out once a version");
        if at == 0 {
            first = now.0;
        } else {
            assert_eq!(now.0, first, "{name}");
        }
    }
    // Once the collector has looked at all of them, which it begins to do half a minute after the definition of the owners was made.
    let alone = vec![vec![names[2].to_owned()]; SHARED.len()];
    let wait = world.cluster.until("the last version to be the only owner", &[PROCESS]).within(LIMIT * 4);
    let left = wait.answer(async || {
        let found = world.shared().await;
        anyhow::ensure!(found.1 == alone, "{:?}", found.1);
        anyhow::Ok(found)
    });
    let left = left.await.unwrap();
    assert_eq!((left.0, left.2), (first, 3));
    world.down_with_rights().await;
}
