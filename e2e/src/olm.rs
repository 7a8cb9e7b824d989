//! The process that looks after catalogs, on a cluster without a node: what it needs there, and how it is started.

use std::ops::RangeInclusive;

use anyhow::Context;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::{GLOBAL_CATALOG_NAMESPACE, NAMESPACE, PACKAGE_SERVICE};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::harness::{Cluster, Cvo, named};
use crate::platform::component::{Component, environment};

/// Name of the process, and of its log.
pub const PROCESS: &str = "olm";
/// As whom it asks the API server.
pub const USER: &str = "system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount";
/// Its Deployment.
const DEPLOYMENT: &str = "olm/0000_50_olm_50_deployment.yaml";
/// The API of packages.
pub const PACKAGES: &str = "v1.packages.operators.coreos.com";

/// What installs it. It runs as a process of the cluster, so that nothing is to be changed.
pub const COMPONENT: Component = Component { folder: "olm", image: None, changes: |_| Vec::new() };

/// Creates the kinds that it knows, and its namespaces.
pub async fn prepare(cluster: &Cluster) -> anyhow::Result<()> {
    COMPONENT.define(cluster).await?;
    let operators = Component { folder: "cluster-version", image: None, changes: |_| Vec::new() };
    operators.define(cluster).await?;
    let namespaces: Api<Namespace> = Api::all(cluster.client().await?);
    for name in [NAMESPACE, GLOBAL_CATALOG_NAMESPACE] {
        let namespace = Namespace { metadata: named(name), ..Namespace::default() };
        namespaces.create(&Default::default(), &namespace).await?;
    }
    Ok(())
}

/// So many ports that follow each other, for catalogs. Several clusters share a machine.
pub fn catalog_ports(cluster: &Cluster, count: u16) -> anyhow::Result<RangeInclusive<u16>> {
    // The first ones that are asked for follow each other.
    let ports: Vec<u16> = (0..count).map(|number| cluster.port(&format!("catalog {number}"))).collect();
    let (first, last) = ports.first().zip(ports.last()).context("no ports")?;
    Ok(*first..=*last)
}

/// The process by this name, with catalogs at this address. It serves no packages and no metrics.
pub fn process(
    cluster: &Cluster,
    name: &str,
    address: &str,
    catalog_ports: &RangeInclusive<u16>,
) -> anyhow::Result<Cvo> {
    let user = cluster.kubeconfig_as(name, USER, &["system:masters"])?;
    let process = Cvo::new(["olm", "start", "--release-version=1.0.0", "--listen="])
        .kubeconfig(user)
        // As a restarted container of a pod has it.
        .flag("--identity", name)
        .flag("--listen-health", format!("127.0.0.1:{}", health_port(cluster, name)))
        .flag("--listen-catalogs", format!("{address}:{}", cluster.port("catalogs")))
        .flag("--catalog-ports", format!("{}-{}", catalog_ports.start(), catalog_ports.end()))
        .flag("--catalog-cache-dir", cluster.dir().join(format!("{name}-cache")))
        // It is in no pod. Services lead to addresses of nodes and pods, and to no others.
        .flag("--pod-ip", "192.0.2.7")
        .flag("--writeStatusName", "operator-lifecycle-manager")
        .flag("--writeCatalogStatusName", "operator-lifecycle-manager-catalog")
        .flag("--writePackageServerStatusName", "operator-lifecycle-manager-packageserver")
        .flag("--writeMarketplaceStatusName", "marketplace");
    Ok(environment(DEPLOYMENT)?.iter().fold(process, |process, (name, value)| process.env(name, value)))
}

fn health_port(cluster: &Cluster, name: &str) -> u16 {
    cluster.port(&format!("{name} health"))
}

/// Whether a process that runs or is starting is ready.
pub async fn is_ready(cluster: &Cluster, name: &str) -> bool {
    readiness(&format!("127.0.0.1:{}", health_port(cluster, name))).await.is_ok_and(|status| status.contains(" 200 "))
}

/// The first line of the answer. It is asked often while something is measured, which a client of HTTP would disturb.
async fn readiness(address: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").await?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).await?;
    Ok(line)
}

/// Tells the API server that packages are served at this port. It reaches the process, which runs in no pod, by the name of this
/// machine.
pub async fn register_packages(cluster: &Cluster, port: u16) -> anyhow::Result<()> {
    let service = json!({"apiVersion": "v1", "kind": "Service",
        "metadata": {"name": PACKAGE_SERVICE, "namespace": NAMESPACE},
        "spec": {"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]}});
    let registered = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": PACKAGES},
        "spec": {"group": "packages.operators.coreos.com", "version": "v1",
            "groupPriorityMinimum": 2000, "versionPriority": 15,
            "service": {"namespace": NAMESPACE, "name": PACKAGE_SERVICE, "port": port}}});
    let list = json!({"apiVersion": "v1", "kind": "List", "items": [service, registered]});
    let file = cluster.dir().join("packages.json");
    std::fs::write(&file, list.to_string())?;
    cluster.kubectl(["apply", "-f", &file.display().to_string()]).await?;
    Ok(())
}

/// Creates a CatalogSource.
pub async fn create(client: &Client, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()> {
    let metadata = json!({"name": name, "namespace": namespace});
    let api_version = "operators.coreos.com/v1alpha1";
    let object = json!({"apiVersion": api_version, "kind": "CatalogSource", "metadata": metadata, "spec": spec});
    let object: CatalogSource = serde_json::from_value(object)?;
    Api::namespaced(client.clone(), namespace).create(&Default::default(), &object).await?;
    Ok(())
}
