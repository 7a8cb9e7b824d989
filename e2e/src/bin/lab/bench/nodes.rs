//! A thousand nodes in three pools, with pods that PodDisruptionBudgets guard: how long the controller takes to carry them
//! over, beside what it would take if nothing but the agents' work took time.

use super::cluster::megabytes;
use super::figures::{CPU, Measured, PEAK, Row, SECONDS, TIMES_IDEAL, WRITES_PER_NODE};
use super::{Group, machine};
use anyhow::{Context, ensure};
use e2e::harness::Options;
use e2e::harness::audit::{self, Request};
use e2e::nodes::agents::Times;
use e2e::nodes::fleet::{Fleet, Watchdog};
use e2e::simulator::daemon::Usage;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use serde_json::json;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

static ROW: Row = Row {
    name: "nodes",
    about: "1000 simulated nodes in three pools get a new configuration, with agents that take 18 s each",
    needs: &[],
    targets: &[(TIMES_IDEAL, 1.1), (WRITES_PER_NODE, 12.0), (PEAK, 80.0)],
};

/// Nodes are configured, without a release.
pub(super) static GROUP: Group = Group {
    name: "nodes",
    rows: &[&ROW],
    measure: |run, report| {
        Box::pin(async move {
            run.keep(report, &ROW, measure().await?);
            Ok(())
        })
    },
};

/// Name, nodes, and how many of them may be unavailable.
const POOLS: [(&str, usize, usize); 3] = [("big", 600, 60), ("middle", 300, 30), ("small", 100, 10)];
const PHASE: Duration = Duration::from_secs(6);
const TIMES: Times = Times { stage: PHASE, apply: PHASE, restart: PHASE };
const DEPLOYMENTS: usize = 4;
const REPLICAS: usize = 100;
const LIMIT: Duration = Duration::from_secs(600);

async fn measure() -> anyhow::Result<Measured> {
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
    println!("{}", steps(&writes));
    let evictions = writes.iter().filter(|it| it.subresource == "eviction").count();
    measured.add(WRITES_PER_NODE, (writes.len() - evictions) as f64 / nodes as f64);
    measured.add("evictions", evictions as f64);
    measured.add_requests(&writes);
    Ok(())
}

/// The nodes of the pools by their numbers: name, first, how many, and the limit.
fn ranges() -> Vec<(&'static str, usize, usize, usize)> {
    let mut first = 0;
    let mut ranges = Vec::new();
    for (name, nodes, limit) in POOLS {
        ranges.push((name, first, nodes, limit));
        first += nodes;
    }
    ranges
}

/// How long after the write before each write of a node follows, for the nodes with the most usual number of writes: on average,
/// and, in brackets, for nine of ten nodes and for all.
/// The first one is the taint of those that wait.
fn steps(writes: &[Request]) -> String {
    let mut of_nodes: BTreeMap<&str, Vec<&Request>> = BTreeMap::new();
    for write in writes.iter().filter(|it| it.resource == "nodes") {
        of_nodes.entry(&write.name).or_default().push(write);
    }
    let mut numbers: BTreeMap<usize, usize> = BTreeMap::new();
    of_nodes.values().for_each(|writes| *numbers.entry(writes.len()).or_default() += 1);
    let Some((usual, number)) = numbers.into_iter().max_by_key(|(_, number)| *number) else { return String::new() };
    let usual_ones: Vec<&Vec<&Request>> = of_nodes.values().filter(|writes| writes.len() == usual).collect();
    let mut text = format!("{number} nodes with {usual} writes, on average after:");
    for step in 1..usual {
        let gaps = usual_ones.iter().filter_map(|writes| {
            Some((writes.get(step)?.at.duration_since(writes.get(step - 1)?.at).as_secs_f64(), writes.get(step)?))
        });
        let (mut seconds, who): (Vec<f64>, Vec<&str>) = gaps.map(|(gap, write)| (gap, write.user.as_str())).unzip();
        seconds.sort_by(f64::total_cmp);
        let at = |percent: usize| seconds.get(seconds.len() * percent / 100).copied().unwrap_or_default();
        let (most, longest) = (at(90), seconds.last().copied().unwrap_or_default());
        let mean = seconds.iter().sum::<f64>() / seconds.len().max(1) as f64;
        let agents = who.iter().filter(|user| **user == e2e::nodes::fleet::AGENT).count();
        text.push_str(&format!(
            " {}{mean:.2} ({most:.2}, {longest:.2})",
            if agents * 2 > who.len() { "agent " } else { "controller " }
        ));
    }
    // The second write is the one that tells a node what it should have, the last one says that it is done.
    let times = |at: fn(&Vec<&Request>) -> Option<Timestamp>| usual_ones.iter().filter_map(move |writes| at(writes));
    let begun = times(|writes| Some(writes.get(1)?.at));
    let ended = times(|writes| Some(writes.last()?.at));
    let since = |at: Option<Timestamp>| {
        at.zip(writes.first()).map_or(0.0, |(at, first)| at.duration_since(first.at).as_secs_f64())
    };
    let (first, last, end) = (since(begun.clone().min()), since(begun.max()), since(ended.max()));
    for (pool, first, number, limit) in ranges() {
        let of_pool = |name: &str| {
            let number_of: Option<usize> = name.rsplit('-').next().and_then(|it| it.parse().ok());
            number_of.is_some_and(|it| (first..first + number).contains(&it))
        };
        let mine: Vec<&Vec<&Request>> = of_nodes.iter().filter(|(name, _)| of_pool(name)).map(|(_, it)| it).collect();
        let told = |it: &&Vec<&Request>| {
            let agent = it.iter().position(|write| write.user == e2e::nodes::fleet::AGENT)?;
            Some(it.get(agent.checked_sub(1)?)?.at)
        };
        let mut begun: Vec<Timestamp> = mine.iter().filter_map(told).collect();
        let mut ended: Vec<Timestamp> = mine.iter().filter_map(|it| Some(it.last()?.at)).collect();
        begun.sort();
        ended.sort();
        let free: Vec<f64> =
            begun.iter().skip(limit).zip(&ended).map(|(next, end)| next.duration_since(*end).as_secs_f64()).collect();
        let mean = free.iter().sum::<f64>() / free.len().max(1) as f64;
        text.push_str(&format!("; a place in {pool} is free for {mean:.2} s"));
    }
    text.push_str(&format!(
        "; the first begins after {first:.2} s, the last after {last:.2} s and ends after {end:.2} s"
    ));
    text
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
