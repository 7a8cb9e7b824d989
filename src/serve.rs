//! The servers of metrics, of health, and of parts of the Kubernetes API.
//!
//! Metrics are served over TLS to those who prove who they are. Health is served to whoever reaches its own port, which is one
//! of the loopback interface, so that nobody from outside keeps the kubelet from asking. Each connection of theirs is for one
//! request, in a limited time. API servers, which pass on requests of others, keep their connections. There is always a place for
//! the next one.

pub(crate) mod caller;
pub(crate) mod certificate;
pub(crate) mod front_proxy;
pub(crate) mod health;
pub(crate) mod page;
pub(crate) mod places;
pub(crate) mod process;
pub(crate) mod tls;

use crate::metrics::encoder::CONTENT_TYPE;
use axum::Router;
use axum::extract::Extension;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use caller::{Caller, Guard};
use futures::future::BoxFuture;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use places::Places;
use std::io::ErrorKind;
use std::net::{Ipv6Addr, SocketAddr};
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// From the handshake to the last byte of the response. A client that does not read would keep its place for ever.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(30);
/// For a TLS handshake, and for the headers of each request.
const CLIENT_TIMEOUT: Duration = Duration::from_secs(10);
/// For requests in flight when the server is told to stop.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that wait to be accepted.
const BACKLOG: u32 = 1024;
/// A connection that is kept for more requests is closed when it has had none for this long. Clients in Go close it before.
const IDLE_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a client of HTTP/2 is asked whether it is still there, and how soon it must answer.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));
/// Requests at once on a connection of HTTP/2, and bytes of each answer that wait to be sent.
const STREAMS: u32 = 100;
const SEND_BUFFER: usize = 64 << 10;
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

/// The metrics, made anew for each request, and who may read them.
#[derive(Clone)]
pub(crate) struct Metrics {
    /// In the format that [`CONTENT_TYPE`] names.
    pub text: Arc<dyn Fn() -> String + Send + Sync>,
    pub guard: Guard,
}

/// Serves `/metrics` over TLS until `stop`, then waits for requests in flight.
pub(crate) async fn metrics(
    listen: SocketAddr,
    tls: Arc<tls::Current>,
    metrics: Metrics,
    stop: CancellationToken,
) -> Result<(), ServeError> {
    Server::bind(listen).await?.run(over_tls(tls, metrics_router(metrics), CLIENT_TIMEOUT), stop).await;
    Ok(())
}

/// Tells whether the process works, when it is asked.
#[derive(Clone)]
pub(crate) struct Health {
    /// An error tells why the process is to be started anew.
    pub check: Arc<dyn Fn() -> BoxFuture<'static, Result<&'static str, String>> + Send + Sync>,
    /// An error tells what a process that is alive cannot answer yet.
    pub ready: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// The process has been told to stop.
    pub stopping: CancellationToken,
}

/// Serves `/healthz` and `/readyz` without TLS as long as the process lives: while it stops it is alive, and not ready.
pub(crate) async fn health(listen: SocketAddr, health: Health) -> Result<(), ServeError> {
    Server::bind(listen).await?.run(plain(health_router(health)), CancellationToken::new()).await;
    Ok(())
}

fn metrics_router(Metrics { text, guard }: Metrics) -> Router {
    let page = move |Extension(caller): Extension<Caller>, headers: HeaderMap| async move {
        match guard(caller.with_token_of(&headers)).await {
            Ok(()) => ([(header::CONTENT_TYPE, CONTENT_TYPE)], text()).into_response(),
            Err(refusal) => refusal.into_response(),
        }
    };
    Router::new().route("/metrics", get(page))
}

fn health_router(Health { check, ready: is_ready, stopping }: Health) -> Router {
    let alive = check.clone();
    let alive = move || async move { answer(alive().await) };
    let ready = move || async move {
        match is_ready() {
            _ if stopping.is_cancelled() => answer(Err("stopping".to_owned())),
            Ok(()) => answer(check().await),
            Err(cause) => answer(Err(cause)),
        }
    };
    Router::new().route("/healthz", get(alive)).route("/readyz", get(ready))
}

fn answer(health: Result<&'static str, String>) -> Response {
    match health {
        Ok(text) => text.into_response(),
        Err(cause) => (StatusCode::SERVICE_UNAVAILABLE, cause).into_response(),
    }
}

/// How long connections last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Connections {
    /// One request, in a limited time.
    Single,
    /// As long as the client wants.
    Kept,
}

/// A bound port.
#[derive(Debug)]
pub(crate) struct Server {
    listener: TcpListener,
    address: SocketAddr,
    client_timeout: Duration,
    connections: Connections,
}

/// A connection: what is read and written, what answers its requests, and whether they come by HTTP/2.
struct Begun<S> {
    stream: S,
    router: Router,
    is_http2: bool,
}

impl Server {
    pub(crate) async fn bind(address: SocketAddr) -> Result<Self, ServeError> {
        let listener = listen(address).await?;
        let address = listener.local_addr().unwrap_or(address);
        Ok(Server { listener, address, client_timeout: CLIENT_TIMEOUT, connections: Connections::Single })
    }

    #[cfg(test)]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves a router over TLS, by HTTP/2 and HTTP/1.1, to clients that keep their connections, until `stop`. Then it waits for
    /// requests in flight. The router learns who the client is from the extension [`Caller`].
    pub(crate) async fn api(self, tls: Arc<tls::Current>, router: Router, stop: CancellationToken) {
        let server = Server { connections: Connections::Kept, ..self };
        server.run(over_tls(tls, router, CLIENT_TIMEOUT), stop).await;
    }

    /// Accepts connections until `stop`. A misbehaving client loses its connection and does not affect others.
    async fn run<S: AsyncRead + AsyncWrite + Unpin + Send + 'static>(
        self,
        begin: impl Fn(TcpStream, SocketAddr) -> BoxFuture<'static, Option<Begun<S>>>,
        stop: CancellationToken,
    ) {
        let places = Arc::new(Mutex::new(Places::default()));
        let connections = TaskTracker::new();
        while let Some((stream, peer)) = self.next(&stop).await {
            let (begun, timeout, stop) = (begin(stream, peer), self.client_timeout, stop.clone());
            let kept = self.connections == Connections::Kept;
            let connection = async move {
                match stop.run_until_cancelled(begun).await {
                    Some(Some(begun)) if kept => serve_kept(begun, stop).await,
                    Some(Some(begun)) => serve(begun, timeout, stop).await,
                    _ => {}
                }
            };
            let limit = if kept { Duration::MAX } else { CONNECTION_TIMEOUT };
            let (place, given_up) = lock(&places).take(peer.ip());
            let places = places.clone();
            connections.spawn(async move {
                let served = given_up.run_until_cancelled(tokio::time::timeout(limit, connection)).await;
                match served {
                    Some(Ok(())) => {}
                    Some(Err(_)) => tracing::debug!(%peer, "a connection took too long"),
                    None => tracing::debug!(%peer, "a connection had to make room for a newer one"),
                }
                lock(&places).leave(place);
            });
        }
        drop(self.listener);
        connections.close();
        connections.wait().await;
    }

    /// The next connection; `None` once told to stop.
    async fn next(&self, stop: &CancellationToken) -> Option<(TcpStream, SocketAddr)> {
        loop {
            match stop.run_until_cancelled(self.listener.accept()).await? {
                // Where both families are served, IPv4 addresses come as those of IPv6.
                Ok((stream, peer)) => return Some((stream, SocketAddr::new(peer.ip().to_canonical(), peer.port()))),
                Err(error) => {
                    tracing::warn!(address = %self.address, %error, "cannot accept a connection");
                    stop.run_until_cancelled(tokio::time::sleep(ACCEPT_PAUSE)).await?;
                }
            }
        }
    }
}

/// Binds a port; port 0 means any free one. An unspecified address means those of IPv4 and of IPv6, as in Go: on a cluster of IPv6
/// alone `0.0.0.0` would be no address of the node.
pub(crate) async fn listen(listen: SocketAddr) -> Result<TcpListener, ServeError> {
    let refuse = |e: std::io::Error| ServeError::Bind { listen, cause: e.to_string() };
    let both = if listen.ip().is_unspecified() { bind_both(listen.port()).map_err(refuse)? } else { None };
    match both {
        Some(listener) => Ok(listener),
        None => TcpListener::bind(listen).await.map_err(refuse),
    }
}

/// Listens for IPv6 and IPv4, whatever the node's default is (`net.ipv6.bindv6only`); `None` where there is no IPv6.
fn bind_both(port: u16) -> std::io::Result<Option<TcpListener>> {
    let bound = || -> std::io::Result<TcpListener> {
        let socket = TcpSocket::new_v6()?;
        rustix::net::sockopt::set_ipv6_v6only(&socket, false)?;
        // As `TcpListener::bind` does it.
        socket.set_reuseaddr(true)?;
        socket.bind(SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)))?;
        socket.listen(BACKLOG)
    };
    match bound() {
        Ok(listener) => Ok(Some(listener)),
        Err(error) if error.kind() == ErrorKind::AddrNotAvailable => Ok(None),
        Err(error) if error.raw_os_error() == Some(rustix::io::Errno::AFNOSUPPORT.raw_os_error()) => Ok(None),
        Err(error) => Err(error),
    }
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Begins a connection without TLS.
fn plain(router: Router) -> impl Fn(TcpStream, SocketAddr) -> BoxFuture<'static, Option<Begun<TcpStream>>> {
    move |stream, _| {
        let router = router.clone();
        Box::pin(async move { Some(Begun { stream, router, is_http2: false }) })
    }
}

/// Begins a connection with the TLS settings of that moment, and tells the router of the client's certificate.
fn over_tls(
    tls: Arc<tls::Current>,
    router: Router,
    timeout: Duration,
) -> impl Fn(TcpStream, SocketAddr) -> BoxFuture<'static, Option<Begun<TlsStream<TcpStream>>>> {
    move |stream, peer| {
        let (acceptor, router) = (TlsAcceptor::from(tls.config()), router.clone());
        Box::pin(async move {
            let stream = match tokio::time::timeout(timeout, acceptor.accept(stream)).await {
                Ok(Ok(stream)) => stream,
                Ok(Err(error)) => {
                    tracing::debug!(%peer, %error, "TLS handshake failed");
                    return None;
                }
                Err(_) => {
                    tracing::debug!(%peer, "TLS handshake took too long");
                    return None;
                }
            };
            let session = stream.get_ref().1;
            let is_http2 = session.alpn_protocol() == Some(tls::HTTP2);
            let chain = session.peer_certificates().unwrap_or_default();
            let chain = chain.iter().map(|certificate| certificate.clone().into_owned()).collect();
            let caller = Caller { address: peer.ip(), chain, token: None };
            Some(Begun { stream, router: router.layer(Extension(caller)), is_http2 })
        })
    }
}

/// Serves one request of one connection. HTTP/1 only: while the server waits to learn whether a client speaks HTTP/2 no timeout
/// applies.
async fn serve<S>(begun: Begun<S>, timeout: Duration, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new()).http1_only();
    builder.http1().timer(TokioTimer::new()).header_read_timeout(timeout).keep_alive(false);
    until_stopped(&builder, begun, stop).await;
}

/// Serves the requests of a connection. The handshake has said by which protocol they come.
async fn serve_kept<S>(begun: Begun<S>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let builder = auto::Builder::new(TokioExecutor::new());
    let builder = if begun.is_http2 {
        let mut builder = builder.http2_only();
        let mut http2 = builder.http2();
        http2.timer(TokioTimer::new()).keep_alive_interval(PING.0).keep_alive_timeout(PING.1);
        http2.max_concurrent_streams(STREAMS).max_send_buf_size(SEND_BUFFER);
        builder
    } else {
        let mut builder = builder.http1_only();
        builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE_TIMEOUT);
        builder
    };
    until_stopped(&builder, begun, stop).await;
}

async fn until_stopped<S>(builder: &auto::Builder<TokioExecutor>, begun: Begun<S>, stop: CancellationToken)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = TowerToHyperService::new(begun.router);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(begun.stream), service));
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
