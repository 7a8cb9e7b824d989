//! What attackers can reach: whoever may edit the ClusterVersion, answers for a signature store or an update service, builds a
//! release that somebody signs, may write ConfigMaps, or reaches the metrics. Each attack is refused by a named part with its
//! reason, the memory of the daemon stays within its budget, and the running release is still reconciled.

use super::bad_input::{assert_reconciled, refused};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::http::{StatusCode, header};
use axum::response::IntoResponse;
use axum::routing::get;
use cvo::testing::api::{ClusterVersion, MANAGED_NAMESPACE};
use e2e::conditions::Conditions;
use e2e::harness::machine::own_address;
use e2e::harness::process;
use e2e::random::SeededRandom;
use e2e::services::monitoring::PROMETHEUS;
use e2e::services::update_service::UpdateService;
use e2e::signing::TRUSTED;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::history::{history, is_signed};
use e2e::simulator::releases::Release;
use e2e::simulator::sample;
use e2e::simulator::simulation::Workloads;
use futures::{StreamExt, stream};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use serde_json::json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

/// The most memory that the daemon may ever have.
const BUDGET_KIB: u64 = 150 << 10;

/// Prints the most memory that the daemon had so far, which is within its budget.
async fn assert_within_budget(cluster: &SimulatedCluster, what: &str) {
    let state = cluster.node.state.lock().await;
    let peak = process::peak_of_a_release(state.running.as_ref().unwrap().process.pid).unwrap();
    println!("{what}: at most {} MiB", peak.div_ceil(1024));
    assert!(peak < BUDGET_KIB, "{what}: {peak} KiB");
    assert!(state.ended.is_empty(), "the daemon ended: {:?}", state.ended);
}

/// Bytes without end, after a pause each.
fn without_end(chunk: usize, pause: Duration) -> Body {
    let bytes = Bytes::from(vec![0xa3; chunk]);
    Body::from_stream(stream::repeat(()).then(move |()| {
        let bytes = bytes.clone();
        async move {
            tokio::time::sleep(pause).await;
            Ok::<_, Infallible>(bytes)
        }
    }))
}

/// Signature stores of an attacker, each at its path.
async fn hostile_stores(listen: IpAddr) -> SocketAddr {
    let ten_gigabytes =
        || async { ([(header::CONTENT_LENGTH, "10000000000")], without_end(1 << 20, Duration::ZERO)).into_response() };
    let to = |place: &'static str| move || async move { (StatusCode::FOUND, [(header::LOCATION, place)]) };
    let below = |path: &str| format!("/{path}/{{*rest}}");
    let router = Router::new()
        .route(&below("endless"), get(|| async { without_end(64, Duration::from_millis(1)) }))
        .route(&below("drip"), get(|| async { without_end(1, Duration::from_secs(1)) }))
        .route(&below("huge"), get(ten_gigabytes))
        .route(&below("any"), get(|| async { "no signature, whatever its number" }))
        .route(&below("file"), get(to("file:///etc/passwd")))
        .route(&below("link-local"), get(to("http://169.254.169.254/latest/meta-data")))
        .route(&below("round"), get(to("signature-1")));
    let listener = tokio::net::TcpListener::bind((listen, 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    address
}

/// A cluster whose release asks stores of an attacker beside a good one.
async fn with_hostile_stores(stores: SocketAddr, paths: &[&str]) -> (SimulatedCluster, [Release; 3]) {
    let mut cluster = SimulatedCluster::start(Workloads::Kwok).await.unwrap();
    let mut verification = cluster.keys.verification_config(&cluster.signatures());
    for path in paths {
        verification["data"][format!("store-{path}")] = json!(format!("http://{stores}/{path}"));
    }
    let lay_out = |version: &str| sample::lay_out(&cluster.payloads(), version, &verification).unwrap();
    let releases = [lay_out("1.0.0"), lay_out("1.0.1"), lay_out("1.0.2")];
    let [own, signed, _] = &releases;
    for release in [own, signed] {
        cluster.sign(release, TRUSTED).await.unwrap();
    }
    cluster.install(own).await.unwrap();
    cluster.simulate(&releases, Duration::ZERO).unwrap();
    cluster.run_daemon(own).await.unwrap();
    cluster.completed(own).await.unwrap();
    (cluster, releases)
}

/// More labelled ConfigMaps than anybody should read, all for this digest.
async fn plant_signatures(cluster: &SimulatedCluster, release: &Release, count: usize) {
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), MANAGED_NAMESPACE);
    let digest = release.digest().replace(':', "-");
    let map = |number: usize| ConfigMap {
        metadata: ObjectMeta {
            name: Some(format!("planted-{number}")),
            labels: Some(BTreeMap::from([("release.openshift.io/verification-signatures".to_owned(), String::new())])),
            ..ObjectMeta::default()
        },
        binary_data: Some(BTreeMap::from([(format!("{digest}-{number}"), ByteString(vec![0xa3; 1000]))])),
        ..ConfigMap::default()
    };
    let params = PostParams::default();
    let created = stream::iter(0..count).map(|number| {
        let (maps, map, params) = (maps.clone(), map(number), params.clone());
        async move { maps.create(&params, &map).await.map(drop) }
    });
    let failed = created.buffer_unordered(32).filter_map(|done| async { done.err() }).collect::<Vec<_>>().await;
    assert!(failed.is_empty(), "{failed:?}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn hostile_stores_and_planted_signatures_neither_verify_nor_delay_nor_fill_the_memory() {
    let address = own_address();
    let paths = ["any", "drip", "endless", "file", "huge", "link-local", "round"];
    let stores = hostile_stores(address.unwrap_or(Ipv4Addr::LOCALHOST.into())).await;
    let (cluster, [own, signed, unsigned]) = with_hostile_stores(stores, &paths).await;
    plant_signatures(&cluster, &unsigned, 10_000).await;

    cluster.request(&unsigned).await.unwrap();
    let words = [unsigned.digest(), "/huge/", "larger than 51200 bytes", "/file/", "302 Found"];
    refused(&cluster, "an unsigned release", "RetrievePayload", &words).await;
    // The condition is shortened, and only so many causes are kept at all: those of the stores that answer at once.
    let log = std::fs::read_to_string(cluster.daemon_log()).unwrap();
    let told = log.lines().find(|line| line.contains("release not accepted")).unwrap();
    for path in ["any", "file", "huge", "link-local", "round"] {
        assert!(told.contains(&format!("http://{stores}/{path}/")), "nothing is said of {path}: {told}");
    }
    assert!(told.contains("more attempts failed"), "{told}");
    let link = "a redirect to this machine or to its own link is not followed";
    assert!(address.is_none() || told.contains(link), "{told}");
    assert_within_budget(&cluster, "seven hostile stores and 10,000 planted signatures").await;
    assert_reconciled(&cluster).await;

    // The good store is not kept from being read by the others.
    let begun = Instant::now();
    cluster.request(&signed).await.unwrap();
    let updated = cluster.completed(&signed).await.unwrap();
    println!("the signed release beside them was completed after {} s", begun.elapsed().as_secs());
    // Each of the stores that send slowly is given a minute.
    assert!(begun.elapsed() < Duration::from_secs(40), "the hostile stores delay it: {:?}", begun.elapsed());
    let versions: Vec<_> = history(&updated).into_iter().map(|(version, ..)| version).collect();
    assert_eq!(versions, [signed.version.as_str(), own.version.as_str()]);
    assert!(is_signed(&updated.status.unwrap().history[0]));
    // The process that verified it, and handed over.
    let state = cluster.node.state.lock().await;
    let peaks: Vec<u64> = state.ended.iter().map(|ended| ended.usage.peak_kib.unwrap()).collect();
    println!("the daemons before had at most {peaks:?} KiB");
    assert!(!peaks.is_empty() && peaks.iter().all(|peak| *peak < BUDGET_KIB), "{peaks:?}");
    drop(state);
    cluster.close().await.unwrap();
}

/// Text that does not compress, without characters that JSON or YAML would escape.
fn random_text(length: usize) -> String {
    let random = SeededRandom::new(1, 2, 3);
    let letters: Vec<char> = ('('..='[').chain(']'..='~').collect();
    (0..length).map(|_| *random.one_of(&letters).unwrap()).collect()
}

fn config_map(name: &str, text: &str) -> String {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "beta"}, "data": {"a": text}})
        .to_string()
}

/// Adds what an attacker whose release somebody signs could put into it.
fn arm(releases: &[Release; 5]) {
    let [aliases, documents, manifests, worst, expanding] = releases;
    let bomb = (1..30).fold("a0: &a0 [x,x,x,x,x,x,x,x]\n".to_owned(), |text, level| {
        format!("{text}a{level}: &a{level} [{}]\n", vec![format!("*a{}", level - 1); 8].join(","))
    });
    aliases.put("0000_20_beta_80_bomb.yaml", &bomb).unwrap();
    for file in 0..10 {
        documents.put(&format!("0000_20_beta_8{file}_documents.yaml"), &"---\n".repeat(1_000_000)).unwrap();
    }
    for file in 0..11 {
        let document = |n: usize| format!("---\nkind: A\napiVersion: v1\nmetadata: {{name: x{file}-{n}}}\n");
        let text: String = (0..1000).map(document).collect();
        manifests.put(&format!("0000_20_beta_{}_manifests.yaml", 80 + file), &text).unwrap();
    }
    // As much as may be kept, then the largest tree that may be built, then the reason to refuse it.
    for file in 0..7 {
        let text = config_map(&format!("large-{file}"), &random_text((4 << 20) - 1000));
        worst.put(&format!("0000_20_beta_8{file}_large.json"), &text).unwrap();
    }
    let tree = vec!["{\"a\":1}"; 49_000].join(",");
    let tree = format!("{{\"apiVersion\":\"v1\",\"kind\":\"A\",\"metadata\":{{\"name\":\"x\"}},\"spec\":[{tree}]}}");
    worst.put("0000_20_beta_90_tree.json", &tree).unwrap();
    worst.put("0000_20_beta_91_broken.yaml", "[").unwrap();
    let text = random_text(40_000);
    for file in 0..8 {
        let list = vec!["*a"; 390].join(",");
        let text =
            format!("kind: A\napiVersion: v1\nmetadata: {{name: x{file}}}\nspec:\n  a: &a '{text}'\n  l: [{list}]\n");
        expanding.put(&format!("0000_20_beta_8{file}_expanding.yaml"), &text).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn bombs_in_signed_releases_are_refused_within_the_memory_of_the_daemon() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let bombs = ["1.0.1", "1.0.2", "1.0.3", "1.0.4", "1.0.5"].map(|version| cluster.lay_out_sample(version).unwrap());
    arm(&bombs);
    for release in &bombs {
        cluster.sign(release, TRUSTED).await.unwrap();
    }
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    assert_within_budget(&cluster, "before").await;
    let table = [
        ("aliases that expand to 8^30 values", "LoadPayload", vec!["beta_80_bomb.yaml", "once aliases are expanded"]),
        ("ten million documents", "RetrievePayload", vec!["larger than the 33554432 bytes"]),
        ("11,000 manifests", "LoadPayload", vec!["beta_89_manifests.yaml", "more than the 10000 manifests"]),
        ("the most that is allowed", "LoadPayload", vec!["beta_91_broken.yaml"]),
        ("text that aliases expand", "LoadPayload", vec!["_expanding.yaml", "more than the 41943040 bytes"]),
    ];
    for (release, (what, reason, words)) in bombs.iter().zip(table) {
        cluster.request(release).await.unwrap();
        refused(&cluster, what, reason, &words).await;
        assert_within_budget(&cluster, what).await;
    }
    cluster.patch(json!({"spec": {"desiredUpdate": null}})).await.unwrap();
    assert_reconciled(&cluster).await;
    cluster.close().await.unwrap();
}

/// Who answers for the update service names other bytes; who edits the ClusterVersion forces them, asks for a tag, for an older
/// release, or for one with the signature of another.
#[tokio::test(flavor = "multi_thread")]
async fn foreign_images_tags_older_releases_and_copied_signatures_are_refused() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0", "1.0.1"]).await.unwrap();
    let (older, copied) = (cluster.lay_out_sample("0.9.0").unwrap(), cluster.lay_out_sample("1.0.2").unwrap());
    cluster.sign(&older, TRUSTED).await.unwrap();
    let folder = |release: &Release| cluster.signatures().join(release.digest().replace(':', "="));
    std::fs::create_dir_all(folder(&copied)).unwrap();
    std::fs::copy(folder(&releases[1]).join("signature-1"), folder(&copied).join("signature-1")).unwrap();
    let service = UpdateService::start(Ipv4Addr::LOCALHOST.into(), None, None, cluster.signatures()).await.unwrap();
    let foreign = format!("evil.invalid/release@sha256:{}", "f".repeat(64));
    service.answer(json!({"nodes": [{"version": "1.0.0", "payload": releases[0].image},
        {"version": "1.0.1", "payload": foreign}], "edges": [[0, 1]]}));
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    cluster.patch(json!({"spec": {"upstream": format!("http://{}/graph", service.address)}})).await.unwrap();
    let offered = |object: &ClusterVersion| {
        let updates = object.status.as_ref().and_then(|status| status.available_updates.as_ref());
        updates.is_some_and(|updates| updates.iter().any(|update| update.image == foreign))
    };
    cluster.until("the foreign image to be offered", offered).await.unwrap();

    let ask = async |update: serde_json::Value| cluster.patch(json!({"spec": {"desiredUpdate": update}})).await;
    for (what, update) in [
        ("a version that somebody else resolves", json!({"version": "1.0.1", "image": null, "force": true})),
        ("a tag", json!({"version": "", "image": "registry.invalid/release:1.0.1", "force": true})),
    ] {
        ask(update).await.unwrap();
        let invalid = |object: &ClusterVersion| {
            let told = object.condition("Invalid=True");
            told.is_some_and(|c| c.message.contains("force needs the image by its digest"))
        };
        let object = cluster.until(&format!("{what} not to be forced"), invalid).await.unwrap();
        println!("{what}: {}", object.condition("Invalid=True").unwrap().message);
        assert_eq!(history(&object).len(), 1, "{what}");
        ask(json!(null)).await.unwrap();
        let valid = |object: &ClusterVersion| !object.has("Invalid=True");
        cluster.until("nothing to be invalid any more", valid).await.unwrap();
    }
    ask(json!({"version": "1.0.1"})).await.unwrap();
    let digest = foreign.rsplit('@').next().unwrap();
    refused(&cluster, "the foreign image", "RetrievePayload", &[digest, "no signature of this digest"]).await;
    cluster.request(&copied).await.unwrap();
    let words = [copied.digest(), "the signature is for", releases[1].digest()];
    refused(&cluster, "the signature of another digest", "RetrievePayload", &words).await;
    cluster.request(&older).await.unwrap();
    refused(&cluster, "an older release", "PreconditionChecks", &["0.9.0"]).await;
    cluster.patch(json!({"spec": {"desiredUpdate": null}})).await.unwrap();
    assert_reconciled(&cluster).await;
    assert_within_budget(&cluster, "foreign images").await;
    cluster.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn clients_that_neither_ask_nor_read_keep_nobody_from_the_metrics() {
    e2e::harness::install_tls_provider();
    let (mut cluster, releases) = SimulatedCluster::with_samples(&["1.0.0"]).await.unwrap();
    let address = format!("127.0.0.1:{}", cluster.control_plane.port("metrics"));
    let health = format!("127.0.0.1:{}", cluster.control_plane.port("health"));
    cluster.add_arguments(["--listen", &address, "--listen-health", &health]).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let prometheus = cluster.control_plane.client_certificate(PROMETHEUS).unwrap().identity();
    let client = || {
        let identity = reqwest::Identity::from_pem(prometheus.as_bytes()).unwrap();
        let builder = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).identity(identity);
        builder.timeout(Duration::from_secs(60)).build().unwrap()
    };
    let (mut silent, mut unread) = (Vec::new(), Vec::new());
    for _ in 0..64 {
        silent.push(tokio::net::TcpStream::connect(&address).await.unwrap());
    }
    for _ in 0..64 {
        unread.push(client().get(format!("https://{address}/metrics")).send().await.unwrap());
    }
    for (path, url) in
        [("healthz", format!("http://{health}/healthz")), ("metrics", format!("https://{address}/metrics"))]
    {
        let begun = Instant::now();
        let answer = client().get(url).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        println!("{path}: {status} after {} ms", begun.elapsed().as_millis());
        assert!(status.is_success() && begun.elapsed() < Duration::from_secs(5), "{path}: {status} {text}");
        assert!(path == "healthz" || text.contains("cluster_version{"), "{text}");
    }
    assert_reconciled(&cluster).await;
    assert_within_budget(&cluster, "64 silent clients and 64 that do not read").await;
    drop((silent, unread));
    cluster.close().await.unwrap();
}
