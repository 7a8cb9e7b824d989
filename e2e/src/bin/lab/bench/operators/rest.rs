//! The whole process at rest, with the copies of operators and with a catalog: what it asks the API server for and how much memory it
//! holds while nothing happens.

use crate::bench::figures::Measured;
use crate::bench::machine;
use crate::bench::memory::{megabytes, most_resident};
use crate::bench::world::World;
use crate::catalog::{BUNDLES, Format, PACKAGES, WriteArgs, write};
use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use e2e::catalogs::files_of;
use jiff::Timestamp;
use std::time::Duration;

pub(super) const RATE: &str = "at rest, requests / s";
pub(super) const WRITES: &str = "at rest, writes";
pub(super) const MEMORY: &str = "at rest, resident, MB";

pub(super) async fn measure(world: &World, window: Duration, measured: &mut Measured) -> anyhow::Result<()> {
    world.restart(&[]).await?;
    let out = world.cluster.dir().join("catalog");
    let (packages, bundles) = (PACKAGES, BUNDLES);
    println!(
        "{}",
        write(&WriteArgs { packages, bundles, seed: 1, format: Format::Json, one_file: false, out: out.clone() })?
    );
    let files = files_of(&out)?;
    let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
    world.serve(GLOBAL_CATALOG_NAMESPACE, "large", &files).await?;
    machine::quiet().await;
    let begun = Timestamp::now();
    let cpu = world.cpu_seconds()?;
    let resident = most_resident(window, || world.memory()).await?;
    let ended = Timestamp::now();
    let cpu = world.cpu_seconds()? - cpu;
    let requests = world.requests(begun..ended).await?;
    let seconds = ended.duration_since(begun).as_secs_f64();
    measured.add(RATE, requests.len() as f64 / seconds);
    measured.add(WRITES, requests.iter().filter(|it| it.wrote()).count() as f64);
    measured.add(MEMORY, megabytes(resident));
    measured.add("at rest, % of a core", cpu / seconds * 100.0);
    measured.add("at rest, seconds", seconds);
    measured.add_requests(&requests);
    Ok(())
}
