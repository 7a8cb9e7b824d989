//! Catalogs of operators, and the process that looks after them.

mod catalogs;
mod clients;
mod hub;
mod kills;
mod node;
mod packages;
mod pages;
mod pods;
mod polls;
mod servers;
mod templates;

use std::time::Duration;

use cvo::testing::api::olm::catalog_source::CatalogSource;
use cvo::testing::api::olm::{GLOBAL_CATALOG_NAMESPACE, NAMESPACE};
use e2e::harness::{Cluster, Cvo, Options};
use e2e::platform::component::Component;
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client};
use serde_json::{Value, json};

/// Name of the process, and of its log.
const PROCESS: &str = "olm";
/// For one step.
const LIMIT: Duration = Duration::from_secs(30);

/// What installs it. It runs as a process of the cluster, so that nothing is to be changed.
const COMPONENT: Component = Component { folder: "olm", image: None, changes: |_| Vec::new() };

/// A cluster with a registry, and the kinds that the process knows.
struct World {
    cluster: Cluster,
    client: Client,
    /// The first port of catalogs. Several clusters share a machine.
    first_port: u16,
}

/// How many catalogs of a cluster have a port.
const PORTS: u16 = 9;

impl World {
    async fn up() -> World {
        let options = Options { registry: true, audit: true, ..Options::default() };
        let cluster = Cluster::up(options).await.unwrap();
        COMPONENT.define(&cluster).await.unwrap();
        let operators = Component { folder: "cluster-version", image: None, changes: |_| Vec::new() };
        operators.define(&cluster).await.unwrap();
        let client = cluster.client().await.unwrap();
        let namespaces: Api<Namespace> = Api::all(client.clone());
        for name in [NAMESPACE, GLOBAL_CATALOG_NAMESPACE, "shop"] {
            let namespace = Namespace { metadata: e2e::harness::named(name), ..Namespace::default() };
            namespaces.create(&Default::default(), &namespace).await.unwrap();
        }
        // The first ones that are asked for follow each other.
        let ports: Vec<u16> = (0..PORTS).map(|number| cluster.port(&format!("catalog {number}"))).collect();
        World { cluster, client, first_port: ports[0] }
    }

    /// The process by this name. All replicas have the same ports, so that the others have another address.
    fn process(&self, name: &str) -> Cvo {
        let address = if name == PROCESS { "127.0.0.1" } else { "127.0.0.2" };
        let last = self.first_port + PORTS - 1;
        let user = format!("system:serviceaccount:{NAMESPACE}:olm-operator-serviceaccount");
        let user = self.cluster.kubeconfig_as(name, &user, &["system:masters"]).unwrap();
        Cvo::new(["olm", "start", "--release-version=1.0.0", "--listen="])
            .kubeconfig(user)
            // As a restarted container of a pod has it.
            .flag("--identity", name)
            .flag("--listen-health", format!("127.0.0.1:{}", self.cluster.port(&format!("{name} health"))))
            .flag("--listen-catalogs", format!("{address}:{}", self.cluster.port("catalogs")))
            .flag("--catalog-ports", format!("{}-{last}", self.first_port))
            .flag("--catalog-cache-dir", self.cluster.dir().join(format!("{name}-cache")))
            // It is in no pod. Services lead to addresses of nodes and pods, and to no others.
            .flag("--pod-ip", "192.0.2.7")
            .flag("--writeStatusName", "operator-lifecycle-manager")
            .flag("--writeCatalogStatusName", "operator-lifecycle-manager-catalog")
            .flag("--writePackageServerStatusName", "operator-lifecycle-manager-packageserver")
            .flag("--writeMarketplaceStatusName", "marketplace")
            .log_level("info,cvo=debug")
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
        let metadata = json!({"name": name, "namespace": namespace});
        let api_version = "operators.coreos.com/v1alpha1";
        let object = json!({"apiVersion": api_version, "kind": "CatalogSource", "metadata": metadata, "spec": spec});
        let object: CatalogSource = serde_json::from_value(object).unwrap();
        self.sources(namespace).create(&Default::default(), &object).await.unwrap();
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
        let port = self.cluster.port(&format!("{name} health"));
        let answer = reqwest::get(&format!("http://127.0.0.1:{port}/readyz")).await;
        answer.is_ok_and(|answer| answer.status().is_success())
    }
}

/// A catalog with one package of one version.
fn catalog(package: &str, version: &str) -> String {
    e2e::catalogs::catalog(package, &[version])
}

/// Pushes an image (`repository:tag`) with these files, and returns its digest.
async fn push(registry: &str, image: &str, files: &[(&str, &[u8])], labels: &[(&str, &str)]) -> String {
    e2e::catalogs::push(registry, image, files, labels).await.unwrap()
}
