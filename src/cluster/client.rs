//! Client stacks: HTTP/2 without Nagle's delay, with pings, a limit of requests in flight and short retries. Watches and
//! calls use different connections, because the API server allows 100 streams a connection and the client queues all
//! others forever.

use super::backoff::with_jitter;
use super::error::NotLeader;
use super::objects::{MayWrite, NoRetry};
use super::requests::RequestCounts;
use http::Uri;
use hyper::body::{Bytes, Frame, SizeHint};
use hyper_rustls::FixedServerNameResolver;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Client;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::config::{AuthInfo, KubeConfigOptions, Kubeconfig};
use std::path::Path;
use std::pin::Pin;
use std::sync::{Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::retry::{Policy, RetryLayer};
use tower::util::BoxCloneService;
use tower::{BoxError, ServiceBuilder};

/// Requests in flight; more of them only increase the latency.
const IN_FLIGHT: usize = 64;
/// While the API server is away, it is asked at least this often, by one for all who wait for it.
const ASK_AGAIN: Duration = Duration::from_millis(500);
/// An API server that still does not call itself ready may serve nevertheless.
const NOT_READY: Duration = Duration::from_secs(10);
/// A server that asks for more patience is asked again after this long all the same: it may have been wrong, and what
/// administrators request would go unnoticed.
const LONGEST_RETRY_AFTER: u64 = 30;
/// Watches on one connection; the server's limit is 100 streams.
const WATCHES_PER_CONNECTION: usize = 90;
/// So many bytes of a watch, and of all on a connection, may be on their way to readers that are slow for a moment. The server ends a
/// watch that it cannot write to, and then everything is told once more.
const WATCH_WINDOW: u32 = 1 << 20;
const WATCHES_WINDOW: u32 = 8 << 20;

#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    #[error("cannot read the kubeconfig {path}: {cause}; give the path of a readable file with --kubeconfig")]
    Kubeconfig { path: String, cause: kube::config::KubeconfigError },
    /// The cause is not a `source`: its message contains all of its own causes already.
    #[error(
        "cannot find out how to reach the API server: {cause}; run in a pod with a service account, or give --kubeconfig"
    )]
    Infer { cause: kube::config::InferConfigError },
    #[error("cannot build the API client: {0}")]
    Build(String),
    #[error(
        "proxy-url of the kubeconfig cannot be used: {cause}; give http://HOST:PORT, or a kubeconfig that reaches the API server \
         without a proxy"
    )]
    Proxy { cause: &'static str },
}

/// Connections to one API server. Belongs to the runtime in which it was created.
pub struct Clients {
    config: kube::Config,
    /// For everything but watches.
    pub call: Client,
    /// Of all connections.
    pub(crate) requests: RequestCounts,
    watches: Mutex<(Client, usize)>,
    /// When the API server was found ready last, and whether that had to be waited for.
    ready: tokio::sync::Mutex<Option<(Instant, bool)>>,
}

impl std::fmt::Debug for Clients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Clients").field("server", &self.config.cluster_url).finish_non_exhaustive()
    }
}

impl Clients {
    /// From a kubeconfig, or from the environment: the pod's service account, or the user's own kubeconfig.
    pub async fn connect(kubeconfig: Option<&Path>) -> Result<Self, ClientError> {
        Self::connect_as(kubeconfig, None).await
    }

    /// The same, impersonating another user.
    pub async fn connect_as(kubeconfig: Option<&Path>, user: Option<&str>) -> Result<Self, ClientError> {
        let (mut config, proxy) = match kubeconfig {
            Some(path) => {
                let fail = |cause| ClientError::Kubeconfig { path: path.display().to_string(), cause };
                let file = Kubeconfig::read_from(path).map_err(fail)?;
                let proxy = proxy_url(&file);
                let config = kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await;
                (config.map_err(fail)?, proxy)
            }
            None => {
                let config = kube::Config::infer().await.map_err(|cause| ClientError::Infer { cause })?;
                // In a pod there is no file, and no proxy.
                let file = config.proxy_url.as_ref().and_then(|_| Kubeconfig::read().ok());
                (config, file.as_ref().and_then(proxy_url))
            }
        };
        if let Some(user) = user {
            config.auth_info.impersonate = Some(user.to_owned());
        }
        // Not what the library has put there, which may be HTTPS_PROXY of the environment, whatever NO_PROXY says.
        config.proxy_url = proxy.as_deref().map(usable).transpose()?;
        Self::of(config)
    }

    /// Without a proxy.
    pub fn new(mut config: kube::Config) -> Result<Self, ClientError> {
        config.proxy_url = None;
        Self::of(config)
    }

    fn of(config: kube::Config) -> Result<Self, ClientError> {
        let requests = RequestCounts::default();
        let call = stack(&config, &requests, Use::Calls)?;
        let watch = stack(&config, &requests, Use::Watches)?;
        Ok(Clients { config, call, requests, watches: Mutex::new((watch, 0)), ready: tokio::sync::Mutex::default() })
    }

    /// A client that acts as this user, which takes the right to impersonate it. `None`: this one already acts as another, or it cannot be
    /// built.
    pub(crate) fn acting_as(&self, user: &str) -> Option<Client> {
        if self.config.auth_info.impersonate.is_some() {
            return None;
        }
        let mut config = self.config.clone();
        config.auth_info.impersonate = Some(user.to_owned());
        stack(&config, &self.requests, Use::Calls).ok()
    }

    /// A client that shows this token and nothing else.
    pub(crate) fn with_token(&self, token: &str) -> Result<Client, ClientError> {
        let mut config = self.config.clone();
        config.auth_info = AuthInfo { token: Some(token.to_owned().into()), ..AuthInfo::default() };
        stack(&config, &self.requests, Use::Calls)
    }

    /// URL of the API server.
    pub fn server(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// A client for one long watch. A new connection is opened when the last one carries as many watches as it may.
    pub fn for_watch(&self) -> Result<Client, ClientError> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if watches.1 >= WATCHES_PER_CONNECTION {
            *watches = (stack(&self.config, &self.requests, Use::Watches)?, 0);
        }
        watches.1 += 1;
        Ok(watches.0.clone())
    }

    /// Waits until the API server is ready, for a while. `false` if it was so at once.
    pub(crate) async fn wait_until_ready(&self) -> bool {
        let begun = Instant::now();
        let mut last = self.ready.lock().await;
        // Another caller has asked meanwhile.
        if let Some((_, waited)) = last.filter(|(at, _)| *at > begun) {
            return waited;
        }
        let (mut waited, mut pause) = (false, Duration::from_millis(100));
        while begun.elapsed() < NOT_READY && !self.is_ready().await {
            waited = true;
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(ASK_AGAIN);
        }
        *last = Some((Instant::now(), waited));
        waited
    }

    /// A refusal shows as well that somebody is there.
    async fn is_ready(&self) -> bool {
        let Ok(request) = http::Request::get("/readyz").body(Vec::new()) else { return true };
        match tokio::time::timeout(Duration::from_secs(2), self.call.request_text(request)).await {
            Ok(Ok(_)) => true,
            Ok(Err(kube::Error::Api(status))) => status.code < 429,
            Ok(Err(_)) | Err(_) => false,
        }
    }
}

/// [`RetryPolicy`], with a limit to the `Retry-After` that it obeys, and jitter on top: all who were refused at the same moment
/// are told the same.
#[derive(Clone)]
struct BoundedRetry(RetryPolicy);

type KubeRequest = http::Request<kube::client::Body>;

impl<R> Policy<KubeRequest, http::Response<R>, BoxError> for BoundedRetry {
    type Future = tokio::time::Sleep;

    fn retry(
        &mut self,
        request: &mut KubeRequest,
        result: &mut Result<http::Response<R>, BoxError>,
    ) -> Option<Self::Future> {
        if request.extensions().get::<NoRetry>().is_some() {
            return None;
        }
        let value = result.as_mut().ok().and_then(|response| response.headers_mut().get_mut(http::header::RETRY_AFTER));
        let Some(value) = value else { return self.0.retry(request, result) };
        if value.to_str().ok().and_then(|text| text.parse().ok()).is_some_and(|s: u64| s > LONGEST_RETRY_AFTER) {
            *value = LONGEST_RETRY_AFTER.into();
        }
        let pause = self.0.retry(request, result)?;
        let asked = pause.deadline().saturating_duration_since(tokio::time::Instant::now());
        Some(tokio::time::sleep(with_jitter(asked)))
    }

    fn clone_request(&mut self, request: &KubeRequest) -> Option<KubeRequest> {
        Policy::<KubeRequest, http::Response<R>, BoxError>::clone_request(&mut self.0, request)
    }
}

fn retry_policy() -> Result<BoundedRetry, ClientError> {
    let policy = RetryPolicy::new(Duration::from_millis(200), Duration::from_secs(10), 4, true);
    policy.map(BoundedRetry).map_err(|error| ClientError::Build(error.to_string()))
}

/// `proxy-url` of the cluster that the current context of a kubeconfig names.
fn proxy_url(file: &Kubeconfig) -> Option<String> {
    let current = file.current_context.as_ref()?;
    let context = file.contexts.iter().find(|context| context.name == *current)?.context.as_ref()?;
    let cluster = file.clusters.iter().find(|cluster| cluster.name == context.cluster)?.cluster.as_ref()?;
    cluster.proxy_url.clone().filter(|url| !url.is_empty())
}

/// The address of a proxy to which requests can be sent. An error does not quote it: it may contain a password.
fn usable(url: &str) -> Result<Uri, ClientError> {
    let refuse = |cause| ClientError::Proxy { cause };
    let uri: Uri = url.parse().map_err(|_| refuse("it is not a URL"))?;
    match uri.authority() {
        None => Err(refuse("it is not a URL")),
        Some(_) if uri.scheme_str() != Some("http") => Err(refuse("only proxies that speak HTTP are supported")),
        Some(authority) if authority.as_str().contains('@') => {
            Err(refuse("proxies that want a user name and password are not supported"))
        }
        Some(_) => Ok(uri),
    }
}

/// What the connections of a client are for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Calls,
    Watches,
}

fn stack(config: &kube::Config, requests: &RequestCounts, of: Use) -> Result<Client, ClientError> {
    let fail = |e: &dyn std::fmt::Display| ClientError::Build(e.to_string());
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // With Nagle's delay every write takes 40 ms longer.
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(10)));
    let mut https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config().map_err(|e| fail(&e))?)
        .https_or_http();
    if let Some(name) = &config.tls_server_name {
        let name = rustls::pki_types::ServerName::try_from(name.clone());
        let name = name.map_err(|e| ClientError::Build(format!("tls-server-name of the kubeconfig: {e}")))?;
        https = https.with_server_name_resolver(FixedServerNameResolver::new(name));
    }
    let https = https.enable_http1().enable_http2();
    let mut client = hyper_util::client::legacy::Client::builder(TokioExecutor::new());
    client
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(15))
        .http2_keep_alive_while_idle(true);
    match of {
        Use::Calls => client.http2_adaptive_window(true),
        Use::Watches => {
            client.http2_initial_stream_window_size(WATCH_WINDOW).http2_initial_connection_window_size(WATCHES_WINDOW)
        }
    };
    let http: BoxCloneService<http::Request<GuardedBody>, _, _> = match &config.proxy_url {
        None => BoxCloneService::new(client.build(https.wrap_connector(tcp))),
        Some(proxy) => BoxCloneService::new(client.build(https.wrap_connector(Tunnel::new(proxy.clone(), tcp)))),
    };
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(retry_policy()?))
        .layer(GlobalConcurrencyLimitLayer::new(IN_FLIGHT))
        .filter(check_may_write)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|e| fail(&e))?)
        .layer(config.extra_headers_layer().map_err(|e| fail(&e))?)
        .map_err(BoxError::from)
        .layer(requests.clone())
        .map_request(GuardedBody::guard)
        .service(http);
    Ok(Client::new(service, config.default_namespace.clone()))
}

/// A request that carries [`MayWrite`] asks it each time before it is sent: it may have waited for its turn, or for a
/// retry, longer than the lease was valid.
fn check_may_write(request: http::Request<Body>) -> Result<http::Request<Body>, BoxError> {
    match request.extensions().get::<MayWrite>() {
        Some(may_write) if !may_write() => Err(NotLeader.into()),
        _ => Ok(request),
    }
}

/// The body of a request, which asks [`MayWrite`] once more when it is to be sent: the connection may have been waited for, or the
/// process frozen, longer than the lease was valid. The server does nothing with a request whose body does not come.
struct GuardedBody {
    body: Body,
    may_write: Option<MayWrite>,
}

impl GuardedBody {
    fn guard(request: http::Request<Body>) -> http::Request<GuardedBody> {
        let may_write = request.extensions().get::<MayWrite>().cloned();
        request.map(|body| GuardedBody { body, may_write })
    }
}

impl hyper::body::Body for GuardedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match &self.may_write {
            Some(may_write) if !may_write() => Poll::Ready(Some(Err(NotLeader.into()))),
            _ => Pin::new(&mut self.body).poll_frame(cx).map_err(BoxError::from),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests;
