//! Serves the live page of an update to the browsers of this machine. It only reads: there is no request that changes anything.
//!
//! Whatever else runs in a browser of this machine can send requests to this port too. So each request has to carry the token of this
//! start, to name this port as its host, and to come from the page itself.

use axum::Router;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use futures::{Stream, stream};
use sha2::{Digest, Sha256};
use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio_util::sync::CancellationToken;

const HTML: &str = include_str!("page/index.html");
const STYLE: &str = include_str!("page/style.css");
const SCRIPT: &str = include_str!("page/script.js");

/// The event `alive` is sent this often while nothing happens: otherwise neither side would notice that the other one is gone.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// Browsers that follow at the same time.
const VIEWERS: usize = 32;

/// The page before it is served.
#[derive(Debug)]
pub(crate) struct Page {
    listener: TcpListener,
    address: SocketAddr,
    token: String,
    /// How many browsers follow.
    count: watch::Sender<usize>,
}

/// What each request needs.
#[derive(Clone)]
struct Shared {
    token: Arc<str>,
    /// Names by which a browser may know this port.
    hosts: Arc<[String]>,
    /// A JSON object; empty as long as nothing is known.
    states: watch::Receiver<Arc<str>>,
    viewers: Arc<Semaphore>,
    count: watch::Sender<usize>,
    stop: CancellationToken,
}

/// A browser that follows.
struct Viewer {
    count: watch::Sender<usize>,
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    fn new(count: watch::Sender<usize>, place: OwnedSemaphorePermit) -> Viewer {
        count.send_modify(|count| *count += 1);
        Viewer { count, _place: place }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.count.send_modify(|count| *count = count.saturating_sub(1));
    }
}

impl Page {
    /// Listens on the loopback interface. `port` 0: any that is free.
    pub(crate) async fn bind(port: u16) -> std::io::Result<Page> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
        let address = listener.local_addr()?;
        Ok(Page { listener, address, token: random(), count: watch::Sender::new(0) })
    }

    /// What to open in a browser.
    pub(crate) fn url(&self) -> String {
        format!("http://{}/?token={}", self.address, self.token)
    }

    /// How many browsers follow, now and later.
    pub(crate) fn viewers(&self) -> watch::Receiver<usize> {
        self.count.subscribe()
    }

    /// Serves until `stop`. The states are JSON objects; a browser that is slow gets the last one only.
    pub(crate) async fn serve(self, states: watch::Receiver<Arc<str>>, stop: CancellationToken) -> std::io::Result<()> {
        let port = self.address.port();
        let shared = Shared {
            token: self.token.into(),
            hosts: ["127.0.0.1", "localhost"].map(|name| format!("{name}:{port}")).into(),
            states,
            viewers: Arc::new(Semaphore::new(VIEWERS)),
            count: self.count,
            stop: stop.clone(),
        };
        axum::serve(self.listener, router(shared)).with_graceful_shutdown(stop.cancelled_owned()).await
    }
}

fn router(shared: Shared) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/events", get(events))
        .layer(middleware::from_fn_with_state(shared.clone(), guard))
        .with_state(shared)
}

/// Refuses whatever does not come from this page.
async fn guard(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let query = request.uri().query().unwrap_or_default();
    let token = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let token = token.map(|(_, token)| token.into_owned()).unwrap_or_default();
    let mut response = match refusal(&shared, &token, request.method(), request.headers()) {
        Some((status, why)) => (status, format!("{why}\n")).into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in [
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::X_FRAME_OPTIONS, "DENY"),
        (header::REFERRER_POLICY, "no-referrer"),
        (header::CACHE_CONTROL, "no-store"),
        (header::HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
        (header::HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    ] {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static("default-src 'none'"));
    response
}

fn refusal(shared: &Shared, token: &str, method: &Method, headers: &HeaderMap) -> Option<(StatusCode, &'static str)> {
    let text = |name: header::HeaderName| headers.get(name).map(|value| value.to_str().unwrap_or_default());
    let host = text(header::HOST).unwrap_or_default();
    if !shared.hosts.iter().any(|known| known == host) {
        return Some((StatusCode::MISDIRECTED_REQUEST, "This page is served to 127.0.0.1 and localhost only"));
    }
    let foreign_origin = text(header::ORIGIN).is_some_and(|origin| origin != format!("http://{host}"));
    let fetched_by = text(header::HeaderName::from_static("sec-fetch-site"));
    if foreign_origin || fetched_by.is_some_and(|site| !matches!(site, "same-origin" | "none")) {
        return Some((StatusCode::FORBIDDEN, "This page answers only to itself"));
    }
    if !matches!(*method, Method::GET | Method::HEAD) {
        return Some((StatusCode::METHOD_NOT_ALLOWED, "This page only reads"));
    }
    // The time that it takes to compare digests says nothing about the token.
    if Sha256::digest(token) != Sha256::digest(shared.token.as_bytes()) {
        return Some((StatusCode::FORBIDDEN, "Open the address that cvo page has printed: it ends in a token"));
    }
    None
}

async fn page(State(shared): State<Shared>) -> Response {
    let nonce = random();
    let html = HTML
        .replace("/*css*/", STYLE)
        .replace("/*js*/", SCRIPT)
        .replace("NONCE", &nonce)
        .replace("content=\"TOKEN\"", &format!("content=\"{}\"", shared.token));
    let policy = format!(
        "default-src 'none'; style-src 'nonce-{nonce}'; script-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    );
    let headers =
        [(header::CONTENT_TYPE, "text/html; charset=utf-8".to_owned()), (header::CONTENT_SECURITY_POLICY, policy)];
    (headers, Body::from(html)).into_response()
}

async fn events(State(shared): State<Shared>) -> Response {
    let Ok(place) = shared.viewers.clone().try_acquire_owned() else {
        return (StatusCode::SERVICE_UNAVAILABLE, "Too many browsers follow already: close some").into_response();
    };
    let place = Viewer::new(shared.count.clone(), place);
    let mut states = shared.states.clone();
    // What is known already comes first.
    states.mark_changed();
    let stop = shared.stop.clone();
    let next = stream::unfold((states, place), move |(mut states, place)| {
        let stop = stop.clone();
        async move {
            loop {
                stop.run_until_cancelled(states.changed()).await?.ok()?;
                let state = states.borrow_and_update().clone();
                if !state.is_empty() {
                    return Some((Event::default().event("state").data(&*state), (states, place)));
                }
            }
        }
    });
    let next: std::pin::Pin<Box<dyn Stream<Item = Result<Event, Infallible>> + Send>> =
        Box::pin(futures::StreamExt::map(next, Ok));
    // Browsers do not tell the page of an event without data.
    let alive = KeepAlive::new().interval(KEEP_ALIVE).event(Event::default().event("alive").data("yes"));
    Sse::new(next).keep_alive(alive).into_response()
}

/// 128 random bits.
fn random() -> String {
    BASE64_URL_SAFE_NO_PAD.encode(uuid::Uuid::new_v4().as_bytes())
}

#[cfg(test)]
mod tests;
