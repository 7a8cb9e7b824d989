//! Catalogs of operators, and the process that looks after them.

mod catalogs;
mod chaos;
mod clients;
mod foretold;
mod held_update;
mod hostile;
mod hub;
mod install_plans;
mod kills;
mod moving;
mod node;
mod node_operators;
mod node_pods;
mod operators;
mod packages;
mod pages;
mod peer_resolver;
mod peer_suite;
mod plain;
mod plan;
mod pods;
mod polls;
mod servers;
mod subscriptions;
mod templates;
mod unpacking;
mod wakeups;
mod woken;

use std::ops::RangeInclusive;
use std::time::Duration;

use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::harness::{Cluster, Cvo, Options, files, named};
use e2e::olm::{self, PROCESS};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::{Value, json};

/// For one step.
const LIMIT: Duration = Duration::from_secs(30);

/// A cluster with a registry, and the kinds that the process knows.
struct World {
    cluster: Cluster,
    client: Client,
    catalog_ports: RangeInclusive<u16>,
}

/// How many catalogs of a cluster have a port.
const PORTS: u16 = 9;

/// Creates the objects, or gives them this content.
async fn apply(cluster: &Cluster, objects: &[Value]) {
    let file = cluster.dir().join("objects.json");
    files::write_json(&file, &json!({"apiVersion": "v1", "kind": "List", "items": objects})).unwrap();
    let file = file.display().to_string();
    cluster.kubectl(["apply", "--server-side", "--force-conflicts", "-f", &file]).await.unwrap();
}

impl World {
    async fn up() -> World {
        World::with(Options { registry: true, audit: true, ..Options::default() }).await
    }

    async fn with(options: Options) -> World {
        let cluster = Cluster::up(options).await.unwrap();
        olm::prepare(&cluster).await.unwrap();
        let client = cluster.client().await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace = Namespace { metadata: named("shop"), ..Namespace::default() };
        namespaces.create(&Default::default(), &namespace).await.unwrap();
        let catalog_ports = olm::catalog_ports(&cluster, PORTS).unwrap();
        World { cluster, client, catalog_ports }
    }

    /// The process by this name. All replicas have the same ports, so that the others have another address.
    fn process(&self, name: &str) -> Cvo {
        let address = if name == PROCESS { "127.0.0.1" } else { "127.0.0.2" };
        olm::process(&self.cluster, name, address, &self.catalog_ports).unwrap().log_level("info,cvo=debug")
    }

    /// Starts the process.
    fn start(&self) {
        self.start_as(PROCESS);
    }

    fn start_as(&self, name: &str) {
        let process = self.process(name).flag("--secure-port", "0");
        self.cluster.spawn(process.launch(name).unwrap()).unwrap();
    }

    fn sources(&self, namespace: &str) -> Api<CatalogSource> {
        Api::namespaced(self.client.clone(), namespace)
    }

    async fn create(&self, namespace: &str, name: &str, spec: Value) {
        olm::create(&self.client, namespace, name, spec).await.unwrap();
    }

    /// Creates the object, or gives it this content.
    async fn apply(&self, object: &Value) {
        apply(&self.cluster, std::slice::from_ref(object)).await;
    }

    /// The CatalogSource as soon as it is so.
    async fn until(
        &self,
        what: &str,
        (namespace, name): (&str, &str),
        ok: impl FnMut(&CatalogSource) -> bool,
    ) -> CatalogSource {
        let wait = self.cluster.until(what, &[PROCESS]).within(LIMIT);
        wait.existing(self.sources(namespace), name, ok).await.unwrap()
    }

    /// Pushes an image with a catalog of one package, and returns its digest.
    async fn push(&self, image: &str, package: &str, labels: &[(&str, &str)]) -> String {
        let text = catalog(package, "1.0.0");
        push(&self.cluster.registry(), image, &[("configs/catalog.json", text.as_bytes())], labels).await
    }

    fn image(&self, name: &str) -> String {
        format!("{}/{name}", self.cluster.registry())
    }

    /// Whether a process that runs or is starting is ready.
    async fn is_ready(&self, name: &str) -> bool {
        olm::is_ready(&self.cluster, name).await
    }
}

/// The last state of the connection to a server.
fn state(source: &CatalogSource) -> Option<Connection> {
    let connection = source.status.as_ref()?.connection_state.as_ref()?;
    Some(connection.last_observed_state.clone())
}

/// Reason and message.
fn said(source: &CatalogSource) -> (String, String) {
    let status = source.status.clone().unwrap_or_default();
    (status.reason, status.message)
}

/// A catalog with one package of one version.
fn catalog(package: &str, version: &str) -> String {
    e2e::catalogs::catalog(package, &[version])
}

/// Pushes an image (`repository:tag`) with these files, and returns its digest.
async fn push(registry: &str, image: &str, files: &[(&str, &[u8])], labels: &[(&str, &str)]) -> String {
    e2e::catalogs::push(registry, image, files, labels).await.unwrap()
}
