//! A thousand nodes in three pools, with pods that PodDisruptionBudgets guard: how long the controller takes to carry them
//! over, beside what it would take if nothing but the agents' work took time.

use super::cluster::megabytes;
use super::figures::{CPU, Measured, PEAK, SECONDS, TIMES_IDEAL, WRITES_PER_NODE};
use super::machine;
use anyhow::{Context, ensure};
use e2e::harness::Options;
use e2e::harness::audit::{self, Request};
use e2e::nodes::agents::Times;
use e2e::nodes::fleet::{Fleet, Watchdog};
use e2e::simulator::daemon::Usage;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;
use std::time::{Duration, Instant};

/// Name, nodes, and how many of them may be unavailable.
const POOLS: [(&str, usize, usize); 3] = [("big", 600, 60), ("middle", 300, 30), ("small", 100, 10)];
const PHASE: Duration = Duration::from_secs(6);
const TIMES: Times = Times { stage: PHASE, apply: PHASE, restart: PHASE };
const DEPLOYMENTS: usize = 4;
const REPLICAS: usize = 100;
const LIMIT: Duration = Duration::from_secs(600);

pub(super) async fn measure() -> anyhow::Result<Measured> {
    let mut fleet = Fleet::up(Options { audit: true, ..Options::default() }).await?;
    let nodes: usize = POOLS.iter().map(|(_, nodes, _)| nodes).sum();
    fleet.add_nodes(&POOLS.map(|(name, nodes, _)| (name, nodes))).await?;
    for (name, _, limit) in POOLS {
        // The first configuration is for all at once.
        fleet.add_pool(name, IntOrString::String("100%".into())).await?;
        fleet.configure(name, &format!("10-{name}"), "/etc/sample", "one").await?;
        println!("pool {name}: {limit} nodes at a time");
    }
    let fast = Times { stage: Duration::ZERO, apply: Duration::ZERO, restart: Duration::ZERO };
    let begun = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let measured = begun.clone();
    let times = move |_: &str| if measured.load(std::sync::atomic::Ordering::Relaxed) { TIMES } else { fast };
    fleet.start_agents(times).await?;
    let controller = fleet.start_controller("controller", &[])?;
    let mut before = Vec::new();
    for (name, ..) in POOLS {
        let pool = fleet.until_updated(name, "", LIMIT).await?;
        before.push((name, pool.spec.configuration.name));
    }
    for (name, _, limit) in POOLS {
        fleet.limit(name, IntOrString::Int(i32::try_from(limit)?)).await?;
    }
    // Only now: while all nodes were cordoned at once, no pod could have left.
    workloads(&fleet).await?;
    println!("first configuration everywhere");
    machine::quiet().await;
    begun.store(true, std::sync::atomic::Ordering::Relaxed);
    let (start, clock, used) = (Timestamp::now(), Instant::now(), Usage::of(&controller));
    let watchdog = Watchdog::begin(&fleet).await?;
    for (name, ..) in POOLS {
        fleet.configure(name, &format!("10-{name}"), "/etc/sample", "two").await?;
    }
    for (name, before) in &before {
        fleet.until_updated(name, before, LIMIT).await?;
    }
    let seconds = clock.elapsed().as_secs_f64();
    let usage = Usage::of(&controller);
    let seen = watchdog.end(&fleet).await?;
    for (name, _, limit) in POOLS {
        let most = seen.most.get(name).copied().unwrap_or_default();
        ensure!(most <= limit, "{most} nodes of {name} were unavailable, {limit} may be");
        ensure!(most == limit, "only {most} nodes of {name} were updated at a time");
    }
    let waves = POOLS.iter().map(|(_, nodes, limit)| nodes.div_ceil(*limit)).max().unwrap_or_default();
    let ideal = TIMES.total().as_secs_f64() * waves as f64;
    let cpu = |usage: &Usage| usage.cpu_seconds.context("the controller has ended");
    let mut measured = Measured::default();
    measured.add(SECONDS, seconds);
    measured.add(TIMES_IDEAL, seconds / ideal);
    measured.add(CPU, cpu(&usage)? - cpu(&used)?);
    measured.add(PEAK, usage.peak_kib.map(megabytes).context("the controller has ended")?);
    add_writes(&mut measured, &fleet, start, nodes)?;
    Ok(measured)
}

fn add_writes(measured: &mut Measured, fleet: &Fleet, start: Timestamp, nodes: usize) -> anyhow::Result<()> {
    let requests = audit::everything(&fleet.cluster.audit_log())?;
    let of_pass = requests.into_iter().filter(|it| it.at >= start && it.is_write() && is_of_pass(it));
    let writes: Vec<Request> = of_pass.collect();
    let evictions = writes.iter().filter(|it| it.subresource == "eviction").count();
    measured.add(WRITES_PER_NODE, (writes.len() - evictions) as f64 / nodes as f64);
    measured.add("evictions", evictions as f64);
    measured.add_requests(&writes);
    Ok(())
}

/// The controller and the agents, not kwok and what Kubernetes does itself.
fn is_of_pass(request: &Request) -> bool {
    let by_us = request.user == e2e::nodes::fleet::AGENT || request.user == e2e::nodes::fleet::CONTROLLER;
    by_us && request.resource != "leases"
}

/// Deployments on the nodes, each guarded by a budget.
async fn workloads(fleet: &Fleet) -> anyhow::Result<()> {
    let mut objects = Vec::new();
    for number in 0..DEPLOYMENTS {
        let (name, labels) = (format!("web-{number}"), json!({"app": format!("web-{number}")}));
        objects.push(json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name, "namespace": "default"},
            "spec": {
                "replicas": REPLICAS, "selector": {"matchLabels": labels},
                "template": {
                    "metadata": {"labels": labels},
                    "spec": {
                        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
                        "containers": [{"name": "web", "image": "registry.invalid/web"}],
                    },
                },
            },
        }));
        objects.push(json!({
            "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name, "namespace": "default"},
            "spec": {"maxUnavailable": "25%", "selector": {"matchLabels": labels}},
        }));
    }
    let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
    let file = fleet.cluster.dir().join("workloads.json");
    std::fs::write(&file, list.to_string())?;
    let file = file.display().to_string();
    fleet.cluster.kubectl(["apply", "-f", &file]).await?;
    for number in 0..DEPLOYMENTS {
        let deployment = format!("deployment/web-{number}");
        fleet.cluster.kubectl(["rollout", "status", &deployment, "--timeout=120s"]).await?;
    }
    Ok(())
}
