//! One connection: HTTP/2 without TLS, and the limits of what a client can do with it.

use super::Limits;
use super::answers::Progress;
use super::calls::Calls;
use crate::error::chain;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use std::pin::pin;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// What each HTTP/2 connection begins with.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Between two looks at a preface that comes bit by bit.
const PREFACE_PAUSE: Duration = Duration::from_millis(20);
/// Bytes that wait to be sent, for each call.
const SEND_BUFFER: usize = 64 << 10;
/// Bytes of a request that are taken before they are read. Requests are names.
const WINDOW: u32 = 64 << 10;
/// Bytes of the headers of a request.
const MAX_HEADERS: u32 = 16 << 10;

/// Why a connection ended before its client was done.
#[derive(Debug, thiserror::Error)]
pub(super) enum ConnectionError {
    #[error("it does not speak HTTP/2 without TLS")]
    NoHttp2,
    #[error("its first bytes did not come within {0:?}")]
    Silent(Duration),
    #[error("it did not take an answer for {0:?}")]
    Stalled(Duration),
    #[error("it was still open {0:?} after the port was closed")]
    Open(Duration),
    #[error("{0}")]
    Protocol(String),
    #[error("{0}")]
    Io(#[from] std::io::Error),
}

/// Serves a connection until its client closes it. After `stop` it takes no new calls.
pub(super) async fn serve(
    stream: TcpStream,
    calls: Calls,
    limits: Limits,
    stop: CancellationToken,
) -> Result<(), ConnectionError> {
    let greeting = tokio::time::timeout(limits.greeting, greeting(&stream));
    match stop.run_until_cancelled(greeting).await {
        Some(greeted) => greeted.map_err(|_| ConnectionError::Silent(limits.greeting))??,
        None => return Ok(()),
    }
    // Messages are small, and each may be waited for.
    stream.set_nodelay(true)?;
    // A socket that is closed before all is read of what the client has sent is reset, and the client loses the end of its answer.
    let stream = stream.into_std()?;
    let rest = TcpStream::from_std(stream.try_clone()?)?;
    serve_greeted(TcpStream::from_std(stream)?, calls, limits, stop).await?;
    // Who does not close it in time has had its answer.
    let _ = tokio::time::timeout(limits.closing, until_closed(rest)).await;
    Ok(())
}

/// Reads and drops what comes until the client closes the connection.
async fn until_closed(mut stream: TcpStream) {
    let mut dropped = [0; 1024];
    while stream.read(&mut dropped).await.is_ok_and(|length| length > 0) {}
}

/// The same where the client is known to speak HTTP/2.
pub(super) async fn serve_greeted(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    calls: Calls,
    limits: Limits,
    stop: CancellationToken,
) -> Result<(), ConnectionError> {
    let progress = Progress::default();
    let (calls, of_calls) = (calls, progress.clone());
    let service = service_fn(move |request| calls.clone().answer(request, of_calls.clone()));
    let mut builder = auto::Builder::new(TokioExecutor::new()).http2_only();
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(limits.calls_of_connection)
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADERS)
        .keep_alive_interval(limits.keepalive)
        .keep_alive_timeout(limits.keepalive / 3);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), service));
    let mut looks = tokio::time::interval((limits.stalled / 4).max(Duration::from_millis(10)));
    let mut end: Option<Instant> = None;
    loop {
        let at_end = async { tokio::time::sleep_until(end.unwrap_or_else(Instant::now)).await };
        tokio::select! {
            ended = connection.as_mut() => return ended.map_err(|error| ConnectionError::Protocol(chain(&*error))),
            () = stop.cancelled(), if end.is_none() => {
                connection.as_mut().graceful_shutdown();
                end = Some(Instant::now() + limits.closing);
            }
            () = at_end, if end.is_some() => return Err(ConnectionError::Open(limits.closing)),
            _ = looks.tick() => if progress.is_stalled(limits.stalled) {
                return Err(ConnectionError::Stalled(limits.stalled));
            }
        }
    }
}

/// Waits until the preface of HTTP/2 is there to be read.
async fn greeting(stream: &TcpStream) -> Result<(), ConnectionError> {
    let mut bytes = [0; PREFACE.len()];
    loop {
        let length = stream.peek(&mut bytes).await?;
        let begun = bytes.get(..length).unwrap_or_default();
        if length == 0 || !PREFACE.starts_with(begun) {
            return Err(ConnectionError::NoHttp2);
        }
        if length == PREFACE.len() {
            return Ok(());
        }
        tokio::time::sleep(PREFACE_PAUSE).await;
    }
}
