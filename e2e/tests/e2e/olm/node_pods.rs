//! Catalogs that pods serve on a real node: where only pods are let in that keep to the strictest profile of pod security, and with the
//! rights that the release gives the component.

mod asking;
mod bundles;
mod moving;
mod placing;
mod private;
mod served;

use std::net::Ipv4Addr;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;

use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::harness::{Cluster, Cvo, Options, Programs, audit, files, machine};
use e2e::olm::{self, GROUPS, PROCESS, Start, USER};
use e2e::platform::{images, operators};
use e2e::services::monitoring::{Monitoring, PROMETHEUS};
use futures::FutureExt;
use futures::future::{LocalBoxFuture, join_all};
use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde_json::{Value, json};

use super::{LIMIT, catalog, said, state};

/// The namespace that enforces `restricted`, and one that enforces nothing.
const SHOP: &str = "shop";
const OPEN: &str = "open";
/// How many catalogs have a port.
const PORTS: u16 = 14;

/// A cluster with a node, and the process beside it.
struct World {
    cluster: Cluster,
    client: Client,
    monitoring: Monitoring,
    /// The image of `cvo`.
    image: String,
}

impl World {
    async fn up() -> World {
        let options = Options { node: true, registry: true, audit: true, ..Options::default() };
        let cluster = Cluster::up(options).await.unwrap();
        olm::prepare(&cluster).await.unwrap();
        olm::grant(&cluster).await.unwrap();
        operators::trust(&cluster).await.unwrap();
        let image = images::build(&cluster, &Programs::find().unwrap()).await.unwrap().cvo;
        let (client, metrics) = (cluster.client().await.unwrap(), cluster.port("metrics"));
        let monitoring = Monitoring::start_with(&cluster, &scraped(&cluster, metrics)).await.unwrap();
        let world = World { cluster, client, monitoring, image };
        let namespace = |name: &str, enforced: &str| {
            let labels = json!({"pod-security.kubernetes.io/enforce": enforced});
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})
        };
        world.apply("namespaces", &[namespace(SHOP, "restricted"), namespace(OPEN, "privileged")]).await;
        world.start(metrics).await;
        world
    }

    /// Starts the process, and waits until packages can be asked for.
    async fn start(&self, metrics: u16) {
        let (cluster, packages) = (&self.cluster, self.cluster.port("packages"));
        let (ports, node) = (olm::catalog_ports(cluster, PORTS).unwrap(), cluster.node_address().to_string());
        let start = Start {
            name: PROCESS,
            groups: &GROUPS,
            address: &node,
            catalog_ports: &ports,
            pod_ip: &node,
            metrics: &format!("127.0.0.1:{metrics}"),
        };
        let process = olm::started(cluster, start).unwrap().log_level("info,cvo=debug");
        let process = process.flag("--secure-port", packages.to_string()).flag("--image", &self.image);
        cluster.spawn(process.launch(PROCESS).unwrap()).unwrap();
        olm::register_packages_on_the_node(cluster, packages).await.unwrap();
        self.kubectl(&format!("wait --for=condition=Available --timeout=60s apiservice/{}", olm::PACKAGES)).await;
    }

    async fn kubectl(&self, arguments: &str) -> String {
        self.cluster.kubectl(arguments.split(' ')).await.unwrap()
    }

    async fn apply(&self, name: &str, objects: &[Value]) {
        let file = self.cluster.dir().join(format!("{name}.json"));
        files::write_json(&file, &json!({"apiVersion": "v1", "kind": "List", "items": objects})).unwrap();
        self.kubectl(&format!("apply --server-side -f {}", file.display())).await;
    }

    /// Creates a CatalogSource that a pod is to serve.
    async fn by_pod(&self, namespace: &str, name: &str, spec: Value) {
        let annotations = json!({"olm.operatorframework.io/catalog-serving": "pod"});
        let metadata = json!({"name": name, "namespace": namespace, "annotations": annotations});
        olm::create_with(&self.client, metadata, spec).await.unwrap();
    }

    /// As the process and the node name an image.
    fn named(&self, image: &str) -> String {
        format!("{}/{image}", self.cluster.registry_for_pods())
    }

    /// Pushes an image that serves a catalog of one package by itself.
    async fn push_serving(&self, image: &str, package: &str, version: &str, more: &[&str]) {
        let name = image.replace(['/', ':'], "-");
        let folder: PathBuf = self.cluster.dir().join("catalogs").join(format!("{name}-{version}"));
        files::write(&folder.join("catalog.json"), e2e::catalogs::catalog(package, &[version])).unwrap();
        let to = format!("{}/{image}", self.cluster.registry());
        let build = Cvo::new(["catalog", "build", "--serve", "--tag", &to]).args(more).args([folder]);
        build.output().await.unwrap();
    }

    /// The same on the image of `cvo`.
    async fn push_on_base(&self, image: &str, package: &str, version: &str) {
        self.push_serving(image, package, version, &["--base", &self.image]).await;
    }

    /// Pushes an image with nothing but a catalog in this folder.
    async fn push_data(&self, image: &str, package: &str, folder: &str) {
        let (text, file) = (catalog(package, "1.0.0"), format!("{folder}/catalog.json"));
        super::push(&self.cluster.registry(), image, &[(&file, text.as_bytes())], &[]).await;
    }

    async fn until(
        &self,
        what: &str,
        (namespace, name): (&str, &str),
        ok: impl FnMut(&CatalogSource) -> bool,
    ) -> CatalogSource {
        let look = async {
            let about = ["get", "catalogsources,pods,events", "-A", "-o", "wide"];
            let objects = self.cluster.kubectl(about).await.unwrap_or_default();
            format!("{objects}\n{}", files::tail(&self.cluster.log(PROCESS), 40))
        };
        let sources = Api::namespaced(self.client.clone(), namespace);
        let wait = self.cluster.until(format!("{name}: {what}"), &[PROCESS]).look(look).within(LIMIT * 3);
        wait.existing(sources, name, ok).await.unwrap()
    }

    async fn until_ready(&self, id: (&str, &str)) -> CatalogSource {
        self.until("to be ready", id, |it| state(it) == Some(Connection::Ready) && said(it).1.is_empty()).await
    }

    async fn pods(&self, (namespace, catalog): (&str, &str)) -> Vec<Pod> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), namespace);
        let list = ListParams::default().labels(&format!("olm.catalogSource={catalog}"));
        pods.list(&list).await.unwrap().items
    }

    /// The only pod of a catalog.
    async fn pod(&self, id: (&str, &str)) -> Value {
        let mut pods = self.pods(id).await;
        pods.retain(|pod| pod.metadata.deletion_timestamp.is_none());
        assert_eq!(pods.len(), 1, "{id:?}");
        serde_json::to_value(pods.remove(0)).unwrap()
    }

    /// Address and port of the Service of this name.
    async fn service(&self, name: &str) -> String {
        let address = self.kubectl(&format!("get service {name} -n {SHOP} -o jsonpath={{.spec.clusterIP}}")).await;
        address.parse::<Ipv4Addr>().unwrap();
        format!("{address}:50051")
    }

    /// The process has asked for nothing that it may not do. A pod that is not let in is refused to everybody.
    fn assert_nothing_was_forbidden(&self) {
        let requests = audit::requests(&self.cluster.audit_log(), USER).unwrap();
        let is_pod = |it: &audit::Request| it.resource == "pods" && it.verb == "create";
        let made = requests.iter().filter(|it| is_pod(it) && it.code == 201).count();
        let forbidden: Vec<_> = requests.iter().filter(|it| it.code == 403 && !is_pod(it)).collect();
        assert!(made > 0 && forbidden.is_empty(), "{} requests, {forbidden:?}", requests.len());
    }
}

/// Has the real Prometheus ask for the metrics of the process.
pub(super) fn scraped(cluster: &Cluster, port: u16) -> String {
    let leaf = cluster.client_certificate(PROMETHEUS).unwrap();
    let file = |name: &str, text: &str| {
        let file = cluster.dir().join(name);
        files::write(&file, text).unwrap();
        file.display().to_string()
    };
    let (certificate, key) = (file("scrape.crt", &leaf.certificate), file("scrape.key", &leaf.key));
    format!(
        "- job_name: olm\n  honor_labels: true\n  scheme: https\n  scrape_interval: 250ms\n  scrape_timeout: 250ms\n  \
         tls_config:\n    insecure_skip_verify: true\n    cert_file: {certificate}\n    key_file: {key}\n  \
         static_configs:\n  - targets: ['127.0.0.1:{port}']\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_serve_catalogs_on_a_node_where_restricted_is_enforced() {
    if !machine::is_root() {
        println!("skipped: a node needs root");
        return;
    }
    let world = World::up().await;
    world.push_on_base("catalogs/serving:v1", "serving", "1.0.0").await;
    // It lets no other pods onto the node.
    world.place().await;
    let steps: Vec<LocalBoxFuture<'_, ()>> = vec![
        Box::pin(world.serve_in_both_modes()),
        Box::pin(world.delete_a_pod()),
        Box::pin(world.move_an_image()),
        Box::pin(world.lose_a_server()),
        Box::pin(world.read_private_images()),
        Box::pin(world.read_bundles()),
    ];
    // Each goes on when another one fails, and says what it has found.
    let ended = join_all(steps.into_iter().map(|step| AssertUnwindSafe(step).catch_unwind())).await;
    assert!(ended.iter().all(Result::is_ok), "{}", files::tail(&world.cluster.log(PROCESS), 200));
    world.restart_while_a_bundle_is_read().await;
    world.assert_nothing_was_forbidden();
    world.cluster.down().await.unwrap();
}
