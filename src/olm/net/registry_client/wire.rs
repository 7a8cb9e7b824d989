//! A connection for gRPC: HTTP/2 without TLS.

use crate::error::chain;
use futures::future::BoxFuture;
use http::uri::PathAndQuery;
use http::{Request, Response, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tonic::body::Body;
use tonic::client::Grpc;
use tonic_health::pb::{HealthCheckRequest, HealthCheckResponse};
use tonic_prost::ProstCodec;

/// Bytes that a server may send before they are read.
const WINDOW: u32 = 1 << 20;
/// After that long without a word the other side is asked whether it is there. TCP asks: servers in Go close connections that ask
/// by pings of HTTP/2.
const KEEPALIVE: Duration = Duration::from_secs(60);
/// Between two such questions, and how many are left without an answer.
const KEEPALIVE_PAUSE: Duration = Duration::from_secs(10);
const KEEPALIVE_COUNT: u32 = 3;
/// Milliseconds in which what was sent has to be acknowledged.
const UNACKNOWLEDGED: u32 = 30_000;
const HEALTH: &str = "/grpc.health.v1.Health/Check";

/// Sends requests on a connection.
#[derive(Clone, Debug)]
pub(crate) struct Wire(SendRequest<Body>);

impl tower::Service<Request<Body>> for Wire {
    type Response = Response<Incoming>;
    type Error = hyper::Error;
    type Future = BoxFuture<'static, Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.0.poll_ready(context)
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        Box::pin(self.0.send_request(request))
    }
}

/// Begins a connection. It is one when the server has answered a request, whatever its answer is. With it comes what waits for the
/// end, and says why.
pub(super) async fn open(stream: TcpStream, origin: Uri) -> Result<(Wire, BoxFuture<'static, String>), String> {
    keep_alive(&stream).map_err(|error| error.to_string())?;
    begin(stream, origin).await
}

/// The same on any stream.
pub(super) async fn begin(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    origin: Uri,
) -> Result<(Wire, BoxFuture<'static, String>), String> {
    let handshake = http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .handshake(TokioIo::new(stream));
    let (sender, connection) = handshake.await.map_err(|error| chain(&error))?;
    let wire = Wire(sender);
    let connection = tokio::spawn(connection);
    // It ends with whoever waits for it.
    let guard = tokio_util::task::AbortOnDropHandle::new(connection);
    ask(wire.clone(), origin).await?;
    let ended = async move {
        match guard.await {
            Ok(Ok(())) => "the server closed it".to_owned(),
            Ok(Err(error)) => chain(&error),
            Err(error) => error.to_string(),
        }
    };
    Ok((wire, Box::pin(ended)))
}

/// Asks for the health of the server. A server without that method answers as well.
async fn ask(wire: Wire, origin: Uri) -> Result<(), String> {
    let mut client = Grpc::with_origin(wire, origin);
    client.ready().await.map_err(|error| chain(&error))?;
    let (path, codec) = (PathAndQuery::from_static(HEALTH), ProstCodec::<_, HealthCheckResponse>::default());
    let request = tonic::Request::new(HealthCheckRequest { service: String::new() });
    match client.unary(request, path, codec).await {
        Ok(_) => Ok(()),
        // An error of the connection has a cause, one that the server has sent has none.
        Err(status) => match std::error::Error::source(&status) {
            Some(cause) => Err(format!("{}; does it serve catalogs (gRPC without TLS) at this address?", chain(cause))),
            None => Ok(()),
        },
    }
}

fn keep_alive(stream: &TcpStream) -> io::Result<()> {
    use rustix::net::sockopt;
    stream.set_nodelay(true)?;
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, KEEPALIVE)?;
    sockopt::set_tcp_keepintvl(stream, KEEPALIVE_PAUSE)?;
    sockopt::set_tcp_keepcnt(stream, KEEPALIVE_COUNT)?;
    sockopt::set_tcp_user_timeout(stream, UNACKNOWLEDGED)?;
    Ok(())
}
