//! CatalogSources: what they say, and what is served.

use cvo::testing::api::ClusterOperator;
use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::conditions::Conditions;
use e2e::harness::Cvo;
use e2e::processes;
use k8s_openapi::api::core::v1::{ConfigMap, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use super::{LIMIT, PROCESS, World, catalog, push};

fn state(source: &CatalogSource) -> Option<Connection> {
    let connection = source.status.as_ref()?.connection_state.as_ref()?;
    Some(connection.last_observed_state.clone())
}

fn is_ready(source: &CatalogSource) -> bool {
    state(source) == Some(Connection::Ready)
}

fn said(source: &CatalogSource) -> (String, String) {
    let status = source.status.clone().unwrap_or_default();
    (status.reason, status.message)
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn olm_process_that_has_only_just_begun_ends_at_once_when_it_is_told_to() {
    let process = ["olm", "start", "--release-version=1.0.0", "--listen=", "--listen-health=", "--listen-catalogs="];
    let process = |folder: &std::path::Path| Cvo::new(process).flag("--catalog-cache-dir", folder);
    processes::assert_ends_when_it_has_only_just_begun(process).await;
}

/// The image is read, its Service leads to this process, and what was read outlives the registry and the process.
#[tokio::test(flavor = "multi_thread")]
async fn catalog_of_an_image_becomes_ready_and_stays_so_without_its_registry() {
    let world = World::up().await;
    let digest = world.push("catalogs/one:v1", "one", &[]).await;
    world.start();
    let image = world.image("catalogs/one:v1");
    let spec = json!({
        "sourceType": "grpc", "image": image, "displayName": "One", "publisher": "Somebody", "priority": -400,
        "grpcPodConfig": {"securityContextConfig": "restricted", "priorityClassName": "system-cluster-critical",
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "node-role.kubernetes.io/master", "operator": "Exists", "effect": "NoSchedule"}]},
        "updateStrategy": {"registryPoll": {"interval": "30m0s"}},
    });
    world.create(GLOBAL_CATALOG_NAMESPACE, "one.catalog", spec).await;
    let id = (GLOBAL_CATALOG_NAMESPACE, "one.catalog");
    let source = world.until("the catalog to be ready", id, is_ready).await;
    let status = source.status.clone().unwrap();
    let connection = status.connection_state.unwrap();
    assert_eq!(connection.address, format!("one-catalog.{GLOBAL_CATALOG_NAMESPACE}.svc:50051"));
    assert!(connection.last_connect.is_some() && status.latest_image_registry_poll.is_some());
    let service = status.registry_service.unwrap();
    assert_eq!((service.protocol.as_str(), service.port.as_str()), ("grpc", "50051"));
    assert_eq!((service.service_name.as_str(), service.service_namespace.as_str()), ("one-catalog", id.0));
    assert!(service.created_at.is_some());
    assert_eq!((status.reason, status.message), (String::new(), String::new()));
    let content = format!("{}@{digest}", image);
    assert_eq!(source.condition("ContentLoaded=True").unwrap().message, content);
    assert_leads_here(&world, id.0, "one-catalog").await;
    let operators: Api<ClusterOperator> = Api::all(world.client.clone());
    for name in ["operator-lifecycle-manager", "operator-lifecycle-manager-catalog", "marketplace"] {
        let wait = world.cluster.until(format!("ClusterOperator {name}"), &[PROCESS]).within(LIMIT);
        let reached = |it: &ClusterOperator| it.has("Available=True") && it.has("Progressing=False");
        let operator = wait.existing(operators.clone(), name, reached).await.unwrap();
        assert_eq!(operator.status.unwrap().versions[0].version, "1.0.0", "{name}");
    }

    // The next process has it from the disk, and writes nothing about it.
    world.cluster.kill("registry").unwrap();
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    let before = world.sources(id.0).get(id.1).await.unwrap();
    world.start();
    let wait = world.cluster.until("the process to be ready", &[PROCESS]).within(LIMIT);
    wait.holds(async || world.is_ready(PROCESS).await).await.unwrap();
    let after = world.sources(id.0).get(id.1).await.unwrap();
    assert_eq!(after.metadata.resource_version, before.metadata.resource_version, "{:?}", after.status);

    // It ends with everything that was made for it.
    world.sources(id.0).delete(id.1, &Default::default()).await.unwrap();
    let services: Api<Service> = Api::namespaced(world.client.clone(), id.0);
    let wait = world.cluster.until("the Service to be gone", &[PROCESS]).within(LIMIT);
    wait.object(services, "one-catalog", |service| service.is_none()).await.unwrap();
    world.cluster.down().await.unwrap();
}

/// The Service has no selector and leads to this process, at a port that is the catalog's own.
async fn assert_leads_here(world: &World, namespace: &str, name: &str) {
    let services: Api<Service> = Api::namespaced(world.client.clone(), namespace);
    let wait = world.cluster.until("the Service", &[PROCESS]).within(LIMIT);
    let service = wait.existing(services, name, |_| true).await.unwrap().spec.unwrap();
    assert_eq!((service.selector, service.ports.unwrap()[0].port), (None, 50051));
    let slices: Api<EndpointSlice> = Api::namespaced(world.client.clone(), namespace);
    let wait = world.cluster.until("the EndpointSlice", &[PROCESS]).within(LIMIT);
    let slice = wait.existing(slices, &format!("{name}-olm"), |_| true).await.unwrap();
    assert_eq!(slice.endpoints.as_ref().unwrap()[0].addresses, ["192.0.2.7"]);
    assert_eq!(slice.ports.unwrap()[0].port, Some(i32::from(*world.catalog_ports.start())));
}

/// Another content of the tag is found at the next poll; one that lacks what is served is not taken.
#[tokio::test(flavor = "multi_thread")]
async fn tag_that_moves_is_followed_and_sick_content_is_not() {
    let world = World::up().await;
    world.push("catalogs/two:v1", "two", &[]).await;
    world.start();
    let image = world.image("catalogs/two:v1");
    let spec = json!({"sourceType": "grpc", "image": image, "updateStrategy": {"registryPoll": {"interval": "1s"}}});
    world.create("shop", "two", spec).await;
    let id = ("shop", "two");
    world.until("the catalog to be ready", id, is_ready).await;
    let both = format!("{}\n{}", catalog("two", "1.0.0"), catalog("three", "1.0.0"));
    let next = push(&world.cluster.registry(), "catalogs/two:v1", &[("configs/c.json", both.as_bytes())], &[]).await;
    let moved = format!("{image}@{next}");
    let source = world.until("the next content", id, |it| it.says("ContentLoaded=True", &[&moved])).await;
    assert_eq!(said(&source), Default::default());

    let sick =
        both.replace("\"defaultChannel\":\"stable\",\"name\":\"two\"", "\"defaultChannel\":\"none\",\"name\":\"two\"");
    assert_ne!(sick, both);
    push(&world.cluster.registry(), "catalogs/two:v1", &[("configs/c.json", sick.as_bytes())], &[]).await;
    let source = world.until("what is wrong to be said", id, |it| said(it).0 == "RegistryServerError").await;
    let message = said(&source).1;
    for words in ["two", "c.json", "none", &moved, "is served meanwhile"] {
        assert!(message.contains(words), "{words}: {message}");
    }
    assert!(is_ready(&source) && source.says("ContentLoaded=True", &[&moved]));
    world.cluster.down().await.unwrap();
}

/// What is wrong is said at each, and all others go on.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_catalog_is_said_with_the_way_out() {
    let world = World::up().await;
    world.push("catalogs/fine:v1", "fine", &[]).await;
    let database = [("operators.operatorframework.io.index.database.v1", "/database/index.db")];
    push(&world.cluster.registry(), "catalogs/old:v1", &[("database/index.db", b"SQLite format 3")], &database).await;
    push(&world.cluster.registry(), "catalogs/empty:v1", &[("other/a", b"a")], &[]).await;
    let service = json!({"metadata": {"name": "taken"}, "spec": {"ports": [{"port": 80}]}});
    let services: Api<Service> = Api::namespaced(world.client.clone(), "shop");
    services.create(&Default::default(), &serde_json::from_value(service).unwrap()).await.unwrap();
    world.start();
    let grpc = |image: &str| json!({"sourceType": "grpc", "image": world.image(image)});
    let table: [(&str, Value, &str, &[&str]); 9] = [
        ("taken", grpc("catalogs/fine:v1"), "RegistryServerError", &["Service shop/taken of others", "delete it"]),
        ("none", json!({"sourceType": "grpc"}), "SpecInvalidError", &["image and address unset"]),
        ("unknown", json!({"sourceType": "other", "image": "a"}), "SpecInvalidError", &["unknown sourcetype: other"]),
        ("no-map", json!({"sourceType": "configmap"}), "SpecInvalidError", &["configmap name unset"]),
        ("absent", json!({"sourceType": "internal", "configMap": "c"}), "ConfigMapError", &["shop/c does not exist"]),
        ("gone", grpc("catalogs/gone:v1"), "RegistryServerError", &["catalogs/gone", "404", "check repository"]),
        ("old", grpc("catalogs/old:v1"), "RegistryServerError", &["pod old-"]),
        ("empty", grpc("catalogs/empty:v1"), "RegistryServerError", &["has no folder /configs", "catalogDir"]),
        (
            "interval",
            json!({"sourceType": "grpc", "image": world.image("catalogs/fine:v1"),
                "updateStrategy": {"registryPoll": {"interval": "often"}}}),
            "InvalidIntervalError",
            &["often", "15m"],
        ),
    ];
    for (name, spec, ..) in &table {
        world.create("shop", name, spec.clone()).await;
    }
    world.create("shop", "fine", grpc("catalogs/fine:v1")).await;
    for (name, _, reason, words) in &table {
        let source = world.until(&format!("{name} to say {reason}"), ("shop", name), |it| said(it).0 == *reason).await;
        let message = said(&source).1;
        assert!(words.iter().all(|words| message.contains(words)), "{name}: {message}");
    }
    world.until("the other catalog to be ready", ("shop", "fine"), is_ready).await;
    world.until("the one with a bad interval as well", ("shop", "interval"), is_ready).await;
    services.delete("taken", &Default::default()).await.unwrap();
    world.until("the name to be free", ("shop", "taken"), |it| said(it).0.is_empty() && is_ready(it)).await;
    world.cluster.down().await.unwrap();
}

/// A catalog in a ConfigMap becomes ready, belongs to its CatalogSource, and follows its ConfigMap.
#[tokio::test(flavor = "multi_thread")]
async fn catalog_in_a_config_map_is_read_without_a_pod() {
    let world = World::up().await;
    world.start();
    let csv = |version: &str| {
        json!([{"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
            "metadata": {"name": format!("etcd.v{version}")},
            "spec": {"version": version, "install": {"strategy": "deployment", "spec": {"deployments": []}}}}])
        .to_string()
    };
    let packages = |version: &str| {
        json!([{"packageName": "etcd", "channels": [{"name": "alpha", "currentCSV": format!("etcd.v{version}")}]}])
            .to_string()
    };
    let data = |version: &str| json!({"clusterServiceVersions": csv(version), "customResourceDefinitions": "[]", "packages": packages(version)});
    let maps: Api<ConfigMap> = Api::namespaced(world.client.clone(), "shop");
    let map = json!({"metadata": {"name": "catalog"}, "data": data("1.0.0")});
    maps.create(&Default::default(), &serde_json::from_value(map).unwrap()).await.unwrap();
    world.create("shop", "etcd", json!({"sourceType": "internal", "configMap": "catalog"})).await;
    let source = world.until("the catalog to be ready", ("shop", "etcd"), is_ready).await;
    let first = source.status.clone().unwrap().config_map_reference.unwrap();
    assert_eq!((first.name.as_str(), first.namespace.as_str()), ("catalog", "shop"));
    let wait = world.cluster.until("the ConfigMap to belong to it", &[PROCESS]).within(LIMIT);
    let owned = |map: &ConfigMap| map.metadata.owner_references.iter().flatten().any(|owner| owner.name == "etcd");
    let map = wait.existing(maps.clone(), "catalog", owned).await.unwrap();
    assert_eq!(map.metadata.labels.unwrap().get("olm.managed").map(String::as_str), Some("false"));
    let patch = Patch::Merge(json!({"data": data("1.1.0")}));
    let version = maps.patch("catalog", &PatchParams::default(), &patch).await.unwrap().metadata.resource_version;
    let named = move |source: &CatalogSource| {
        let reference = source.status.clone().unwrap_or_default().config_map_reference;
        reference.is_some_and(|it| Some(it.resource_version) == version)
    };
    world.until("the next content of the ConfigMap", ("shop", "etcd"), named).await;
    world.cluster.down().await.unwrap();
}

/// Two replicas: the other one reads what the holder of the lease says, and takes over.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn replicas_serve_the_same_and_one_takes_over_from_the_other() {
    let world = World::up().await;
    world.push("catalogs/one:v1", "one", &[]).await;
    world.start();
    world.create("shop", "one", json!({"sourceType": "grpc", "image": world.image("catalogs/one:v1")})).await;
    world.until("the catalog to be ready", ("shop", "one"), is_ready).await;
    world.start_as("second");
    let wait = world.cluster.until("the second to be ready", &[PROCESS, "second"]).within(LIMIT);
    wait.holds(async || world.is_ready("second").await).await.unwrap();
    let log = std::fs::read_to_string(world.cluster.log("second")).unwrap();
    assert!(log.contains("a catalog is read") && log.contains("another process leads"), "{log}");
    assert!(world.cluster.terminate(PROCESS, LIMIT).await.unwrap());
    // What is written now is written by the other one.
    world.create("shop", "bad", json!({"sourceType": "grpc"})).await;
    let wait = world.cluster.until("the second to write", &["second"]).within(LIMIT);
    wait.existing(world.sources("shop"), "bad", |it| said(it).0 == "SpecInvalidError").await.unwrap();
    world.cluster.down().await.unwrap();
}
