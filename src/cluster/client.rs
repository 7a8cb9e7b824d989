//! Client stacks: HTTP/2 without Nagle's delay, with pings, a limit of requests in flight and short retries. Watches and
//! calls use different connections, because the API server allows 100 streams a connection and the client queues all
//! others forever.

use super::error::NotLeader;
use super::objects::{MayWrite, NoRetry};
use super::requests::RequestCounts;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use kube::Client;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ConfigExt};
use kube::config::{KubeConfigOptions, Kubeconfig};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use tower::limit::GlobalConcurrencyLimitLayer;
use tower::retry::{Policy, RetryLayer};
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
        let mut config = match kubeconfig {
            Some(path) => {
                let fail = |cause| ClientError::Kubeconfig { path: path.display().to_string(), cause };
                let file = Kubeconfig::read_from(path).map_err(fail)?;
                kube::Config::from_custom_kubeconfig(file, &KubeConfigOptions::default()).await.map_err(fail)?
            }
            None => kube::Config::infer().await.map_err(|cause| ClientError::Infer { cause })?,
        };
        if let Some(user) = user {
            config.auth_info.impersonate = Some(user.to_owned());
        }
        Self::new(config)
    }

    pub fn new(config: kube::Config) -> Result<Self, ClientError> {
        let requests = RequestCounts::default();
        let call = stack(&config, &requests)?;
        let watch = stack(&config, &requests)?;
        Ok(Clients { config, call, requests, watches: Mutex::new((watch, 0)), ready: tokio::sync::Mutex::default() })
    }

    /// URL of the API server.
    pub fn server(&self) -> String {
        self.config.cluster_url.to_string()
    }

    /// A client for one long watch. A new connection is opened when the last one carries as many watches as it may.
    pub fn for_watch(&self) -> Result<Client, ClientError> {
        let mut watches = self.watches.lock().unwrap_or_else(PoisonError::into_inner);
        if watches.1 >= WATCHES_PER_CONNECTION {
            *watches = (stack(&self.config, &self.requests)?, 0);
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

/// [`RetryPolicy`], with a limit to the `Retry-After` that it obeys.
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
        if let Ok(response) = result
            && let Some(value) = response.headers_mut().get_mut(http::header::RETRY_AFTER)
            && value.to_str().ok().and_then(|text| text.parse().ok()).is_some_and(|s: u64| s > LONGEST_RETRY_AFTER)
        {
            *value = LONGEST_RETRY_AFTER.into();
        }
        self.0.retry(request, result)
    }

    fn clone_request(&mut self, request: &KubeRequest) -> Option<KubeRequest> {
        Policy::<KubeRequest, http::Response<R>, BoxError>::clone_request(&mut self.0, request)
    }
}

fn retry_policy() -> Result<BoundedRetry, ClientError> {
    let policy = RetryPolicy::new(Duration::from_millis(200), Duration::from_secs(10), 4, true);
    policy.map(BoundedRetry).map_err(|error| ClientError::Build(error.to_string()))
}

fn stack(config: &kube::Config, requests: &RequestCounts) -> Result<Client, ClientError> {
    let fail = |e: &dyn std::fmt::Display| ClientError::Build(e.to_string());
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    // With Nagle's delay every write takes 40 ms longer.
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(Duration::from_secs(10)));
    let https = hyper_rustls::HttpsConnectorBuilder::new()
        .with_tls_config(config.rustls_client_config().map_err(|e| fail(&e))?)
        .https_or_http()
        .enable_http1()
        .enable_http2()
        .wrap_connector(tcp);
    let http = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
        .timer(TokioTimer::new())
        .http2_keep_alive_interval(Duration::from_secs(30))
        .http2_keep_alive_timeout(Duration::from_secs(15))
        .http2_keep_alive_while_idle(true)
        .http2_adaptive_window(true)
        .build(https);
    let service = ServiceBuilder::new()
        .layer(RetryLayer::new(retry_policy()?))
        .layer(GlobalConcurrencyLimitLayer::new(IN_FLIGHT))
        .filter(check_may_write)
        .layer(config.base_uri_layer())
        .option_layer(config.auth_layer().map_err(|e| fail(&e))?)
        .layer(config.extra_headers_layer().map_err(|e| fail(&e))?)
        .map_err(BoxError::from)
        .layer(requests.clone())
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

#[cfg(test)]
mod tests;
