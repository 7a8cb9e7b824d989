//! A thousand namespaces, each with a Subscription that is at the head of its channel, when the catalog that all of them see changes.

use super::worlds::Worlds;
use crate::bench::figures::Measured;
use crate::bench::machine;
use crate::bench::world::World;
use anyhow::ensure;
use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::subscription::Subscription;
use e2e::catalogs::{files_of, push};
use e2e::operators::{Version, catalog};
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use std::time::{Duration, Instant};

pub(super) const SECONDS: &str = "1000 namespaces judged anew, seconds";
pub(super) const WRITES: &str = "1000 namespaces judged anew, writes";

const NAMESPACES: usize = 1000;
/// Namespaces that are made at the same time.
const AT_ONCE: usize = 16;
const CATALOG: &str = "large";
const COUNT: &str = "olm_resolution_duration_seconds_count";
const LIMIT: Duration = Duration::from_secs(300);

pub(super) async fn measure(world: &World, worlds: &Worlds, measured: &mut Measured) -> anyhow::Result<()> {
    let version = Version::new("widgets.v1");
    let widgets = catalog(&[(version.clone(), "registry.invalid/widgets:1".to_owned())]);
    let mut files = files_of(&worlds.large())?;
    files.push(("configs/widgets/catalog.json".to_owned(), widgets.into_bytes()));
    world.serve(GLOBAL_CATALOG_NAMESPACE, CATALOG, &borrowed(&files)).await?;
    let made = futures::stream::iter(0..NAMESPACES).map(|number| namespace(world, &version, number));
    made.buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    let settled = |number: f64| number >= NAMESPACES as f64;
    let known = answered(world, settled).await?;
    machine::quiet().await;
    let before = world.metric(COUNT).await?;
    ensure!(before - known < NAMESPACES as f64, "namespaces are judged again although nothing changes");

    let other = catalog(&[(Version::new("gadgets.v1"), "registry.invalid/gadgets:1".to_owned())]);
    files.push(("configs/gadgets/catalog.json".to_owned(), other.into_bytes()));
    let image = format!("catalogs/{CATALOG}:v2");
    push(&world.cluster.registry(), &image, &borrowed(&files), &[]).await?;
    let (begun, at) = (Instant::now(), Timestamp::now());
    let spec = json!({"spec": {"image": format!("{}/{image}", world.cluster.registry())}});
    let sources: Api<CatalogSource> = Api::namespaced(world.client.clone(), GLOBAL_CATALOG_NAMESPACE);
    sources.patch(CATALOG, &PatchParams::default(), &Patch::Merge(&spec)).await?;
    answered(world, |number| number - before >= NAMESPACES as f64).await?;
    measured.add(SECONDS, begun.elapsed().as_secs_f64());
    machine::quiet().await;
    measured.add("1000 namespaces, answers looked for", world.metric(COUNT).await? - before);
    let requests = world.requests(at..Timestamp::now()).await?;
    let writes = requests.iter().filter(|it| it.wrote() && it.resource != "catalogsources");
    measured.add(WRITES, writes.count() as f64);
    Ok(())
}

/// Waits until so many answers were looked for, and returns the number.
async fn answered(world: &World, enough: impl Fn(f64) -> bool) -> anyhow::Result<f64> {
    let wait = world.cluster.until("answers for all namespaces", &[e2e::olm::PROCESS]).within(LIMIT);
    let number = wait.answer(async || {
        let number = world.metric(COUNT).await?;
        ensure!(enough(number), "{number} were looked for");
        anyhow::Ok(number)
    });
    Ok(number.await?)
}

/// With an operator that is installed, and a Subscription that says so.
async fn namespace(world: &World, version: &Version, number: usize) -> anyhow::Result<()> {
    let (name, csv) = (format!("team-{number}"), version.csv());
    world.namespace(&name).await?;
    world.create(&name, csv).await?;
    let spec = json!({"name": version.package(), "channel": "stable", "source": CATALOG,
        "sourceNamespace": GLOBAL_CATALOG_NAMESPACE});
    let object = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "Subscription",
        "metadata": {"name": version.package()}, "spec": spec});
    let api: Api<Subscription> = Api::namespaced(world.client.clone(), &name);
    api.create(&PostParams::default(), &serde_json::from_value(object)?).await?;
    let status: Value = json!({"status": {"currentCSV": version.name, "installedCSV": version.name,
        "state": "AtLatestKnown", "lastUpdated": Timestamp::now().to_string()}});
    api.patch_status(version.package(), &PatchParams::default(), &Patch::Merge(&status)).await?;
    Ok(())
}

fn borrowed(files: &[(String, Vec<u8>)]) -> Vec<(&str, &[u8])> {
    files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect()
}
