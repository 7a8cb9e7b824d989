//! Pools of simulated nodes, and the real controller on a real API server.

use std::time::Duration;

use cvo::testing::api::{ClusterOperator, ConditionStatus};
use e2e::{
    harness::Options,
    nodes::{
        agents::Times,
        fleet::{Fleet, Watchdog},
    },
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

const LIMIT: Duration = Duration::from_secs(120);

fn times(milliseconds: u64) -> Times {
    let of = Duration::from_millis;
    Times { stage: of(milliseconds), apply: of(milliseconds), restart: of(milliseconds) }
}

/// Nodes finish out of order; each that finishes lets the next one begin.
#[tokio::test(flavor = "multi_thread")]
async fn three_of_five_nodes_are_updated_at_a_time() {
    let mut fleet = Fleet::up(Options { audit: true, ..Options::default() }).await.unwrap();
    fleet.add_nodes(&[("worker", 5)]).await.unwrap();
    fleet.add_pool("worker", IntOrString::Int(3)).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "one").await.unwrap();
    fleet.start_agents(|name| times(if name == "fake-0" { 900 } else { 200 })).await.unwrap();
    fleet.start_controller("controller", &[]).unwrap();
    let pool = fleet.until_updated("worker", "", LIMIT).await.unwrap();
    let first = pool.spec.configuration.name.clone();
    assert!(first.starts_with("rendered-worker-"), "{first}");
    let status = pool.status.unwrap();
    assert_eq!((status.machine_count, status.ready_machine_count, status.unavailable_machine_count), (5, 5, 0));

    let watchdog = Watchdog::begin(&fleet).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "two").await.unwrap();
    let pool = fleet.until_updated("worker", &first, LIMIT).await.unwrap();
    let seen = watchdog.end(&fleet).await.unwrap();
    assert_eq!(seen.most.get("worker"), Some(&3));
    let operator = fleet.operators().get("machine-config").await.unwrap();
    assert_eq!(condition(&operator, "Available"), (ConditionStatus::True, "AsExpected".to_owned()));
    assert_eq!(condition(&operator, "Degraded").0, ConditionStatus::False);
    let columns = fleet.cluster.kubectl(["get", "mcp"]).await.unwrap();
    let columns: Vec<Vec<&str>> = columns.lines().map(|line| line.split_whitespace().collect()).collect();
    let header = "NAME CONFIG UPDATED UPDATING DEGRADED MACHINECOUNT READYMACHINECOUNT UPDATEDMACHINECOUNT \
                  DEGRADEDMACHINECOUNT AGE";
    assert_eq!(columns[0].join(" "), header);
    let name = &pool.spec.configuration.name;
    assert_eq!(columns[1][..9], ["worker", name, "True", "False", "False", "5", "5", "5", "0"]);
    fleet.cluster.kubectl(["get", "nodes", "-o", "jsonpath={.items[*].spec.unschedulable}"]).await.unwrap();
}

fn condition(operator: &ClusterOperator, type_: &str) -> (ConditionStatus, String) {
    let mut conditions = operator.status.iter().flat_map(|status| &status.conditions);
    let found = conditions.find(|condition| condition.type_ == type_).unwrap();
    (found.status, found.reason.clone())
}
