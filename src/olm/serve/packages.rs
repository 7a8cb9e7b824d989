//! Serves PackageManifests as a part of the Kubernetes API. API servers pass requests on, prove by a certificate that they are such,
//! and say in whose name; each request is answered from one state of all catalogs. Where copies of ClusterServiceVersions are not written,
//! what namespaces see of these is served besides.

mod access;
mod answer;
mod body;
mod csvs;
mod state;

use crate::cluster::task;
use crate::olm::catalog::served::Catalogs;
use crate::olm::operator::copies::shown::{Shown, ShownCsv};
use crate::olm::packages::csvs::Body as CsvBody;
use crate::olm::packages::request::{self, Health, Request};
use crate::olm::packages::status::Status;
use crate::olm::subscription::review::MAX_QUESTION;
use crate::serve::caller::Caller;
use crate::serve::front_proxy::{FrontProxy, User};
use crate::serve::{ServeError, Server, tls};
use access::Access;
use axum::Router;
use axum::body::{Body, Bytes, HttpBody};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, Method, header};
use axum::response::{IntoResponse, Response};
use body::Writers;
use futures::future::BoxFuture;
use futures::stream;
use rustls::sign::CertifiedKey;
use serde_json::Value;
use state::State;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long an answer waits for what other replicas serve.
const CATCHING_UP: Duration = Duration::from_secs(2);

/// What the answers depend on. All of it may change while the server runs.
#[derive(Clone, Debug)]
pub(crate) struct Sources {
    /// Catalogs of this namespace are seen by all.
    pub global: String,
    pub catalogs: watch::Receiver<Arc<Catalogs>>,
    /// Since when another replica serves something that is not served here yet.
    pub behind: watch::Receiver<Option<Instant>>,
    /// An error says why nobody can be known.
    pub front_proxy: watch::Receiver<Result<FrontProxy, String>>,
    /// What to serve with, once there is something.
    pub certificate: watch::Receiver<Option<Arc<CertifiedKey>>>,
    pub demands: watch::Receiver<tls::Demands>,
    /// The process has been told to stop. Who asks is still answered.
    pub stopping: CancellationToken,
    pub reviews: Reviews,
    /// `None`: ClusterServiceVersions are no resource of the API.
    pub csvs: Option<Arc<dyn CsvSource>>,
}

/// Knows which ClusterServiceVersions namespaces see, and reads them.
pub(crate) trait CsvSource: Send + Sync {
    /// What there is now; `None` before it is known.
    fn shown(&self) -> Option<Arc<Shown>>;

    /// All of one; `None` if it is gone. An error says to who has asked that it cannot be read now.
    fn body(&self, csv: ShownCsv) -> BoxFuture<'static, Result<Option<Arc<CsvBody>>, String>>;
}

impl std::fmt::Debug for dyn CsvSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CsvSource").finish_non_exhaustive()
    }
}

/// Answers the question in a body about a namespace.
#[derive(Clone)]
pub(crate) struct Reviews(pub Arc<Answering>);

type Answering = dyn Fn(String, Vec<u8>) -> BoxFuture<'static, Result<Value, Status>> + Send + Sync;

impl std::fmt::Debug for Reviews {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reviews").finish_non_exhaustive()
    }
}

/// The server of packages.
pub(crate) struct PackageServer {
    sources: Sources,
    /// `None` until the first catalogs are known.
    state: watch::Receiver<Option<Arc<State>>>,
    access: Access,
    writers: Writers,
}

impl std::fmt::Debug for PackageServer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PackageServer").field("sources", &self.sources).finish_non_exhaustive()
    }
}

impl PackageServer {
    /// Follows the catalogs until `stop`. `client` asks the API server what users may do.
    pub(crate) fn new(sources: Sources, client: kube::Client, stop: &CancellationToken) -> Arc<Self> {
        let (told, state) = watch::channel(None);
        task::spawn("packages", stop, state::follow(sources.catalogs.clone(), told));
        Arc::new(PackageServer { sources, state, access: Access::new(client), writers: Writers::default() })
    }

    /// Serves at this port until `stop`.
    pub(crate) async fn serve(self: Arc<Self>, server: Server, stop: CancellationToken) -> Result<(), ServeError> {
        let source = tls::Source::Given(self.sources.certificate.clone());
        let tls = tls::Current::new(source, tls::Protocols::Http2, self.sources.demands.clone())?;
        server.api(Arc::new(tls), self.router(), stop).await;
        Ok(())
    }

    fn router(self: Arc<Self>) -> Router {
        Router::new().fallback(move |request: axum::extract::Request| {
            let server = self.clone();
            async move {
                let (parts, body) = request.into_parts();
                server.handle(parts, body).await
            }
        })
    }

    /// Whether it answers for packages; an error says why not.
    pub(crate) fn ready(&self) -> Result<(), String> {
        if self.sources.stopping.is_cancelled() {
            return Err("stopping".to_owned());
        }
        if self.sources.certificate.borrow().is_none() {
            return Err("there is no certificate to serve packages with yet".to_owned());
        }
        if let Err(cause) = &*self.sources.front_proxy.borrow() {
            return Err(format!("nobody can be told packages: {cause}"));
        }
        self.state.borrow().as_ref().map(|_| ()).ok_or_else(|| "catalogs have not been read yet".to_owned())
    }

    async fn handle(&self, parts: Parts, body: Body) -> Response {
        let response = self.respond(&parts, body).await.unwrap_or_else(|status| answer::refused(&status));
        if parts.method == Method::HEAD { without_body(response) } else { response }
    }

    async fn respond(&self, parts: &Parts, body: Body) -> Result<Response, Status> {
        let accept = joined(&parts.headers, &header::ACCEPT);
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        let request = match self.sources.csvs.is_none() && request::is_of_csvs(path) {
            true => Err(Status::no_resource()),
            false => Request::parse(parts.method.as_str(), path, query, &accept),
        };
        if let Ok(Request::Health(health)) = request {
            return Ok(answer::health(if health == Health::Live { Ok(()) } else { self.ready() }));
        }
        // What is wrong with a request is told to those who may ask.
        let user = self.user(parts)?;
        let request = request?;
        if let Some(attributes) = request.attributes() {
            self.access.check(&user, &attributes).await?;
        }
        if let Some(response) = answer::document(&request, parts, self.sources.csvs.is_some()) {
            return Ok(response);
        }
        if let Request::Review { namespace } = request {
            return self.review(namespace, parts, body).await;
        }
        if let Some(source) = &self.sources.csvs
            && matches!(request, Request::Csvs { .. } | Request::Csv { .. })
        {
            return csvs::respond(request, source, &self.writers, parts).await;
        }
        let state = self.current().await;
        let state = state.ok_or_else(|| Status::unavailable("catalogs have not been read yet; try again"))?;
        answer::packages(request, state, &self.sources.global, &self.writers, parts).await
    }

    /// Answers a question, whose body is read only now that it is known who asks.
    async fn review(&self, namespace: String, parts: &Parts, body: Body) -> Result<Response, Status> {
        let media_type = joined(&parts.headers, &header::CONTENT_TYPE);
        let media_type = media_type.split(';').next().unwrap_or_default().trim();
        if !media_type.is_empty() && !media_type.eq_ignore_ascii_case("application/json") {
            return Err(Status::unsupported_media_type());
        }
        let bytes = axum::body::to_bytes(body, MAX_QUESTION).await.map_err(|_| Status::too_large(MAX_QUESTION))?;
        let answer = (self.sources.reviews.0)(namespace, bytes.to_vec()).await?;
        Ok(answer::created(&answer))
    }

    /// The state, with what other replicas serve already if that comes soon: who has just seen a catalog become ready is answered by
    /// any of them.
    async fn current(&self) -> Option<Arc<State>> {
        let (mut behind, mut state) = (self.sources.behind.clone(), self.state.clone());
        let since = *behind.borrow();
        let limit = Instant::now().min(since.unwrap_or_else(Instant::now)) + CATCHING_UP;
        let caught_up = async {
            let _ = behind.wait_for(Option::is_none).await;
            let is_latest = |state: &State| state.is_of(&self.sources.catalogs.borrow());
            let _ = state.wait_for(|state| state.as_deref().is_some_and(is_latest)).await;
        };
        let _ = tokio::time::timeout_at(limit.into(), caught_up).await;
        self.state.borrow().clone()
    }

    fn user(&self, parts: &Parts) -> Result<User, Status> {
        let front_proxy = self.sources.front_proxy.borrow().clone();
        let front_proxy =
            front_proxy.map_err(|cause| Status::unavailable(format!("nobody can be told packages: {cause}")))?;
        let caller = parts.extensions.get::<Caller>();
        let caller = caller.ok_or_else(|| Status::internal("the connection does not say who its client is"))?;
        front_proxy.user(caller, &parts.headers).map_err(|cause| {
            tracing::debug!(address = %caller.address, error = cause, "packages refused");
            Status::unauthorized(cause)
        })
    }
}

/// The values of a header, with commas between them.
fn joined(headers: &HeaderMap, name: &HeaderName) -> String {
    let values = headers.get_all(name).iter().filter_map(|value| value.to_str().ok());
    values.collect::<Vec<_>>().join(",")
}

/// The answer to HEAD, which tells the length if it is known.
fn without_body(response: Response) -> Response {
    let (mut parts, body) = response.into_parts();
    let body = match body.size_hint().exact() {
        Some(length) => {
            parts.headers.insert(header::CONTENT_LENGTH, length.into());
            Body::empty()
        }
        // An empty body would tell that the length is 0.
        None => unknown(),
    };
    (parts, body).into_response()
}

/// Nothing, of a length that is not known before.
fn unknown() -> Body {
    Body::from_stream(stream::empty::<io::Result<Bytes>>())
}

#[cfg(test)]
mod tests;
