//! A real release of some 830 manifests installs, and is updated to the next one, on a real API server; what others
//! added stays; a second pass writes nothing and reads each kind once; and what that costs is printed.

mod foreign;

use cvo::api::{ClusterVersion, HistoryState, NAME};
use e2e::fire::{faults::Chance, release::taking_part};
use e2e::harness::{Programs, audit};
use e2e::real_payload::simulated::{DAEMON_USER, SimulatedCluster, Usage};
use e2e::real_payload::{Release, lay_out, manifests, signer::Signer};
use foreign::Foreign;
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Generous: other things may run on the machine. What it takes is printed.
const LIMIT: Duration = Duration::from_secs(300);

/// §5.4, §5.6, §5.7: foreign labels, annotations, finalizers, ConfigMap keys, pull secrets, tolerations, node selectors
/// and template annotations stay; foreign variables in a container's environment do not. §10.22: applied twice, the
/// second time nothing is written.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_release_installs_updates_and_then_rests() {
    let Some(manifests) = manifests() else { return };
    let programs = Programs::find().unwrap();
    let stage = SimulatedCluster::build(programs.clone()).await.unwrap();
    let signer = Signer::new(&stage.cluster.dir(), &programs.cvo).unwrap();
    let releases = lay_out(&manifests, &stage.store(), signer).unwrap();
    let [first, second] = &releases;

    stage.install(first).await.unwrap();
    let begun = Timestamp::now();
    stage.start(&releases, Duration::ZERO).unwrap();
    stage.completed(first, LIMIT).await.unwrap();
    let installed = Timestamp::now();
    tell("install", &stage, begun, installed);
    let foreign = Foreign::plant(&stage.client, second, 100, &Chance::seed()).await;

    let asked = Timestamp::now();
    update(&stage, second).await;
    let version = stage.completed(second, LIMIT).await.unwrap();
    let updated = Timestamp::now();
    tell("update", &stage, asked, updated);
    let requests = audit::requests(&stage.cluster.audit_log(), DAEMON_USER).unwrap();
    let writes = audit::within(&requests, asked..updated);
    let writes: BTreeSet<_> = audit::writes(&writes).into_iter().map(|r| (r.verb.as_str(), r.object())).collect();
    let deployments = writes.iter().filter(|(_, object)| object.starts_with("apps/deployments/ ")).count();
    let maps = writes.iter().filter(|(_, object)| object.starts_with("/configmaps/ ")).count();
    assert_eq!((deployments, maps, writes.len()), (31, 2, 33), "an update writes what differs: {writes:#?}");
    let history = &version.status.as_ref().unwrap().history;
    let entries: Vec<_> = history.iter().map(|e| (e.state, e.version.as_str(), e.verified)).collect();
    assert_eq!(entries, [(HistoryState::Completed, "5.0.1", true), (HistoryState::Completed, "5.0.0", false)]);
    assert!(history.iter().all(|e| e.completion_time.is_some()));
    assert_eq!((&history[0].image, &history[1].image), (&second.image, &first.image));
    assert_eq!(foreign.complaints().await, Vec::<String>::new(), "after the update");

    let restarted = Timestamp::now();
    stage.signal(Signal::HUP).unwrap();
    stage.rolled_out(second, restarted, LIMIT).await.unwrap();
    stage.stop().await.unwrap();
    let rested = Timestamp::now();
    tell("second pass", &stage, restarted, rested);
    let requests = audit::requests(&stage.cluster.audit_log(), DAEMON_USER).unwrap();
    let second_pass = audit::within(&requests, restarted..rested);
    assert!(!second_pass.is_empty(), "the daemon's requests are told apart");
    assert!(audit::writes(&second_pass).is_empty(), "a second pass writes nothing: {:#?}", audit::writes(&second_pass));
    assert_each_kind_is_read_once(&second_pass, second);
    assert_eq!(foreign.complaints().await, Vec::<String>::new(), "after the second pass");
    println!("{} foreign things in 100 objects are as they should be", foreign.number());

    let usages = stage.usages().unwrap();
    for usage in &usages {
        let Usage { cpu_seconds, peak_kib, resident_kib, .. } = usage;
        println!(
            "daemon {}: ran {:.1} s, ended within {:.1} s, CPU {:.2} s, peak {} KiB, at the end {} KiB",
            usage.release,
            usage.ended.duration_since(usage.started).as_secs_f64(),
            usage.ended.duration_since(usage.asked).as_secs_f64(),
            cpu_seconds.unwrap(),
            peak_kib.unwrap(),
            resident_kib.unwrap(),
        );
    }
    let images: Vec<_> = usages.iter().map(|u| (u.release.as_str(), u.by_itself)).collect();
    assert_eq!(images, [(first.image.as_str(), false), (&second.image, false), (&second.image, false)]);
    stage.cluster.down().await.unwrap();
}

/// What a daemon asks for besides once for each kind of its release: verb, what it asks about, and how often at most.
const BESIDES: [(&str, &str, usize); 10] = [
    // Which kinds there are.
    ("get", "/api", 2),
    // The ClusterVersion, which is in no release.
    ("list", "config.openshift.io/clusterversions/", 1),
    ("watch", "config.openshift.io/clusterversions/", 1),
    // How the cluster is set up.
    ("get", "config.openshift.io/", 4),
    ("watch", "config.openshift.io/featuregates/", 1),
    ("watch", "config.openshift.io/proxies/", 1),
    ("watch", "config.openshift.io/apiservers/", 1),
    ("watch", "config.openshift.io/infrastructures/", 1),
    // The record of the process before, and the lease, which is read before each renewal.
    ("get", "/configmaps/ openshift-cluster-version/cluster-version-progress", 2),
    ("get", "coordination.k8s.io/leases/ ", 20),
];

/// §9.2 W1: one request reads a kind, whatever the number of its objects, and keeps it read.
fn assert_each_kind_is_read_once(requests: &[audit::Request], release: &Release) {
    let payload = taking_part(&release.folder, &release.image).unwrap();
    let kinds: BTreeSet<_> = payload.manifests.iter().map(|m| (&m.id.group, &m.id.kind)).collect();
    let reads = requests.iter().filter(|request| !request.is_write());
    let mut besides = BTreeMap::new();
    let mut of_kinds: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for read in reads {
        let object = read.object();
        let allowance = BESIDES.iter().find(|(verb, about, most)| {
            read.verb == *verb && object.starts_with(about) && besides.get(&(*verb, *about)).unwrap_or(&0) < most
        });
        match allowance {
            Some((verb, about, _)) => *besides.entry((*verb, *about)).or_insert(0) += 1,
            None => of_kinds.entry(format!("{}/{}", read.group, read.resource)).or_default().push(read.uri.clone()),
        }
    }
    let total: usize = of_kinds.values().map(Vec::len).sum();
    println!("second pass: {total} requests for {} kinds, besides them {besides:?}", kinds.len());
    let often: Vec<_> = of_kinds.values().filter(|uris| uris.len() > 1).collect();
    assert!(often.is_empty(), "read more than once: {often:#?}");
    assert!(total <= kinds.len(), "more than the release has: {:#?}", of_kinds.keys());
}

async fn update(stage: &SimulatedCluster, release: &Release) {
    let versions: Api<ClusterVersion> = Api::all(stage.client.clone());
    let patch = Patch::Merge(json!({"spec": {"desiredUpdate": {"image": release.image}}}));
    versions.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
}

fn tell(what: &str, stage: &SimulatedCluster, from: Timestamp, to: Timestamp) {
    let requests = audit::requests(&stage.cluster.audit_log(), DAEMON_USER).unwrap();
    let requests = audit::within(&requests, from..to);
    println!(
        "{what}: {:.1} s, {} requests {:?}, {} of them refused",
        to.duration_since(from).as_secs_f64(),
        requests.len(),
        audit::by_verb(&requests),
        requests.iter().filter(|r| r.code >= 400).count(),
    );
}
