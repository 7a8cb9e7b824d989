//! A real Prometheus scrapes the daemon: every metric is there with the right value in five situations, and a scrape costs no
//! request.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Context;
use cvo::testing::api::{ClusterVersion, NAMESPACE};
use e2e::conditions::Conditions;
use e2e::harness::{Launch, Toolbox, audit, files};
use e2e::services::monitoring::PROMETHEUS;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::requests::is_bookkeeping;
use e2e::until::until;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};

const PROCESS: &str = "prometheus";
/// How long a value may take to get through a scrape.
const SOON: Duration = Duration::from_secs(60);

/// What a daemon at rest shows after an update, whatever it has done. Others appear with what they are about.
const ALWAYS: [&str; 22] = [
    "cluster_installer",
    "cluster_operator_conditions",
    "cluster_operator_payload_errors",
    "cluster_operator_up",
    "cluster_version",
    "cluster_version_available_updates",
    "cluster_version_capability",
    "cluster_version_operator_api_requests_total",
    "cluster_version_operator_conditions",
    "cluster_version_operator_kind_watched",
    "cluster_version_operator_last_turn_timestamp_seconds",
    "cluster_version_operator_leader",
    "cluster_version_operator_update_retrieval_failures_total",
    "cluster_version_operator_update_retrieval_timestamp_seconds",
    "cluster_version_payload",
    "process_cpu_seconds_total",
    "process_max_fds",
    "process_open_fds",
    "process_resident_memory_bytes",
    "process_start_time_seconds",
    "process_threads",
    "process_virtual_memory_bytes",
];

struct Prometheus {
    url: String,
    client: reqwest::Client,
}

impl Prometheus {
    /// Scrapes this address five times a second.
    async fn start(cluster: &SimulatedCluster, target: &str) -> anyhow::Result<Self> {
        let control_plane = &cluster.control_plane;
        let folder = control_plane.dir().join(PROCESS);
        files::make_dir(&folder)?;
        let at = |name: &str| folder.join(name).display().to_string();
        let client = control_plane.client_certificate(PROMETHEUS)?;
        files::write(&folder.join("client.crt"), client.certificate)?;
        files::write(&folder.join("client.key"), client.key)?;
        let tls = json!({"insecure_skip_verify": true, "cert_file": at("client.crt"), "key_file": at("client.key")});
        let config = json!({"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": [{
            "job_name": "cluster-version-operator", "scheme": "https", "tls_config": tls,
            "static_configs": [{"targets": [target]}],
        }]});
        files::write(&folder.join("prometheus.yml"), config.to_string())?;
        let address = format!("127.0.0.1:{}", control_plane.port("prometheus"));
        let arguments = [
            format!("--config.file={}", at("prometheus.yml")),
            format!("--storage.tsdb.path={}", at("data")),
            format!("--web.listen-address={address}"),
        ];
        control_plane.spawn(Launch::new(PROCESS, Toolbox::find()?.service("prometheus")?, arguments))?;
        let client = reqwest::Client::builder().no_proxy().build()?;
        let prometheus = Prometheus { url: format!("http://{address}"), client };
        let ready = async || prometheus.get("/-/ready", &[]).await;
        control_plane.until("Prometheus to be ready", &[PROCESS]).answer(ready).await?;
        Ok(prometheus)
    }

    async fn get(&self, path: &str, query: &[(&str, &str)]) -> anyhow::Result<String> {
        let response = self.client.get(format!("{}{path}", self.url)).query(query).send().await?;
        Ok(response.error_for_status()?.text().await?)
    }

    /// Labels and value of each series that the query gives now.
    async fn query(&self, query: &str) -> anyhow::Result<Vec<(Value, String)>> {
        let answer: Value = serde_json::from_str(&self.get("/api/v1/query", &[("query", query)]).await?)?;
        let result = answer.pointer("/data/result").and_then(Value::as_array).context("no result")?;
        let value = |one: &Value| one["value"][1].as_str().unwrap_or_default().to_owned();
        Ok(result.iter().map(|one| (one["metric"].clone(), value(one))).collect())
    }

    /// Waits until the query gives exactly one series with this value.
    async fn shows(&self, query: &str, expected: &str) {
        // Prometheus has no way to wait for a scrape.
        let shown = async || match self.query(query).await {
            Ok(all) if matches!(all.as_slice(), [(_, value)] if value == expected) => Ok(()),
            other => Err(format!("{other:?}")),
        };
        until(format!("{query} to be {expected}"), SOON).answer(shown).await.unwrap();
    }

    async fn shows_all(&self, expected: &[(&str, &str)]) {
        for (query, value) in expected {
            self.shows(query, value).await;
        }
    }

    /// Names of all metrics of the daemon that there are now.
    async fn names(&self) -> anyhow::Result<BTreeSet<String>> {
        let all = self.query("count by (__name__) ({job=\"cluster-version-operator\"})").await?;
        Ok(all.into_iter().filter_map(|(labels, _)| Some(labels["__name__"].as_str()?.to_owned())).collect())
    }
}

/// Seconds since the epoch, as the metrics show them.
fn seconds(at: Timestamp) -> String {
    at.as_second().to_string()
}

fn history(object: &ClusterVersion, position: usize) -> (Timestamp, Option<Timestamp>) {
    let entry = &object.status.as_ref().unwrap().history[position];
    (entry.started_time.0, entry.completion_time.as_ref().map(|time| time.0))
}

/// Reasons of the events about the ClusterVersion so far.
async fn reasons(cluster: &SimulatedCluster) -> BTreeSet<String> {
    let events: Api<Event> = Api::namespaced(cluster.client.clone(), NAMESPACE);
    let events = events.list(&ListParams::default().fields("involvedObject.kind=ClusterVersion")).await.unwrap();
    events.items.into_iter().filter_map(|event| event.reason).collect()
}

/// Installing, at rest, updating, failing, refused.
#[tokio::test(flavor = "multi_thread")]
async fn metrics_are_right_in_every_situation() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let unsigned = cluster.lay_out_sample("1.0.2").unwrap();
    let address = format!("127.0.0.1:{}", cluster.control_plane.port("metrics"));
    cluster.add_arguments(["--listen", address.as_str()]).unwrap();
    let prometheus = Prometheus::start(&cluster, &address).await.unwrap();

    cluster.simulation.hold("beta");
    cluster.run_daemon(&releases[0]).await.unwrap();
    prometheus
        .shows_all(&[
            ("up", "1"),
            ("cluster_version_operator_leader", "1"),
            ("count(cluster_version{type=\"updating\", version=\"1.0.0\", from_version=\"\"})", "1"),
            ("count(cluster_version{type=\"current\", version=\"1.0.0\", from_version=\"\"})", "1"),
        ])
        .await;
    let waits = "count(cluster_version_operator_gate_wait_seconds{kind=\"ClusterOperator\", name=\"beta\"} >= 0)";
    prometheus.shows(waits, "1").await;
    let others = prometheus.query("cluster_version{type=~\"completed|desired\"}").await.unwrap();
    assert!(others.is_empty(), "{others:#?}");
    prometheus.shows("cluster_operator_up{name=\"version\"}", "0").await;
    prometheus.shows("cluster_version_payload{type=\"pending\"} > bool 0", "1").await;
    println!("installing: ok");

    cluster.simulation.release("beta");
    let installed = cluster.completed(&releases[0]).await.unwrap();
    let created = installed.metadata.creation_timestamp.as_ref().unwrap().0;
    let completed = seconds(history(&installed, 0).1.unwrap());
    prometheus
        .shows_all(&[
            ("cluster_version{type=\"completed\", version=\"1.0.0\", from_version=\"\"}", &completed),
            ("cluster_version{type=\"initial\", version=\"1.0.0\"}", &seconds(created)),
            ("cluster_version{type=\"cluster\", version=\"1.0.0\", from_version=\"1.0.0\"}", &seconds(created)),
            ("cluster_operator_up{name=\"version\", version=\"1.0.0\"}", "1"),
            ("count(cluster_operator_up{name=~\"alpha|beta|gamma|delta\", version=\"1.0.0\"} == 1)", "4"),
            ("cluster_operator_conditions{name=\"version\", condition=\"Failing\"}", "0"),
            ("cluster_version_operator_conditions{name=\"version\", condition=\"Failing\"}", "0"),
            ("cluster_version_payload{version=\"1.0.0\", type=\"pending\"}", "0"),
            ("count(cluster_installer{type=\"\", version=\"\", invoker=\"\"})", "1"),
            ("cluster_version_operator_kind_watched{resource=\"clusteroperators.config.openshift.io\"}", "1"),
            ("count(cluster_version_operator_kind_watched == 0) or vector(0)", "0"),
            ("count(cluster_version_operator_gate_wait_seconds) or vector(0)", "0"),
        ])
        .await;
    let durations = "count(cluster_version_operator_component_duration_seconds{component=\"beta\"} >= 0)";
    prometheus.shows(durations, "1").await;
    println!("at rest: ok");

    refused(&cluster, &prometheus, &unsigned).await;
    updating_and_failing(&cluster, &prometheus, &releases).await;

    let names = prometheus.names().await.unwrap();
    let missing: Vec<&str> = ALWAYS.into_iter().filter(|name| !names.contains(*name)).collect();
    assert!(missing.is_empty(), "missing: {missing:?} of {names:?}");
    let told = reasons(&cluster).await;
    for reason in
        ["InstallStarted", "InstallCompleted", "RetrievePayloadFailed", "UpdateStarted", "HandOver", "UpdateCompleted"]
    {
        assert!(told.contains(reason), "{reason} of {told:?}");
    }
    cluster.close().await.unwrap();
}

/// A release without a signature, and back.
async fn refused(cluster: &SimulatedCluster, prometheus: &Prometheus, unsigned: &e2e::simulator::releases::Release) {
    cluster.request(unsigned).await.unwrap();
    let accepted =
        "cluster_operator_conditions{name=\"version\", condition=\"ReleaseAccepted\", reason=\"RetrievePayload\"}";
    prometheus
        .shows_all(&[
            (accepted, "0"),
            ("count(cluster_version{type=\"desired\", version=\"1.0.2\", from_version=\"1.0.0\"})", "1"),
            (
                "cluster_version_operator_load_attempts_total{step=\"RetrievePayload\", outcome=\"failed\"} >= bool 1",
                "1",
            ),
            ("count(cluster_version{type=\"updating\"}) or vector(0)", "0"),
        ])
        .await;
    println!("refused: ok");
    cluster.patch(json!({"spec": {"desiredUpdate": null}})).await.unwrap();
    prometheus.shows("count(cluster_version{type=\"desired\"}) or vector(0)", "0").await;
}

/// An update whose operator becomes unavailable on the way.
async fn updating_and_failing(
    cluster: &SimulatedCluster,
    prometheus: &Prometheus,
    releases: &[e2e::simulator::releases::Release],
) {
    cluster.simulation.hold("delta");
    cluster.request(&releases[1]).await.unwrap();
    prometheus
        .shows_all(&[
            ("count(cluster_version{type=\"updating\", version=\"1.0.1\", from_version=\"1.0.0\"})", "1"),
            // The next process runs already: what is asked for is what runs.
            ("count(cluster_version{type=\"current\", version=\"1.0.1\", from_version=\"1.0.0\"})", "1"),
            ("count(cluster_version{type=\"desired\"}) or vector(0)", "0"),
            ("count(cluster_version_operator_gate_wait_seconds{component=\"delta\", name=\"delta\"})", "1"),
        ])
        .await;
    println!("updating: ok");

    let gone = json!({"status": {"conditions": [{"type": "Available", "status": "False", "reason": "NoPods",
        "message": "no pods", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
    let operators: Api<cvo::testing::api::ClusterOperator> = Api::all(cluster.client.clone());
    let merge = kube::api::Patch::Merge(&gone);
    operators.patch_status("delta", &kube::api::PatchParams::default(), &merge).await.unwrap();
    let failing = cluster.until("failing", |object| object.has("Failing=True")).await.unwrap();
    let since = failing.condition("Failing=True").unwrap().last_transition_time.unwrap();
    prometheus
        .shows_all(&[
            ("cluster_operator_up{name=\"delta\", reason=\"NoPods\"}", "0"),
            ("cluster_operator_condition_transitions{name=\"delta\", condition=\"Available\"} >= bool 1", "1"),
            ("cluster_operator_conditions{name=\"version\", condition=\"Failing\"}", "1"),
            ("cluster_version{type=\"failure\", version=\"1.0.1\", from_version=\"1.0.0\"}", &seconds(since)),
        ])
        .await;
    println!("failing: ok");

    cluster.simulation.release("delta");
    let updated = cluster.completed(&releases[1]).await.unwrap();
    let completed = seconds(history(&updated, 0).1.unwrap());
    prometheus
        .shows_all(&[
            ("cluster_version{type=\"completed\", version=\"1.0.1\", from_version=\"1.0.0\"}", &completed),
            ("count(cluster_version{type=~\"failure|updating|desired\"}) or vector(0)", "0"),
        ])
        .await;
}

/// Status and text of `/healthz`, as the kubelet asks for it.
async fn health(address: &str) -> anyhow::Result<(u16, String)> {
    let client = reqwest::Client::builder().no_proxy().build()?;
    let answer = client.get(format!("http://{address}/healthz")).send().await?;
    Ok((answer.status().as_u16(), answer.text().await?))
}

/// Thirty times, by Prometheus as it is deployed.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn scrape_costs_no_request() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let address = format!("127.0.0.1:{}", cluster.control_plane.port("metrics"));
    let asked_for_health = format!("127.0.0.1:{}", cluster.control_plane.port("health"));
    cluster.add_arguments(["--listen", &address, "--listen-health", &asked_for_health]).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let prometheus = Prometheus::start(&cluster, &address).await.unwrap();
    prometheus.shows("up", "1").await;
    assert_eq!(health(&asked_for_health).await.unwrap(), (200, "ok".to_owned()));
    let begun = Timestamp::now();
    // Those that succeeded; of one that failed, `up` is 0.
    let scrapes = "sum(sum_over_time(up[10m]))";
    let before: usize = prometheus.query(scrapes).await.unwrap()[0].1.parse().unwrap();
    prometheus.shows(&format!("{scrapes} >= bool {}", before + 30), "1").await;
    let ended = Timestamp::now();
    let requests = audit::within(&cluster.requests().unwrap(), begun..ended);
    // The lease is renewed, the record says when the update service was asked, and now and then a watch begins anew.
    let (watches, others): (Vec<_>, Vec<_>) = requests.into_iter().partition(|request| request.verb == "watch");
    let others: Vec<_> = others.into_iter().filter(|request| !is_bookkeeping(request)).collect();
    for figure in ["scrape_samples_scraped", "max_over_time(scrape_duration_seconds[10m])"] {
        println!("{figure}: {:?}", prometheus.query(figure).await.unwrap());
    }
    println!("{} watches, {others:#?} within {} s", watches.len(), ended.duration_since(begun).as_secs());
    assert!(others.is_empty() && watches.len() < 10, "{others:#?} {watches:#?}");
    cluster.close().await.unwrap();
}
