//! Updates with injected faults: whatever happens between daemon and API server, an update completes, its history is right,
//! and no gate is passed early, as the API server's audit log shows. The time it takes is printed beside that of an
//! undisturbed update of the same cluster.

mod authority;
mod clock;
mod full_store;
mod real_manifests;
mod servers;
mod token;

use cvo::testing::api::{
    ClusterVersion, HistoryState, NAME, NAMESPACE,
    progress::{NodeState, Progress},
};
use jiff::Timestamp;
use k8s_openapi::api::{coordination::v1::Lease, core::v1::ConfigMap};
use kube::{Api, api::DeleteParams};
use std::time::{Duration, Instant};

use super::update::assert_times_in_order;
use e2e::simulator::requests::DAEMON;
use e2e::{
    faults::{
        order::Stages,
        proxy::Proxy,
        source::{Faults, Tally},
    },
    harness::{Identity, audit::Request},
    random::SeededRandom,
    simulator::{
        cluster::{InitialEvents, LIMIT, SimulatedCluster},
        history::history,
        releases::Release,
    },
};

/// Installed, then updated undisturbed, then updated with faults.
const VERSIONS: [&str; 3] = ["1.0.0", "1.0.1", "1.0.2"];

/// A fraction of the second that an undisturbed update takes.
const WATCH_LIFE: Duration = Duration::from_millis(200);

/// What a fault has interrupted goes on within this once the fault is gone.
const SOON: Duration = Duration::from_secs(30);

/// A cluster whose daemon connects to the proxy, at the second version; and how long the undisturbed update took.
async fn updated_undisturbed(
    initial_events: InitialEvents,
    seed: u64,
) -> (SimulatedCluster, Proxy, Vec<Release>, Duration) {
    let (mut cluster, releases) = SimulatedCluster::with_samples_on(initial_events, &VERSIONS).await.unwrap();
    let proxy = cluster.proxy(seed).await.unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let asked = Timestamp::now();
    cluster.request(&releases[1]).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    let quiet = Timestamp::now().duration_since(asked).unsigned_abs();
    assert_in_order(&cluster.all_requests().unwrap(), &releases[1], asked, 0);
    (cluster, proxy, releases, quiet)
}

/// Waits for the update that was requested then, and checks it.
/// `unlogged`: writes that a server may have made that was killed before it could log them.
async fn assert_completes(
    what: &str,
    cluster: &SimulatedCluster,
    releases: &[Release],
    asked: Timestamp,
    quiet: Duration,
    unlogged: usize,
) {
    let last = releases.last().unwrap();
    let updated = cluster.completed(last).await.unwrap();
    let took = Timestamp::now().duration_since(asked).unsigned_abs();
    println!(
        "{what}: {:.1} s, undisturbed {:.1} s, {:.1} times as long",
        took.as_secs_f64(),
        quiet.as_secs_f64(),
        took.div_duration_f64(quiet)
    );
    let row = |version: &str| (version.to_owned(), HistoryState::Completed, version != VERSIONS[0]);
    assert_eq!(history(&updated), VERSIONS.iter().rev().map(|version| row(version)).collect::<Vec<_>>());
    assert_times_in_order(&updated);
    let mut images = cluster.node.images().await;
    images.dedup();
    assert_eq!(images, releases.iter().map(|release| release.image.as_str()).collect::<Vec<_>>());
    assert_in_order(&cluster.all_requests().unwrap(), last, asked, unlogged);
    // A refused request may delay it, but it must be right in the end.
    cluster
        .until_progress("the progress record to say that all is done", |progress| {
            progress.release.image == last.image && progress.nodes.iter().all(|node| node.state == NodeState::Done)
        })
        .await
        .unwrap();
}

fn assert_in_order(log: &[Request], release: &Release, asked: Timestamp, unlogged: usize) {
    let stages = Stages::of(&release.load().unwrap());
    let found = stages.check(log, DAEMON, asked);
    assert_eq!(found.violations, Vec::<String>::new());
    // Own Deployment; settings, Widget and Deployment of alpha; settings and Deployment of the others.
    assert!(found.writes + unlogged >= 10 && found.stages.len() >= 3, "too few writes to say anything: {found:?}");
    assert!(found.gates >= 8, "each component has a Deployment and a ClusterOperator to wait for: {found:?}");
}

async fn update_with(what: &str, faults: Faults, happened: impl Fn(&Tally) -> bool) {
    update_on(InitialEvents::Sent, what, faults, happened).await;
}

async fn update_on(initial_events: InitialEvents, what: &str, faults: Faults, happened: impl Fn(&Tally) -> bool) {
    let (cluster, proxy, releases, quiet) = updated_undisturbed(initial_events, SeededRandom::seed()).await;
    proxy.set(faults);
    let asked = Timestamp::now();
    cluster.request(&releases[2]).await.unwrap();
    assert_completes(what, &cluster, &releases, asked, quiet, 0).await;
    let tally = proxy.tally();
    println!("{tally:?}");
    assert!(happened(&tally), "no fault was injected: {tally:?}");
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn update_survives_refused_requests() {
    // There are ten writes at least; the second of those refused gets status 500, which only the graph node tries again.
    let faults = Faults { refuse_one_in: 4, ..Faults::default() };
    let all = |tally: &Tally| {
        tally.refused_writes >= 2 && [409, 429, 500].iter().all(|code| tally.refused.contains_key(code))
    };
    update_with("one request in 4 refused", faults, all).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn update_survives_watches_that_are_cut_all_the_time() {
    let faults = Faults { watch_life: Some(WATCH_LIFE), ..Faults::default() };
    update_with("watches cut five times a second", faults, |tally| tally.watches_cut >= 10).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn update_survives_lost_answers_and_a_slow_network() {
    let faults = Faults { lose_one_in: 25, delay: Duration::from_millis(200), ..Faults::default() };
    update_with("one answer in 25 lost, up to 200 ms late", faults, |tally| tally.lost >= 2).await;
}

/// On API servers that do not send initial events, or not of one kind.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "the same on other API servers"]
async fn updates_without_initial_events_survive_faults() {
    for initial_events in [InitialEvents::Disabled, InitialEvents::RefusedFor("configmaps")] {
        let refused = Faults { refuse_one_in: 4, ..Faults::default() };
        update_on(initial_events, "one request in 4 refused", refused, |tally| tally.refused_writes >= 2).await;
        let cut = Faults { watch_life: Some(WATCH_LIFE), ..Faults::default() };
        update_on(initial_events, "watches cut five times a second", cut, |tally| tally.watches_cut >= 10).await;
        update_despite_restarts(initial_events).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn update_survives_five_restarts_of_the_api_server() {
    update_despite_restarts(InitialEvents::Sent).await;
}

async fn update_despite_restarts(initial_events: InitialEvents) {
    /// The server is killed while this write of the update is in flight: that of the own Deployment, and four of the others.
    const AT_WRITE: [usize; 5] = [1, 3, 5, 7, 9];

    let (cluster, proxy, releases, quiet) = updated_undisturbed(initial_events, SeededRandom::seed()).await;
    // On a slow machine the server is away for longer than the lease is held.
    cluster.may_lose_the_lease();
    proxy.set(Faults::default());
    let asked = Timestamp::now();
    cluster.request(&releases[2]).await.unwrap();
    for write in AT_WRITE {
        proxy.until("the next write", LIMIT, |tally| tally.writes >= write).await;
        cluster.control_plane.restart_apiserver().await.unwrap();
        println!("restarted at {:?}", proxy.tally());
    }
    assert_completes("API server restarted five times", &cluster, &releases, asked, quiet, AT_WRITE.len()).await;
    cluster.close().await.unwrap();
}

/// Installs the first release, and waits until the update to the second one waits for an operator.
async fn hold_in_the_update(cluster: &mut SimulatedCluster, releases: &[Release]) {
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    request_and_hold(cluster, &releases[1]).await;
}

/// Requests the update to the release, and waits until that waits for an operator.
async fn request_and_hold(cluster: &SimulatedCluster, release: &Release) {
    cluster.simulation.hold("delta");
    cluster.request(release).await.unwrap();
    let waits = |progress: &Progress| {
        progress.release.image == release.image && progress.clocks.contains_key("clusteroperator/delta")
    };
    cluster.until_progress("the operator to be waited for", waits).await.unwrap();
}

/// The daemon's process, which is another one after a restart.
async fn process(cluster: &SimulatedCluster) -> Identity {
    cluster.node.state.lock().await.running.as_ref().unwrap().process.clone()
}

/// The daemon leads as before, and does its work: it renews its lease, and an object of the release that is deleted comes back.
async fn goes_on(cluster: &SimulatedCluster) {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let before = leases.get(NAME).await.unwrap().spec.unwrap();
    let again = |lease: Option<&Lease>| {
        lease.and_then(|lease| lease.spec.as_ref()).is_some_and(|spec| spec.renew_time != before.renew_time)
    };
    let renewed = cluster.until_object("the lease to be renewed", leases, NAME, SOON, again).await.unwrap();
    assert_eq!(renewed.0.unwrap().spec.unwrap().holder_identity, before.holder_identity);

    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "beta");
    let uid = maps.get("settings").await.unwrap().metadata.uid;
    maps.delete("settings", &DeleteParams::default()).await.unwrap();
    let back = |map: Option<&ConfigMap>| map.is_some_and(|map| map.metadata.uid != uid);
    let repaired = cluster.until_object("settings to be created again", maps, "settings", SOON, back).await.unwrap();
    let (renewed, repaired) = (renewed.1.as_secs_f64(), repaired.1.as_secs_f64());
    println!("lease renewed after {renewed:.1} s, deleted object back after {repaired:.1} s");
}

/// What kept that update from going on is over: it ends soon.
async fn whole_again(cluster: &SimulatedCluster, releases: &[Release]) -> ClusterVersion {
    let begun = Instant::now();
    cluster.simulation.release("delta");
    let updated = cluster.completed(&releases[1]).await.unwrap();
    println!("whole again after {} s", begun.elapsed().as_secs());
    assert!(begun.elapsed() < SOON, "{:?}", begun.elapsed());
    updated
}

/// Of each request, as with API Priority and Fairness: the daemon gives its lease up in time, as it must where it cannot renew it.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes six minutes"]
async fn update_survives_five_minutes_of_too_many_requests() {
    const HALF: Duration = Duration::from_secs(150);

    let (mut cluster, releases) = SimulatedCluster::with_samples(&VERSIONS[..2]).await.unwrap();
    // The lease is that of a cluster of people.
    cluster.set_arguments(&[]).unwrap();
    let proxy = cluster.proxy(SeededRandom::seed()).await.unwrap();
    cluster.may_lose_the_lease();
    hold_in_the_update(&mut cluster, &releases).await;
    proxy.set(Faults { throttled: true, ..Faults::default() });
    tokio::time::sleep(HALF).await;
    let status = cluster.control_plane.cvo(["status"]).run().await.unwrap().all();
    println!("{status}");
    assert!(status.contains("lease openshift-cluster-version/version"), "{status}");
    tokio::time::sleep(HALF).await;
    println!("{:?}", proxy.tally());
    proxy.set(Faults::default());
    let updated = whole_again(&cluster, &releases).await;
    let completed = |version: &str, signed: bool| (version.to_owned(), HistoryState::Completed, signed);
    assert_eq!(history(&updated), [completed(VERSIONS[1], true), completed(VERSIONS[0], false)]);
    cluster.close().await.unwrap();
}
