//! The sample platform on a test cluster: a signing key, a signature store and an update graph, images and releases in
//! the cluster's registry, and the daemon installed from one of them. Everything is done with the commands of an
//! administrator, `cvo` and `kubectl`.

pub mod component;
pub mod compose;
pub mod follow;
pub mod images;
pub mod install;
pub mod library;
pub mod nodes;
pub mod operators;
pub mod packages;
pub mod releases;
mod restarts;

use std::{
    ffi::OsStr,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::Context;
use serde_json::json;

use crate::harness::{Cluster, Cvo, Launch, Options, Programs, files, machine};
use crate::simulator::requests::GATES;
use crate::{
    signing::{Keys, TRUSTED},
    workspace,
};
pub use releases::Release;

/// For one step on a busy machine; an install usually takes six seconds, an update fifteen.
pub const LIMIT: Duration = Duration::from_secs(240);
/// The channel that the sample cluster follows.
pub const CHANNEL: &str = "stable-1";

/// Ends the cluster when dropped.
#[derive(Debug)]
pub struct Platform {
    pub cluster: Cluster,
    programs: Programs,
    pub keys: Keys,
    images: images::Images,
    restarts: restarts::Restarts,
}

impl Platform {
    /// On a new cluster with a node, registry and audit log; `None`, with a note, on a machine that cannot have a node.
    pub async fn on_a_node() -> anyhow::Result<Option<Self>> {
        if !machine::is_root() {
            println!("skipped: a node needs root");
            return Ok(None);
        }
        let programs = Programs::find()?;
        let options = Options { node: true, registry: true, audit: true, gates: GATES, ..Default::default() };
        Self::prepare(Cluster::up(options).await?, programs).await.map(Some)
    }

    /// Prepares a cluster that was started with node and registry: key, signature store, update service, and the images
    /// of `cvo` and `lab`. About five seconds.
    pub async fn prepare(cluster: Cluster, programs: Programs) -> anyhow::Result<Self> {
        files::make_dir(&www(&cluster))?;
        let keys = Keys::generate(&cluster.dir()).await?;
        serve(&cluster, &programs).await?;
        let images = images::build(&cluster, &programs).await?;
        let restarts = restarts::Restarts::watch(&cluster.client().await?)?;
        Ok(Self { cluster, programs, keys, images, restarts })
    }

    /// Ends the cluster. It is an error if a process of the project has ended by itself.
    pub async fn close(self) -> anyhow::Result<()> {
        let well = self.restarts.check();
        self.cluster.down().await?;
        well
    }

    /// URL of the update graph, for `spec.upstream`.
    pub fn graph_url(&self) -> String {
        format!("{}/graph", base_url(&self.cluster))
    }

    /// URL of the signature store.
    pub fn store_url(&self) -> String {
        format!("{}/signatures", base_url(&self.cluster))
    }

    /// The folder behind the signature store.
    pub fn store(&self) -> PathBuf {
        www(&self.cluster).join("signatures")
    }

    pub fn cvo_program(&self) -> &Path {
        &self.programs.cvo
    }

    /// The image of `cvo`, by digest.
    pub fn cvo_image(&self) -> &str {
        &self.images.cvo
    }

    /// The image that all pods of the sample platform run, by digest.
    pub fn lab_image(&self) -> &str {
        &self.images.lab
    }

    /// Runs `cvo` and returns its standard output.
    pub async fn cvo<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> anyhow::Result<String> {
        Ok(Cvo::new(arguments).output().await?)
    }

    /// Signs a release with the key that all releases trust and publishes the signature.
    pub async fn sign(&self, release: &Release) -> anyhow::Result<()> {
        self.sign_as(release, TRUSTED).await
    }

    /// The same with another key (`Keys::add`).
    pub async fn sign_as(&self, release: &Release, key: &str) -> anyhow::Result<()> {
        self.keys.sign(&release.image, key, &self.store()).await
    }

    /// Publishes an update graph: the releases, and the versions from which each can be reached.
    pub fn publish_graph(&self, releases: &[(&Release, &[&str])]) -> anyhow::Result<()> {
        self.publish_graph_with_risks(releases, json!([]))
    }

    /// The same with conditional edges, as the update service writes them.
    pub fn publish_graph_with_risks(
        &self,
        releases: &[(&Release, &[&str])],
        conditional: serde_json::Value,
    ) -> anyhow::Result<()> {
        let nodes: Vec<_> = releases
            .iter()
            .map(|(release, _)| {
                json!({
                    "version": release.version,
                    "payload": release.image,
                    "metadata": {"io.openshift.upgrades.graph.release.channels": CHANNEL},
                })
            })
            .collect();
        let index = |version: &str| releases.iter().position(|(release, _)| release.version == version);
        let mut edges = Vec::new();
        for (to, (_, sources)) in releases.iter().enumerate() {
            for from in *sources {
                edges.push(json!([index(from).with_context(|| format!("{from} is not in the graph"))?, to]));
            }
        }
        let graph = json!({"nodes": nodes, "edges": edges, "conditionalEdges": conditional});
        Ok(files::write_json(&www(&self.cluster).join("graph"), &graph)?)
    }
}

/// The folder that is served.
fn www(cluster: &Cluster) -> PathBuf {
    cluster.dir().join("www")
}

fn base_url(cluster: &Cluster) -> String {
    format!("http://127.0.0.1:{}", cluster.port("www"))
}

/// Starts the server of signature store and graph. It belongs to the cluster, so that a cluster that is kept has it too.
async fn serve(cluster: &Cluster, programs: &Programs) -> anyhow::Result<()> {
    let address = format!("127.0.0.1:{}", cluster.port("www"));
    let folder = www(cluster).display().to_string();
    let arguments = ["serve-folder".to_owned(), "--listen".to_owned(), address.clone(), folder];
    cluster.spawn(Launch::new("www", &programs.lab, arguments))?;
    let wait = cluster.until("the signature store to listen", &["www"]);
    wait.answer(async || tokio::net::TcpStream::connect(&address).await).await?;
    Ok(())
}

/// The folder with the sample releases.
fn samples() -> PathBuf {
    workspace::root().join("e2e/releases")
}
