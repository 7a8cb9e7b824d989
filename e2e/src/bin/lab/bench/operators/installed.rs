//! From a ClusterServiceVersion to the operator that runs: one after the other, and many at once.

use crate::bench::figures::Measured;
use crate::bench::machine;
use crate::bench::memory::megabytes;
use crate::bench::world::{World, account, median};
use cvo::testing::api::olm::cluster_service_version::{ClusterServiceVersion, Phase};
use e2e::harness::audit::{Request, within};
use e2e::olm::PROCESS;
use e2e::operators::Version;
use e2e::until::changes;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::Api;
use kube::runtime::watcher::Config;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

pub(super) const ONE: &str = "CSV to Succeeded, seconds";
pub(super) const ONE_WRITES: &str = "CSV to Succeeded, writes";
pub(super) const MANY: &str = "500 CSVs to Succeeded, seconds";
pub(super) const MANY_WRITES: &str = "500 CSVs, writes / CSV";
pub(super) const MANY_MEMORY: &str = "500 CSVs, peak, MB";

/// Operators that are installed at once.
pub(super) const MANY_COUNT: usize = 500;
/// How often one is installed; the median counts.
const TIMES: usize = 7;
/// Objects that are made at the same time.
pub(super) const AT_ONCE: usize = 16;
const LIMIT: Duration = Duration::from_secs(600);

/// An operator that brings a kind, as most do.
fn version() -> Version {
    Version { kind: "Widget", ..Version::new("widgets.v1") }
}

/// The namespaces of the many.
pub(super) fn namespace(number: usize) -> String {
    format!("team-{number}")
}

pub(super) async fn one(world: &World, measured: &mut Measured) -> anyhow::Result<()> {
    world.create("", version().definition()).await?;
    let names: Vec<String> = (0..TIMES).map(|number| format!("one-{number}")).collect();
    prepare(world, &names).await?;
    let (mut seconds, mut times) = (Vec::new(), Vec::new());
    for name in &names {
        machine::quiet().await;
        let at = Timestamp::now();
        seconds.push(install(world, std::slice::from_ref(name)).await?);
        machine::quiet().await;
        times.push(at..Timestamp::now());
    }
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Ok(()) };
    let requests = world.requests(first.start..last.end).await?;
    let writes = times.iter().map(|time| written(&within(&requests, time.clone())).len() as f64).collect();
    measured.add(ONE, median(seconds));
    measured.add(ONE_WRITES, median(writes));
    tell("one", &within(&requests, last.clone()));
    Ok(())
}

pub(super) async fn many(world: &World, measured: &mut Measured) -> anyhow::Result<()> {
    let names: Vec<String> = (0..MANY_COUNT).map(namespace).collect();
    prepare(world, &names).await?;
    machine::quiet().await;
    world.forget_peak()?;
    let (at, cpu) = (Timestamp::now(), world.cpu_seconds()?);
    measured.add(MANY, install(world, &names).await?);
    machine::quiet().await;
    measured.add(MANY_MEMORY, megabytes(world.memory()?.peak));
    measured.add("500 CSVs, CPU seconds", world.cpu_seconds()? - cpu);
    let requests = world.requests(at..Timestamp::now()).await?;
    measured.add(MANY_WRITES, written(&requests).len() as f64 / names.len() as f64);
    tell("500", &requests);
    Ok(())
}

/// Namespaces with a group and with the account of the operator, as its plan leaves them before the operator itself.
async fn prepare(world: &World, names: &[String]) -> anyhow::Result<()> {
    let one = |name: &String| {
        let name = name.clone();
        async move {
            world.namespace(&name).await?;
            for object in account(version().package()) {
                world.create(&name, object).await?;
            }
            anyhow::Ok(())
        }
    };
    futures::stream::iter(names).map(one).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    Ok(())
}

/// Seconds until the operators in all of these namespaces run.
async fn install(world: &World, names: &[String]) -> anyhow::Result<f64> {
    let mut missing: BTreeSet<&str> = names.iter().map(String::as_str).collect();
    let csvs: Api<ClusterServiceVersion> = match names {
        [only] => Api::namespaced(world.client.clone(), only),
        _ => Api::all(world.client.clone()),
    };
    let events = changes(csvs, Config::default());
    let done = |csv: &ClusterServiceVersion| {
        if csv.status.as_ref().is_some_and(|status| status.phase == Phase::Succeeded) {
            missing.remove(csv.metadata.namespace.as_deref().unwrap_or_default());
        }
        missing.is_empty().then_some(())
    };
    let wait = world.cluster.until("operators to run", &[PROCESS]).within(LIMIT).event(events, done);
    let create = |name: &String| {
        let name = name.clone();
        async move { world.create(&name, version().csv()).await }
    };
    let create = futures::stream::iter(names).map(create).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>();
    let begun = Instant::now();
    let (created, done) = tokio::join!(create, wait);
    created?;
    done?;
    Ok(begun.elapsed().as_secs_f64())
}

/// Those that have changed something. Events are told beside the work, some of them later and together.
pub(super) fn written(requests: &[Request]) -> Vec<&Request> {
    requests.iter().filter(|request| request.wrote() && request.resource != "events").collect()
}

/// What is written how often.
pub(super) fn tell(of: &str, requests: &[Request]) {
    let mut found: BTreeMap<String, usize> = BTreeMap::new();
    for request in requests.iter().filter(|request| request.is_write()) {
        let refused = if request.wrote() { String::new() } else { format!(" {}", request.code) };
        *found.entry(format!("{} {}{refused}", request.verb, request.resource_path())).or_default() += 1;
    }
    let found: Vec<String> = found.iter().map(|(what, count)| format!("{count} x {what}")).collect();
    println!("writes of {of}: {}", found.join(", "));
}
