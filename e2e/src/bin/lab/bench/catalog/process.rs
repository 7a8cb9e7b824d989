//! The process that looks after catalogs, on a control plane of its own with a registry.

use super::LIMIT;
use crate::bench::memory::{self, Memory};
use anyhow::Context;
use cvo::testing::api::olm::GLOBAL_CATALOG_NAMESPACE;
use cvo::testing::api::olm::catalog_source::{CatalogSource, Connection};
use e2e::catalogs::{files_of, push};
use e2e::conditions::Conditions;
use e2e::harness::{Cluster, Identity, Options, files};
use e2e::olm::{self, PACKAGES, PROCESS};
use k8s_openapi::kube_aggregator::pkg::apis::apiregistration::v1::APIService;
use kube::{Api, Client};
use serde_json::json;
use std::net::{Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Ports of catalogs.
const PORTS: u16 = 8;
/// Between two looks whether the process is ready.
const PAUSE: Duration = Duration::from_millis(3);
/// Another replica.
const SECOND: &str = "second";

pub(super) struct Olm {
    pub cluster: Cluster,
    /// As administrator.
    pub client: Client,
    catalog_ports: RangeInclusive<u16>,
    running: Mutex<Option<Identity>>,
}

impl Olm {
    pub(super) async fn start() -> anyhow::Result<Self> {
        let cluster = Cluster::up(Options { registry: true, audit: true, ..Options::default() }).await?;
        olm::prepare(&cluster).await?;
        let (client, catalog_ports) = (cluster.client().await?, olm::catalog_ports(&cluster, PORTS)?);
        Ok(Olm { cluster, client, catalog_ports, running: Mutex::default() })
    }

    /// Pushes the catalog in a folder, and returns the name of its image.
    pub(super) async fn push(&self, name: &str, folder: &Path) -> anyhow::Result<String> {
        let image = format!("catalogs/{name}:v1");
        let files = files_of(folder)?;
        let files: Vec<(&str, &[u8])> = files.iter().map(|(path, bytes)| (path.as_str(), bytes.as_slice())).collect();
        push(&self.cluster.registry(), &image, &files, &[]).await?;
        rustix::fs::sync();
        Ok(format!("{}/{image}", self.cluster.registry()))
    }

    /// Starts the process, which serves packages and catalogs.
    pub(super) fn spawn(&self) -> anyhow::Result<()> {
        let process = olm::process(&self.cluster, PROCESS, "127.0.0.1", &self.catalog_ports)?;
        let process = process.flag("--secure-port", self.packages_port().to_string());
        let identity = self.cluster.spawn(process.launch(PROCESS)?)?;
        *self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Some(identity);
        Ok(())
    }

    /// Starts another replica, which waits for the lease, and waits until it serves what the first one does.
    pub(super) async fn add_replica(&self) -> anyhow::Result<()> {
        let process = olm::process(&self.cluster, SECOND, "127.0.0.2", &self.catalog_ports)?;
        self.cluster.spawn(process.flag("--secure-port", "0").launch(SECOND)?)?;
        self.until_ready(SECOND).await
    }

    /// Whether it ended when it was told to.
    pub(super) async fn terminate(&self) -> anyhow::Result<bool> {
        Ok(self.cluster.terminate(PROCESS, LIMIT).await?)
    }

    fn packages_port(&self) -> u16 {
        self.cluster.port("packages")
    }

    /// Where all catalogs are asked for.
    pub(super) fn catalogs(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, self.cluster.port("catalogs")).into()
    }

    /// By which a client asks for this catalog.
    pub(super) fn authority(&self, name: &str) -> String {
        format!("{name}.{GLOBAL_CATALOG_NAMESPACE}.svc")
    }

    pub(super) fn log(&self) -> String {
        files::tail(&self.cluster.log(PROCESS), 20)
    }

    /// Waits until the process serves what it served before.
    pub(super) async fn until_ready(&self, name: &str) -> anyhow::Result<()> {
        let begun = Instant::now();
        while !olm::is_ready(&self.cluster, name).await {
            anyhow::ensure!(begun.elapsed() < LIMIT, "the process {name} does not become ready");
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    pub(super) fn sources(&self) -> Api<CatalogSource> {
        Api::namespaced(self.client.clone(), GLOBAL_CATALOG_NAMESPACE)
    }

    pub(super) async fn create(&self, name: &str, image: &str, interval: &str) -> anyhow::Result<()> {
        let spec = json!({"sourceType": "grpc", "image": image,
            "updateStrategy": {"registryPoll": {"interval": interval}}});
        olm::create(&self.client, GLOBAL_CATALOG_NAMESPACE, name, spec).await
    }

    pub(super) async fn until_served(&self, name: &str) -> anyhow::Result<()> {
        let is_ready = |source: &CatalogSource| {
            let connection = source.status.as_ref().and_then(|status| status.connection_state.as_ref());
            connection.is_some_and(|connection| connection.last_observed_state == Connection::Ready)
        };
        let wait = self.cluster.until(format!("catalog {name} to be READY"), &[PROCESS]).within(LIMIT);
        wait.existing(self.sources(), name, is_ready).await?;
        Ok(())
    }

    pub(super) async fn delete(&self, name: &str) -> anyhow::Result<()> {
        self.sources().delete(name, &Default::default()).await?;
        Ok(())
    }

    /// Tells the API server where packages are served, and waits until it reaches them.
    pub(super) async fn register_packages(&self) -> anyhow::Result<()> {
        olm::register_packages(&self.cluster, self.packages_port()).await?;
        let services: Api<APIService> = Api::all(self.client.clone());
        let wait = self.cluster.until("packages to be served", &[PROCESS]).within(LIMIT);
        wait.existing(services, PACKAGES, |service| service.has("Available=True")).await?;
        Ok(())
    }

    /// What is the most from now on is the peak.
    pub(super) fn forget_peak(&self) -> anyhow::Result<()> {
        memory::forget_peak(self.pid()?)
    }

    pub(super) fn memory(&self) -> anyhow::Result<Memory> {
        Memory::of(self.pid()?)
    }

    fn pid(&self) -> anyhow::Result<i32> {
        let running = self.running.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        Ok(running.as_ref().context("the process has not been started")?.pid)
    }
}
