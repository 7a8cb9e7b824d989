//! The server of catalogs (gRPC). On one port are all of them, and a request says which one it asks for by its authority. Besides,
//! each catalog has a port of its own, to which its Service leads, where the authority does not matter. Ports are opened and closed
//! as catalogs come and go; what one catalog does touches no other.
//!
//! `connection` is one connection, from its first bytes to its end, `calls` are the requests on it, `answers` what is sent for one,
//! and `others` are health and reflection.

mod answers;
mod calls;
mod connection;
mod others;

use crate::olm::catalog::served::{Catalogs, Ports, Served};
use crate::olm::registry::authority::{Key, find};
use crate::serve::places::Places;
use crate::serve::{ServeError, listen};
use calls::{Calls, Target};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Pause after a failed accept, most often caused by a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Until a port that could not be opened is tried again.
const BIND_PAUSE: Duration = Duration::from_secs(5);

/// What clients can make of the process at most.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Connections at once, on all ports. A new one takes the place of another one, see [`Places`].
    pub connections: usize,
    /// Calls at once on a connection.
    pub calls_of_connection: u32,
    /// Calls at once on a port; others wait.
    pub calls: usize,
    /// Bytes of parts of catalogs that are decoded and sent at once, about.
    pub memory: usize,
    /// For the first bytes of a connection.
    pub greeting: Duration,
    /// From the first byte of a request to the beginning of its answer.
    pub call: Duration,
    /// A client that does not take what it asked for that long loses its connection.
    pub stalled: Duration,
    /// After that long without a word a client is asked whether it is still there; it has to answer within a third of it.
    pub keepalive: Duration,
    /// For calls under way when a port is closed.
    pub closing: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            connections: 256,
            calls_of_connection: 16,
            calls: 64,
            memory: 64 << 20,
            greeting: Duration::from_secs(10),
            call: Duration::from_secs(30),
            stalled: Duration::from_secs(60),
            keepalive: Duration::from_secs(60),
            closing: Duration::from_secs(10),
        }
    }
}

/// The server, with its shared port bound.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    limits: Limits,
}

/// What all ports have in common.
#[derive(Clone)]
struct Shared {
    catalogs: watch::Receiver<Arc<Catalogs>>,
    limits: Limits,
    memory: answers::Memory,
    others: others::Others,
    places: Arc<Mutex<Places>>,
    connections: TaskTracker,
}

/// The port of a catalog that is open.
struct Open {
    key: Key,
    stop: CancellationToken,
    listening: JoinHandle<()>,
}

/// The ports of catalogs.
#[derive(Default)]
struct Opened {
    ports: BTreeMap<u16, Open>,
    /// Those that cannot be opened, which was told.
    refused: BTreeSet<u16>,
}

impl Server {
    /// Binds the shared port. The ports of catalogs are of the same address.
    pub(crate) async fn bind(address: SocketAddr, limits: Limits) -> Result<Self, ServeError> {
        let listener = listen(address).await?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(Server { listener, address, limits })
    }

    /// The shared port, which is another one than was asked for if that was 0.
    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the catalogs until `stop`, then waits for calls under way.
    pub(crate) async fn run(
        self,
        mut catalogs: watch::Receiver<Arc<Catalogs>>,
        mut ports: watch::Receiver<Arc<Ports>>,
        stop: CancellationToken,
    ) {
        let shared = Shared::new(catalogs.clone(), self.limits);
        tokio::spawn(shared.clone().accept(self.listener, Target::Named, stop.clone()));
        let mut opened = Opened::default();
        loop {
            let wanted = wanted(&catalogs.borrow_and_update(), &ports.borrow_and_update());
            let complete = shared.open(&mut opened, wanted, self.address, &stop).await;
            tokio::select! {
                () = stop.cancelled() => break,
                () = changed(&mut catalogs) => {}
                () = changed(&mut ports) => {}
                () = tokio::time::sleep(BIND_PAUSE), if !complete => {}
            }
        }
        shared.connections.close();
        shared.connections.wait().await;
    }
}

impl Server {
    /// Serves one catalog, by whatever name a client knows the server, until `stop`; then waits for calls under way.
    pub(crate) async fn run_one(self, served: Served, stop: CancellationToken) {
        let key = (served.about.namespace.clone(), served.about.name.clone());
        let (_sender, catalogs) = watch::channel(Arc::new(Catalogs::from([(key.clone(), served)])));
        let shared = Shared::new(catalogs, self.limits);
        shared.clone().accept(self.listener, Target::Own(Arc::new(key)), stop).await;
        shared.connections.close();
        shared.connections.wait().await;
    }
}

/// Serves catalogs on streams that are connected already, each as a connection to the shared port is served.
pub(crate) struct Streams {
    shared: Shared,
    calls: Calls,
}

impl Streams {
    pub(crate) fn new(catalogs: watch::Receiver<Arc<Catalogs>>) -> Self {
        let shared = Shared::new(catalogs, Limits::default());
        let calls = Calls::new(&shared, Target::Named);
        Streams { shared, calls }
    }

    /// Serves a client that speaks HTTP/2 until it closes the stream. An error says why it was ended before.
    pub(crate) async fn serve(
        &self,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    ) -> Result<(), String> {
        let stop = CancellationToken::new();
        let served = connection::serve_greeted(stream, self.calls.clone(), self.shared.limits, stop).await;
        served.map_err(|error| error.to_string())
    }

    /// Whether nothing of any call is left: neither its memory nor its place.
    pub(crate) fn is_idle(&self) -> bool {
        self.shared.memory.is_free() && self.calls.under_way() == 0
    }
}

/// Waits for a change; for ever if there will be none.
async fn changed<T>(receiver: &mut watch::Receiver<T>) {
    if receiver.changed().await.is_err() {
        std::future::pending().await
    }
}

/// The catalogs that are served and have a port.
fn wanted(catalogs: &Catalogs, ports: &Ports) -> BTreeMap<u16, Key> {
    let served = ports.iter().filter_map(|(key, port)| Some((*port, find(catalogs, key)?.0.clone())));
    served.collect()
}

impl Shared {
    fn new(catalogs: watch::Receiver<Arc<Catalogs>>, limits: Limits) -> Self {
        Shared {
            catalogs,
            limits,
            memory: answers::Memory::new(limits.memory),
            others: others::Others::new(),
            places: Arc::new(Mutex::new(Places::new(limits.connections))),
            connections: TaskTracker::new(),
        }
    }

    /// Opens and closes ports so that those are open that are wanted. Returns whether they are.
    async fn open(
        &self,
        Opened { ports: open, refused }: &mut Opened,
        wanted: BTreeMap<u16, Key>,
        address: SocketAddr,
        stop: &CancellationToken,
    ) -> bool {
        let gone = |port: &u16, open: &Open| wanted.get(port) != Some(&open.key);
        let closed: Vec<Open> = open.extract_if(.., |port, open| gone(port, open)).map(|(_, open)| open).collect();
        for port in closed {
            port.stop.cancel();
            // Another catalog may get the port.
            let _ = port.listening.await;
        }
        let mut complete = true;
        refused.retain(|port| wanted.contains_key(port));
        for (port, key) in wanted {
            if open.contains_key(&port) {
                continue;
            }
            let listener = match listen(SocketAddr::new(address.ip(), port)).await {
                Ok(listener) => listener,
                Err(error) => {
                    let (namespace, name) = &key;
                    if refused.insert(port) {
                        tracing::warn!(namespace, name, %error, "cannot serve a catalog on its own port; it is tried again");
                    }
                    complete = false;
                    continue;
                }
            };
            refused.remove(&port);
            let stop = stop.child_token();
            let target = Target::Own(Arc::new(key.clone()));
            let listening = tokio::spawn(self.clone().accept(listener, target, stop.clone()));
            open.insert(port, Open { key, stop, listening });
        }
        complete
    }

    /// Accepts connections until `stop`.
    async fn accept(self, listener: TcpListener, target: Target, stop: CancellationToken) {
        let calls = Calls::new(&self, target);
        while let Some(next) = stop.run_until_cancelled(listener.accept()).await {
            match next {
                Ok((stream, peer)) => self.connection(stream, peer, calls.clone(), stop.clone()),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection of a reader of catalogs");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }

    fn connection(&self, stream: TcpStream, peer: SocketAddr, calls: Calls, stop: CancellationToken) {
        let places = self.places.clone();
        let lock = |places: &Mutex<Places>, f: &mut dyn FnMut(&mut Places)| {
            f(&mut places.lock().unwrap_or_else(PoisonError::into_inner));
        };
        let mut taken = None;
        lock(&places, &mut |places| taken = Some(places.take(peer.ip().to_canonical())));
        let Some((place, given_up)) = taken else { return };
        let limits = self.limits;
        self.connections.spawn(async move {
            let served = given_up.run_until_cancelled(connection::serve(stream, calls, limits, stop)).await;
            match served {
                Some(Ok(())) => {}
                Some(Err(error)) => tracing::debug!(%peer, %error, "a connection of a reader of catalogs ended"),
                None => tracing::debug!(%peer, "a connection had to make room for a newer one"),
            }
            lock(&places, &mut |places| places.leave(place));
        });
    }
}

#[cfg(test)]
mod tests;
