//! Installations and updates while the daemon is killed, frozen and robbed of its lease, and while etcd, the API server and
//! kubelet are restarted, at random moments. Each must be completed with its history whole; the audit log must show that no
//! gate was passed early and that only the holder of the lease wrote. The same is done to the processes that look after operators, while
//! these are installed, updated and deleted.

mod node;
mod operators;
pub mod plan;
mod simulated;

use crate::faults::leadership::{self, Leadership};
use crate::faults::order::Stages;
use crate::harness::audit::Request;
use crate::simulator::history::is_signed;
use crate::simulator::releases::Release;
use crate::simulator::requests::DAEMON;
use crate::until::until;
use anyhow::{Context, ensure};
use cvo::testing::api::{ClusterVersion, HistoryEntry, HistoryState, NAME, NAMESPACE};
use jiff::Timestamp;
use plan::{Fault, Plan};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How long a request is tried again while the API server is away.
const PATIENCE: Duration = Duration::from_secs(60);

/// What was seen in all clusters.
#[derive(Debug, Default)]
struct Seen {
    writes: usize,
    gates: usize,
    changes_of_the_holder: usize,
}

/// Makes what the plan of the seed has for the daemon happen. An error says with which seed it was found.
pub async fn updates(seed: u64, runs: usize) -> anyhow::Result<()> {
    let again = told(seed, runs, "");
    let begun = Instant::now();
    let plan = Plan::new(seed, runs);
    let mut seen = Seen::default();
    execute(&plan, &mut seen).await.context(again)?;
    counted(plan.count());
    println!(
        "{} installations and updates completed in {} s: {} writes, {} gates, the holder of the lease changed {} times",
        plan.operations(),
        begun.elapsed().as_secs(),
        seen.writes,
        seen.gates,
        seen.changes_of_the_holder
    );
    Ok(())
}

/// The same of what it has for the processes that look after operators.
pub async fn operators(seed: u64, runs: usize) -> anyhow::Result<()> {
    let again = told(seed, runs, " --operators");
    let begun = Instant::now();
    let plan = Plan::new(seed, runs);
    let found = operators::run(&plan.operators).await.context(again)?;
    counted(plan.count_of_operators());
    println!(
        "{} installations, updates and deletions of operators ended well in {} s: {} writes, the holder of the lease changed {} times",
        found.ended,
        begun.elapsed().as_secs(),
        found.leadership.writes,
        found.leadership.changes
    );
    Ok(())
}

/// How all of it can be repeated.
fn told(seed: u64, runs: usize, more: &str) -> String {
    let again = format!("to repeat this: hack/chaos --runs {runs} --seed {seed}{more}");
    println!("{again}");
    again
}

fn counted(faults: BTreeMap<Fault, usize>) {
    for (fault, count) in faults {
        println!("{count:>4} x {fault}");
    }
}

/// Tries again while the API server is away.
async fn retried<T>(what: &str, attempt: impl AsyncFnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    // Nothing tells when the server is back.
    Ok(until(what, PATIENCE).answer(attempt).await?)
}

async fn execute(plan: &Plan, seen: &mut Seen) -> anyhow::Result<()> {
    for (number, operations) in plan.simulated.iter().enumerate() {
        simulated::run(operations, seen).await.with_context(|| format!("cluster {}", number + 1))?;
    }
    node::run(&plan.node, seen).await.context("cluster with a node")
}

/// The history must have the releases, newest first, each completed once, and all but the first signed.
fn check_history(version: &ClusterVersion, releases: &[Release]) -> anyhow::Result<()> {
    let history = version.status.as_ref().map_or(&[][..], |status| &status.history);
    let rows = |entries: &mut dyn Iterator<Item = (String, HistoryState, bool)>| entries.collect::<Vec<_>>();
    let found = rows(&mut history.iter().map(|entry| (entry.version.clone(), entry.state, is_signed(entry))));
    let numbered = releases.iter().enumerate().rev();
    let expected = rows(&mut numbered.map(|(number, it)| (it.version.clone(), HistoryState::Completed, number > 0)));
    ensure!(found == expected, "the history is not whole: {found:?}, expected {expected:?}");
    ensure!(history.iter().all(ended_after_it_began), "an entry ended before it began: {history:?}");
    let starts = || history.iter().map(|entry| entry.started_time.0);
    ensure!(starts().zip(starts().skip(1)).all(|(newer, older)| newer >= older), "not in order: {history:?}");
    Ok(())
}

fn ended_after_it_began(entry: &HistoryEntry) -> bool {
    entry.completion_time.as_ref().is_some_and(|ended| ended.0 >= entry.started_time.0)
}

/// Checks by the requests of all users that only holders of the lease wrote, and in an update, requested at `asked`, in
/// the order of its stages.
fn check_log(
    log: &[Request],
    release: &Release,
    asked: Option<Timestamp>,
    seen: &mut Seen,
) -> anyhow::Result<Leadership> {
    let leadership = leadership::check(log, DAEMON, NAME);
    ensure!(leadership.violations.is_empty(), "written without the lease:\n{}", leadership.violations.join("\n"));
    if let Some(asked) = asked {
        // Jobs of the daemon unpack and try releases; they are no part of one.
        let of_releases = |request: &&Request| request.resource != "jobs" || request.namespace != NAMESPACE;
        let log: Vec<Request> = log.iter().filter(of_releases).cloned().collect();
        let found = Stages::of(&release.load()?).check(&log, DAEMON, asked);
        ensure!(found.violations.is_empty(), "not in the order of stages:\n{}", found.violations.join("\n"));
        ensure!(found.stages.len() >= 2 && found.gates >= 4, "too little was written to say anything: {found:?}");
        seen.gates += found.gates;
    }
    Ok(leadership)
}
