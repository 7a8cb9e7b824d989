//! `lab reach`: asks the API server for its version with a pod's environment, token and CA certificate.

use anyhow::Context;
use clap::Args;
use kube::{Client, Config};
use tokio::net::TcpStream;

use e2e::harness::install_tls_provider;

/// What else is reached.
#[derive(Debug, Args)]
pub(crate) struct Reach {
    /// A server to connect to; may be repeated.
    #[arg(long, value_name = "HOST:PORT")]
    to: Vec<String>,
}

/// Prints addresses, and the version.
pub(crate) async fn run(reach: Reach) -> anyhow::Result<()> {
    install_tls_provider();
    let config = Config::incluster().context("the environment and files of a pod")?;
    let address = config.cluster_url.clone();
    let version = Client::try_from(config)?.apiserver_version().await.with_context(|| format!("ask {address}"))?;
    println!("{address} {}", version.git_version);
    for name in &reach.to {
        let stream = TcpStream::connect(name).await.with_context(|| format!("connect to {name}"))?;
        println!("{name} {}", stream.peer_addr()?);
    }
    Ok(())
}
