//! The process that looks after catalogs, beside a cluster: what it needs there, and how it is started.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use anyhow::Context;
use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::{GLOBAL_CATALOG_NAMESPACE, NAMESPACE, PACKAGE_SERVICE};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::PostParams;
use kube::{Api, Client};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use crate::harness::audit::{self, Request};
use crate::harness::{Cluster, Cvo, named};
use crate::platform::component::{Component, environment};
use crate::workspace;

/// Name of the process, and of its log.
pub const PROCESS: &str = "olm";
/// As whom it asks the API server.
pub const USER: &str = "system:serviceaccount:openshift-operator-lifecycle-manager:olm-operator-serviceaccount";
/// The groups of that user.
pub const GROUPS: [&str; 3] =
    ["system:authenticated", "system:serviceaccounts", "system:serviceaccounts:openshift-operator-lifecycle-manager"];
/// Its Deployment, and its rights.
const DEPLOYMENT: &str = "olm/0000_50_olm_50_deployment.yaml";
const RIGHTS: &str = "manifests/olm/0000_50_olm_02_rbac.yaml";
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

/// Gives its user the rights that the release gives it, and no others. The API server knows of them when this returns.
pub async fn grant(cluster: &Cluster) -> anyhow::Result<()> {
    let file = workspace::root().join(RIGHTS).display().to_string();
    cluster.kubectl(["apply", "--server-side", "-f", &file]).await?;
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client().await?);
    // One of each binding.
    for (namespace, verb, group, resource) in [
        ("", "watch", "operators.coreos.com", "operatorconditions"),
        (NAMESPACE, "update", "coordination.k8s.io", "leases"),
    ] {
        let asked = json!({"namespace": namespace, "verb": verb, "group": group, "resource": resource});
        let is_allowed = async || is_allowed(&reviews, &asked).await.is_ok_and(|allowed| allowed);
        cluster.until(format!("the right to {verb} {resource}"), &[]).holds(is_allowed).await?;
    }
    Ok(())
}

/// Whether the release's own user may do this now.
async fn is_allowed(reviews: &Api<SubjectAccessReview>, attributes: &Value) -> anyhow::Result<bool> {
    let review = json!({"metadata": {}, "spec": {"user": USER, "groups": GROUPS, "resourceAttributes": attributes}});
    let review: SubjectAccessReview = serde_json::from_value(review)?;
    let answer = reviews.create(&PostParams::default(), &review).await?;
    Ok(answer.status.is_some_and(|status| status.allowed))
}

/// What differs between processes.
#[derive(Clone, Copy, Debug)]
pub struct Start<'a> {
    pub name: &'a str,
    /// Those of its user.
    pub groups: &'a [&'a str],
    /// Where it serves catalogs.
    pub address: &'a str,
    pub catalog_ports: &'a RangeInclusive<u16>,
    /// Where Services of catalogs lead to. Those of pods and nodes are allowed, and no others.
    pub pod_ip: &'a str,
    /// Where it serves metrics; empty for nowhere.
    pub metrics: &'a str,
}

/// The process by this name, with catalogs at this address. It may do everything, and serves no packages and no metrics.
pub fn process(
    cluster: &Cluster,
    name: &str,
    address: &str,
    catalog_ports: &RangeInclusive<u16>,
) -> anyhow::Result<Cvo> {
    // It is in no pod.
    let start = Start { name, groups: &["system:masters"], address, catalog_ports, pod_ip: "192.0.2.7", metrics: "" };
    started(cluster, start)
}

/// The process `PROCESS` with the rights of the release and no others. It serves no packages and no metrics.
pub fn limited(cluster: &Cluster, catalog_ports: &RangeInclusive<u16>) -> anyhow::Result<Cvo> {
    let (groups, address) = (&GROUPS, "127.0.0.1");
    started(cluster, Start { name: PROCESS, groups, address, catalog_ports, pod_ip: "192.0.2.7", metrics: "" })
}

/// A process. It serves no packages.
pub fn started(cluster: &Cluster, start: Start<'_>) -> anyhow::Result<Cvo> {
    let Start { name, groups, address, catalog_ports, pod_ip, metrics } = start;
    let user = cluster.kubeconfig_as(name, USER, groups)?;
    let process = Cvo::new(["olm", "start", "--release-version=1.0.0"])
        .kubeconfig(user)
        // As a restarted container of a pod has it.
        .flag("--identity", name)
        .flag("--listen", metrics)
        .flag("--listen-health", format!("127.0.0.1:{}", health_port(cluster, name)))
        .flag("--listen-catalogs", format!("{address}:{}", cluster.port("catalogs")))
        .flag("--catalog-ports", format!("{}-{}", catalog_ports.start(), catalog_ports.end()))
        .flag("--catalog-cache-dir", cluster.dir().join(format!("{name}-cache")))
        .flag("--pod-ip", pod_ip)
        .flag("--writeStatusName", "operator-lifecycle-manager")
        .flag("--writeCatalogStatusName", "operator-lifecycle-manager-catalog")
        .flag("--writePackageServerStatusName", "operator-lifecycle-manager-packageserver")
        .flag("--writeMarketplaceStatusName", "marketplace");
    Ok(environment(DEPLOYMENT)?.iter().fold(process, |process, (name, value)| process.env(name, value)))
}

/// What the process has asked for, as the release's own user, and must not: verb, object and query of each. An API server that has only
/// begun learns of roles kind by kind: what it has refused and allows now is allowed.
pub async fn forbidden(cluster: &Cluster) -> anyhow::Result<Vec<String>> {
    let reviews: Api<SubjectAccessReview> = Api::all(cluster.client().await?);
    let mut forbidden = Vec::new();
    for it in audit::requests(&cluster.audit_log(), USER)?.iter().filter(|it| it.code == 403) {
        let asked = json!({"namespace": it.namespace, "verb": it.verb, "group": it.group, "resource": it.resource,
            "subresource": it.subresource, "name": it.name});
        if !is_allowed(&reviews, &asked).await? {
            forbidden.push(format!("{} {}: {}", it.verb, it.object(), it.uri));
        }
    }
    Ok(forbidden)
}

/// What the process has made, that is there, and that lacks the label by which what belongs to operators is found. Its own lease, what
/// it reports and what it asks belong to none.
pub async fn unmarked(cluster: &Cluster, client: &Client) -> anyhow::Result<Vec<String>> {
    // kubectl asks in its name whether it may do something.
    const OTHERS: [&str; 6] =
        ["clusteroperators", "events", "leases", "selfsubjectaccessreviews", "subjectaccessreviews", "tokenreviews"];
    let is_made = |it: &Request| {
        it.wrote() && it.effect() == "create" && it.subresource.is_empty() && !OTHERS.contains(&it.resource.as_str())
    };
    let path = |it: &Request| {
        let path = it.uri.split('?').next().unwrap_or_default();
        // Who creates names the list that the object comes into.
        if it.verb == "create" { format!("{path}/{}", it.name) } else { path.to_owned() }
    };
    let made: BTreeSet<String> =
        audit::requests(&cluster.audit_log(), USER)?.iter().filter(|it| is_made(it)).map(path).collect();
    let mut unmarked = Vec::new();
    for path in made {
        match client.request::<Value>(http::Request::get(&path).body(Vec::new())?).await {
            Ok(object) if object.pointer("/metadata/labels/olm.managed").is_some_and(|mark| mark == "true") => {}
            Err(kube::Error::Api(status)) if status.code == 404 => {}
            other => unmarked.push(format!("{path}: {:?}", other.map(|it| it.pointer("/metadata/labels").cloned()))),
        }
    }
    Ok(unmarked)
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
    let spec = json!({"type": "ExternalName", "externalName": "localhost", "ports": [{"port": port}]});
    register(cluster, port, vec![package_service(spec)]).await
}

/// The same where the API server asks the endpoints of Services: they are at the address of the node.
pub async fn register_packages_on_the_node(cluster: &Cluster, port: u16) -> anyhow::Result<()> {
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": PACKAGE_SERVICE, "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": PACKAGE_SERVICE}},
        "endpoints": [{"addresses": [cluster.node_address()]}], "ports": [{"port": port}]});
    register(cluster, port, vec![package_service(json!({"ports": [{"port": port}]})), slice]).await
}

fn package_service(spec: Value) -> Value {
    let metadata = json!({"name": PACKAGE_SERVICE, "namespace": NAMESPACE});
    json!({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec})
}

async fn register(cluster: &Cluster, port: u16, service: Vec<Value>) -> anyhow::Result<()> {
    let registered = json!({"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService",
        "metadata": {"name": PACKAGES},
        "spec": {"group": "packages.operators.coreos.com", "version": "v1",
            "groupPriorityMinimum": 2000, "versionPriority": 15,
            "service": {"namespace": NAMESPACE, "name": PACKAGE_SERVICE, "port": port}}});
    let items: Vec<Value> = service.into_iter().chain([registered]).collect();
    let list = json!({"apiVersion": "v1", "kind": "List", "items": items});
    let file = cluster.dir().join("packages.json");
    std::fs::write(&file, list.to_string())?;
    cluster.kubectl(["apply", "-f", &file.display().to_string()]).await?;
    Ok(())
}

/// Creates a CatalogSource.
pub async fn create(client: &Client, namespace: &str, name: &str, spec: Value) -> anyhow::Result<()> {
    create_with(client, json!({"name": name, "namespace": namespace}), spec).await
}

/// The same with all metadata.
pub async fn create_with(client: &Client, metadata: Value, spec: Value) -> anyhow::Result<()> {
    let namespace = metadata.get("namespace").and_then(Value::as_str).unwrap_or_default().to_owned();
    let api_version = "operators.coreos.com/v1alpha1";
    let object = json!({"apiVersion": api_version, "kind": "CatalogSource", "metadata": metadata, "spec": spec});
    let object: CatalogSource = serde_json::from_value(object)?;
    Api::namespaced(client.clone(), &namespace).create(&Default::default(), &object).await?;
    Ok(())
}
