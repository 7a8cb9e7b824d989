//! A server and its clients, over the loopback interface.

mod limits;
mod methods;
mod others;
mod ports;
mod size;

use super::*;
use crate::olm::api::catalog_source::Connection;
use crate::olm::catalog::served::Content;
use crate::olm::net::registry_client::{Dial, RegistryClient, RegistryError, Times};
use crate::olm::registry::messages::*;
use crate::olm::registry::query::Query;
use crate::olm::registry::tests::{bundle, catalogs, channel, content, get_bundle, package, widgets};
use futures::TryStreamExt;
use serde_json::{Value, json};
use tonic::Code;

/// A server that runs, and what it serves.
struct Running {
    address: SocketAddr,
    catalogs: watch::Sender<Arc<Catalogs>>,
    ports: watch::Sender<Arc<Ports>>,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

/// Serves the catalog `widgets` of the namespace `one`, and an empty one beside it.
async fn start() -> Running {
    start_with(
        Limits::default(),
        catalogs(vec![("one", "widgets", content(&widgets())), ("one", "empty", content(&[]))]),
    )
    .await
}

async fn start_with(limits: Limits, served: Catalogs) -> Running {
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), limits).await.unwrap();
    let (catalogs, of_catalogs) = watch::channel(Arc::new(served));
    let (ports, of_ports) = watch::channel(Arc::new(Ports::new()));
    let (address, stop) = (server.address(), CancellationToken::new());
    let task = tokio::spawn(server.run(of_catalogs, of_ports, stop.clone()));
    Running { address, catalogs, ports, stop, task }
}

/// Dials another address than the client names.
fn to(address: SocketAddr) -> Dial {
    Arc::new(move |_| Box::pin(TcpStream::connect(address)))
}

/// A client that is connected and names its catalog by an authority.
async fn client_of(address: SocketAddr, authority: &str) -> RegistryClient {
    let client = RegistryClient::start(authority, to(address), Arc::default(), Times::default());
    wait_for(&client, Connection::Ready).await;
    client
}

async fn wait_for(client: &RegistryClient, state: Connection) {
    let mut channel = client.channel();
    while channel.state != state {
        channel = tokio::time::timeout(Duration::from_secs(20), client.changed(&channel)).await.unwrap();
    }
}

impl Running {
    async fn client(&self) -> RegistryClient {
        client_of(self.address, "widgets.one.svc:50051").await
    }

    /// Serves other catalogs from now on.
    fn serve(&self, served: Catalogs) {
        self.catalogs.send_replace(Arc::new(served));
    }

    /// Gives a catalog a port of its own that is free, and waits until it is open.
    async fn open(&self, namespace: &str, name: &str) -> SocketAddr {
        let free = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        self.ports.send_modify(|ports| {
            Arc::make_mut(ports).insert((namespace.to_owned(), name.to_owned()), free.port());
        });
        until(async || TcpStream::connect(free).await.is_ok()).await;
        free
    }
}

/// Waits until it is so.
async fn until(mut holds: impl AsyncFnMut() -> bool) {
    let holds = async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), holds).await.unwrap();
}

async fn all<Q: Query>(client: &RegistryClient, query: Q) -> Result<Vec<Q::Answer>, RegistryError> {
    client.answers(query).try_collect().await
}

/// The code and message with which a request is refused.
async fn refusal<Q: Query>(client: &RegistryClient, query: Q) -> (Code, String) {
    match all(client, query).await {
        Err(RegistryError::Status { code, message, .. }) => (code, message),
        Err(other) => panic!("{other}"),
        Ok(answer) => panic!("{} messages", answer.len()),
    }
}

/// A catalog with one package and so many bundles, each with a text of this length.
fn long(bundles: usize, length: usize, image: bool) -> Content {
    let name = |at: usize| format!("a.v{at}");
    let entry = |at: usize| match at {
        0 => json!({"name": name(at)}),
        at => json!({"name": name(at), "replaces": name(at - 1)}),
    };
    let mut blobs = vec![package("a", "x"), channel("a", "x", (0..bundles).map(entry).collect::<Value>())];
    let text = |at: usize| json!({"type": "text", "value": format!("{at}{}", "x".repeat(length))});
    let manifest = json!({"type": "olm.bundle.object", "value": {"data": "e30="}});
    blobs.extend(
        (0..bundles).map(|at| bundle("a", &name(at), &format!("{at}.0.0"), image, &[text(at), manifest.clone()])),
    );
    content(&blobs)
}
