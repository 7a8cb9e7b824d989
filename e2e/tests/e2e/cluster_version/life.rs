//! The life of the daemon's process and of the ClusterVersion: what is said first, how a process ends, and other writers.

use std::time::{Duration, Instant};

use cvo::testing::api::{ClusterVersion, HistoryState, NAME, NAMESPACE};
use futures::StreamExt;
use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use kube::api::{
    ApiResource, DeleteParams, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams, WatchEvent, WatchParams,
};
use serde_json::json;

use super::update::assert_times_in_order;
use e2e::conditions::Conditions;
use e2e::faults::source::Faults;
use e2e::harness::{Cvo, Leaf};
use e2e::processes;
use e2e::services::monitoring::PROMETHEUS;
use e2e::signing::TRUSTED;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::daemon::PROCESS;
use e2e::simulator::history::history;
use e2e::simulator::sample::config_kind;
use e2e::simulator::simulation::Workloads;
use e2e::until::until;

/// It has no cluster, so that it would try to reach one for ever.
#[tokio::test(flavor = "multi_thread")]
async fn process_that_has_only_just_begun_ends_at_once_when_it_is_told_to() {
    let flags = ["start", "--release-image=r.example/a@sha256:00", "--node-name=n", "--listen=", "--listen-health="];
    processes::assert_ends_when_it_has_only_just_begun(|_| Cvo::new(flags)).await;
}

/// Waits until a daemon leads, or none does.
async fn until_led(cluster: &SimulatedCluster, led: bool) {
    let leases: Api<Lease> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let holder = |lease: Option<&Lease>| lease.and_then(|lease| lease.spec.as_ref()?.holder_identity.clone());
    let reached = |lease: Option<&Lease>| holder(lease).is_some_and(|holder| !holder.is_empty()) == led;
    let what = if led { "a daemon to lead" } else { "no daemon to lead" };
    cluster.until_object(what, leases, NAME, Duration::from_secs(30), reached).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn cluster_version_is_waited_for_and_its_first_status_is_whole() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let versions = cluster.versions();
    let mut rendered = versions.get(NAME).await.unwrap();
    // With orphans, as it has to be deleted if at all: nothing of the platform is there yet.
    versions
        .delete(
            NAME,
            &DeleteParams { propagation_policy: Some(kube::api::PropagationPolicy::Orphan), ..DeleteParams::default() },
        )
        .await
        .unwrap();
    let gone = |object: Option<&ClusterVersion>| object.is_none();
    let within = Duration::from_secs(30);
    cluster.until_object("the ClusterVersion to be gone", versions.clone(), NAME, within, gone).await.unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    until_led(&cluster, true).await;
    assert!(versions.get_opt(NAME).await.unwrap().is_none(), "the daemon does not create one");

    let events = versions.watch(&WatchParams::default(), "0").await.unwrap();
    rendered.metadata.resource_version = None;
    rendered.metadata.uid = None;
    rendered.status = None;
    versions.create(&PostParams::default(), &rendered).await.unwrap();
    let events = events.filter_map(|event| std::future::ready(event.ok()));
    let first = cluster.wait("its first status").event(events, |event| match event {
        WatchEvent::Added(object) | WatchEvent::Modified(object) => object.status.as_ref().map(|_| object.clone()),
        _ => None,
    });
    let first = first.await.unwrap();
    for (name, status) in [
        ("Available", "False"),
        ("Progressing", "True"),
        ("Failing", "False"),
        ("RetrievedUpdates", "False"),
        ("ReleaseAccepted", "True"),
    ] {
        assert!(first.has(&format!("{name}={status}")), "{name} of the first status: {:?}", first.status);
    }
    assert_eq!(first.condition("ReleaseAccepted=True").unwrap().reason, "PayloadLoaded");
    assert_eq!(history(&first), [("1.0.0".to_owned(), HistoryState::Partial, false)]);
    assert!(first.status.as_ref().unwrap().history[0].completion_time.is_none());
    assert_eq!(first.status.as_ref().unwrap().desired.version, "1.0.0");
    cluster.completed(&releases[0]).await.unwrap();
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn process_ends_in_order_in_the_middle_of_a_rollout_and_at_once_if_told_twice() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let proxy = cluster.proxy(1).await.unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    let waiting = |object: &ClusterVersion| object.says("Progressing=True", &["waiting on delta"]);
    cluster.until("the rollout of 1.0.1 to wait for delta", waiting).await.unwrap();

    // What changes at the last moment is still told.
    cluster.patch(json!({"spec": {"channel": "at-the-end"}})).await.unwrap();
    let generation = cluster.versions().get(NAME).await.unwrap().metadata.generation;
    let begun = Instant::now();
    cluster.stop_daemon().await.unwrap();
    let took = begun.elapsed();
    println!("the daemon ended {} ms after SIGTERM", took.as_millis());
    assert!(took < Duration::from_secs(20), "{took:?}");
    until_led(&cluster, false).await;
    let last = cluster.versions().get(NAME).await.unwrap();
    assert_eq!(last.status.as_ref().unwrap().observed_generation, generation.unwrap(), "the last status is written");
    assert!(waiting(&last), "{:?}", last.condition("Progressing=True"));
    let expected =
        [("1.0.1".to_owned(), HistoryState::Partial, true), ("1.0.0".to_owned(), HistoryState::Completed, false)];
    assert_eq!(history(&last), expected);

    // With answers that take minutes it cannot end in order soon.
    cluster.run_daemon(&releases[1]).await.unwrap();
    until_led(&cluster, true).await;
    proxy.set(Faults { delay: Duration::from_secs(600), ..Faults::default() });
    assert!(!cluster.control_plane.terminate(PROCESS, Duration::from_secs(2)).await.unwrap(), "it waits for answers");
    let begun = Instant::now();
    assert!(
        cluster.control_plane.terminate(PROCESS, Duration::from_secs(2)).await.unwrap(),
        "the second signal ends it"
    );
    println!("the daemon ended {} ms after the second signal", begun.elapsed().as_millis());

    proxy.set(Faults::default());
    cluster.simulation.release("delta");
    let updated = cluster.completed(&releases[1]).await.unwrap();
    assert_times_in_order(&updated);
    cluster.close().await.unwrap();
}

/// Another client changes the object all the time, so that writes conflict, and writes nonsense into its status.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn update_survives_others_that_write_the_cluster_version() {
    let (cluster, releases) = SimulatedCluster::with_installed(&["1.0.0", "1.0.1"]).await.unwrap();
    let versions = cluster.versions();
    let others = versions.clone();
    let disturbing = tokio::spawn(async move {
        for number in 0.. {
            let patch = json!({"metadata": {"annotations": {"lab.invalid/number": number.to_string()}}});
            others.patch(NAME, &PatchParams::default(), &Patch::Merge(&patch)).await.unwrap();
        }
    });
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    let waiting = |object: &ClusterVersion| object.says("Progressing=True", &["waiting on delta"]);
    let before = cluster.until("the rollout of 1.0.1 to wait for delta", waiting).await.unwrap();
    let nonsense = json!({"status": {
        "conditions": [{"type": "Progressing", "status": "False", "lastTransitionTime": "2020-01-01T00:00:00Z", "reason": "Mine", "message": "mine"}],
        "versionHash": "mine", "observedGeneration": 1_000_000, "availableUpdates": [],
        "desired": {"version": "9.9.9", "image": "mine"},
    }});
    versions.patch_status(NAME, &PatchParams::default(), &Patch::Merge(&nonsense)).await.unwrap();
    let repaired = cluster.until("the status to be that of the daemon again", |object| {
        let status = object.status.as_ref().unwrap();
        waiting(object) && status.desired.version == "1.0.1" && status.version_hash != "mine"
    });
    let repaired = repaired.await.unwrap();
    assert_eq!(history(&repaired), history(&before));
    assert_eq!(repaired.status.as_ref().unwrap().observed_generation, repaired.metadata.generation.unwrap());
    // An entry on top that the daemon has not made is one that did not complete.
    let mine = json!({
        "state": "Partial", "version": "9.9.9", "image": "mine", "verified": false,
        "startedTime": "2020-01-01T00:00:00Z", "completionTime": null,
    });
    let patch = serde_json::from_value(json!([{"op": "add", "path": "/status/history/0", "value": mine}])).unwrap();
    versions.patch_status(NAME, &PatchParams::default(), &Patch::Json::<()>(patch)).await.unwrap();
    cluster.simulation.release("delta");
    let updated = cluster.completed(&releases[1]).await.unwrap();
    println!("{:?}", history(&updated));
    let entries = &updated.status.as_ref().unwrap().history;
    assert!(entries.iter().all(|entry| entry.completion_time.is_some()), "{entries:?}");
    let newest = &updated.status.as_ref().unwrap().history[0];
    assert_eq!((newest.version.as_str(), newest.state), ("1.0.1", HistoryState::Completed));
    let oldest = updated.status.as_ref().unwrap().history.last().unwrap().clone();
    assert_eq!((oldest.version.as_str(), oldest.state), ("1.0.0", HistoryState::Completed));
    assert!(!disturbing.is_finished(), "it was disturbed all the time");
    disturbing.abort();
    let conflicts = cluster.all_requests().unwrap();
    let conflicts = conflicts.iter().filter(|r| r.resource == "clusterversions" && r.code == 409).count();
    println!("{conflicts} writes were in conflict");
    assert!(conflicts > 0, "no write was in conflict");
    cluster.close().await.unwrap();
}

/// A client that trusts this certificate and speaks nothing above this version of TLS.
fn trusting(certificate: &str, highest: reqwest::tls::Version) -> reqwest::Client {
    let certificate = reqwest::Certificate::from_pem(certificate.as_bytes()).unwrap();
    let builder = reqwest::Client::builder().no_proxy().tls_certs_only([certificate]);
    builder.tls_version_max(highest).build().unwrap()
}

/// Waits until a new connection to the daemon succeeds, or fails; returns how long that took.
async fn until_served(url: &str, certificate: &str, highest: reqwest::tls::Version, served: bool) -> Duration {
    let begun = Instant::now();
    let what = format!("a connection with {highest:?} at most to {}", if served { "succeed" } else { "fail" });
    // A new client each time: a connection that exists keeps its TLS settings. Nothing tells which ones a server has.
    let as_expected = async || match trusting(certificate, highest).get(url).send().await {
        Ok(_) if !served => Err("it succeeds".to_owned()),
        Err(error) if served => Err(format!("{error:?}")),
        _ => Ok(()),
    };
    until(what, Duration::from_secs(20)).answer(as_expected).await.unwrap();
    begun.elapsed()
}

/// One new connection after another, each of which must succeed.
async fn scrape_all_the_time(url: String, client: Leaf) {
    loop {
        let identity = reqwest::Identity::from_pem(client.identity().as_bytes()).unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).identity(identity);
        let answer = client.build().unwrap().get(&url).send().await.unwrap();
        assert_eq!(answer.status(), 200);
        assert!(answer.text().await.unwrap().contains("cluster_version"));
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn certificate_and_tls_settings_of_the_metrics_change_while_they_are_served() {
    use reqwest::tls::Version;
    let mut cluster = SimulatedCluster::start(Workloads::Kwok).await.unwrap();
    let release = cluster.lay_out_sample("1.0.0").unwrap();
    let definition = config_kind("APIServer", "apiservers").to_string();
    release.put("0000_10_alpha_03_apiservers.json", &definition).unwrap();
    cluster.sign(&release, TRUSTED).await.unwrap();
    cluster.install(&release).await.unwrap();
    cluster.simulate(std::slice::from_ref(&release), Duration::ZERO).unwrap();

    let folder = cluster.control_plane.dir();
    let (certificate, key) = (folder.join("metrics.crt"), folder.join("metrics.key"));
    let write = || {
        let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
        std::fs::write(&certificate, made.cert.pem()).unwrap();
        std::fs::write(&key, made.signing_key.serialize_pem()).unwrap();
        made.cert.pem()
    };
    let first = write();
    let address = format!("127.0.0.1:{}", cluster.control_plane.port("metrics"));
    let path = |path: &std::path::Path| path.display().to_string();
    let arguments =
        [["--listen", &address], ["--serving-cert-file", &path(&certificate)], ["--serving-key-file", &path(&key)]];
    cluster.add_arguments(arguments.into_iter().flatten()).unwrap();
    cluster.run_daemon(&release).await.unwrap();
    cluster.completed(&release).await.unwrap();
    let url = format!("https://{address}/metrics");
    until_served(&url, &first, Version::TLS_1_2, true).await;

    let scraping =
        tokio::spawn(scrape_all_the_time(url.clone(), cluster.control_plane.client_certificate(PROMETHEUS).unwrap()));
    let second = write();
    let took = until_served(&url, &second, Version::TLS_1_3, true).await;
    println!("the second certificate was served after {} ms", took.as_millis());
    until_served(&url, &first, Version::TLS_1_3, false).await;

    scraping.abort();
    let scrapes = scraping.await.expect_err("none has failed");
    assert!(scrapes.is_cancelled(), "{scrapes}");

    let kind = ApiResource::from_gvk(&GroupVersionKind::gvk("config.openshift.io", "v1", "APIServer"));
    let servers: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &kind);
    let object = json!({
        "apiVersion": "config.openshift.io/v1", "kind": "APIServer", "metadata": {"name": "cluster"},
        "spec": {"tlsAdherence": "StrictAllComponents", "tlsSecurityProfile": {"type": "Modern"}},
    });
    servers.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    let took = until_served(&url, &second, Version::TLS_1_2, false).await;
    println!("TLS 1.2 was refused {} ms after the profile asked for it", took.as_millis());
    until_served(&url, &second, Version::TLS_1_3, true).await;
    let legacy = json!({"spec": {"tlsAdherence": "LegacyAdheringComponentsOnly"}});
    servers.patch("cluster", &PatchParams::default(), &Patch::Merge(&legacy)).await.unwrap();
    until_served(&url, &second, Version::TLS_1_2, true).await;
    cluster.close().await.unwrap();
}
