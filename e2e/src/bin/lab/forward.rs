//! `lab forward`: forwards TCP connections. It serves the one service address that pods need, that of the API server.

use std::net::SocketAddr;

use anyhow::Context;
use clap::Args;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

/// Addresses of the forwarder.
#[derive(Debug, Args)]
pub(crate) struct Forward {
    /// Address and port to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// Address and port to forward connections to.
    #[arg(long)]
    to: SocketAddr,
}

/// Serves until it is killed.
pub(crate) async fn run(forward: Forward) -> anyhow::Result<()> {
    let listener = TcpListener::bind(forward.listen).await.with_context(|| format!("listen on {}", forward.listen))?;
    loop {
        let (incoming, _) = listener.accept().await.context("accept")?;
        tokio::spawn(forward_connection(incoming, forward.to));
    }
}

/// When the outgoing connection cannot be made or breaks, the client's connection is closed.
async fn forward_connection(mut incoming: TcpStream, to: SocketAddr) {
    let Ok(mut outgoing) = TcpStream::connect(to).await else { return };
    let _ = incoming.set_nodelay(true);
    let _ = outgoing.set_nodelay(true);
    let _ = copy_bidirectional(&mut incoming, &mut outgoing).await;
}
