//! The process that looks after operators, on a control plane of its own, with a registry and nodes that kwok plays.

use super::cluster::AUDIT_LAG;
use super::memory::{self, Memory};
use anyhow::{Context, ensure};
use cvo::testing::api::olm::NAMESPACE;
use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::catalogs::push;
use e2e::harness::audit::{self, Request};
use e2e::harness::{Cluster, Identity, Options, files, named, process};
use e2e::olm::{self, PROCESS, Start, USER};
use e2e::services::monitoring::PROMETHEUS;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use std::ops::{Range, RangeInclusive};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// For one step.
pub(super) const LIMIT: Duration = Duration::from_secs(120);

pub(super) struct World {
    pub cluster: Cluster,
    /// As administrator.
    pub client: Client,
    catalog_ports: RangeInclusive<u16>,
    metrics: String,
    scraper: reqwest::Client,
    running: Mutex<Option<Identity>>,
}

impl World {
    /// With so many nodes that kwok plays.
    pub(super) async fn start(nodes: usize) -> anyhow::Result<World> {
        let options = Options { registry: true, audit: true, kwok: true, ..Options::default() };
        let cluster = Cluster::up(options).await?;
        olm::prepare(&cluster).await?;
        cluster.add_fake_nodes(0..nodes).await?;
        let (client, catalog_ports) = (cluster.client().await?, olm::catalog_ports(&cluster, 16)?);
        let metrics = format!("127.0.0.1:{}", cluster.port("metrics"));
        let identity = reqwest::Identity::from_pem(cluster.client_certificate(PROMETHEUS)?.identity().as_bytes())?;
        let scraper = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
        let (scraper, running) = (scraper.identity(identity).build()?, Mutex::default());
        Ok(World { cluster, client, catalog_ports, metrics, scraper, running })
    }

    /// Starts the process with some of its loops, which have a lease of their own; with none named, it runs all of them.
    pub(super) async fn spawn(&self, loops: &[&str]) -> anyhow::Result<()> {
        let name: Vec<&str> = ["olm-operator"].iter().chain(loops).copied().collect();
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), NAMESPACE);
        if leases.get_opt(&name.join("-")).await?.is_none() {
            // Without one a process waits that cannot know whether somebody has deleted the lease of another one, which goes on.
            let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": {"name": name.join("-")}, "spec": {"holderIdentity": ""}});
            self.create(NAMESPACE, lease).await?;
        }
        let start = Start {
            name: PROCESS,
            groups: &["system:masters"],
            address: "127.0.0.1",
            catalog_ports: &self.catalog_ports,
            pod_ip: "192.0.2.7",
            metrics: &self.metrics,
        };
        let mut process = olm::started(&self.cluster, start)?.flag("--secure-port", "0");
        if !loops.is_empty() {
            process = process.flag("--loops", loops.join(","));
        }
        let identity = self.cluster.spawn(process.launch(PROCESS)?)?;
        *self.running.lock().unwrap_or_else(PoisonError::into_inner) = Some(identity);
        Ok(())
    }

    /// The same in place of the one that runs.
    pub(super) async fn restart(&self, loops: &[&str]) -> anyhow::Result<()> {
        ensure!(self.cluster.terminate(PROCESS, LIMIT).await?, "the process does not end when it is told to");
        self.spawn(loops).await
    }

    pub(super) fn log(&self) -> String {
        files::tail(&self.cluster.log(PROCESS), 20)
    }

    /// What metrics say, by the name of the series.
    pub(super) async fn metric(&self, name: &str) -> anyhow::Result<f64> {
        let asked = self.scraper.get(format!("https://{}/metrics", self.metrics)).send().await?;
        let text = asked.error_for_status()?.text().await?;
        let samples = text.lines().filter(|line| line.split(['{', ' ']).next() == Some(name));
        Ok(samples.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum())
    }

    /// Creates an object. `namespace`: empty for one that has none.
    pub(super) async fn create(&self, namespace: &str, object: Value) -> anyhow::Result<()> {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let what = format!("{} {} in {namespace}", text("/kind"), text("/metadata/name"));
        let made = create(&self.client, namespace, object).await;
        made.with_context(|| format!("cannot create {what}"))
    }

    /// A namespace with a group that targets it.
    pub(super) async fn namespace(&self, name: &str) -> anyhow::Result<()> {
        self.bare_namespace(name).await?;
        let group = json!({"apiVersion": "operators.coreos.com/v1", "kind": "OperatorGroup",
            "metadata": {"name": "one"}, "spec": {"targetNamespaces": [name]}});
        self.create(name, group).await
    }

    /// A namespace with nothing in it.
    pub(super) async fn bare_namespace(&self, name: &str) -> anyhow::Result<()> {
        let namespace = Namespace { metadata: named(name), ..Namespace::default() };
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        namespaces.create(&PostParams::default(), &namespace).await?;
        Ok(())
    }

    /// Pushes a catalog, creates its CatalogSource and waits until it is served.
    pub(super) async fn serve(&self, namespace: &str, name: &str, files: &[(&str, &[u8])]) -> anyhow::Result<()> {
        let registry = self.cluster.registry();
        let image = format!("catalogs/{namespace}-{name}:v1");
        push(&registry, &image, files, &[]).await?;
        let spec = json!({"sourceType": "grpc", "image": format!("{registry}/{image}")});
        olm::create(&self.client, namespace, name, spec).await?;
        self.served(namespace, name).await
    }

    async fn served(&self, namespace: &str, name: &str) -> anyhow::Result<()> {
        let sources: Api<CatalogSource> = Api::namespaced(self.client.clone(), namespace);
        let wait = self.cluster.until(format!("catalog {name} to be READY"), &[PROCESS]).within(LIMIT);
        let is_ready = |source: &CatalogSource| {
            let connection = source.status.as_ref().and_then(|status| status.connection_state.as_ref());
            connection.is_some_and(|connection| connection.last_observed_state == Connection::Ready)
        };
        wait.existing(sources, name, is_ready).await?;
        Ok(())
    }

    /// What the process has asked the API server for, beside its lease.
    pub(super) async fn requests(&self, time: Range<Timestamp>) -> anyhow::Result<Vec<Request>> {
        tokio::time::sleep(AUDIT_LAG).await;
        let log = self.cluster.audit_log();
        let requests = tokio::task::spawn_blocking(move || audit::requests(&log, USER)).await?;
        let requests = audit::within(&requests.context("cannot read the audit log")?, time);
        Ok(requests.into_iter().filter(|request| request.resource != "leases").collect())
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.pid()?)
    }

    /// What is the most from now on is the peak.
    pub(super) fn forget_peak(&self) -> anyhow::Result<()> {
        memory::forget_peak(self.pid()?)
    }

    /// CPU seconds of the process so far.
    pub(super) fn cpu_seconds(&self) -> anyhow::Result<f64> {
        process::cpu_seconds(self.pid()?).context("the process has ended")
    }

    fn pid(&self) -> anyhow::Result<i32> {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(running.as_ref().context("the process has not been started")?.pid)
    }
}

/// The account of an operator and its rights.
pub(super) fn account(name: &str) -> [Value; 3] {
    let rbac = "rbac.authorization.k8s.io";
    [
        json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "Role", "metadata": {"name": name},
            "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}]}),
        json!({"apiVersion": format!("{rbac}/v1"), "kind": "RoleBinding", "metadata": {"name": name},
            "roleRef": {"apiGroup": rbac, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": name}]}),
    ]
}

/// `namespace`: empty for an object that has none.
pub(super) async fn create(client: &Client, namespace: &str, object: Value) -> anyhow::Result<()> {
    let object: DynamicObject = serde_json::from_value(object)?;
    let types = object.types.clone().context("an object without a kind")?;
    let (group, version) = types.api_version.rsplit_once('/').unwrap_or(("", &types.api_version));
    let kind = kube::api::GroupVersionKind::gvk(group, version, &types.kind);
    let kind = ApiResource::from_gvk(&kind);
    let api: Api<DynamicObject> = match namespace {
        "" => Api::all_with(client.clone(), &kind),
        _ => Api::namespaced_with(client.clone(), namespace, &kind),
    };
    api.create(&PostParams::default(), &object).await?;
    Ok(())
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or_default()
}
