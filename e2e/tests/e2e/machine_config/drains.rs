//! What ends the pause after an attempt to drain a node that was in vain, on a real API server.

use std::time::{Duration, Instant};

use cvo::testing::api::machine_config::{GROUP, MachineConfigPool};
use e2e::{
    harness::Options,
    nodes::{
        agents::{Times, annotation},
        fleet::Fleet,
    },
};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::{LIMIT, is_blocked};

/// An attempt lasts 90 s.
const ATTEMPT: Duration = Duration::from_secs(150);
/// The pause would last a minute.
const SOON: Duration = Duration::from_secs(3);

/// How long it takes from the command on until the drain of the node is over.
async fn drained_after(fleet: &Fleet, node: &str, target: &str, command: &[&str]) -> Duration {
    let begun = Instant::now();
    fleet.cluster.kubectl(command).await.unwrap();
    let drained = |node: &Node| annotation(node, "lastAppliedDrain").ends_with(target);
    fleet.until("the drain to be over", (fleet.nodes(), node), LIMIT, drained).await.unwrap();
    begun.elapsed()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn what_changes_in_the_pause_of_a_drain_lets_it_go_on_at_once() {
    let mut fleet = Fleet::up(Options::default()).await.unwrap();
    fleet.add_nodes(&[("worker", 3)]).await.unwrap();
    fleet.add_pool("worker", IntOrString::Int(3)).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "one").await.unwrap();
    let fast = Times { stage: Duration::ZERO, apply: Duration::ZERO, restart: Duration::ZERO };
    fleet.start_agents(move |_| fast).await.unwrap();
    fleet.start_controller("controller", &[]).unwrap();
    let first = fleet.until_updated("worker", "", LIMIT).await.unwrap().spec.configuration.name;
    for number in 0..3 {
        fleet.guarded_pod(&format!("web-{number}"), &format!("fake-{number}")).await.unwrap();
    }
    fleet.configure("worker", "10-file", "/etc/sample", "two").await.unwrap();
    let failed = |node: &Node| !annotation(node, "drainFailed").is_empty();
    let mut target = String::new();
    for number in 0..3 {
        let name = format!("fake-{number}");
        let node = fleet.until("an attempt in vain", (fleet.nodes(), &name), ATTEMPT, failed).await.unwrap();
        target = annotation(&node, "desiredConfig");
        // By the clock that dates pods.
        let fields = node.metadata.managed_fields.iter().flatten();
        let begun =
            fields.filter(|entry| entry.manager.as_deref() == Some("cvo-drain")).find_map(|entry| entry.time.clone());
        let written: Timestamp = annotation(&node, "drainStarted").parse().unwrap();
        let apart = begun.unwrap().0.duration_since(written).abs();
        assert!(apart.as_secs() <= 2, "both clocks are those of this machine: {apart:?}");
    }
    assert_ne!(target, first);
    for (node, command) in [
        ("fake-0", ["patch", "pdb", "web-0", "--type=merge", r#"--patch={"spec":{"minAvailable":0}}"#].as_slice()),
        ("fake-1", ["delete", "pdb", "web-1"].as_slice()),
        ("fake-2", ["delete", "pod", "--selector=app=web-2", "--grace-period=0", "--force", "--wait=false"].as_slice()),
    ] {
        let elapsed = drained_after(&fleet, node, &target, command).await;
        println!("{}: the drain goes on after {:.2} s", command.join(" "), elapsed.as_secs_f64());
        assert!(elapsed < SOON, "{command:?}: {elapsed:?}");
    }
    let pool = fleet.until_updated("worker", &first, LIMIT).await.unwrap();
    fleet.cluster.kubectl(["delete", "pdb", "web-2"]).await.unwrap();
    who_cordons_a_node_that_was_uncordoned_by_hand_keeps_it(&fleet, &pool.spec.configuration.name).await;
}

/// The mark of a failed update is left, somebody uncordons the node, and later cordons it for work on its hardware.
async fn who_cordons_a_node_that_was_uncordoned_by_hand_keeps_it(fleet: &Fleet, has: &str) {
    let mark = format!("{GROUP}/cordonedFor=failed");
    fleet.cluster.kubectl(["annotate", "node", "fake-0", &mark]).await.unwrap();
    let void = |node: &Node| annotation(node, "cordonedFor").is_empty();
    fleet.until("the mark to be void", (fleet.nodes(), "fake-0"), LIMIT, void).await.unwrap();
    fleet.cluster.kubectl(["cordon", "fake-0"]).await.unwrap();
    fleet.configure("worker", "10-file", "/etc/sample", "three").await.unwrap();
    let waits = |pool: &MachineConfigPool| {
        is_blocked(pool, "UnavailableNodes", &["1 node waits: node fake-0: was cordoned by somebody else"])
    };
    fleet.until("the pool to wait for the node", (fleet.pools(), "worker"), LIMIT, waits).await.unwrap();
    let node = fleet.nodes().get("fake-0").await.unwrap();
    assert_eq!((annotation(&node, "desiredConfig").as_str(), node.spec.unwrap().unschedulable), (has, Some(true)));
}
