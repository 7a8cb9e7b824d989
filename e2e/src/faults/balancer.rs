//! One address for several API servers, as a control plane of several nodes has. It forwards what it does not understand: client
//! and server see each other's certificates.

use crate::harness::set_in_kubeconfig;
use std::{
    collections::VecDeque,
    net::SocketAddr,
    path::Path,
    sync::{Arc, Mutex},
};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_util::{sync::CancellationToken, task::AbortOnDropHandle};

/// Ends with the value, and all connections with it.
#[derive(Debug)]
pub struct Balancer {
    address: SocketAddr,
    servers: Servers,
    _accepting: AbortOnDropHandle<()>,
}

/// The next connection goes to the first one.
type Servers = Arc<Mutex<VecDeque<Server>>>;

#[derive(Debug, Clone)]
struct Server {
    address: SocketAddr,
    /// Ends its connections.
    gone: CancellationToken,
}

impl Balancer {
    /// Listens on a free port of loopback. The connections go to the servers at these URLs in turn.
    pub async fn start(servers: &[&str]) -> anyhow::Result<Self> {
        let servers: VecDeque<Server> = servers.iter().map(|url| server(url)).collect::<anyhow::Result<_>>()?;
        let servers = Arc::new(Mutex::new(servers));
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let accepting = AbortOnDropHandle::new(tokio::spawn(accept(listener, servers.clone())));
        Ok(Self { address, servers, _accepting: accepting })
    }

    /// Changes a kubeconfig that the harness has written so that its users connect to the balancer.
    pub fn redirect(&self, kubeconfig: &Path) -> anyhow::Result<()> {
        Ok(set_in_kubeconfig(kubeconfig, "/clusters/0/cluster/server", format!("https://{}", self.address))?)
    }

    /// A server leaves: its connections end, and no new ones go to it.
    pub fn remove(&self, url: &str) -> anyhow::Result<()> {
        let address = server(url)?.address;
        self.servers.lock().unwrap().retain(|server| {
            let leaves = server.address == address;
            if leaves {
                server.gone.cancel();
            }
            !leaves
        });
        Ok(())
    }

    /// A server comes, or is back.
    pub fn add(&self, url: &str) -> anyhow::Result<()> {
        self.servers.lock().unwrap().push_front(server(url)?);
        Ok(())
    }
}

fn server(url: &str) -> anyhow::Result<Server> {
    let address = url.trim_start_matches("https://").parse()?;
    Ok(Server { address, gone: CancellationToken::new() })
}

async fn accept(listener: TcpListener, servers: Servers) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        while connections.try_join_next().is_some() {}
        // Where nobody is, the connection ends.
        let Some(Server { address, gone }) = next(&servers) else { continue };
        connections.spawn(async move { gone.run_until_cancelled(forward(client, address)).await });
    }
}

fn next(servers: &Servers) -> Option<Server> {
    let mut servers = servers.lock().unwrap();
    let turn = usize::from(!servers.is_empty());
    servers.rotate_left(turn);
    servers.back().cloned()
}

/// It does not matter how a connection ends.
async fn forward(mut client: TcpStream, to: SocketAddr) {
    let Ok(mut server) = TcpStream::connect(to).await else { return };
    let _ = client.set_nodelay(true);
    let _ = server.set_nodelay(true);
    let _ended = copy_bidirectional(&mut client, &mut server).await;
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    /// Says its name to each client, and then nothing until the client ends.
    async fn serve(name: &'static str) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            while let Ok((mut client, _)) = listener.accept().await {
                tokio::spawn(async move {
                    client.write_all(name.as_bytes()).await.unwrap();
                    let _ended = client.read(&mut [0]).await;
                });
            }
        });
        url
    }

    async fn connect(balancer: &Balancer) -> (TcpStream, u8) {
        let mut client = TcpStream::connect(balancer.address).await.unwrap();
        let name = client.read_u8().await.unwrap();
        (client, name)
    }

    #[tokio::test]
    async fn connections_go_to_each_server_in_turn_until_it_leaves() {
        let (one, other) = (serve("1").await, serve("2").await);
        let balancer = Balancer::start(&[one.as_str(), other.as_str()]).await.unwrap();
        let (first, second) = (connect(&balancer).await, connect(&balancer).await);
        assert_eq!((first.1, second.1), (b'1', b'2'));
        balancer.remove(&one).unwrap();
        let mut left = first.0;
        // It may end with an error, but nothing comes any more.
        assert_eq!(left.read(&mut [0]).await.unwrap_or(0), 0);
        for _ in 0..3 {
            assert_eq!(connect(&balancer).await.1, b'2');
        }
        balancer.add(&one).unwrap();
        let mut names = [connect(&balancer).await.1, connect(&balancer).await.1];
        names.sort_unstable();
        assert_eq!(names, *b"12");
    }
}
