//! Subscriptions: how long it takes to find what is to be installed, where there is an answer, where there is none, and where it is
//! hard to find; and what follows on a cluster: plans, versions, and a thousand namespaces when a catalog changes.

mod cluster;
mod floor;
mod namespaces;
mod peer;
mod worlds;

use super::figures::{Measured, Row};
use super::world::World;
use super::{Group, machine};
use worlds::Worlds;

static ROW: Row = Row {
    name: "resolve",
    about: "20 Subscriptions on the catalog of the row `catalog`, questions without an answer, hostile ones, plans, and 1000 namespaces",
    needs: &[],
    targets: &[
        (worlds::P50, 0.02),
        (worlds::P99, 0.1),
        (worlds::ABOVE, 20.0),
        (worlds::NO_ANSWER, 0.5),
        (worlds::PIGEONS, 10.0),
        (worlds::RIVALS, 10.0),
        (worlds::RULES, 10.0),
        (worlds::HOSTILE_MEMORY, 100.0),
        (cluster::TIMES_FLOOR, 1.3),
        (cluster::VERSION, 1.0),
        (cluster::BESIDE, 1.0),
        (peer::TIMES_PEER, 0.2),
        (namespaces::SECONDS, 10.0),
        (namespaces::WRITES, 0.0),
    ],
};

pub(super) static GROUP: Group = Group {
    name: "resolve",
    rows: &[&ROW],
    measure: |run, report| {
        Box::pin(async move {
            run.keep(report, &ROW, measure().await?);
            Ok(())
        })
    },
};

async fn measure() -> anyhow::Result<Measured> {
    e2e::harness::install_tls_provider();
    let mut measured = Measured::default();
    let worlds = Worlds::write()?;
    machine::quiet().await;
    worlds.measure(&mut measured).await?;
    let world = World::start(1).await?;
    let outcome = on_a_cluster(&world, &worlds, &mut measured).await;
    if outcome.is_err() {
        eprintln!("The end of the process's log:\n{}", world.log());
    }
    let ended = world.cluster.down().await;
    outcome?;
    ended?;
    Ok(measured)
}

async fn on_a_cluster(world: &World, worlds: &Worlds, measured: &mut Measured) -> anyhow::Result<()> {
    world.spawn(&[]).await?;
    world.plans(measured).await?;
    world.versions(measured).await?;
    world.beside(measured).await?;
    peer::measure(world, measured).await?;
    // Nothing but what is measured.
    world.restart(&["catalogs", "subscriptions"]).await?;
    namespaces::measure(world, worlds, measured).await
}
