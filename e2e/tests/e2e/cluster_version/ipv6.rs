//! A cluster that has no IPv4 address.

use e2e::harness::Options;
use e2e::simulator::cluster::SimulatedCluster;
use std::net::{Ipv6Addr, TcpListener};
use std::time::Duration;

const NAMESPACE: &str = cvo::testing::api::NAMESPACE;

/// What a client with this token is told at the address.
async fn metrics(address: &str, token: &str) -> String {
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true).build().unwrap();
    let request = client.get(format!("https://{address}/metrics")).bearer_auth(token).timeout(Duration::from_secs(10));
    request.send().await.unwrap().text().await.unwrap()
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "hack/soak runs it"]
async fn cluster_without_ipv4_is_installed_and_updated_and_its_metrics_are_scraped() {
    if TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_err() {
        return println!("skipped: this machine has no IPv6");
    }
    let (mut cluster, releases) = {
        let options = Options { ipv6: true, ..Options::default() };
        SimulatedCluster::with_samples_in(options, &["1.0.0", "1.0.1"]).await.unwrap()
    };
    let address = ["get", "service", "kubernetes", "-o", "jsonpath={.spec.clusterIP}"];
    let address = cluster.control_plane.kubectl(address).await.unwrap();
    assert!(address.contains(':') && cluster.control_plane.server().contains("[::1]"), "{address}");
    let port = cluster.control_plane.port("metrics");
    // As the manifest of the daemon has it.
    cluster.add_arguments(["--listen".to_owned(), format!("0.0.0.0:{port}")]).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let token = ["create", "token", "-n", NAMESPACE, "cluster-version-operator"];
    let token = cluster.control_plane.kubectl(token).await.unwrap();
    let scraped = async |version: &str, host: &str| {
        let text = metrics(&format!("{host}:{port}"), token.trim()).await;
        let label = format!("version=\"{version}\"");
        let told = text.lines().any(|line| line.starts_with("cluster_version{") && line.contains(&label));
        assert!(told, "{host}: {text}");
    };
    scraped("1.0.0", "[::1]").await;
    cluster.request(&releases[1]).await.unwrap();
    cluster.completed(&releases[1]).await.unwrap();
    scraped("1.0.1", "[::1]").await;
    scraped("1.0.1", "127.0.0.1").await;
    cluster.close().await.unwrap();
}
