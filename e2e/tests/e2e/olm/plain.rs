//! Catalogs on Kubernetes without the platform: no kind of `config.openshift.io` is served.

use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::cluster_service_version::Phase;
use cvo::testing::api::olm::subscription::{State, Subscription};
use cvo::testing::api::olm::{GLOBAL_CATALOG_NAMESPACE, NAMESPACE};
use e2e::conditions::Conditions;
use e2e::harness::{Cluster, Options, named};
use e2e::olm;
use e2e::operators::Version;
use e2e::until::until;
use e2e::workspace;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use serde_json::json;

use super::{LIMIT, PORTS, PROCESS, World};

/// What is said of the kinds that are not there.
const WITHOUT: &str = "the cluster does not have these kinds";

impl World {
    /// Without the kinds of the platform.
    async fn plain() -> World {
        let cluster = Cluster::up(Options { registry: true, kwok: true, ..Options::default() }).await.unwrap();
        let client = cluster.client().await.unwrap();
        for entry in std::fs::read_dir(workspace::root().join("manifests/olm")).unwrap() {
            let path = entry.unwrap().path().display().to_string();
            if path.contains("0000_50_olm_01_") {
                cluster.kubectl(["apply", "--server-side", "-f", &path]).await.unwrap();
            }
        }
        let all = ["wait", "--for=condition=Established", "--timeout=60s", "crd", "--all"];
        cluster.kubectl(all).await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for name in [NAMESPACE, GLOBAL_CATALOG_NAMESPACE, "shop"] {
            let namespace = Namespace { metadata: named(name), ..Namespace::default() };
            namespaces.create(&Default::default(), &namespace).await.unwrap();
        }
        let catalog_ports = olm::catalog_ports(&cluster, PORTS).unwrap();
        World { cluster, client, catalog_ports }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn catalogs_work_without_the_kinds_of_the_platform_and_that_is_said_once() {
    let world = World::plain().await;
    world.push("catalogs/one:v1", "one", &[]).await;
    world.start();
    let spec = json!({"sourceType": "grpc", "image": world.image("catalogs/one:v1"),
        "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    world.create("shop", "one", spec).await;
    let loaded = world.until("the catalog", ("shop", "one"), |it| it.has("ContentLoaded=True")).await;
    assert_eq!(loaded.status.as_ref().unwrap().reason, "");
    let ready = until("the process to be ready", LIMIT);
    ready.answer(async || world.is_ready(PROCESS).await.then_some(()).ok_or("not ready")).await.unwrap();
    let polled = |source: &CatalogSource| source.status.as_ref()?.latest_image_registry_poll.clone().map(|time| time.0);
    let first = polled(&loaded);
    world.until("a poll", ("shop", "one"), |it| polled(it) != first).await;
    let log = std::fs::read_to_string(world.cluster.log(PROCESS)).unwrap();
    assert_eq!(log.matches(WITHOUT).count(), 1, "{log}");
    for words in ["OperatorHub", "ClusterOperator"] {
        assert!(log.lines().any(|line| line.contains(WITHOUT) && line.contains(words)), "{words}: {log}");
    }
    for words in ["objects not followed", "cannot write", "WARN", "ERROR"] {
        assert!(!log.contains(words), "{words}: {log}");
    }
    world.cluster.down().await.unwrap();
}

/// With the rights of the release and no others.
#[tokio::test(flavor = "multi_thread")]
async fn subscription_becomes_an_operator_that_runs_and_is_updated() {
    let world = World::plain().await;
    world.cluster.add_fake_nodes(0..1).await.unwrap();
    olm::grant(&world.cluster).await.unwrap();
    world.start_with_rights();
    let first = Version { kind: "Gear", ..Version::new("gears.v1") };
    let next = Version { name: "gears.v2", replaces: "gears.v1", ..first.clone() };
    world.offer(&[first, next]).await;
    world.create("shop", "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.subscribe("gears", &json!({"startingCSV": "gears.v1"})).await;
    let at_head = |it: &Subscription| {
        it.status.as_ref().is_some_and(|it| it.installed_csv == "gears.v2" && it.state == State::AtLatestKnown)
    };
    world.subscription("the head", "gears", at_head).await;
    world.csv("gears.v2", &Phase::Succeeded).await;
    world.csv_gone("gears.v1").await;
    assert_eq!(world.complete_plans().await, [["gears.v1"], ["gears.v2"]]);
    let log = std::fs::read_to_string(world.cluster.log(PROCESS)).unwrap();
    for words in ["objects not followed", "cannot write", "ERROR"] {
        assert!(!log.contains(words), "{words}: {log}");
    }
    world.cluster.down().await.unwrap();
}
