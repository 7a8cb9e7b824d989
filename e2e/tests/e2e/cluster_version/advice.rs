//! Advice on updates: published risks are judged by a real Prometheus, and everything outside the cluster is reached through
//! a real proxy with a private CA.

use std::{
    net::{IpAddr, Ipv4Addr},
    path::PathBuf,
    time::{Duration, Instant},
};

use axum::http::StatusCode;
use cvo::testing::api::{ClusterVersion, HistoryState};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};

use e2e::{
    conditions::Conditions,
    harness::{Cluster, Options, audit, machine::own_address},
    services::{certificates::Certificates, monitoring::Monitoring, proxy::TinyProxy, update_service::UpdateService},
    signing::TRUSTED,
    simulator::{
        cluster::SimulatedCluster,
        history::is_signed,
        releases::Release,
        sample::{self, config_kind},
    },
    workspace,
};

/// A published risk with its query, and series with the verdict that they give.
struct Published {
    risk: String,
    query: String,
    cases: Vec<Value>,
}

/// The published risks that cases are known of; `None`, with a note, where there is no graph data.
fn published() -> Option<Vec<Published>> {
    let folder = workspace::shared_data().join("graph-data/derived");
    let read =
        |name: &str| -> Option<Vec<Value>> { serde_json::from_slice(&std::fs::read(folder.join(name)).ok()?).ok() };
    let (Some(catalog), Some(vectors)) = (read("promql-catalog.json"), read("promql-vectors.json")) else {
        println!("skipped: {} has no queries of published risks", folder.display());
        return None;
    };
    let published = vectors.iter().map(|vector| {
        let entry = catalog.iter().find(|entry| entry["id"] == vector["id"]).unwrap();
        Published {
            risk: vector["risk"].as_str().unwrap().to_owned(),
            query: entry["expression"].as_str().unwrap().to_owned(),
            cases: vector["cases"].as_array().unwrap().clone(),
        }
    });
    Some(published.collect())
}

impl Published {
    /// The series of the first case with this verdict.
    fn series(&self, verdict: &str) -> &[Value] {
        let case = self.cases.iter().find(|case| case["verdict"] == verdict).unwrap();
        case["series"].as_array().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn queries_of_published_risks_give_their_verdicts() {
    let Some(published) = published() else { return };
    let cluster = Cluster::up(Options::default()).await.unwrap();
    let mut monitoring = Monitoring::start(&cluster).await.unwrap();
    let (mut count, mut wrong, begun) = (0, Vec::new(), Instant::now());
    for Published { risk, query, cases } in &published {
        for case in cases {
            monitoring.set(case["series"].as_array().unwrap()).await.unwrap();
            let found = monitoring.matches(query).await;
            let verdict = match &found {
                Ok(true) => "match",
                Ok(false) => "no match",
                Err(_) => "fails",
            };
            count += 1;
            if case["verdict"] != verdict {
                wrong.push(format!("{risk}, {}: {found:?}, expected {}", case["note"], case["verdict"]));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {count}:\n{}", wrong.len(), wrong.join("\n"));
    assert!(count >= 67, "{count} cases");
    println!("{count} cases of {} queries in {} s", published.len(), begun.elapsed().as_secs());
    cluster.down().await.unwrap();
}

/// A graph in which the release can be updated to 1.0.1, 1.0.2 and so on, each with one of the risks.
fn graph(own: &Release, risks: &[&Published]) -> Value {
    let mut nodes = vec![json!({"version": own.version, "payload": own.image,
        "metadata": {"url": "https://errata.invalid/1", "io.openshift.upgrades.graph.release.channels": "a,b"}})];
    let mut conditional = Vec::new();
    for (at, Published { risk, query, .. }) in risks.iter().enumerate() {
        let version = format!("1.0.{}", at + 1);
        nodes.push(json!({"version": version, "payload": format!("registry.invalid/release@sha256:{at:064}")}));
        conditional.push(json!({
            "edges": [{"from": own.version, "to": version}],
            "risks": [{"name": risk, "message": format!("{risk} hurts."), "url": "https://risks.invalid/1",
                "matchingRules": [{"type": "PromQL", "promql": {"promql": query}}]}],
        }));
    }
    json!({"nodes": nodes, "edges": [], "conditionalEdges": conditional})
}

/// Status and reason of an update's condition, with its message, and whether the update is among the available ones.
fn recommended(object: &ClusterVersion, version: &str) -> Option<(String, String, String, bool)> {
    let status = object.status.as_ref()?;
    let update = status.conditional_updates.iter().find(|update| update.release.version == version)?;
    let condition = update.condition("Recommended")?;
    let available = status.available_updates.iter().flatten().any(|release| release.version == version);
    Some((condition.status, condition.reason, condition.message, available))
}

/// Waits until the update is judged so, and returns how long that took and the message.
async fn until_judged(cluster: &SimulatedCluster, version: &str, status: &str, reason: &str) -> (Duration, String) {
    let begun = Instant::now();
    let as_expected = |object: &ClusterVersion| {
        recommended(object, version)
            .is_some_and(|found| (found.0.as_str(), found.1.as_str(), found.3) == (status, reason, status == "True"))
    };
    let what = format!("{version} to be {status} because of {reason}");
    let object = cluster.until(&what, as_expected).await.unwrap();
    (begun.elapsed(), recommended(&object, version).unwrap().2)
}

async fn choose_channel(cluster: &SimulatedCluster, channel: &str) {
    cluster.patch(json!({"spec": {"channel": channel}})).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn update_is_recommended_while_its_risk_does_not_match() {
    let Some(published) = published() else { return };
    let chosen: Vec<&Published> = published.iter().take(3).collect();
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let own = &releases[0];
    let mut monitoring = Monitoring::start(&cluster.control_plane).await.unwrap();
    let service = UpdateService::start(Ipv4Addr::LOCALHOST.into(), None, None, PathBuf::new()).await.unwrap();
    service.answer(graph(own, &chosen));
    cluster.add_arguments(monitoring.arguments()).unwrap();
    cluster.run_daemon(own).await.unwrap();
    cluster.completed(own).await.unwrap();
    let upstream = format!("http://{}/graph", service.address);
    cluster.patch(json!({"spec": {"upstream": upstream}})).await.unwrap();
    for (at, one) in chosen.iter().enumerate() {
        let (version, risk) = (format!("1.0.{}", at + 1), one.risk.as_str());
        for (verdict, status, reason) in
            [("match", "False", risk), ("no match", "True", "NotExposedToRisks"), ("match", "False", risk)]
        {
            monitoring.set(one.series(verdict)).await.unwrap();
            // A change of the request evaluates the risks anew; without one it takes up to an hour.
            choose_channel(&cluster, &format!("{at}-{}", service.count())).await;
            let (took, message) = until_judged(&cluster, &version, status, reason).await;
            println!("{risk}: {verdict} after {} ms: {message}", took.as_millis());
            assert_eq!(
                message.contains(&format!("{risk} hurts. https://risks.invalid/1")),
                status == "False",
                "{message}"
            );
            assert!(!message.contains("evaluated at"), "a time would be a write each hour: {message}");
        }
    }
    restart_writes_nothing(&cluster, &service).await;
    // The monitoring goes away: what is not known cannot be recommended, and the condition says why.
    cluster.control_plane.kill("prometheus").unwrap();
    choose_channel(&cluster, "away").await;
    let (_, message) = until_judged(&cluster, "1.0.3", "Unknown", "EvaluationFailed").await;
    assert!(message.contains(&format!("{} cannot be reached", monitoring.url)), "{message}");
    a_failing_service_keeps_the_updates(&cluster, &service).await;
    cluster.close().await.unwrap();
}

/// The next process finds the advice in status, and what it is told is the same.
async fn restart_writes_nothing(cluster: &SimulatedCluster, service: &UpdateService) {
    let before = cluster.versions().get("version").await.unwrap();
    let (count, begun) = (service.count(), jiff::Timestamp::now());
    cluster.node.restart().await.unwrap();
    service.until_asked(count).await.unwrap();
    // The answer is in the record at the same time as it would be in status.
    let told = |progress: &cvo::testing::api::progress::Progress| {
        progress.advice.as_ref().and_then(|advice| advice.answered).is_some_and(|at| at > begun)
    };
    cluster.until_progress("the answer to the next process", told).await.unwrap();
    let object = cluster.versions().get("version").await.unwrap();
    let changed =
        (&before.status, &before.metadata.resource_version) != (&object.status, &object.metadata.resource_version);
    let requests = audit::within(&cluster.requests().unwrap(), begun..jiff::Timestamp::now());
    let writes = requests.iter().filter(|request| request.is_write() && request.resource == "clusterversions").count();
    assert!(!changed && writes == 0, "{writes} writes: {:?}\n{:?}", before.status, object.status);
}

async fn a_failing_service_keeps_the_updates(cluster: &SimulatedCluster, service: &UpdateService) {
    service.answer(json!({"nodes": [{"version": "1.0.0"}], "edges": []}));
    choose_channel(cluster, "none").await;
    let none = |object: &ClusterVersion| {
        let status = object.status.as_ref().unwrap();
        status.available_updates.as_ref().is_some_and(Vec::is_empty) && status.conditional_updates.is_empty()
    };
    cluster.until("no updates to be known", none).await.unwrap();
    service.fail(StatusCode::BAD_REQUEST, json!({"kind": "missing_params", "value": "channel is unknown"}));
    // The next process asks at once.
    cluster.node.restart().await.unwrap();
    let failed = |object: &ClusterVersion| {
        object.condition("RetrievedUpdates=False").is_some_and(|c| c.reason == "ResponseFailed")
    };
    let object = cluster.until("the failure to be told", failed).await.unwrap();
    let message = &object.condition("RetrievedUpdates=False").unwrap().message;
    println!("a failing service: {message}");
    for part in ["missing_params: channel is unknown", "spec.upstream names this update service", "400"] {
        assert!(message.contains(part), "{message}");
    }
    assert!(none(&object), "that there are none stays known: {:?}", object.status);
    // Under another channel nothing of this one is known.
    choose_channel(cluster, "other").await;
    let unknown = |object: &ClusterVersion| object.status.as_ref().unwrap().available_updates.is_none();
    cluster.until("nothing to be known of the other channel", unknown).await.unwrap();
}

/// Waits until the update service cannot be asked for this reason, and the message has these words.
async fn until_failed(cluster: &SimulatedCluster, reason: &str, words: &[&str]) {
    let failed = |object: &ClusterVersion| {
        object
            .condition("RetrievedUpdates=False")
            .is_some_and(|c| c.reason == reason && words.iter().all(|word| c.message.contains(word)))
    };
    let object = cluster.until(&format!("{reason} with {words:?}"), failed).await.unwrap();
    println!("{reason}: {}", object.condition("RetrievedUpdates=False").unwrap().message);
}

async fn trust(cluster: &SimulatedCluster, pem: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "openshift-config-managed");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "trusted-ca-bundle"},
        "data": {"ca-bundle.crt": pem}});
    let params = PatchParams::apply("administrator").force();
    maps.patch("trusted-ca-bundle", &params, &Patch::Apply(&map)).await.unwrap();
}

/// A cluster whose releases find their signatures, and its daemon its updates, only behind a proxy.
async fn behind_a_proxy(service: &UpdateService, cluster: &mut SimulatedCluster) -> [Release; 2] {
    let url = format!("https://{}", service.address);
    let mut verification = cluster.keys.verification_config(&cluster.signatures());
    verification["data"]["store-sample"] = json!(format!("{url}/signatures"));
    let lay_out = |version: &str| sample::lay_out(&cluster.payloads(), version, &verification).unwrap();
    let releases = [lay_out("1.0.0"), lay_out("1.0.1")];
    for release in &releases {
        release.put("0000_10_alpha_03_proxies.json", &config_kind("Proxy", "proxies").to_string()).unwrap();
        cluster.sign(release, TRUSTED).await.unwrap();
    }
    let [own, next] = &releases;
    service.answer(json!({"nodes": [{"version": own.version, "payload": own.image},
        {"version": next.version, "payload": next.image}], "edges": [[0, 1]]}));
    cluster.install(own).await.unwrap();
    cluster.simulate(&releases, Duration::ZERO).unwrap();
    cluster.run_daemon(own).await.unwrap();
    cluster.completed(own).await.unwrap();
    cluster.patch(json!({"spec": {"upstream": format!("{url}/graph")}})).await.unwrap();
    releases
}

#[tokio::test(flavor = "multi_thread")]
async fn advice_and_signatures_arrive_through_a_proxy_with_a_private_ca() {
    let Some(address) = own_address() else {
        return println!("skipped: this machine has no address but loopback ones");
    };
    let mut cluster = SimulatedCluster::start(e2e::simulator::simulation::Workloads::Kwok).await.unwrap();
    let proxy_address = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));
    let proxy = TinyProxy::start(&cluster.control_plane, proxy_address).await.unwrap();
    let certificates = Certificates::new(&[address.to_string()]).unwrap();
    let signatures = cluster.signatures();
    let service = UpdateService::start(address, Some(&certificates), Some(proxy_address), signatures).await.unwrap();
    let [_, next] = behind_a_proxy(&service, &mut cluster).await;
    let url = format!("https://{}/graph", service.address);
    let direct = "directly, without a proxy";
    until_failed(&cluster, "RemoteFailed", &[&url, direct, "spec.upstream names this update service"]).await;

    let kind =
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk("config.openshift.io", "v1", "Proxy"), "proxies");
    let proxies: Api<DynamicObject> = Api::all_with(cluster.client.clone(), &kind);
    let object = json!({"apiVersion": "config.openshift.io/v1", "kind": "Proxy", "metadata": {"name": "cluster"},
        "spec": {}, "status": {"httpsProxy": proxy.url, "noProxy": "10.0.0.0/8,.cluster.local"}});
    proxies.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
    until_failed(&cluster, "RemoteFailed", &["certificate", "through the proxy 127.0.0.1"]).await;
    cluster.request(&next).await.unwrap();
    let refused = |object: &ClusterVersion| object.says("ReleaseAccepted=False", &["certificate"]);
    let object = cluster.until("the signature not to be found", refused).await.unwrap();
    println!("signature: {}", object.condition("ReleaseAccepted=False").unwrap().message);
    cluster.patch(json!({"spec": {"desiredUpdate": null}})).await.unwrap();
    assert_eq!(service.count(), 0, "no request has arrived");

    trust(&cluster, "nonsense").await;
    until_failed(&cluster, "InvalidTrustBundle", &["openshift-config-managed/trusted-ca-bundle", "ca-bundle.crt"])
        .await;
    trust(&cluster, &certificates.authority).await;
    let offered = |object: &ClusterVersion| {
        let available = object.status.as_ref().and_then(|status| status.available_updates.clone()).unwrap_or_default();
        object.has("RetrievedUpdates=True") && available.iter().any(|r| r.image == next.image)
    };
    cluster.until("the update to be offered", offered).await.unwrap();
    cluster.patch(json!({"spec": {"desiredUpdate": {"version": next.version}}})).await.unwrap();
    let object = cluster.completed(&next).await.unwrap();
    let newest = &object.status.as_ref().unwrap().history[0];
    assert!(is_signed(newest) && newest.state == HistoryState::Completed, "{newest:?}");
    let log = std::fs::read_to_string(&proxy.log).unwrap();
    assert!(log.contains(&format!("CONNECT {}", service.address)), "{log}");
    cluster.close().await.unwrap();
}
