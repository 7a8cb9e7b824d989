//! Managed ConfigMaps are deleted one after the other: how long until each is restored.

use super::figures::{Measured, P50, P99, Row, percentile};
use super::{cluster::BenchCluster, machine};
use anyhow::{Context, ensure};
use cvo::testing::cluster::Clients;
use e2e::simulator::releases::Release;
use e2e::until::until;
use futures::{StreamExt, TryStreamExt};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Client;
use kube::api::{Api, DeleteParams, ListParams, WatchEvent, WatchParams};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

pub(super) static ROW: Row = Row {
    name: "repair",
    about: "200 deletions of random managed ConfigMaps, each until the daemon has created it again",
    needs: &[],
    targets: &[(P50, 0.1), (P99, 1.0)],
};

/// A ConfigMap that is not restored after this time never is.
const LIMIT: Duration = Duration::from_secs(60);
/// The third repair of an object within ten minutes is delayed on purpose: that is a conflict, and not measured here.
const PER_DAEMON: usize = 2;

/// Namespace and name.
pub(super) type Key = (String, String);

/// A ConfigMap that was created, and when the watch showed it.
pub(super) type Appeared = (Key, Instant);

/// Deletes `number` random ConfigMaps. When each was deleted as often as a daemon repairs without delay, the daemon is
/// restarted and forgets.
pub(super) async fn measure(cluster: &BenchCluster, release: &Release, number: usize) -> anyhow::Result<Measured> {
    ensure!(number > 0, "no ConfigMap is to be deleted");
    let clients = Clients::new(cluster.simulated.control_plane.config().await?)?;
    let mut seen = watch(clients.for_watch()?).await?;
    let names = cluster.facts.config_maps();
    ensure!(!names.is_empty(), "the release has no ConfigMap");
    let busy = machine::quiet().await;
    let begun = Timestamp::now();
    let mut times = Vec::new();
    let mut daemons = 1.0;
    'all: loop {
        for _ in 0..PER_DAEMON {
            for key in shuffled(&names) {
                if times.len() == number {
                    break 'all;
                }
                times.push(repaired(&clients.call, &mut seen, &key).await?);
            }
        }
        if times.len() < number {
            let since = Timestamp::now();
            cluster.simulated.node.restart().await?;
            cluster.simulated.rolled_out(release, since).await?;
            machine::quiet().await;
            daemons += 1.0;
        }
    }
    let requests = cluster.requests(begun, Timestamp::now()).await?;
    let made = |r: &&_| is_created(r);
    let made = requests.iter().filter(made).count();
    ensure!(made >= number, "the daemon restored only {made} of {number} ConfigMaps");
    times.sort_by(f64::total_cmp);
    let mut measured = Measured::default();
    measured.add_known(P50, percentile(&times, 0.50));
    measured.add_known(P99, percentile(&times, 0.99));
    measured.add_known("max, seconds", times.last().copied());
    measured.add("deletions", number as f64);
    measured.add("ConfigMaps", names.len() as f64);
    measured.add("daemons one after the other", daemons);
    measured.add("machine busy before", busy);
    Ok(measured)
}

fn is_created(request: &e2e::harness::audit::Request) -> bool {
    request.verb == "create" && request.code == 201 && request.object().starts_with("/configmaps/ ")
}

/// In random order.
fn shuffled(names: &[Key]) -> Vec<Key> {
    let mut names = names.to_vec();
    // A random UUID saves a dependency for random numbers.
    names.sort_by_cached_key(|_| uuid::Uuid::new_v4());
    names
}

/// Deletes it; seconds from the answer until the watch shows its successor.
pub(super) async fn repaired(
    client: &Client,
    seen: &mut mpsc::UnboundedReceiver<Appeared>,
    key: &Key,
) -> anyhow::Result<f64> {
    let (namespace, name) = key;
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
    maps.delete(name, &DeleteParams::default()).await.with_context(|| format!("cannot delete {namespace}/{name}"))?;
    let deleted = Instant::now();
    let wait = until(format!("ConfigMap {namespace}/{name} to be back"), LIMIT);
    let appeared = futures::stream::poll_fn(|context| seen.poll_recv(context)).map(|(found, at)| {
        // The watch may show the successor before the deletion is answered.
        (found, at.saturating_duration_since(deleted).as_secs_f64())
    });
    Ok(wait.event(appeared, |(found, after)| (found == key).then_some(*after)).await?)
}

/// Sends the ConfigMaps that are created from now on.
pub(super) async fn watch(client: Client) -> anyhow::Result<mpsc::UnboundedReceiver<Appeared>> {
    let maps: Api<ConfigMap> = Api::all(client);
    let mut version = maps.list_metadata(&ListParams::default()).await?.metadata.resource_version.unwrap_or_default();
    let (sender, receiver) = mpsc::unbounded_channel();
    let params = WatchParams::default().timeout(1800);
    let mut events = Box::pin(maps.watch_metadata(&params, &version).await?);
    tokio::spawn(async move {
        loop {
            let event = tokio::select! {
                event = events.try_next() => event,
                () = sender.closed() => return,
            };
            match event {
                Ok(Some(WatchEvent::Added(object))) => {
                    let metadata = object.metadata;
                    version = metadata.resource_version.unwrap_or(version);
                    let key = (metadata.namespace.unwrap_or_default(), metadata.name.unwrap_or_default());
                    // The receiver is gone: `closed` ends the loop.
                    let _ = sender.send((key, Instant::now()));
                }
                Ok(Some(WatchEvent::Modified(object) | WatchEvent::Deleted(object))) => {
                    version = object.metadata.resource_version.unwrap_or(version);
                }
                Ok(Some(WatchEvent::Bookmark(mark))) => version = mark.metadata.resource_version,
                // The timeout of the watch has ended it.
                Ok(None) => match maps.watch_metadata(&params, &version).await {
                    Ok(next) => events = Box::pin(next),
                    Err(error) => return eprintln!("watch of ConfigMaps: {error}"),
                },
                Ok(Some(WatchEvent::Error(error))) => return eprintln!("watch of ConfigMaps: {error:?}"),
                Err(error) => return eprintln!("watch of ConfigMaps: {error}"),
            }
        }
    });
    Ok(receiver)
}
