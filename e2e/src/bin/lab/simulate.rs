//! `lab simulate`: node configuration with a virtual clock (`hack/soak` calls it).

use anyhow::{Context, anyhow};
use clap::Args;
use e2e::nodes::simulation::{self, Tally};
use e2e::random::SeededRandom;
use std::thread;
use std::time::Instant;

/// How much is simulated.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Nodes of the pool.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u32).range(1..=100_000))]
    nodes: u32,
    /// Moves of controllers, agents, administrators and bad luck.
    #[arg(long, default_value_t = 10_000)]
    steps: usize,
    /// How many runs, each with the next seed.
    #[arg(long, default_value_t = 1000)]
    seeds: u64,
    /// The first seed, to repeat a run.
    #[arg(long)]
    seed: Option<u64>,
}

pub(crate) fn run(simulate: &Simulate) -> anyhow::Result<()> {
    let first = simulate.seed.unwrap_or_else(SeededRandom::seed);
    let begun = Instant::now();
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    // Runs differ in length, so each thread takes every second, or third, and so on.
    let tallies = thread::scope(|scope| {
        let part = |thread: u64| move || some(simulate, first, thread, threads);
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(part(thread))).collect();
        let ended = running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        ended.collect::<anyhow::Result<Vec<Tally>>>()
    })?;
    let mut tally = Tally::default();
    tallies.into_iter().for_each(|part| tally.add(part));
    println!(
        "{} runs of {} steps with {} nodes in {:.0} s: {} nodes told, {} updates finished, {} rolled back, {} agents killed, {} \
         outdated writes refused, {} force files, {} clocks set back, {} targets wanted again that had failed, {} looks without \
         an answer; what becomes of a node was tried from {} states, {} of them given up after a restart; {} decisions, {} nodes \
         marked, {} prepared ahead, {} decisions about configurations that running nodes cannot follow, {} of which were \
         allowed, {} configurations collected, {} writes at most for one update of a node; at most {} % of the nodes that \
         may be unavailable were",
        simulate.seeds,
        simulate.steps,
        simulate.nodes,
        begun.elapsed().as_secs_f64(),
        tally.told,
        tally.finished,
        tally.rolled_back,
        tally.killed,
        tally.refused,
        tally.forced,
        tally.set_back,
        tally.again,
        tally.unread,
        tally.prospects,
        tally.given_up,
        tally.decisions,
        tally.marked,
        tally.prepared,
        tally.irreconcilable,
        tally.exempted,
        tally.collected,
        tally.writes,
        tally.fullest,
    );
    Ok(())
}

fn some(simulate: &Simulate, first: u64, thread: u64, threads: u64) -> anyhow::Result<Tally> {
    let mut tally = Tally::default();
    for number in (0..simulate.seeds).filter(|number| number % threads == thread) {
        let seed = first.wrapping_add(number);
        let nodes = simulate.nodes as usize;
        tally.add(simulation::run(nodes, simulate.steps, seed).with_context(|| format!("seed {seed}"))?);
    }
    Ok(tally)
}
