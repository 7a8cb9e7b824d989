//! The metrics of operators, as the Prometheus of the platform has them: series come with their objects and end with them.

use cvo::testing::api::olm::cluster_service_version::Phase;
use e2e::harness::Options;
use e2e::olm::{self, GROUPS, PROCESS, Start};
use e2e::operators::{Version, catalog};
use e2e::services::monitoring::Monitoring;
use e2e::until::until;
use serde_json::json;

use super::super::node_pods::scraped;
use super::super::{World, push};
use super::forward::widgets;
use super::{COLLECTED, SHOP};

/// Each of these queries has the value 1.
async fn shows(monitoring: &Monitoring, queries: &[&str]) {
    for query in queries {
        // Prometheus has no way to wait for a scrape.
        let shown = async || match monitoring.matches(query).await {
            Ok(true) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        until(*query, COLLECTED).answer(shown).await.unwrap();
    }
}

impl World {
    /// The same versions, of which the first one brings an object that the API server warns of.
    async fn offer_with_a_warning(&self) {
        let [first, second, third] = widgets();
        let (registry, mut offered) = (self.cluster.registry(), Vec::<(Version, String)>::new());
        let warned = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "warned"}, "nonsense": true});
        let image =
            first.push_with(&registry, &[("manifests/warned.yaml", warned.to_string().as_bytes())]).await.unwrap();
        offered.push((first, image));
        for version in [second, third] {
            let image = version.push(&registry).await.unwrap();
            offered.push((version, image));
        }
        push(&registry, "catalogs/main:v1", &[("configs/catalog.json", catalog(&offered).as_bytes())], &[]).await;
    }
}

/// A cluster with a Prometheus that asks the process for its metrics.
async fn watched() -> (World, Monitoring) {
    let options = Options { registry: true, audit: true, kwok: true, ..Options::default() };
    let world = World::with(options).await;
    world.cluster.add_fake_nodes(0..1).await.unwrap();
    olm::grant(&world.cluster).await.unwrap();
    let port = world.cluster.port("metrics");
    let monitoring = Monitoring::start_with(&world.cluster, &scraped(&world.cluster, port)).await.unwrap();
    let start = Start {
        name: PROCESS,
        groups: &GROUPS,
        address: "127.0.0.1",
        catalog_ports: &world.catalog_ports,
        pod_ip: "192.0.2.7",
        metrics: &format!("127.0.0.1:{port}"),
    };
    let process = olm::started(&world.cluster, start).unwrap().log_level("info,cvo=debug").flag("--secure-port", "0");
    world.cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
    (world, monitoring)
}

/// The labels of the series of a version, and more of them.
fn of(name: &str, labels: &str) -> String {
    format!("{{namespace=\"shop\",name=\"widgets.v{name}\",version=\"{name}.0.0\"{labels}}}")
}

/// That the Subscription was looked at with this version.
fn synced(installed: &str) -> String {
    format!(
        "subscription_sync_total{{name=\"widgets\",installed=\"widgets.v{installed}\",channel=\"stable\",package=\"widgets\",\
         approval=\"Automatic\"}} > bool 0"
    )
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "with a Prometheus"]
async fn series_come_with_operators_and_all_that_they_are_installed_by_and_end_with_them() {
    let (world, monitoring) = watched().await;
    shows(&monitoring, &["csv_count == bool 0", "absent(csv_succeeded)", "csv_upgrade_count == bool 0"]).await;

    world.offer_with_a_warning().await;
    world.create(SHOP, "main", json!({"sourceType": "grpc", "image": world.image("catalogs/main:v1")})).await;
    world.group("one").await;
    world.subscribe("widgets", &json!({"startingCSV": "widgets.v1"})).await;
    world.csv("widgets.v2", &Phase::Failed).await;
    shows(
        &monitoring,
        &[
            "csv_count == bool 2",
            &format!("csv_succeeded{} == bool 0", of("1", "")),
            &format!("csv_succeeded{} == bool 0", of("2", "")),
            &format!("csv_abnormal{}", of("1", ",phase=\"Replacing\",reason=\"BeingReplaced\"")),
            &format!("csv_abnormal{}", of("2", ",phase=\"Failed\",reason=\"InstallCheckFailed\"")),
            "count(csv_abnormal) == bool 2",
            "csv_upgrade_count == bool 1",
            "subscription_count == bool 1",
            &synced("2"),
            "install_plan_count == bool 2",
            "installplan_warnings_total == bool 1",
            "olm_resolution_duration_seconds_count{outcome=\"succeeded\"} > bool 1",
            "olm_resolution_duration_seconds_count{outcome=\"failed\"} > bool 0",
            "count(olm_resolution_duration_seconds{outcome=\"succeeded\"}) == bool 3",
            "catalog_source_count == bool 1",
            "catalogsource_ready{namespace=\"shop\",name=\"main\"}",
            "catalog_source_snapshots_total{namespace=\"shop\",name=\"main\"} == bool 1",
        ],
    )
    .await;

    world.fail_forward().await;
    world.csv("widgets.v3", &Phase::Succeeded).await;
    shows(
        &monitoring,
        &[
            "csv_count == bool 1",
            &format!("csv_succeeded{}", of("3", "")),
            "count(csv_succeeded) == bool 1",
            "absent(csv_abnormal)",
            "csv_upgrade_count == bool 2",
            &synced("3"),
            "count(subscription_sync_total) == bool 1",
        ],
    )
    .await;

    end(&world, &monitoring).await;
    world.down_with_rights().await;
}

/// Everything is deleted, and no series is left.
async fn end(world: &World, monitoring: &Monitoring) {
    world.kubectl("delete subscription widgets -n shop").await;
    world.kubectl("delete csv widgets.v3 -n shop").await;
    world.kubectl("delete catalogsource main -n shop").await;
    shows(
        monitoring,
        &[
            "csv_count == bool 0",
            "absent(csv_succeeded)",
            "absent(csv_abnormal)",
            "subscription_count == bool 0",
            "absent(subscription_sync_total)",
            "catalog_source_count == bool 0",
            "absent(catalogsource_ready)",
            "absent(catalog_source_snapshots_total)",
            // The collector takes the plans.
            "install_plan_count == bool 0",
        ],
    )
    .await;
}
