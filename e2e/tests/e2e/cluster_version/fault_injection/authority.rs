//! The authority of a cluster is exchanged as administrators do it: first everybody is told to trust the next one too, then the
//! API server gets a certificate of it.

use super::{VERSIONS, goes_on, hold_in_the_update, process, whole_again};
use e2e::harness::Options;
use e2e::simulator::cluster::{LONG_LEASE, SimulatedCluster};
use std::time::Instant;

/// Whether the API server proves who it is to a client that trusts only this authority.
async fn is_trusted_by(cluster: &SimulatedCluster, authority: &str) -> bool {
    let pem = std::fs::read(cluster.control_plane.dir().join("pki").join(authority)).unwrap();
    let authority = reqwest::Certificate::from_pem(&pem).unwrap();
    let client = reqwest::Client::builder().no_proxy().tls_certs_only([authority]).build().unwrap();
    client.get(format!("{}/readyz", cluster.control_plane.server())).send().await.is_ok()
}

/// The kubeconfig of the daemon has both authorities from the beginning: a kubeconfig is read once, unlike the file in a pod,
/// which is read again every minute.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "exchanges the authority of a cluster"]
async fn authority_of_the_api_server_is_exchanged_under_the_daemon() {
    let options = Options { next_authority: true, ..Options::default() };
    let (mut cluster, releases) = SimulatedCluster::with_samples_in(options, &VERSIONS[..2]).await.unwrap();
    cluster.set_arguments(&LONG_LEASE).unwrap();
    hold_in_the_update(&mut cluster, &releases).await;
    let daemon = process(&cluster).await;
    assert!(is_trusted_by(&cluster, "ca.crt").await && !is_trusted_by(&cluster, "next-ca.crt").await);

    let begun = Instant::now();
    cluster.control_plane.exchange_authority().await.unwrap();
    println!("the API server is back after {:.1} s", begun.elapsed().as_secs_f64());
    assert!(is_trusted_by(&cluster, "next-ca.crt").await && !is_trusted_by(&cluster, "ca.crt").await);
    goes_on(&cluster).await;
    whole_again(&cluster, &releases).await;
    assert_eq!(process(&cluster).await, daemon, "it was started again");
    cluster.close().await.unwrap();
}
