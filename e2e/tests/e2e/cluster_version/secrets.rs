//! Passwords, tokens and the content of Secrets never get into the log or the status, however much is logged.

use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use cvo::testing::api::{ClusterVersion, NAME};
use e2e::conditions::Conditions;
use e2e::signing::TRUSTED;
use e2e::simulator::cluster::SimulatedCluster;
use e2e::simulator::sample::config_kind;
use e2e::simulator::simulation::Workloads;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

const OF_SERVICE: &str = "planted-in-update-service";
const OF_STORE: &str = "planted-in-store";
const OF_CLIENT: &str = "planted-by-client";
const OF_SECRET: &str = "planted-in-secret";
const OF_DRIFT: &str = "planted-in-drift";
const FILE: &str = "0000_10_alpha_20_secret.json";

/// A Secret of the release.
fn secret() -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "stringData": {"password": OF_SECRET},
        "metadata": {"name": "planted", "namespace": "alpha",
            "annotations": {"include.release.openshift.io/self-managed-high-availability": "true"}},
    })
}

/// Somebody changes the Secret, and it is brought back.
async fn secret_is_repaired(cluster: &SimulatedCluster) {
    let secrets: Api<Secret> = Api::namespaced(cluster.client.clone(), "alpha");
    let patch = Patch::Merge(json!({"stringData": {"password": OF_DRIFT}}));
    secrets.patch("planted", &PatchParams::default(), &patch).await.unwrap();
    let restored = |secret: Option<&Secret>| {
        let data = secret.and_then(|secret| secret.data.as_ref()?.get("password"));
        data.is_some_and(|password| password.0 == OF_SECRET.as_bytes())
    };
    let limit = Duration::from_secs(60);
    cluster.until_object("the Secret to be restored", secrets, "planted", limit, restored).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_never_logged() {
    let mut cluster = SimulatedCluster::start(Workloads::Kwok).await.unwrap();
    let release = cluster.lay_out_sample("1.0.0").unwrap();
    release.put(FILE, &secret().to_string()).unwrap();
    release.put("0000_10_alpha_03_featuregates.json", &config_kind("FeatureGate", "featuregates").to_string()).unwrap();
    cluster.sign(&release, TRUSTED).await.unwrap();
    cluster.install(&release).await.unwrap();
    let unsigned = cluster.lay_out_sample("1.0.1").unwrap();
    cluster.simulate(std::slice::from_ref(&release), Duration::ZERO).unwrap();
    let address = format!("127.0.0.1:{}", cluster.control_plane.port("metrics"));
    cluster.add_arguments(["--listen", address.as_str()]).unwrap();
    // Everything that the daemon and its libraries have to say.
    std::sync::Arc::get_mut(&mut cluster.node).unwrap().log_level = "trace";
    cluster.run_daemon(&release).await.unwrap();
    cluster.completed(&release).await.unwrap();
    secret_is_repaired(&cluster).await;
    cluster.enable_gates("1.0.0", &["SignatureStores"]).await.unwrap();

    let silent = "127.0.0.1:1";
    let graph = format!("http://somebody:{OF_SERVICE}@{silent}/graph");
    cluster.patch(json!({"spec": {"upstream": graph, "channel": "stable"}})).await.unwrap();
    let failed = |condition: &str, part: &str| {
        let (condition, part) = (condition.to_owned(), part.to_owned());
        move |object: &ClusterVersion| object.says(&format!("{condition}=False"), &[&part])
    };
    cluster.until("the update service to fail", failed("RetrievedUpdates", silent)).await.unwrap();
    let store = format!("http://somebody:{OF_STORE}@{silent}/signatures");
    cluster.patch(json!({"spec": {"signatureStores": [{"url": store}]}})).await.unwrap();
    cluster.request(&unsigned).await.unwrap();
    let refused = cluster.until("the release to be refused", failed("ReleaseAccepted", silent)).await.unwrap();
    println!("{}", refused.condition("ReleaseAccepted=False").unwrap().message);
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap();
    let answer = client.get(format!("https://{address}/metrics")).bearer_auth(OF_CLIENT).send().await.unwrap();
    assert_eq!(answer.status(), 401);

    let log = std::fs::read_to_string(cluster.daemon_log()).unwrap();
    let object = serde_json::to_string(&cluster.versions().get(NAME).await.unwrap().status).unwrap();
    assert!(log.contains(" TRACE ") && log.len() > 100_000, "{} bytes", log.len());
    println!("{} MiB of log", log.len() >> 20);
    let mut found = Vec::new();
    for planted in [OF_SERVICE, OF_STORE, OF_CLIENT, OF_SECRET, OF_DRIFT] {
        let forms = [planted.to_owned(), STANDARD.encode(planted), STANDARD.encode(format!("somebody:{planted}"))];
        for form in forms {
            let line = log.lines().find(|line| line.contains(&form));
            found.extend(line.map(|line| format!("{form} is logged: {}", line.chars().take(600).collect::<String>())));
            found.extend(object.contains(&form).then(|| format!("{form} is in the status")));
        }
    }
    assert!(found.is_empty(), "{found:#?}");
    cluster.close().await.unwrap();
}
