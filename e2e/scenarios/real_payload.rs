//! A real release of some 830 manifests installs, and is updated to the next one, on a real API server; a second pass
//! writes nothing; and what that costs is printed.

use crate::harness::audit;
use crate::real_payload::stage::{DAEMON_USER, Programs, Stage, Usage};
use crate::real_payload::{Release, lay_out, manifests, signer::Signer};
use cvo::api::{ClusterVersion, HistoryState, NAME};
use jiff::Timestamp;
use kube::api::{Api, Patch, PatchParams};
use rustix::process::Signal;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

/// Generous: other things may run on the machine. What it takes is printed.
const LIMIT: Duration = Duration::from_secs(300);

#[tokio::test(flavor = "multi_thread")]
async fn a_real_release_installs_updates_and_then_rests() {
    let Some(manifests) = manifests() else { return };
    let programs =
        Programs { cvo: PathBuf::from(env!("CARGO_BIN_EXE_cvo")), lab: PathBuf::from(env!("CARGO_BIN_EXE_lab")) };
    let stage = Stage::build(programs.clone()).await.unwrap();
    let signer = Signer::new(&stage.cluster.dir(), &programs.cvo).unwrap();
    let releases = lay_out(&manifests, &stage.store(), signer).unwrap();
    let [first, second] = &releases;

    stage.install(first).await.unwrap();
    let begun = Timestamp::now();
    stage.play(&releases, Duration::ZERO).unwrap();
    stage.completed(first, LIMIT).await.unwrap();
    let installed = Timestamp::now();
    tell("install", &stage, begun, installed);

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

    let restarted = Timestamp::now();
    stage.signal(Signal::HUP).unwrap();
    stage.passed(second, restarted, LIMIT).await.unwrap();
    stage.end().await.unwrap();
    let rested = Timestamp::now();
    tell("second pass", &stage, restarted, rested);
    let requests = audit::requests(&stage.cluster.audit_log(), DAEMON_USER).unwrap();
    let second_pass = audit::within(&requests, restarted..rested);
    assert!(!second_pass.is_empty(), "the daemon's requests are told apart");
    assert!(audit::writes(&second_pass).is_empty(), "a second pass writes nothing: {:#?}", audit::writes(&second_pass));

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

async fn update(stage: &Stage, release: &Release) {
    let versions: Api<ClusterVersion> = Api::all(stage.client.clone());
    let patch = Patch::Merge(json!({"spec": {"desiredUpdate": {"image": release.image}}}));
    versions.patch(NAME, &PatchParams::default(), &patch).await.unwrap();
}

fn tell(what: &str, stage: &Stage, from: Timestamp, to: Timestamp) {
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
