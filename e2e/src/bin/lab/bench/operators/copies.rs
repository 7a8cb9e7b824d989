//! Operators that work for all namespaces, and their copies in each of them.

mod floor;
mod passing;

use super::LOOPS;
use super::installed::{AT_ONCE, tell, written};
use crate::bench::figures::Measured;
use crate::bench::machine;
use crate::bench::memory::megabytes;
use crate::bench::world::{World, median};
use anyhow::ensure;
use cvo::testing::api::olm::cluster_service_version::ClusterServiceVersion;
use cvo::testing::api::olm::olm_config::OLMConfig;
use e2e::harness::audit::Request;
use e2e::olm::PROCESS;
use e2e::operators::Version;
use e2e::until::changes;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use kube::core::PartialObjectMeta;
use kube::runtime::watcher::Config;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

pub(super) const SECONDS: &str = "20000 copies, seconds";
const FLOOR: &str = "20000 copies, floor, seconds";
pub(super) const WRITES: &str = "20000 copies, writes / copy";
pub(super) const NAMESPACE: &str = "a namespace more, seconds";
pub(super) const RESTART_WRITES: &str = "started again, writes";
pub(super) const GONE: &str = "20000 copies gone, seconds";

const NAMESPACES: usize = 1000;
const OPERATORS: usize = 20;
/// Where the operators are.
const HOME: &str = "everywhere";
/// How often a namespace is added; the median counts.
const TIMES: usize = 5;
const LIMIT: Duration = Duration::from_secs(900);
const COPY: &str = "olm.copiedFrom";

/// All that there is before the process runs, and what the API server needs for the copies by itself.
pub(super) async fn prepare(world: &World, measured: &mut Measured) -> anyhow::Result<()> {
    let config = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig", "metadata": {"name": "cluster"},
        "spec": {"features": {"disableCopiedCSVs": false}}});
    world.create("", config).await?;
    let names = (0..NAMESPACES).map(|number| async move { world.bare_namespace(&format!("team-{number}")).await });
    futures::stream::iter(names).buffer_unordered(AT_ONCE).try_collect::<Vec<()>>().await?;
    measured.add(FLOOR, floor::measure(world).await?);
    world.bare_namespace(HOME).await?;
    let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
        "metadata": {"name": "all"}, "spec": {}});
    world.create(HOME, group).await?;
    for version in versions() {
        for (namespace, object) in rights(&version) {
            world.create(namespace, object).await?;
        }
    }
    Ok(())
}

pub(super) async fn made(world: &World, measured: &mut Measured) -> anyhow::Result<()> {
    let expected = expected(world).await?;
    machine::quiet().await;
    world.forget_peak()?;
    let (at, cpu) = (Timestamp::now(), world.cpu_seconds()?);
    for version in versions() {
        world.create(HOME, version.csv()).await?;
    }
    passing::come_and_go(world).await?;
    until_copied(world, expected).await?;
    measured.add("20000 copies, peak, MB", megabytes(world.memory()?.peak));
    measured.add("20000 copies, CPU seconds", world.cpu_seconds()? - cpu);
    let requests = world.requests(at..Timestamp::now()).await?;
    tell("20000 copies", &requests);
    let of_copies: Vec<Request> = of_copies(&requests).cloned().collect();
    passing::ensure_once(&of_copies)?;
    let last = of_copies.iter().map(|it| it.at + it.took).max().unwrap_or(at);
    measured.add(SECONDS, last.duration_since(at).as_secs_f64());
    let stay = of_copies.iter().filter(|it| !passing::has(&it.namespace)).count();
    measured.add(WRITES, stay as f64 / expected as f64);
    namespaces(world, "more", measured).await?;
    again(world, measured).await
}

/// Namespaces that are added one after the other.
async fn namespaces(world: &World, name: &str, measured: &mut Measured) -> anyhow::Result<()> {
    let mut seconds = Vec::new();
    for number in 0..TIMES {
        machine::quiet().await;
        seconds.push(one_more(world, &format!("{name}-{number}")).await?);
    }
    measured.add(NAMESPACE, median(seconds));
    Ok(())
}

/// Seconds until a new namespace has all copies.
async fn one_more(world: &World, name: &str) -> anyhow::Result<f64> {
    let begun = Instant::now();
    world.bare_namespace(name).await?;
    let api: Api<ClusterServiceVersion> = Api::namespaced(world.client.clone(), name);
    let events = changes(api, Config::default());
    let mut complete = BTreeSet::new();
    let all = |csv: &ClusterServiceVersion| {
        if csv.status.as_ref().is_some_and(|status| status.reason == "Copied") {
            complete.insert(csv.metadata.name.clone());
        }
        (complete.len() == OPERATORS).then_some(())
    };
    world.cluster.until("all copies in a namespace", &[PROCESS]).within(LIMIT).event(events, all).await?;
    Ok(begun.elapsed().as_secs_f64())
}

/// A process that has only begun finds all copies as they have to be.
async fn again(world: &World, measured: &mut Measured) -> anyhow::Result<()> {
    // It has said that there are all copies.
    machine::quiet().await;
    let at = Timestamp::now();
    world.restart(LOOPS).await?;
    machine::quiet().await;
    let looked = Timestamp::now();
    // It looks after copies since then.
    measured.add("started again, a namespace more, seconds", one_more(world, "again").await?);
    let requests = world.requests(at..looked).await?;
    tell("a process that was started again", &requests);
    measured.add(RESTART_WRITES, written(&requests).len() as f64);
    Ok(())
}

pub(super) async fn switched_off(world: &World, measured: &mut Measured) -> anyhow::Result<()> {
    machine::quiet().await;
    let spec = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OLMConfig",
        "spec": {"features": {"disableCopiedCSVs": true}}});
    let configs: Api<OLMConfig> = Api::all(world.client.clone());
    let at = Timestamp::now();
    configs.patch("cluster", &PatchParams::default(), &Patch::Merge(&spec)).await?;
    let wait = world.cluster.until("all copies to be gone", &[PROCESS]).within(LIMIT);
    let left = wait.answer(async || {
        let left = count(world).await?;
        ensure!(left == OPERATORS, "there are {left} ClusterServiceVersions");
        anyhow::Ok(())
    });
    left.await?;
    let requests = world.requests(at..Timestamp::now()).await?;
    tell("20000 copies that go", &requests);
    let last = of_copies(&requests).map(|it| it.at + it.took).max().unwrap_or(at);
    measured.add(GONE, last.duration_since(at).as_secs_f64());
    Ok(())
}

/// What has changed copies.
fn of_copies(requests: &[Request]) -> impl Iterator<Item = &Request> {
    requests.iter().filter(|it| it.wrote() && it.resource == "clusterserviceversions" && it.namespace != HOME)
}

fn versions() -> Vec<Version> {
    // They last as long as the program.
    let name = |number: usize| -> &'static str { Box::leak(format!("wide-{number}.v1").into_boxed_str()) };
    (0..OPERATORS).map(|number| Version { everywhere: true, ..Version::new(name(number)) }).collect()
}

/// The account of an operator, with its rights in all namespaces. With their namespaces.
fn rights(version: &Version) -> [(&'static str, Value); 3] {
    let (name, rbac) = (version.package(), "rbac.authorization.k8s.io");
    [
        (HOME, json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}})),
        (
            "",
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRole", "metadata": {"name": name},
                "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]}),
        ),
        (
            "",
            json!({"apiVersion": format!("{rbac}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
                "roleRef": {"apiGroup": rbac, "kind": "ClusterRole", "name": name},
                "subjects": [{"kind": "ServiceAccount", "name": name, "namespace": HOME}]}),
        ),
    ]
}

/// How many copies there are to be: one in each other namespace.
async fn expected(world: &World) -> anyhow::Result<usize> {
    let namespaces: Api<Namespace> = Api::all(world.client.clone());
    Ok((namespaces.list_metadata(&ListParams::default()).await?.items.len() - 1) * OPERATORS)
}

/// How many ClusterServiceVersions there are. Only one of them is read.
async fn count(world: &World) -> anyhow::Result<usize> {
    let all: Api<ClusterServiceVersion> = Api::all(world.client.clone());
    let list = all.list_metadata(&ListParams::default().limit(1)).await?;
    Ok(list.items.len() + usize::try_from(list.metadata.remaining_item_count.unwrap_or_default())?)
}

/// Waits until there are all copies, each with its status.
async fn until_copied(world: &World, expected: usize) -> anyhow::Result<()> {
    let wait = world.cluster.until("all copies", &[PROCESS]).within(LIMIT);
    let there = wait.answer(async || {
        let found = count(world).await?;
        ensure!(found == expected + OPERATORS, "there are {found} ClusterServiceVersions");
        anyhow::Ok(())
    });
    there.await?;
    let wait = world.cluster.until("the status of all copies", &[PROCESS]).within(LIMIT);
    let complete = wait.answer(async || {
        let all: Api<ClusterServiceVersion> = Api::all(world.client.clone());
        let copies = all.list_metadata(&ListParams::default().labels(COPY)).await?.items;
        let is_whole = |it: &&PartialObjectMeta<ClusterServiceVersion>| {
            it.metadata.managed_fields.iter().flatten().any(|it| it.subresource.as_deref() == Some("status"))
        };
        let whole = copies.iter().filter(is_whole).count();
        ensure!(whole == expected, "{whole} have a status");
        anyhow::Ok(())
    });
    Ok(complete.await?)
}
