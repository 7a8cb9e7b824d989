//! Operators that are installed: how long it takes until one runs, until many do, until each namespace has the copies of those that work
//! for all of them, and until what was made for one is back; how much the process writes and holds for that, and at rest.

mod copies;
mod installed;
mod repaired;
mod rest;
mod rules;

use super::figures::{Measured, Row};
use super::world::World;
use super::{Bench, Group, machine};
use std::time::Duration;

static ROW: Row = Row {
    name: "operators",
    about: "operators that are installed: one, 500 at once, 20000 copies in 1000 namespaces, Deployments that are deleted or changed",
    needs: &[],
    targets: &[
        (rules::SECONDS, 0.01),
        (installed::ONE, 1.0),
        (installed::ONE_WRITES, 12.0),
        (installed::MANY, 90.0),
        (installed::MANY_WRITES, 12.0),
        (installed::MANY_MEMORY, 120.0),
        (repaired::P50, 0.1),
        (repaired::P99, 1.0),
        (copies::SECONDS, 120.0),
        (copies::WRITES, 2.0),
        (copies::NAMESPACE, 2.0),
        (copies::RESTART_WRITES, 0.0),
        (rest::RATE, 0.1),
        (rest::WRITES, 0.0),
        (rest::MEMORY, 200.0),
        (copies::GONE, 90.0),
    ],
};

pub(super) static GROUP: Group = Group {
    name: "operators",
    rows: &[&ROW],
    measure: |run, report| {
        Box::pin(async move {
            run.keep(report, &ROW, measure(run.bench).await?);
            Ok(())
        })
    },
};

/// The part of the process that is measured.
const LOOPS: &[&str] = &["operators"];

async fn measure(bench: &Bench) -> anyhow::Result<Measured> {
    e2e::harness::install_tls_provider();
    let mut measured = Measured::default();
    machine::quiet().await;
    rules::measure(&mut measured)?;
    // A node has room for 110 pods.
    let world = World::start(installed::MANY_COUNT / 100 + 1).await?;
    let outcome = installed(&world, bench.deletions, &mut measured).await;
    ended(world, outcome).await?;
    let world = World::start(1).await?;
    let outcome = copied(&world, Duration::from_secs(bench.steady_seconds), &mut measured).await;
    ended(world, outcome).await?;
    Ok(measured)
}

async fn ended(world: World, outcome: anyhow::Result<()>) -> anyhow::Result<()> {
    if outcome.is_err() {
        eprintln!("The end of the process's log:\n{}", world.log());
    }
    let ended = world.cluster.down().await;
    outcome?;
    Ok(ended?)
}

async fn installed(world: &World, repairs: usize, measured: &mut Measured) -> anyhow::Result<()> {
    world.spawn(LOOPS).await?;
    installed::one(world, measured).await?;
    installed::many(world, measured).await?;
    repaired::measure(world, repairs, measured).await
}

async fn copied(world: &World, window: Duration, measured: &mut Measured) -> anyhow::Result<()> {
    copies::prepare(world, measured).await?;
    world.spawn(LOOPS).await?;
    copies::made(world, measured).await?;
    rest::measure(world, window, measured).await?;
    copies::switched_off(world, measured).await
}
