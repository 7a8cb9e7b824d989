//! `lab forward`: passes TCP connections on. It stands for the one service address that pods need, the API server's.

use std::net::SocketAddr;

use anyhow::Context;
use clap::Args;
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

/// From where to where.
#[derive(Debug, Args)]
pub struct Forward {
    /// Address and port to listen on.
    #[arg(long)]
    listen: SocketAddr,
    /// Address and port to pass connections on to.
    #[arg(long)]
    to: SocketAddr,
}

/// Serves until it is killed.
pub async fn run(forward: Forward) -> anyhow::Result<()> {
    let listener = TcpListener::bind(forward.listen).await.with_context(|| format!("listen on {}", forward.listen))?;
    loop {
        let (incoming, _) = listener.accept().await.context("accept")?;
        tokio::spawn(pass(incoming, forward.to));
    }
}

/// A connection that cannot be made or breaks is the client's to notice: its own is closed.
async fn pass(mut incoming: TcpStream, to: SocketAddr) {
    let Ok(mut outgoing) = TcpStream::connect(to).await else { return };
    let _ = incoming.set_nodelay(true);
    let _ = outgoing.set_nodelay(true);
    let _ = copy_bidirectional(&mut incoming, &mut outgoing).await;
}
