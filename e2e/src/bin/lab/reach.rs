//! `lab reach`: asks the API server for its version with a pod's environment, token and CA certificate.

use anyhow::Context;
use kube::{Client, Config};

use e2e::harness::install_tls_provider;

/// Prints address and version.
pub(crate) async fn run() -> anyhow::Result<()> {
    install_tls_provider();
    let config = Config::incluster().context("the environment and files of a pod")?;
    let address = config.cluster_url.clone();
    let version = Client::try_from(config)?.apiserver_version().await.with_context(|| format!("ask {address}"))?;
    println!("{address} {}", version.git_version);
    Ok(())
}
