//! The HTTPS server for metrics and health.
//!
//! Both are open to everyone who can reach the port, which is by default only who is on the same host. So each connection is for
//! one request, in a limited time, and there is always a place for the next one: the oldest has to go.

pub(crate) mod health;
pub(crate) mod process;
pub(crate) mod tls;

use crate::metrics;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Connections served at once.
const MAX_CONNECTIONS: usize = 64;
/// From the handshake to the last byte of the response. A client that does not read would keep its place for ever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// For a TLS handshake, and for the headers of each request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// For requests in flight when the server is told to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept, most often caused by a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);

/// Why the server cannot serve. The caller may retry.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum ServeError {
    #[error("cannot listen on {listen}: {cause}")]
    Bind { listen: SocketAddr, cause: String },
    #[error("the serving certificate {certificate} with key {key} cannot be used: {cause}")]
    Certificate { certificate: String, key: String, cause: String },
    #[error("cannot create a self-signed certificate for {names:?}: {cause}")]
    SelfSigned { names: Vec<String>, cause: String },
}

/// Serves until `stop`, then waits for requests in flight.
pub(crate) async fn run(
    listen: SocketAddr,
    tls: Arc<tls::Current>,
    pages: Pages,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    Server::bind(listen).await?.run(tls, router(pages), stop).await;
    Ok(())
}

/// What is served, made anew for each request.
#[derive(Clone)]
pub(crate) struct Pages {
    /// In the format that [`crate::metrics::CONTENT_TYPE`] names.
    pub metrics: Arc<dyn Fn() -> String + Send + Sync>,
    /// An error tells why the process is to be started anew.
    pub health: Arc<dyn Fn() -> BoxFuture<'static, Result<&'static str, String>> + Send + Sync>,
}

/// The paths that are served.
fn router(Pages { metrics, health }: Pages) -> Router {
    let metrics = move || async move { ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], metrics()) };
    let health = move || async move {
        match health().await {
            Ok(text) => (StatusCode::OK, text.to_owned()),
            Err(cause) => (StatusCode::SERVICE_UNAVAILABLE, cause),
        }
    };
    Router::new().route("/metrics", get(metrics)).route("/healthz", get(health))
}

/// A bound port.
struct Server {
    listener: TcpListener,
    address: SocketAddr,
    client_timeout: Duration,
}

impl Server {
    /// Binds the port; port 0 means any free one.
    async fn bind(listen: SocketAddr) -> Result<Self, ServeError> {
        let refuse = |e: std::io::Error| ServeError::Bind { listen, cause: e.to_string() };
        let listener = TcpListener::bind(listen).await.map_err(refuse)?;
        let address = listener.local_addr().map_err(refuse)?;
        Ok(Server { listener, address, client_timeout: CLIENT_TIMEOUT })
    }

    /// Accepts connections until `stop`. A misbehaving client loses its connection and does not affect others.
    async fn run(self, tls: Arc<tls::Current>, router: Router, stop: CancellationToken) {
        let places = Arc::new(Mutex::new(Places::default()));
        let connections = TaskTracker::new();
        while let Some(stream) = self.next(&stop).await {
            let acceptor = TlsAcceptor::from(tls.config());
            let connection = serve(acceptor, stream, router.clone(), self.client_timeout, stop.clone());
            let (place, given_up) = lock(&places).take();
            let places = places.clone();
            connections.spawn(async move {
                let served = given_up.run_until_cancelled(tokio::time::timeout(CONNECTION_TIMEOUT, connection)).await;
                match served {
                    Some(Ok(())) => {}
                    Some(Err(_)) => tracing::debug!("a connection took too long"),
                    None => tracing::debug!("a connection had to make room for a newer one"),
                }
                lock(&places).leave(place);
            });
        }
        drop(self.listener);
        connections.close();
        connections.wait().await;
    }

    /// The next connection; `None` once told to stop.
    async fn next(&self, stop: &CancellationToken) -> Option<TcpStream> {
        loop {
            match stop.run_until_cancelled(self.listener.accept()).await? {
                Ok((stream, _)) => return Some(stream),
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "cannot accept a connection");
                    stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await?;
                }
            }
        }
    }
}

/// The connections that are served, oldest first.
#[derive(Default)]
struct Places {
    taken: VecDeque<(u64, CancellationToken)>,
    next: u64,
}

impl Places {
    /// A place for a new connection, and what tells it to give the place up again.
    fn take(&mut self) -> (u64, CancellationToken) {
        while self.taken.len() >= MAX_CONNECTIONS {
            if let Some((_, oldest)) = self.taken.pop_front() {
                oldest.cancel();
            }
        }
        let (place, given_up) = (self.next, CancellationToken::new());
        self.next += 1;
        self.taken.push_back((place, given_up.clone()));
        (place, given_up)
    }

    fn leave(&mut self, place: u64) {
        self.taken.retain(|(taken, _)| *taken != place);
    }
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Serves one request of one connection. HTTP/1 only: while the server waits to learn whether a client speaks HTTP/2 no timeout
/// applies.
async fn serve(acceptor: TlsAcceptor, stream: TcpStream, router: Router, timeout: Duration, stop: CancellationToken) {
    let handshake = tokio::time::timeout(timeout, acceptor.accept(stream));
    let stream = match stop.run_until_cancelled(handshake).await {
        Some(Ok(Ok(stream))) => stream,
        Some(Ok(Err(error))) => return tracing::debug!(%error, "TLS handshake failed"),
        Some(Err(_)) => return tracing::debug!("TLS handshake took too long"),
        None => return,
    };
    let service = TowerToHyperService::new(router);
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(timeout).keep_alive(false);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let ended = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            tokio::time::timeout(SHUTDOWN_TIMEOUT, connection).await.ok()
        }
    };
    if let Some(Err(error)) = ended {
        tracing::debug!(%error, "connection ended with an error");
    }
}

#[cfg(test)]
mod tests;
