//! Many objects of other clients, some of which keep changing, in kinds that the daemon watches: what they cost it, and how
//! soon a daemon that starts among them repairs.

use super::cluster::{BenchCluster, megabytes};
use super::figures::{FIRST_REPAIR, Measured, OF_A_CORE, Row, TIMES_WITHOUT, TIMES_WITHOUT_RESTARTED};
use super::{machine, repair};
use anyhow::Context;
use cvo::testing::cluster::Clients;
use e2e::harness::named;
use e2e::simulator::daemon::Usage;
use futures::{StreamExt, TryStreamExt, stream};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret, ServiceAccount};
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::core::NamespaceResourceScope;
use kube::{Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::json;
use std::fmt::Debug;
use std::time::{Duration, Instant};

pub(super) static ROW: Row = Row {
    name: "foreign",
    about: "20000 objects of others in kinds that the daemon watches, 100 changes a second, and a daemon that starts then",
    needs: &[],
    targets: &[
        (OF_A_CORE, 2.0),
        // One megabyte in forty differs from process to process.
        (TIMES_WITHOUT, 1.03),
        (TIMES_WITHOUT_RESTARTED, 1.03),
        (FIRST_REPAIR, 6.0),
    ],
};

/// Objects, half of them ConfigMaps.
const OBJECTS: usize = 20_000;
const NAMESPACE: &str = "foreign";
/// Requests on their way at once.
const AT_ONCE: usize = 32;
/// Time between two changes.
const CHANGE: Duration = Duration::from_millis(10);
/// How long they change.
const WINDOW: Duration = Duration::from_secs(60);

/// Without the objects first, then with them, and then with a daemon that starts among them.
pub(super) async fn measure(cluster: &BenchCluster) -> anyhow::Result<Measured> {
    let clients = Clients::new(cluster.simulated.control_plane.config().await?)?;
    let without = resident_after_a_restart(cluster).await?;
    create_all(&clients.call).await?;
    machine::quiet().await;
    let daemon = cluster.daemon().await?.process;
    let before = Usage::of(&daemon);
    let begun = Instant::now();
    let changes = change(&clients.call).await?;
    let seconds = begun.elapsed().as_secs_f64();
    let after = Usage::of(&daemon);
    let cpu = |usage: &Usage| usage.cpu_seconds.context("the daemon has ended");
    let with = after.resident_kib.map(megabytes).context("the daemon has ended")?;

    let repaired = first_repair(cluster, &clients).await?;
    let restarted = resident_after_a_restart(cluster).await?;
    let mut measured = Measured::default();
    measured.add(OF_A_CORE, (cpu(&after)? - cpu(&before)?) * 100.0 / seconds);
    measured.add(TIMES_WITHOUT, with / without);
    measured.add(TIMES_WITHOUT_RESTARTED, restarted / without);
    measured.add(FIRST_REPAIR, repaired);
    measured.add("foreign objects", OBJECTS as f64);
    measured.add("changes / s", changes as f64 / seconds);
    measured.add("resident without, MB", without);
    measured.add("resident with, MB", with);
    measured.add("resident of one that starts among them, MB", restarted);
    Ok(measured)
}

/// In megabytes, once a new process has found everything in place.
async fn resident_after_a_restart(cluster: &BenchCluster) -> anyhow::Result<f64> {
    let since = Timestamp::now();
    cluster.simulated.node.restart().await?;
    cluster.simulated.rolled_out(cluster.running().await?, since).await?;
    machine::quiet().await;
    let usage = Usage::of(&cluster.daemon().await?.process);
    usage.resident_kib.map(megabytes).context("the daemon has ended")
}

/// Seconds from the start of a process until it has created a ConfigMap again that was deleted at that moment.
async fn first_repair(cluster: &BenchCluster, clients: &Clients) -> anyhow::Result<f64> {
    let mut appeared = repair::watch(clients.for_watch()?).await?;
    let names = cluster.facts.config_maps();
    let key = names.first().context("the release has no ConfigMap")?;
    cluster.simulated.node.restart().await?;
    let started = cluster.daemon().await?.started;
    repair::repaired(&clients.call, &mut appeared, key).await?;
    Ok(Timestamp::now().duration_since(started).as_secs_f64())
}

async fn create_all(client: &Client) -> anyhow::Result<()> {
    let namespace = Namespace { metadata: named(NAMESPACE), ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await?;
    let data = |n: usize| [("text".to_owned(), format!("{n} {}", "x".repeat(500)))].into();
    create(client, OBJECTS / 2, |n| ConfigMap { metadata: name(n), data: Some(data(n)), ..ConfigMap::default() })
        .await?;
    create(client, OBJECTS / 4, |n| Secret { metadata: name(n), string_data: Some(data(n)), ..Secret::default() })
        .await?;
    create(client, OBJECTS / 4, |n| ServiceAccount { metadata: name(n), ..ServiceAccount::default() }).await
}

fn name(n: usize) -> k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta {
    named(&format!("foreign-{n}"))
}

async fn create<K>(client: &Client, number: usize, object: impl Fn(usize) -> K) -> anyhow::Result<()>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope> + Clone + Debug + DeserializeOwned + Serialize,
{
    let api: Api<K> = Api::namespaced(client.clone(), NAMESPACE);
    let created = stream::iter(0..number).map(|n| {
        let (api, object) = (api.clone(), object(n));
        async move { api.create(&PostParams::default(), &object).await }
    });
    created.buffer_unordered(AT_ONCE).try_for_each(|_| async { Ok(()) }).await?;
    Ok(())
}

/// Changes one ConfigMap after the other; how many.
async fn change(client: &Client) -> anyhow::Result<usize> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), NAMESPACE);
    let end = Instant::now() + WINDOW;
    let changes = stream::unfold((tokio::time::interval(CHANGE), 0), |(mut ticks, n)| async move {
        ticks.tick().await;
        (Instant::now() < end).then_some((n, (ticks, n + 1)))
    });
    let changed = changes.map(|n: usize| {
        let api = api.clone();
        async move {
            let patch = Patch::Merge(json!({"data": {"changed": n.to_string()}}));
            let name = format!("foreign-{}", n % (OBJECTS / 2));
            api.patch_metadata(&name, &PatchParams::default(), &patch).await
        }
    });
    let changed = changed.buffer_unordered(AT_ONCE);
    Ok(changed.try_fold(0, |sum, _| async move { Ok(sum + 1) }).await?)
}
