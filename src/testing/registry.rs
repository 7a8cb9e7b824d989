//! The server of catalogs and its client, on streams that are no sockets.

use crate::error::chain;
use crate::olm::catalog::served::{Catalog, Catalogs, Served};
use crate::olm::net::registry_client::{RegistryClient, Times};
use crate::olm::net::{server, store};
use crate::olm::serve::registry::Streams;
use hyper::body::{Body, Bytes, Frame};
use hyper_util::rt::{TokioExecutor, TokioIo};
use std::convert::Infallible;
use std::future::poll_fn;
use std::path::Path;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio_util::task::AbortOnDropHandle;

/// For each message, and for a catalog: nothing waits for a network.
const LIMIT: Duration = Duration::from_secs(5);

/// Serves one catalog.
pub struct Server {
    streams: Streams,
    _catalogs: watch::Sender<Arc<Catalogs>>,
}

impl std::fmt::Debug for Server {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Server").finish_non_exhaustive()
    }
}

impl Server {
    /// Of the catalog in a folder, as that of a namespace and a name.
    pub fn new(folder: &Path, namespace: &str, name: &str) -> Result<Self, String> {
        let content = store::content(folder, None).map_err(|error| error.to_string())?.content;
        let served = Served { about: Arc::new(Catalog::default()), content };
        let catalogs = Catalogs::from([((namespace.to_owned(), name.to_owned()), served)]);
        let (sender, catalogs) = watch::channel(Arc::new(catalogs));
        Ok(Server { streams: Streams::new(catalogs), _catalogs: sender })
    }

    /// Serves a client that speaks HTTP/2 until it closes the stream. An error says why it was ended before.
    pub async fn serve(&self, stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<(), String> {
        self.streams.serve(stream).await
    }

    /// Whether nothing of any call is left.
    pub fn is_idle(&self) -> bool {
        self.streams.is_idle()
    }
}

/// Why a catalog is not read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotTold {
    /// May have words of the server in it.
    pub cause: String,
    /// It was waited for in vain.
    pub is_late: bool,
}

impl From<String> for NotTold {
    fn from(cause: String) -> NotTold {
        NotTold { cause, is_late: false }
    }
}

/// Reads the catalog that a server tells on a stream, writes it into a folder that is made, and returns its digest.
pub async fn told(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    address: &str,
    folder: &Path,
) -> Result<String, NotTold> {
    let late = |what: &str| NotTold { cause: format!("it {what} within {LIMIT:?}"), is_late: true };
    let times = Times { connect: LIMIT, message: LIMIT, catalog: LIMIT, pause: LIMIT, longest_pause: LIMIT };
    let client = tokio::time::timeout(LIMIT, RegistryClient::over(stream, address, times)).await;
    let client = client.map_err(|_| late("did not answer"))??;
    let told = tokio::time::timeout(LIMIT, server::told(&client, folder)).await;
    Ok(told.map_err(|_| late("was not read"))?.map_err(|error| error.to_string())?)
}

/// What a server that is made up answers to a method, or what is sent to it.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    /// The body as it is sent: messages, each behind a byte and its length.
    pub body: Vec<u8>,
    /// Headers, and what follows the body.
    pub headers: Vec<(String, String)>,
    pub trailers: Vec<(String, String)>,
    /// The body is sent again and again.
    pub is_endless: bool,
}

/// Sends requests on a stream.
#[derive(Debug)]
pub struct Client {
    sender: hyper::client::conn::http2::SendRequest<tonic::body::Body>,
    _connection: AbortOnDropHandle<()>,
}

/// What came for a request: its headers with what followed the body, and the body.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    pub status: u16,
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
}

impl Client {
    pub async fn new(stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static) -> Result<Self, String> {
        let handshake = hyper::client::conn::http2::handshake(TokioExecutor::new(), TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|error| chain(&error))?;
        let connection = tokio::spawn(async move { drop(connection.await) });
        Ok(Client { sender, _connection: AbortOnDropHandle::new(connection) })
    }

    /// Sends what is asked of a method (`uri` with authority and path). An error: it cannot be sent, or there is no answer.
    pub async fn ask(&mut self, method: &str, uri: &str, asked: Answer) -> Result<Received, String> {
        let sent = Sent::new(asked.body, asked.trailers, asked.is_endless);
        let request = http::Request::builder().method(method).uri(uri).body(tonic::body::Body::new(sent));
        let mut request = request.map_err(|error| error.to_string())?;
        *request.headers_mut() = map(asked.headers);
        self.sender.ready().await.map_err(|error| chain(&error))?;
        let (parts, mut incoming) =
            self.sender.send_request(request).await.map_err(|error| chain(&error))?.into_parts();
        let mut received = Received { status: parts.status.as_u16(), headers: Vec::new(), body: Vec::new() };
        received.add(&parts.headers);
        while let Some(frame) = poll_fn(|context| Pin::new(&mut incoming).poll_frame(context)).await {
            match frame.map_err(|error| chain(&error))?.into_data() {
                Ok(data) => received.body.extend_from_slice(&data),
                Err(other) => other.into_trailers().iter().for_each(|trailers| received.add(trailers)),
            }
        }
        Ok(received)
    }
}

impl Received {
    fn add(&mut self, headers: &http::HeaderMap) {
        let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
        self.headers.extend(headers.iter().map(|(name, value)| (name.to_string(), text(value))));
    }
}

/// Answers each request on a stream by its path, until it is closed.
pub async fn answer(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    answers: impl FnMut(&str) -> Answer + Send + 'static,
) {
    let answers = Arc::new(Mutex::new(answers));
    let service = hyper::service::service_fn(move |request: http::Request<hyper::body::Incoming>| {
        let answer = answers.lock().unwrap_or_else(PoisonError::into_inner)(request.uri().path());
        async move { Ok::<_, Infallible>(response(answer)) }
    });
    let builder = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
    // The client says what was wrong.
    let _ended = builder.serve_connection(TokioIo::new(stream), service).await;
}

fn response(answer: Answer) -> http::Response<Sent> {
    let mut response = http::Response::new(Sent::new(answer.body, answer.trailers, answer.is_endless));
    *response.headers_mut() = map(answer.headers);
    response
}

/// Those that can be sent at all.
fn map(headers: Vec<(String, String)>) -> http::HeaderMap {
    let header = |(name, value): (String, String)| Some((name.parse::<http::HeaderName>().ok()?, value.parse().ok()?));
    headers.into_iter().filter_map(header).collect()
}

/// A body with what follows it.
struct Sent {
    body: Option<Bytes>,
    trailers: Option<http::HeaderMap>,
    is_endless: bool,
}

impl Sent {
    fn new(body: Vec<u8>, trailers: Vec<(String, String)>, is_endless: bool) -> Self {
        Sent { body: Some(body.into()), trailers: Some(map(trailers)), is_endless }
    }
}

impl Body for Sent {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let trailers = |sent: &mut Self| sent.trailers.take().filter(|trailers| !trailers.is_empty());
        let body = if self.is_endless { self.body.clone() } else { self.body.take() };
        let frame = match body.filter(|body| !body.is_empty()) {
            Some(body) => Some(Frame::data(body)),
            None => trailers(&mut self).map(Frame::trailers),
        };
        Poll::Ready(frame.map(Ok))
    }
}
