//! Asks a server of a catalog at an address that a CatalogSource names (gRPC service `api.Registry`), and says whether it can be
//! reached. The connection is kept, and made anew when it ends: later and later while that fails, and sooner where something has
//! happened that the server may be reached by.

pub(crate) mod wire;

use crate::cluster::backoff::jittered;
use crate::error::{CAUSE, shortened};
use crate::olm::api::catalog_source::Connection;
use crate::olm::registry::messages::{Bundle, ListBundlesRequest, ListPackageRequest, PackageName};
use crate::olm::registry::query::Query;
use crate::olm::source::Channel;
use futures::future::BoxFuture;
use futures::stream::{self, Stream, StreamExt, TryStreamExt};
use http::Uri;
use http::uri::PathAndQuery;
use jiff::Timestamp;
use prost::Message;
use std::io;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::client::Grpc;
use tonic_prost::ProstCodec;
use wire::Wire;

/// Bytes of a message. Bundles have manifests in them.
const MAX_MESSAGE: usize = 16 << 20;
/// Messages of an answer, and bytes of all of them. The largest known catalogs have a tenth of that.
const MAX_MESSAGES: usize = 500_000;
const MAX_BYTES: usize = 1 << 30;
/// Bytes that are in memory while a catalog is read: names, what is replaced and skipped, and the bundles at heads of channels. The
/// largest known catalogs have a tenth of that.
pub(super) const MAX_KEPT: usize = 48 << 20;
/// Requests that are under way at the same time. The answer of each may be a message of the largest size.
pub(super) const MOST_REQUESTS: usize = 4;

/// How a server is reached: by `host:port`.
pub(crate) type Dial = Arc<dyn Fn(String) -> BoxFuture<'static, io::Result<TcpStream>> + Send + Sync>;

/// How long is waited.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    /// For a connection.
    pub connect: Duration,
    /// For the next message of an answer.
    pub message: Duration,
    /// For all that is read of a catalog.
    pub catalog: Duration,
    /// After the first failure; doubled for each further one.
    pub pause: Duration,
    pub longest_pause: Duration,
}

impl Default for Times {
    fn default() -> Self {
        Times {
            connect: Duration::from_secs(20),
            message: Duration::from_secs(60),
            catalog: Duration::from_secs(900),
            pause: Duration::from_secs(1),
            longest_pause: Duration::from_secs(120),
        }
    }
}

/// Why there is no answer, or only a part of it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error("the server of the catalog at {address} is not connected{}", after_colon(cause.as_deref()))]
    NotConnected { address: String, cause: Option<String> },
    #[error("{method} of the server of the catalog at {address} answered {code:?}: {message}")]
    Status { address: String, method: &'static str, code: Code, message: String },
    #[error(
        "{method} of the server of the catalog at {address} has sent nothing for {limit:?}; look at the load and the log of its pods, \
         and at the network in between"
    )]
    Slow { address: String, method: &'static str, limit: Duration },
    #[error(
        "{method} of the server of the catalog at {address} sends more than {MAX_MESSAGES} messages or {MAX_BYTES} bytes; split the catalog"
    )]
    TooMuch { address: String, method: &'static str },
    #[error(
        "{method} of the server of the catalog at {address} sends a message of more than {MAX_MESSAGE} bytes; leave out manifests of \
         bundles that have an image, or split the package"
    )]
    LargeMessage { address: String, method: &'static str },
    #[error(
        "the catalog of the server at {address} cannot be read within {limit:?}, as it sends too slowly; look at the load of its pods \
         and at the network in between, or name an image with the catalog in spec.image, which is read without a server"
    )]
    Late { address: String, limit: Duration },
    #[error(
        "the server of the catalog at {address} tells more than {MAX_KEPT} bytes of names and of bundles at heads of channels; split \
         the catalog"
    )]
    TooMuchKept { address: String },
    #[error("{method} of the server of the catalog at {address} has sent no message")]
    Empty { address: String, method: &'static str },
}

fn after_colon(cause: Option<&str>) -> String {
    cause.map(|cause| format!(": {cause}")).unwrap_or_default()
}

/// A server of a catalog. Connected as long as this or a copy of it is there.
#[derive(Clone, Debug)]
pub(crate) struct RegistryClient {
    address: String,
    times: Times,
    states: watch::Receiver<State>,
    _stop: Arc<tokio_util::sync::DropGuard>,
}

/// The connection and what is on it.
#[derive(Clone, Debug)]
struct State {
    channel: Channel,
    wire: Option<Wire>,
}

impl RegistryClient {
    /// Begins to connect to `host:port`. `hint` is notified when the server may be reached though it could not be before.
    pub(crate) fn start(address: &str, dial: Dial, hint: Arc<Notify>, times: Times) -> Self {
        let stop = CancellationToken::new();
        let channel =
            Channel { address: address.to_owned(), state: Connection::Idle, since: Timestamp::now(), error: None };
        let (sender, states) = watch::channel(State { channel, wire: None });
        let connecting = Connecting { address: address.to_owned(), dial, hint, times, states: sender };
        tokio::spawn(stop.clone().run_until_cancelled_owned(connecting.run()));
        RegistryClient { address: address.to_owned(), times, states, _stop: Arc::new(stop.drop_guard()) }
    }

    /// On a stream that is connected already, and is not made anew. An error says why no server answers on it.
    pub(crate) async fn over(
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        address: &str,
        times: Times,
    ) -> Result<Self, String> {
        let (wire, ended) = wire::begin(stream, origin(address)).await?;
        let stop = CancellationToken::new();
        let channel =
            Channel { address: address.to_owned(), state: Connection::Ready, since: Timestamp::now(), error: None };
        let (sender, states) = watch::channel(State { channel, wire: Some(wire) });
        tokio::spawn(stop.clone().run_until_cancelled_owned(async move {
            let error = ended.await;
            sender.send_modify(|now| {
                now.channel.error = Some(error);
                now.wire = None;
            });
        }));
        Ok(RegistryClient { address: address.to_owned(), times, states, _stop: Arc::new(stop.drop_guard()) })
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    pub(super) fn times(&self) -> Times {
        self.times
    }

    /// The state of the connection.
    pub(crate) fn channel(&self) -> Channel {
        self.states.borrow().channel.clone()
    }

    /// What is connected now.
    #[cfg(test)]
    pub(crate) fn wire(&self) -> Option<Wire> {
        self.states.borrow().wire.clone()
    }

    /// Waits until the state is another one than this.
    pub(crate) async fn changed(&self, from: &Channel) -> Channel {
        let mut states = self.states.clone();
        let other = states.wait_for(|state| state.channel != *from).await.ok().map(|state| state.channel.clone());
        match other {
            Some(channel) => channel,
            None => std::future::pending().await,
        }
    }

    pub(crate) fn packages(&self) -> impl Stream<Item = Result<PackageName, RegistryError>> + use<> {
        self.answers(ListPackageRequest::default())
    }

    /// A bundle for each channel that it is in.
    pub(crate) fn bundles(&self) -> impl Stream<Item = Result<Bundle, RegistryError>> + use<> {
        self.answers(ListBundlesRequest::default())
    }

    /// The answer of a method that sends one message.
    pub(crate) async fn one<Q: Query>(&self, query: Q) -> Result<Q::Answer, RegistryError> {
        let mut answers = Box::pin(self.answers(query));
        let empty = RegistryError::Empty { address: self.address.clone(), method: Q::PATH };
        answers.next().await.unwrap_or(Err(empty))
    }

    /// The messages of an answer, as they come. Whoever does not take them keeps the server waiting.
    pub(crate) fn answers<Q: Query>(&self, query: Q) -> impl Stream<Item = Result<Q::Answer, RegistryError>> + use<Q> {
        let client = self.clone();
        let begun = async move {
            let messages = client.begin(query).await?;
            Ok::<_, RegistryError>(stream::try_unfold(
                (client, messages, 0, 0),
                |(client, mut messages, count, bytes)| async move {
                    let next = client.within::<Q, _>(messages.message()).await?;
                    let Some(message) = next else { return Ok(None) };
                    let (count, bytes) = (count + 1, bytes + message.encoded_len());
                    if count > MAX_MESSAGES || bytes > MAX_BYTES {
                        return Err(RegistryError::TooMuch { address: client.address.clone(), method: Q::PATH });
                    }
                    Ok(Some((message, (client, messages, count, bytes))))
                },
            ))
        };
        stream::once(begun).try_flatten()
    }

    async fn begin<Q: Query>(&self, query: Q) -> Result<tonic::Streaming<Q::Answer>, RegistryError> {
        let State { channel, wire } = self.states.borrow().clone();
        let Some(wire) = wire else {
            return Err(RegistryError::NotConnected { address: self.address.clone(), cause: channel.error });
        };
        let mut client = Grpc::with_origin(wire, origin(&self.address)).max_decoding_message_size(MAX_MESSAGE);
        let call = async {
            client.ready().await.map_err(|error| tonic::Status::unavailable(error.to_string()))?;
            let (path, codec) = (PathAndQuery::from_static(Q::PATH), ProstCodec::<Q, Q::Answer>::default());
            client.server_streaming(tonic::Request::new(query), path, codec).await
        };
        self.within::<Q, _>(call).await.map(tonic::Response::into_inner)
    }

    /// Waits for a message, but not for ever.
    async fn within<Q: Query, T>(
        &self,
        wait: impl Future<Output = Result<T, tonic::Status>>,
    ) -> Result<T, RegistryError> {
        let (address, method, limit) = (self.address.clone(), Q::PATH, self.times.message);
        match tokio::time::timeout(limit, wait).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(status)) if is_too_large(&status) => Err(RegistryError::LargeMessage { address, method }),
            Ok(Err(status)) => {
                let message = shortened(status.message(), CAUSE).into_owned();
                Err(RegistryError::Status { address, method, code: status.code(), message })
            }
            Err(_) => Err(RegistryError::Slow { address, method, limit }),
        }
    }
}

/// Whether the library has refused the message of an answer. A server may refuse a question in the same words, but with another limit.
fn is_too_large(status: &tonic::Status) -> bool {
    let text = status.message();
    text.contains("decoded message length too large") && text.ends_with(&format!("the limit is: {MAX_MESSAGE} bytes"))
}

/// What to do where nothing answers.
const WAY_OUT: &str = "see whether its pods are ready, and whether NetworkPolicies let us connect to them";

/// What stands before the path of a request. An address that is none cannot be dialled either.
fn origin(address: &str) -> Uri {
    Uri::builder().scheme("http").authority(address).path_and_query("/").build().unwrap_or_default()
}

/// Connects, and again whenever the connection ends.
struct Connecting {
    address: String,
    dial: Dial,
    hint: Arc<Notify>,
    times: Times,
    states: watch::Sender<State>,
}

impl Connecting {
    async fn run(self) {
        let mut failures = 0;
        loop {
            // While it fails it stays failed: that it is tried again is no news.
            if failures == 0 {
                self.say(Connection::Connecting, None, None);
            }
            let error = match self.connect().await {
                Ok((wire, ended)) => {
                    let since = tokio::time::Instant::now();
                    self.say(Connection::Ready, None, Some(wire));
                    let error = ended.await;
                    tracing::debug!(address = self.address, error, "the connection to a server of a catalog ended");
                    if since.elapsed() > self.times.pause {
                        failures = 0;
                        self.say(Connection::Idle, None, None);
                        continue;
                    }
                    format!("the server closed the connection at once: {error}")
                }
                Err(error) => error,
            };
            failures += 1;
            self.say(Connection::TransientFailure, Some(shortened(&error, CAUSE).into_owned()), None);
            self.pause(failures).await;
        }
    }

    /// A hint ends it, but not at once: hints may come one after the other.
    async fn pause(&self, failures: u32) {
        let pause = jittered(self.times.pause, failures, self.times.longest_pause);
        let shortest = self.times.pause.min(pause);
        tokio::time::sleep(shortest).await;
        let _hinted = tokio::time::timeout(pause.saturating_sub(shortest), self.hint.notified()).await;
    }

    /// A connection on which the server has answered, and what waits for its end and says why it ended.
    async fn connect(&self) -> Result<(Wire, BoxFuture<'static, String>), String> {
        let connecting = async {
            let stream = (self.dial)(self.address.clone()).await.map_err(|error| error.to_string())?;
            wire::open(stream, origin(&self.address)).await
        };
        let limit = self.times.connect;
        tokio::time::timeout(limit, connecting)
            .await
            .unwrap_or_else(|_| Err(format!("it did not answer within {limit:?}; {WAY_OUT}")))
    }

    fn say(&self, state: Connection, error: Option<String>, wire: Option<Wire>) {
        self.states.send_modify(|now| {
            if now.channel.state != state {
                now.channel.since = Timestamp::now();
            }
            now.channel.state = state;
            now.channel.error = error;
            now.wire = wire;
        });
    }
}

#[cfg(test)]
mod tests;
