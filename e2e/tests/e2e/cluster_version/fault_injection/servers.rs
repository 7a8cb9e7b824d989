//! Two API servers behind one address, one of an older version than the other, as while a control plane is updated: what one of them
//! has said does not hold for the other.

use super::{VERSIONS, assert_in_order, goes_on, process, request_and_hold, whole_again};
use e2e::faults::balancer::Balancer;
use e2e::harness::audit;
use e2e::harness::is_oldest_kubernetes;
use e2e::simulator::requests::{DAEMON, is_bookkeeping};
use e2e::simulator::{
    cluster::{LONG_LEASE, SimulatedCluster},
    releases::Release,
    sample::COMPONENTS,
};
use jiff::Timestamp;
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ConfigMap};
use kube::{Api, Client};
use std::path::{Path, PathBuf};

const OLDER: &str = "kube-apiserver-older";

/// An API server that serves as the version before does. Returns its URL and its audit log.
async fn add_older(cluster: &SimulatedCluster) -> (String, PathBuf) {
    let newer = cluster.client.apiserver_version().await.unwrap();
    let minor = (newer.minor.parse::<u32>().unwrap() - 1).to_string();
    let log = cluster.control_plane.dir().join("audit-older.log");
    let version = format!("--emulated-version=kube={}.{minor}", newer.major);
    let arguments = [version, format!("--audit-log-path={}", log.display())];
    let port = cluster.control_plane.port("older API server");
    let server = cluster.control_plane.add_apiserver(OLDER, port, &arguments).await.unwrap();
    let mut config = cluster.control_plane.config().await.unwrap();
    config.cluster_url = server.parse().unwrap();
    let older = Client::try_from(config).unwrap().apiserver_version().await.unwrap();
    assert_eq!((older.emulation_minor.as_ref(), &older.minor), (Some(&minor), &newer.minor), "{older:?}");
    (server, log)
}

/// The components are those of the release.
async fn assert_applied(cluster: &SimulatedCluster, release: &Release) {
    for (_, component) in COMPONENTS {
        let maps: Api<ConfigMap> = Api::namespaced(cluster.client.clone(), component);
        let settings = maps.get("settings").await.unwrap().data.unwrap();
        let deployments: Api<Deployment> = Api::namespaced(cluster.client.clone(), component);
        let deployment = serde_json::to_value(deployments.get(component).await.unwrap()).unwrap();
        let variable = &deployment["spec"]["template"]["spec"]["containers"][0]["env"][0]["value"];
        assert_eq!((&settings["release"], variable.as_str()), (&release.version, Some(release.version.as_str())));
    }
}

/// Writes of both servers are in order, and the daemon has used the older one. Who sees both servers sees one cluster.
fn assert_one_cluster(cluster: &SimulatedCluster, of_older: &Path, release: &Release, asked: Timestamp) {
    let of_older = audit::everything(of_older).unwrap();
    let wrote = |request: &&audit::Request| request.user == DAEMON && request.wrote() && !is_bookkeeping(request);
    let written = of_older.iter().filter(wrote).count();
    println!("the daemon has written {written} times to the older server");
    assert!(written > 0, "the daemon has not used it");
    let mut log = cluster.all_requests().unwrap();
    log.extend(of_older);
    log.sort_by_key(|request| request.at);
    assert_in_order(&log, release, asked, 0);
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "starts a second API server"]
async fn update_survives_two_api_servers_behind_one_address_of_which_one_leaves() {
    if is_oldest_kubernetes() {
        return println!("skipped: this Kubernetes cannot serve as the version before");
    }
    let (mut cluster, releases) = SimulatedCluster::with_samples(&VERSIONS[..2]).await.unwrap();
    let newer = cluster.control_plane.server();
    let (older, log) = add_older(&cluster).await;
    let balancer = Balancer::start(&[newer.as_str(), older.as_str()]).await.unwrap();
    balancer.redirect(&cluster.node.kubeconfig).unwrap();
    cluster.set_arguments(&LONG_LEASE).unwrap();
    cluster.run_daemon(&releases[0]).await.unwrap();
    cluster.completed(&releases[0]).await.unwrap();
    let asked = Timestamp::now();
    request_and_hold(&cluster, &releases[1]).await;
    let daemon = process(&cluster).await;

    balancer.remove(&older).unwrap();
    println!("the older server has left");
    goes_on(&cluster).await;
    // Now all connections are to the newer one, so that each of them ends.
    balancer.add(&older).unwrap();
    balancer.remove(&newer).unwrap();
    println!("the newer server has left, and the older one is back");
    goes_on(&cluster).await;
    whole_again(&cluster, &releases).await;

    assert_eq!(process(&cluster).await, daemon, "it was started again");
    assert_one_cluster(&cluster, &log, &releases[1], asked);
    assert_applied(&cluster, &releases[1]).await;
    cluster.close().await.unwrap();
}
