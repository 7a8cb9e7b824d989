//! The HTTPS server for metrics and health (cluster-version §10.7).
//!
//! The accept loop is our own because a request must carry the certificate its peer showed: who may read metrics is
//! decided per request, not by TLS. [`Peer`] is that seam; until an admission rule reads it, metrics are open to
//! whoever reaches the port, and health always is.

pub mod tls;

use axum::Router;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use prometheus_client::registry::Registry;
use rustls::pki_types::CertificateDer;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections served at once; more wait in the kernel's queue.
const MAX_CONNECTIONS: usize = 64;
/// How long a client may be silent where it has to speak.
const PATIENCE: Duration = Duration::from_secs(10);
/// For requests under way when the server is told to stop.
const FAREWELL: Duration = Duration::from_secs(5);
/// Pause after a failed accept, which is mostly a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why the server cannot serve. The caller may try again.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ServeError {
    #[error("cannot listen on {listen}: {cause}")]
    Bind { listen: SocketAddr, cause: String },
    #[error("the serving certificate {certificate} with key {key} cannot be used: {cause}")]
    Certificate { certificate: String, key: String, cause: String },
    #[error("no self-signed certificate can be made for {names:?}: {cause}")]
    SelfSigned { names: Vec<String>, cause: String },
}

/// Certificates the client showed, leaf first; empty if it showed none. In the extensions of every request.
#[derive(Clone, Debug, Default)]
pub struct Peer(pub Arc<[CertificateDer<'static>]>);

/// Serves until `stop`, then lets requests under way end. `/metrics` is the registry as OpenMetrics text, `/healthz`
/// answers `ok`.
pub async fn run(
    listen: SocketAddr,
    tls: rustls::ServerConfig,
    registry: Arc<Registry>,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    Server::bind(listen).await?.run(tls, router(registry), stop).await;
    Ok(())
}

/// The paths that are served.
pub fn router(registry: Arc<Registry>) -> Router {
    Router::new().route("/metrics", get(metrics)).route("/healthz", get(|| async { "ok" })).with_state(registry)
}

async fn metrics(State(registry): State<Arc<Registry>>) -> Response {
    let mut text = String::new();
    match prometheus_client::encoding::text::encode(&mut text, &registry) {
        Ok(()) => {
            let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
            ([(header::CONTENT_TYPE, kind)], text).into_response()
        }
        Err(_) => (StatusCode::INTERNAL_SERVER_ERROR, "a metric cannot be encoded").into_response(),
    }
}

/// A bound port.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    address: SocketAddr,
    /// For a TLS handshake, and for the headers of each request.
    patience: Duration,
}

impl Server {
    /// Takes the port; port 0 takes a free one.
    pub async fn bind(listen: SocketAddr) -> Result<Self, ServeError> {
        let refuse = |e: std::io::Error| ServeError::Bind { listen, cause: e.to_string() };
        let listener = TcpListener::bind(listen).await.map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        Ok(Server { listener, address, patience: PATIENCE })
    }

    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Accepts connections until `stop`. A bad client costs itself its connection and nobody else anything.
    pub async fn run(self, tls: rustls::ServerConfig, router: Router, stop: CancellationToken) {
        let acceptor = TlsAcceptor::from(Arc::new(tls));
        let places = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        let connections = TaskTracker::new();
        while let Some(stream) = self.next(&places, &stop).await {
            let (stream, place) = stream;
            let connection = serve(acceptor.clone(), stream, router.clone(), self.patience, stop.clone());
            connections.spawn(async move {
                connection.await;
                drop(place);
            });
        }
        drop(self.listener);
        connections.close();
        connections.wait().await;
    }

    /// The next connection and its place among those served, `None` once told to stop.
    async fn next(
        &self,
        places: &Arc<Semaphore>,
        stop: &CancellationToken,
    ) -> Option<(TcpStream, tokio::sync::OwnedSemaphorePermit)> {
        let place = stop.run_until_cancelled(places.clone().acquire_owned()).await?.ok()?;
        loop {
            match stop.run_until_cancelled(self.listener.accept()).await? {
                Ok((stream, _)) => return Some((stream, place)),
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "cannot accept a connection");
                    stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await?;
                }
            }
        }
    }
}

/// One connection from handshake to end. HTTP/1 only: whoever says nothing after the handshake would keep its place for as
/// long as it likes, were it asked first which of the two it speaks.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream, router: Router, patience: Duration, stop: CancellationToken) {
    let handshake = tokio::time::timeout(patience, acceptor.accept(stream));
    let stream = match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => stream,
        Some(Ok(Err(error))) => return tracing::debug!(%error, "TLS handshake failed"),
        Some(Err(_)) => return tracing::debug!("TLS handshake took too long"),
        None => return,
    };
    let shown = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = Peer(shown.iter().map(|c| c.clone().into_owned()).collect());
    let service = TowerToHyperService::new(router.layer(axum::Extension(peer)));
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(patience);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(FAREWELL, connection).await.ok()
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "connection ended with an error");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::{ClientOptions, Trust, client, get_bounded};
    use prometheus_client::metrics::counter::Counter;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::task::JoinHandle;

    struct Running {
        base: String,
        address: SocketAddr,
        pem: String,
        stop: CancellationToken,
        task: JoinHandle<()>,
    }

    async fn start(router: Router) -> Running {
        start_with(PATIENCE, router).await
    }

    async fn start_with(patience: Duration, router: Router) -> Running {
        let server = Server { patience, ..Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap() };
        let address = server.local_addr();
        let (config, pem) = tls::self_signed(&["127.0.0.1".to_owned()]).unwrap();
        let stop = CancellationToken::new();
        let task = tokio::spawn(server.run(config, router, stop.clone()));
        Running { base: format!("https://{address}"), address, pem, stop, task }
    }

    fn registry() -> Arc<Registry> {
        let mut registry = Registry::default();
        let counter = Counter::<u64>::default();
        registry.register("applied", "Manifests applied", counter.clone());
        counter.inc_by(7);
        Arc::new(registry)
    }

    fn trusting(pem: &str) -> reqwest::Client {
        let mut options = ClientOptions::new("1");
        options.trust = Trust::Only(pem.to_owned());
        client(&options).unwrap()
    }

    #[tokio::test]
    async fn metrics_and_health_over_tls_and_an_end_on_demand() {
        let running = start(router(registry())).await;
        // Neither a client that speaks no TLS nor one that says nothing keeps others from being served.
        let mut plain = TcpStream::connect(running.address).await.unwrap();
        plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
        let mut answer = Vec::new();
        let _ = plain.read_to_end(&mut answer).await;
        assert!(!String::from_utf8_lossy(&answer).contains("applied"));
        let silent = TcpStream::connect(running.address).await.unwrap();

        let client = trusting(&running.pem);
        let get = |path: &str| format!("{}{path}", running.base);
        assert_eq!(get_bounded(&client, &get("/healthz"), 100).await.unwrap(), b"ok");
        let text = String::from_utf8(get_bounded(&client, &get("/metrics"), 10_000).await.unwrap()).unwrap();
        assert!(text.contains("applied_total 7\n") && text.ends_with("# EOF\n"), "{text}");
        assert!(get_bounded(&client, &get("/other"), 100).await.unwrap_err().is_not_found());

        running.stop.cancel();
        tokio::time::timeout(Duration::from_secs(20), running.task).await.unwrap().unwrap();
        assert!(TcpStream::connect(running.address).await.is_err());
        drop(silent);
    }

    /// Places are few: each has to come free again.
    #[tokio::test]
    async fn who_says_nothing_after_the_handshake_loses_its_place() {
        let running = start_with(Duration::from_millis(100), router(registry())).await;
        let mut roots = rustls::RootCertStore::empty();
        roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(running.pem.as_bytes()).unwrap()).unwrap();
        let trusting =
            rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
        let trusting = trusting.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
        let connector = tokio_rustls::TlsConnector::from(Arc::new(trusting.with_no_client_auth()));
        let name = rustls::pki_types::ServerName::from(running.address.ip());
        let mut silent = connector.connect(name, TcpStream::connect(running.address).await.unwrap()).await.unwrap();
        let closed = tokio::time::timeout(Duration::from_secs(20), silent.read_to_end(&mut Vec::new())).await;
        assert!(closed.is_ok(), "its place is taken still");
    }

    #[tokio::test]
    async fn requests_know_the_certificates_of_their_peer() {
        let count = |peer: axum::Extension<Peer>| async move { peer.0.0.len().to_string() };
        let running = start(Router::new().route("/peer", get(count))).await;
        let url = format!("{}/peer", running.base);
        assert_eq!(get_bounded(&trusting(&running.pem), &url, 10).await.unwrap(), b"0");
    }

    #[tokio::test]
    async fn a_taken_port_is_an_error_that_names_it() {
        let first = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let (config, _) = tls::self_signed(&["localhost".to_owned()]).unwrap();
        let error = run(first.local_addr(), config, registry(), CancellationToken::new()).await.unwrap_err();
        assert!(error.to_string().contains(&first.local_addr().to_string()), "{error}");
    }
}
