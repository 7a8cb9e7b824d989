//! The daemon's token becomes invalid, and nobody puts a new one into its file, as when a kubelet is ill.

use super::{VERSIONS, hold_in_the_update, process, whole_again};
use cvo::testing::api::NAMESPACE;
use e2e::harness::{Identity, files, set_in_kubeconfig};
use e2e::simulator::cluster::{LEASE_LOST, SimulatedCluster};
use e2e::until::until;
use serde_json::json;
use std::time::{Duration, Instant};

const ACCOUNT: &str = "cluster-version-operator";
/// The daemon tries to renew its lease for 107 s. The API server may take the token for 10 s longer than it is valid, and the
/// end takes some seconds.
const LIMIT: Duration = Duration::from_secs(180);
/// The exit code of every command that has failed.
const FAILURE: i32 = 1;

async fn kubectl(cluster: &SimulatedCluster, arguments: &[&str]) -> String {
    cluster.control_plane.kubectl(["-n", NAMESPACE].iter().chain(arguments)).await.unwrap()
}

/// A token of the daemon's account that is valid as long as this Secret exists, which is made.
async fn token(cluster: &SimulatedCluster, secret: &str) -> String {
    kubectl(cluster, &["create", "secret", "generic", secret]).await;
    let bound = ["create", "token", ACCOUNT, "--bound-object-kind", "Secret", "--bound-object-name", secret];
    kubectl(cluster, &bound).await.trim().to_owned()
}

/// Waits until the process has ended by itself; returns how long that took, and its exit code.
async fn end(process: Identity) -> (Duration, Option<i32>) {
    let begun = Instant::now();
    until("the daemon to end", LIMIT).end_of(process.ended()).await.unwrap();
    (begun.elapsed(), process.exit_code())
}

/// To the API server, a token whose Secret was deleted is as one that has expired, which takes ten minutes at least.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes several minutes"]
async fn token_that_is_not_renewed_ends_leadership() {
    let (mut cluster, releases) = SimulatedCluster::with_samples(&VERSIONS[..2]).await.unwrap();
    // The lease is that of a cluster of people.
    cluster.set_arguments(&[]).unwrap();
    cluster.may_lose_the_lease();
    let file = cluster.control_plane.dir().join("token");
    files::write(&file, token(&cluster, "first").await).unwrap();
    set_in_kubeconfig(&cluster.node.kubeconfig, "/users/0/user", json!({"tokenFile": file})).unwrap();
    hold_in_the_update(&mut cluster, &releases).await;
    let daemon = process(&cluster).await;

    kubectl(&cluster, &["delete", "secret", "first"]).await;
    let (took, code) = end(daemon).await;
    println!("ended after {} s with code {code:?}", took.as_secs());
    assert_eq!(code, Some(FAILURE));
    let log = files::read(&cluster.daemon_log()).unwrap();
    let last = log.lines().find(|line| line.contains("cvo: no longer the leader")).unwrap_or_else(|| panic!("{log}"));
    println!("{last}");
    assert!(last.contains("Unauthorized") && log.contains(LEASE_LOST), "{last}");
    let status = cluster.control_plane.cvo(["status"]).run().await.unwrap().all();
    println!("{status}");
    assert!(status.contains("has not renewed lease openshift-cluster-version/version"), "{status}");

    // Its node has started it again, with the same token.
    files::write(&file, token(&cluster, "second").await).unwrap();
    cluster.node.crash().await.unwrap();
    whole_again(&cluster, &releases).await;
    cluster.close().await.unwrap();
}
