//! What people write on a pool to let its rollout begin and go on only when they want: maintenance windows, a pause after the
//! first nodes, and a query that a real Prometheus answers.

use std::{
    collections::BTreeSet,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use cvo::testing::api::machine_config::{GROUP, MachineConfigPool};
use e2e::{
    harness::Options,
    nodes::{
        agents::{Times, annotation},
        fleet::Fleet,
    },
    services::monitoring::Monitoring,
    until::{changes, until},
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::{
    api::{ListParams, Patch, PatchParams},
    runtime::watcher,
};
use serde_json::{Value, json};

use super::{LIMIT, is_blocked, why_blocked};

/// Nodes of the pool with a query: more than are updated until Prometheus is asked again.
const NODES: usize = 5;
/// Since when the query is true or false.
const RECORD: &str = "approval-query-answer";

fn times(milliseconds: u64) -> Times {
    let of = Duration::from_millis;
    Times { stage: of(milliseconds), apply: of(milliseconds), restart: of(milliseconds) }
}

async fn annotate<const N: usize>(fleet: &Fleet, pool: &str, pairs: [(&str, &str); N]) {
    let annotations: Value = pairs.into_iter().map(|(key, value)| (format!("{GROUP}/{key}"), json!(value))).collect();
    let patch = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
    fleet.pools().patch(pool, &PatchParams::default(), &patch).await.unwrap();
}

fn annotated(pool: &MachineConfigPool, key: &str) -> Option<String> {
    pool.metadata.annotations.as_ref()?.get(&format!("{GROUP}/{key}")).cloned()
}

/// The pool when its rollout is blocked for this reason with these words, and the message.
async fn blocked(fleet: &Fleet, pool: &str, reason: &str, words: &str) -> (MachineConfigPool, String) {
    let is_so = |pool: &MachineConfigPool| is_blocked(pool, reason, &[words]);
    let what = format!("pool {pool} to be blocked: {reason}, {words}");
    let object = fleet.until(&what, (fleet.pools(), pool), LIMIT, is_so).await.unwrap();
    let (_, message) = why_blocked(&object);
    println!("{pool}: {reason}: {message}");
    (object, message)
}

/// Nodes of the pool that have been told to take its configuration, and how many of them have it.
async fn begun(fleet: &Fleet, pool: &MachineConfigPool) -> (usize, usize) {
    let (name, target) = (pool.metadata.name.as_deref().unwrap(), &pool.spec.configuration.name);
    let nodes = fleet.nodes().list(&ListParams::default().labels(&format!("pool={name}"))).await.unwrap().items;
    let count = |key: &str| nodes.iter().filter(|node| annotation(node, key) == *target).count();
    (count("desiredConfig"), count("currentConfig"))
}

/// Until so many nodes of the pool have been told to take its configuration.
async fn until_begun(fleet: &Fleet, pool: &MachineConfigPool, count: usize) {
    let (name, target) = (pool.metadata.name.as_deref().unwrap(), &pool.spec.configuration.name);
    let nodes = changes(fleet.nodes(), watcher::Config::default().labels(&format!("pool={name}")));
    let mut told = BTreeSet::new();
    let begun = until(format!("{count} nodes of {name} to be told"), LIMIT).event(nodes, |node: &Node| {
        told.extend((annotation(node, "desiredConfig") == *target).then(|| node.metadata.name.clone()));
        (told.len() >= count).then_some(())
    });
    begun.await.unwrap();
    assert_eq!(told.len(), count);
}

/// A window of one hour each day that begins so many hours from now, and when it begins.
fn window(hours: i64) -> (String, Timestamp) {
    let from = Timestamp::now() + SignedDuration::from_hours(hours);
    let from = Timestamp::from_second(from.as_second() / 60 * 60).unwrap();
    let time = |at: Timestamp| at.strftime("%H:%M").to_string();
    (format!("Mon-Sun {}-{}", time(from), time(from + SignedDuration::from_hours(1))), from)
}

async fn a_window_that_closes_lets_the_node_under_way_finish(fleet: &Fleet, closed: &str, opens: Timestamp) {
    let pool = "window";
    let (object, message) = blocked(fleet, pool, "OutsideMaintenanceWindow", &opens.to_string()).await;
    assert!(message.contains("3 nodes wait: no maintenance window is open before "), "{message}");
    assert_eq!(begun(fleet, &object).await, (0, 0));
    annotate(fleet, pool, [("maintenance-windows", &window(0).0)]).await;
    until_begun(fleet, &object, 1).await;
    annotate(fleet, pool, [("maintenance-windows", closed)]).await;
    assert_eq!(begun(fleet, &object).await, (1, 0), "it closes while a node is under way");
    let (object, message) = blocked(fleet, pool, "OutsideMaintenanceWindow", "2 nodes wait").await;
    assert!(message.contains(&opens.to_string()), "{message}");
    assert_eq!(begun(fleet, &object).await, (1, 1), "the node is finished, and no other is begun");
    annotate(fleet, pool, [("maintenance-windows", "Mon-Sun 00:00-24:00")]).await;
    fleet.until_updated(pool, "", LIMIT).await.unwrap();
}

async fn a_pause_lasts_until_somebody_approves(fleet: &Fleet) {
    let pool = "pause";
    let (object, message) = blocked(fleet, pool, "AwaitingApproval", "2 nodes wait").await;
    let target = &object.spec.configuration.name;
    assert!(message.contains(&format!("annotate it with {GROUP}/approved={target} to let the others")), "{message}");
    assert_eq!(begun(fleet, &object).await, (1, 1));
    annotate(fleet, pool, [("approved", target)]).await;
    fleet.until_updated(pool, "", LIMIT).await.unwrap();
}

async fn a_query_lets_nodes_begin_while_it_is_true(fleet: &Fleet, monitoring: &mut Monitoring, fast: &AtomicBool) {
    let pool = "query";
    let arguments = monitoring.arguments();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (object, message) = blocked(fleet, pool, "AwaitingApproval", "the query canary_ok has to stay true").await;
    assert_eq!(begun(fleet, &object).await, (1, 1));
    let recorded = annotated(&object, RECORD).unwrap();
    // The next process asks Prometheus whether it was true all the time.
    fleet.start_controller("controller", &arguments).unwrap();
    until_begun(fleet, &object, 2).await;
    let until: Timestamp = message.rsplit(' ').next().unwrap().parse().unwrap();
    assert!(Timestamp::now() >= until, "not before {until}");
    assert_eq!(annotated(&fleet.pools().get(pool).await.unwrap(), RECORD), Some(recorded));

    monitoring.set(&[json!({"labels": {"__name__": "canary_ok"}, "value": 0})]).await.unwrap();
    let (object, _) = blocked(fleet, pool, "AwaitingHealth", "the query canary_ok is false since ").await;
    let (told, done) = begun(fleet, &object).await;
    assert!(told == done && told < NODES, "{told} were begun, {done} are done");
    annotate(fleet, pool, [("approval-query", "canary_missing")]).await;
    let none = "the query canary_missing says neither true nor false: the result has 0 samples";
    let (object, _) = blocked(fleet, pool, "AwaitingHealth", none).await;
    assert_eq!(begun(fleet, &object).await, (told, done), "nothing has begun");
    assert_eq!(annotated(&object, RECORD), None);

    fast.store(true, Ordering::Relaxed);
    annotate(fleet, pool, [("approval-query", "canary_ok == bool 0"), ("approval-for", "1s")]).await;
    fleet.until_updated(pool, "", LIMIT).await.unwrap();
    let forgotten = |pool: &MachineConfigPool| annotated(pool, RECORD).is_none();
    let object = fleet.until("the answer to be forgotten", (fleet.pools(), pool), LIMIT, forgotten).await.unwrap();
    let durations = annotated(&object, "node-durations").unwrap();
    println!("{pool}: nodes took {durations} s");
    assert!(
        durations.split(',').all(|seconds| seconds.parse::<u32>().is_ok_and(|seconds| seconds < 60)),
        "{durations}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn windows_approvals_and_queries_hold_pools_and_let_them_go_on() {
    let mut fleet = Fleet::up(Options::default()).await.unwrap();
    let mut monitoring = Monitoring::start(&fleet.cluster).await.unwrap();
    monitoring.set(&[json!({"labels": {"__name__": "canary_ok"}, "value": 1})]).await.unwrap();
    fleet.add_nodes(&[("window", 3), ("pause", 3), ("query", NODES)]).await.unwrap();
    for pool in ["window", "pause", "query"] {
        fleet.add_pool(pool, IntOrString::Int(1)).await.unwrap();
        fleet.configure(pool, &format!("10-{pool}"), "/etc/sample", "one").await.unwrap();
    }
    let (closed, opens) = window(2);
    annotate(&fleet, "window", [("maintenance-windows", &closed)]).await;
    annotate(&fleet, "pause", [("pause-after", "1")]).await;
    let query = [("pause-after", "1"), ("approval-query", "canary_ok"), ("approval-for", "8s")];
    annotate(&fleet, "query", query).await;
    let fast = Arc::new(AtomicBool::new(false));
    let is_fast = fast.clone();
    let agents = move |name: &str| match name.trim_start_matches("fake-").parse().unwrap_or(0) {
        0..3 => times(1000),
        6.. if !is_fast.load(Ordering::Relaxed) => times(2000),
        _ => times(100),
    };
    fleet.start_agents(agents).await.unwrap();
    let arguments = monitoring.arguments();
    fleet.start_controller("controller", &arguments.each_ref().map(String::as_str)).unwrap();
    tokio::join!(
        a_window_that_closes_lets_the_node_under_way_finish(&fleet, &closed, opens),
        a_pause_lasts_until_somebody_approves(&fleet),
        a_query_lets_nodes_begin_while_it_is_true(&fleet, &mut monitoring, &fast),
    );
}
