//! A real release of some 830 manifests is installed and updated to the next one on a real API server. What others added
//! stays, a second rollout writes nothing and reads each kind once, and the cost of all that is printed.

mod additions;

use additions::Additions;
use cvo::testing::api::HistoryState;
use cvo::testing::payload::Manifest;
use e2e::harness::{audit, is_oldest_kubernetes};
use e2e::random::SeededRandom;
use e2e::real_payload::{lay_out, manifests};
use e2e::simulator::daemon::{Ended, Usage};
use e2e::simulator::requests;
use e2e::simulator::{
    cluster::{InitialEvents, SimulatedCluster},
    history::is_signed,
    releases::Release,
    simulation::Workloads,
};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// Added labels, annotations, finalizers, ConfigMap keys, pull secrets, tolerations, node selectors and template
/// annotations stay; variables that were added to a container's environment do not.
#[tokio::test(flavor = "multi_thread")]
async fn real_release_is_installed_and_updated_and_a_second_rollout_writes_nothing() {
    installed_updated_and_left_alone(InitialEvents::Sent).await;
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "the same on other API servers"]
async fn real_release_is_installed_and_updated_without_initial_events() {
    installed_updated_and_left_alone(InitialEvents::Disabled).await;
    installed_updated_and_left_alone(InitialEvents::RefusedFor("configmaps")).await;
}

async fn installed_updated_and_left_alone(initial_events: InitialEvents) {
    let Some(manifests) = manifests() else { return };
    let mut cluster = SimulatedCluster::start_on(initial_events, Workloads::Simulated).await.unwrap();
    let _proxy = match initial_events {
        InitialEvents::RefusedFor(_) => Some(cluster.proxy(SeededRandom::seed()).await.unwrap()),
        InitialEvents::Sent | InitialEvents::Disabled => None,
    };
    let releases = lay_out(&manifests, &cluster).await.unwrap();
    let [first, second] = &releases;

    cluster.install(first).await.unwrap();
    let begun = Timestamp::now();
    cluster.simulate(&releases, Duration::ZERO).unwrap();
    cluster.run_daemon(first).await.unwrap();
    cluster.completed(first).await.unwrap();
    let installed = Timestamp::now();
    print_cost("install", &cluster, begun, installed);
    let additions = Additions::make(&cluster.client, second, 100, SeededRandom::seed()).await;

    let asked = Timestamp::now();
    cluster.request(second).await.unwrap();
    let version = cluster.completed(second).await.unwrap();
    let updated = Timestamp::now();
    print_cost("update", &cluster, asked, updated);
    let writes = audit::within(&cluster.requests().unwrap(), asked..updated);
    let writes: BTreeSet<_> = requests::writes(&writes).into_iter().map(|r| (r.verb.as_str(), r.object())).collect();
    let deployments = writes.iter().filter(|(_, object)| object.starts_with("apps/deployments/ ")).count();
    let maps = writes.iter().filter(|(_, object)| object.starts_with("/configmaps/ ")).count();
    assert_eq!((deployments, maps, writes.len()), (31, 2, 33), "an update writes what differs: {writes:#?}");
    let history = &version.status.as_ref().unwrap().history;
    let entries: Vec<_> = history.iter().map(|e| (e.state, e.version.as_str(), is_signed(e))).collect();
    assert_eq!(entries, [(HistoryState::Completed, "5.0.1", true), (HistoryState::Completed, "5.0.0", false)]);
    assert!(history.iter().all(|e| e.completion_time.is_some()));
    assert_eq!((&history[0].image, &history[1].image), (&second.image, &first.image));
    assert_eq!(additions.violations().await, Vec::<String>::new(), "after the update");

    let restarted = Timestamp::now();
    cluster.node.restart().await.unwrap();
    cluster.rolled_out(second, restarted).await.unwrap();
    cluster.stop_daemon().await.unwrap();
    let rested = Timestamp::now();
    print_cost("second rollout", &cluster, restarted, rested);
    let again = audit::within(&cluster.requests().unwrap(), restarted..rested);
    assert!(!again.is_empty(), "the daemon's requests are told apart");
    let mut writes = requests::writes(&again);
    let dropped = dropped_by_server(second);
    writes.retain(|request| !dropped.contains(&request.object()));
    assert!(writes.is_empty(), "a second rollout writes nothing: {writes:#?}");
    // Else a refused watch, a list, and a watch; on the oldest Kubernetes also a list and a watch of those who follow
    // definitions and webhooks.
    let reads = match (initial_events, is_oldest_kubernetes()) {
        (InitialEvents::Sent, false) => 1,
        (_, false) => 3,
        (_, true) => 5,
    };
    assert_each_kind_is_read_once(&again, second, reads);
    assert_eq!(additions.violations().await, Vec::<String>::new(), "after the second rollout");
    println!("{} additions to 100 objects are as they should be", additions.number());

    let state = cluster.node.state.lock().await;
    state.ended.iter().for_each(print_usage);
    let images: Vec<_> = state.ended.iter().map(|ended| (ended.pod.image.as_str(), ended.asked.is_some())).collect();
    assert_eq!(images, [(first.image.as_str(), true), (&second.image, true), (&second.image, true)]);
    drop(state);
    cluster.close().await.unwrap();
}

/// Objects with a field that the oldest Kubernetes drops. Each process finds that out by a write, which changes nothing.
fn dropped_by_server(release: &Release) -> BTreeSet<String> {
    let payload = release.load().unwrap();
    let has_field = |m: &&Arc<Manifest>| m.object().unwrap().pointer("/spec/template/spec/hostUsers").is_some();
    let deployments = payload.manifests.iter().filter(|m| m.id.kind == "Deployment" && is_oldest_kubernetes());
    deployments.filter(has_field).map(|m| format!("apps/deployments/ {}/{}", m.id.namespace, m.id.name)).collect()
}

fn print_usage(ended: &Ended) {
    let Usage { cpu_seconds, peak_kib, resident_kib } = ended.usage;
    println!(
        "daemon {}: ran {:.1} s, ended within {:.1} s, CPU {:.2} s, peak {} KiB, at the end {} KiB",
        ended.pod.image,
        ended.at.duration_since(ended.pod.started).as_secs_f64(),
        ended.at.duration_since(ended.asked.unwrap()).as_secs_f64(),
        cpu_seconds.unwrap(),
        peak_kib.unwrap(),
        resident_kib.unwrap(),
    );
}

/// What a daemon reads besides each kind of its release: verb, object, and the largest number of requests.
const OTHER_READS: [(&str, &str, usize); 24] = [
    // Which kinds there are.
    ("get", "/api", 2),
    // The ClusterVersion, which is in no release.
    ("list", "config.openshift.io/clusterversions/", 1),
    ("watch", "config.openshift.io/clusterversions/", 1),
    // The cluster configuration.
    ("get", "config.openshift.io/", 4),
    ("watch", "config.openshift.io/featuregates/", 1),
    // For manifests, and for requests to the outside.
    ("watch", "config.openshift.io/proxies/", 2),
    ("watch", "config.openshift.io/apiservers/", 1),
    ("watch", "config.openshift.io/infrastructures/", 1),
    // The progress record of the process before, and the lease, which is read before each renewal.
    ("get", "/configmaps/ openshift-cluster-version/cluster-version-progress", 2),
    ("get", "coordination.k8s.io/leases/ ", 20),
    // The leader notices at once that its lease was deleted or taken.
    ("watch", "coordination.k8s.io/leases/", 2),
    // Who installed the cluster and the CA bundle, gates and acknowledgements, in openshift-config and openshift-config-managed.
    ("get", "/configmaps/ openshift-config", 4),
    ("list", "/configmaps/ openshift-config", 2),
    ("watch", "/configmaps/ openshift-config", 3),
    // What hinders any update, once when a release is loaded.
    ("get", "/version", 1),
    ("list", "/nodes/", 1),
    ("list", "/pods/", 1),
    ("list", "coordination.k8s.io/leases/", 1),
    ("list", "apiextensions.k8s.io/customresourcedefinitions/", 1),
    ("list", "policy/poddisruptionbudgets/", 1),
    ("list", "apiregistration.k8s.io/apiservices/", 1),
    ("list", "admissionregistration.k8s.io/validatingwebhookconfigurations/", 1),
    ("list", "admissionregistration.k8s.io/mutatingwebhookconfigurations/", 1),
    ("list", "discovery.k8s.io/endpointslices/", 9),
];

/// One request reads a kind, whatever the number of its objects, and then watches it; `most` where that is not possible.
fn assert_each_kind_is_read_once(requests: &[audit::Request], release: &Release, most: usize) {
    let payload = release.load().unwrap();
    let kinds: BTreeSet<_> = payload.manifests.iter().map(|m| (&m.id.group, &m.id.kind)).collect();
    // Each page of a list is a request.
    let reads = requests.iter().filter(|request| !request.is_write() && !request.uri.contains("continue="));
    let mut others = BTreeMap::new();
    let mut of_kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for read in reads {
        let object = read.object();
        let allowance = OTHER_READS.iter().find(|(verb, about, most)| {
            read.verb == *verb && object.starts_with(about) && others.get(&(*verb, *about)).unwrap_or(&0) < most
        });
        match allowance {
            Some((verb, about, _)) => *others.entry((*verb, *about)).or_insert(0) += 1,
            None => of_kinds.entry(format!("{}/{}", read.group, read.resource)).or_default().push(read.uri.clone()),
        }
    }
    let total: usize = of_kinds.values().map(Vec::len).sum();
    println!("second rollout: {total} requests for {} kinds, besides them {others:?}", kinds.len());
    let often: Vec<_> = of_kinds.values().filter(|uris| uris.len() > most).collect();
    assert!(often.is_empty(), "read more than once: {often:#?}");
    // The lists of the cluster configuration are counted as well then.
    assert!(most > 1 || total <= kinds.len(), "more than the release has: {:#?}", of_kinds.keys());
}

fn print_cost(what: &str, cluster: &SimulatedCluster, from: Timestamp, to: Timestamp) {
    let requests = audit::within(&cluster.requests().unwrap(), from..to);
    println!(
        "{what}: {:.1} s, {} requests {:?}, {} of them refused",
        to.duration_since(from).as_secs_f64(),
        requests.len(),
        audit::by_verb(&requests),
        requests.iter().filter(|r| r.code >= 400).count(),
    );
}
