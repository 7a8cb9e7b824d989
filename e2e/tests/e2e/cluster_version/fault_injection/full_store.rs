//! An etcd that is full: it refuses writes and can be read, until somebody makes room.

use super::{hold_in_the_update, whole_again};
use e2e::harness::{Options, files};
use e2e::simulator::cluster::{LONG_LEASE, SimulatedCluster};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};

const QUOTA: u64 = 64 << 20;
const LABEL: &str = "fills=etcd";
/// Objects of almost a mebibyte, until etcd refuses one.
async fn fill(maps: &Api<ConfigMap>) -> String {
    for number in 0..2 * (QUOTA >> 20) {
        let map = json!({
            "metadata": {"name": format!("filler-{number}"), "labels": {"fills": "etcd"}},
            "data": {"x": "x".repeat(1_000_000)},
        });
        if let Err(error) = maps.create(&PostParams::default(), &serde_json::from_value(map).unwrap()).await {
            return error.to_string();
        }
    }
    panic!("etcd takes more than its quota");
}

/// As an administrator does: deletes, compacts, defragments, and ends the alarm.
async fn make_room(cluster: &SimulatedCluster, maps: &Api<ConfigMap>) {
    maps.delete_collection(&DeleteParams::default(), &ListParams::default().labels(LABEL)).await.unwrap();
    let pki = cluster.control_plane.dir().join("pki");
    let pem = |name: &str| files::read(&pki.join(name)).unwrap();
    let identity = pem("etcd-client.key") + &pem("etcd-client.crt");
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let client = client.identity(reqwest::Identity::from_pem(identity.as_bytes()).unwrap()).build().unwrap();
    let ask = async |path: &str, body: Value| -> Value {
        let url = format!("{}/v3/{path}", cluster.control_plane.etcd_http());
        let answer = client.post(&url).json(&body).send().await.unwrap();
        let (status, text) = (answer.status(), answer.text().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {text}");
        serde_json::from_str(&text).unwrap()
    };
    let now = ask("kv/range", json!({"key": "AA=="})).await;
    ask("kv/compaction", json!({"revision": now["header"]["revision"], "physical": true})).await;
    ask("maintenance/defragment", json!({})).await;
    let member = &now["header"]["member_id"];
    let ended = ask("maintenance/alarm", json!({"action": "DEACTIVATE", "memberID": member, "alarm": "NOSPACE"})).await;
    assert_eq!(ended["alarms"][0]["alarm"], "NOSPACE", "{ended}");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "fills a disk for minutes"]
async fn update_survives_an_etcd_that_is_full() {
    let options = Options { etcd_quota: Some(QUOTA), ..Options::default() };
    let (mut cluster, releases) = SimulatedCluster::with_samples_in(options, &["1.0.0", "1.0.1"]).await.unwrap();
    cluster.set_arguments(&LONG_LEASE).unwrap();
    hold_in_the_update(&mut cluster, &releases).await;
    let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), "default");
    let refused = fill(&maps).await;
    println!("{refused}");
    assert!(refused.contains("database space exceeded"), "{refused}");
    let (status, took) = cluster.status_says(&["has not renewed lease"], &[]).await.unwrap();
    println!("after {} s:\n{status}", took.as_secs());
    make_room(&cluster, &maps).await;
    whole_again(&cluster, &releases).await;
    // Each release has had one process, and none ended before its time.
    let ended = cluster.node.state.lock().await.ended.len();
    assert_eq!(ended, 1, "the first one gave way to the second");
    cluster.close().await.unwrap();
}
