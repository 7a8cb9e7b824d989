//! Listens at addresses of Services, and forwards connections. A Service without endpoints refuses them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

/// Where connections to an address are forwarded to.
pub(super) type Targets = BTreeMap<SocketAddr, BTreeSet<SocketAddr>>;

/// When the process has too many open files.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug, Default)]
pub(super) struct Listeners(BTreeMap<SocketAddr, Listening>);

#[derive(Debug)]
struct Listening {
    to: watch::Sender<BTreeSet<SocketAddr>>,
    accepting: JoinHandle<()>,
}

impl Listeners {
    /// Listens at these addresses and at no others. Connections that exist are left as they are.
    pub(super) async fn set(&mut self, targets: &Targets) {
        let gone: Vec<_> = self.0.extract_if(.., |address, _| !targets.contains_key(address)).collect();
        for (_, listening) in gone {
            listening.accepting.abort();
            // Until then the address is taken.
            let _aborted = listening.accepting.await;
        }
        for (address, to) in targets {
            if let Some(listening) = self.0.get(address) {
                listening.to.send_replace(to.clone());
                continue;
            }
            match TcpListener::bind(address).await {
                Ok(listener) => {
                    let to = watch::Sender::new(to.clone());
                    let accepting = tokio::spawn(accept(listener, to.subscribe()));
                    self.0.insert(*address, Listening { to, accepting });
                }
                // It is tried again when a Service changes.
                Err(error) => eprintln!("cannot listen on {address}: {error}"),
            }
        }
    }
}

async fn accept(listener: TcpListener, to: watch::Receiver<BTreeSet<SocketAddr>>) {
    let mut count = 0;
    loop {
        let Ok((incoming, _)) = listener.accept().await else {
            sleep(PAUSE).await;
            continue;
        };
        let all: Vec<SocketAddr> = to.borrow().iter().copied().collect();
        // One after the other.
        let target = all.get(count % all.len().max(1)).copied();
        count += 1;
        if let Some(target) = target {
            tokio::spawn(forward(incoming, target));
        }
    }
}

/// When the outgoing connection cannot be made or breaks, the client's connection is closed: as little as kube-proxy does this try
/// another endpoint.
async fn forward(mut incoming: TcpStream, to: SocketAddr) {
    let Ok(mut outgoing) = TcpStream::connect(to).await else { return };
    let _ = incoming.set_nodelay(true);
    let _ = outgoing.set_nodelay(true);
    let _ = copy_bidirectional(&mut incoming, &mut outgoing).await;
}
