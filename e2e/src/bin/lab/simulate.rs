//! `lab simulate`: node configuration, or operators, with a virtual clock (`hack/soak` calls it).

use anyhow::{Context, anyhow};
use clap::Args;
use e2e::nodes::simulation::{self, Tally};
use e2e::operator_simulation;
use e2e::random::SeededRandom;
use std::thread;
use std::time::Instant;

/// How much is simulated.
#[derive(Debug, Args)]
pub(crate) struct Simulate {
    /// Operators in a cluster of a few namespaces, and no nodes.
    #[arg(long, conflicts_with = "nodes")]
    operators: bool,
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
    match simulate.operators {
        true => operators(simulate),
        false => nodes(simulate),
    }
}

/// All runs, with their seeds. They differ in length, so each thread takes every second, or third, and so on.
fn each<T: Default + Send>(
    simulate: &Simulate,
    run: impl Fn(u64) -> anyhow::Result<T> + Sync,
    add: impl Fn(&mut T, T) + Sync,
) -> anyhow::Result<T> {
    let first = simulate.seed.unwrap_or_else(SeededRandom::seed);
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get() as u64);
    let (run, add) = (&run, &add);
    let some = |thread: u64| -> anyhow::Result<T> {
        let mut tally = T::default();
        for number in (0..simulate.seeds).filter(|number| number % threads == thread) {
            let seed = first.wrapping_add(number);
            add(&mut tally, run(seed).with_context(|| format!("seed {seed}"))?);
        }
        Ok(tally)
    };
    let some = &some;
    let tallies = thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|thread| scope.spawn(move || some(thread))).collect();
        let ended = running.into_iter().map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?);
        ended.collect::<anyhow::Result<Vec<T>>>()
    })?;
    let mut tally = T::default();
    tallies.into_iter().for_each(|part| add(&mut tally, part));
    Ok(tally)
}

fn operators(simulate: &Simulate) -> anyhow::Result<()> {
    let begun = Instant::now();
    let run = |seed| operator_simulation::run(simulate.steps, seed);
    let tally: operator_simulation::Tally = each(simulate, run, |tally, part| tally.add(&part))?;
    println!(
        "{} runs of {} steps with operators in {:.0} s: {} turns, {} writes, {} outdated writes refused, {} failed, {} restarts, {} \
         times two leaders; {} Deployments left over, {} of operators that must not run; targets: {} times all namespaces, {} times \
         some; at rest {} operators that run, {} of which must, {} that do not, {} of them because of other groups, and {} copies; \
         at rest after {} rounds at most",
        simulate.seeds,
        simulate.steps,
        begun.elapsed().as_secs_f64(),
        tally.turns,
        tally.writes,
        tally.refused,
        tally.failed,
        tally.restarts,
        tally.doubled,
        tally.left_over,
        tally.expelled,
        tally.everywhere,
        tally.somewhere,
        tally.running,
        tally.healthy,
        tally.waiting,
        tally.conflicts,
        tally.copies,
        tally.rounds,
    );
    Ok(())
}

fn nodes(simulate: &Simulate) -> anyhow::Result<()> {
    let begun = Instant::now();
    let run = |seed| simulation::run(simulate.nodes as usize, simulate.steps, seed);
    let tally: Tally = each(simulate, run, Tally::add)?;
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
