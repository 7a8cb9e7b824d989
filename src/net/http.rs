//! The HTTP client, and bounded reads.
//!
//! A client does not depend on the environment: its proxy variables have no effect. Proxy and trusted CAs are those of the
//! cluster's configuration.

use super::proxy::{Proxies, ProxySettings};
use crate::error::{CAUSE, chain, shortened, without_password};
use jiff::Timestamp;
use jiff::fmt::rfc2822;
use reqwest::header::{ACCEPT, AUTHORIZATION, ETAG, HeaderMap, IF_NONE_MATCH, RETRY_AFTER};
use reqwest::{Certificate, Client, ClientBuilder, StatusCode, redirect};
use rustls::RootCertStore;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;
use url::{Host, Url};

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For a whole request, including the body of the response.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Redirects that are followed.
const MAX_REDIRECTS: usize = 3;
/// Most bytes of the body of an error response that are read.
const MAX_ERROR_BODY: usize = 16 << 10;

/// Why a client could not be built or a URL could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
    #[error("cannot build an HTTP client: {0}; is there a CA bundle under /etc/ssl/certs?")]
    Client(String),
    /// The trusted CAs of the cluster's configuration.
    #[error("{0}")]
    TrustBundle(String),
    /// The proxy of the cluster's configuration.
    #[error("{0}")]
    Proxy(String),
    #[error("GET {url}: {cause}")]
    Transport { url: String, cause: String },
    #[error("GET {url}: the response broke off: {cause}")]
    Body { url: String, cause: String },
    #[error("GET {url}: the server answered {status}{}", after_colon(body))]
    Status {
        url: String,
        status: StatusCode,
        /// The beginning of the body.
        body: String,
        /// When the server wants to be asked again.
        retry_after: Option<Duration>,
    },
    #[error("GET {url}: the response is larger than {max} bytes")]
    TooLarge { url: String, max: usize },
}

/// What a server says about an error, if it says anything.
fn after_colon(body: &str) -> String {
    let text = reported(body).unwrap_or_else(|| body.split_whitespace().collect::<Vec<_>>().join(" "));
    if text.is_empty() { text } else { format!(": {}", shortened(&text, CAUSE)) }
}

/// Kind and value in the error of an update service.
fn reported(body: &str) -> Option<String> {
    let body: serde_json::Value = serde_json::from_str(body).ok()?;
    let text = |key: &str| body.get(key).and_then(serde_json::Value::as_str).filter(|text| !text.is_empty());
    match (text("kind"), text("value")) {
        (Some(kind), Some(value)) => Some(format!("{kind}: {value}")),
        (one, other) => one.or(other).map(str::to_owned),
    }
}

impl HttpError {
    /// Whether the server answered 404.
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, HttpError::Status { status, .. } if *status == StatusCode::NOT_FOUND)
    }
}

/// How requests leave the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Egress {
    /// `None`: servers are reached directly.
    pub proxy: Option<ProxySettings>,
    pub roots: Roots,
}

impl Egress {
    /// How a server is reached, for errors; without the proxy's password.
    pub(crate) fn way_to(&self, url: &str) -> String {
        let url = Url::parse(url).ok();
        let proxies = self.proxy.as_ref().and_then(|settings| Proxies::new(settings).ok());
        match proxies.zip(url).and_then(|(proxies, url)| proxies.of(&url)) {
            Some(proxy) => format!("through the proxy {}", proxy.host_str().unwrap_or_default()),
            None => "directly, without a proxy".to_owned(),
        }
    }
}

/// The CAs that are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Roots {
    /// Those of the operating system.
    #[default]
    System,
    /// Only these, in place of the system's.
    Only(Bundle),
}

/// Certificates in PEM form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Bundle {
    pub pem: String,
    /// Where they come from, for errors.
    pub origin: String,
}

impl Bundle {
    /// The certificates that can be trusted. There may be others among them, of a kind that is not supported.
    pub(crate) fn certificates(&self) -> Result<Vec<Certificate>, HttpError> {
        let refuse =
            |problem: String| HttpError::TrustBundle(format!("{}: {problem}; correct it, or remove it", self.origin));
        let mut trusted = Vec::new();
        for found in CertificateDer::pem_slice_iter(self.pem.as_bytes()) {
            let certificate = found.map_err(|e| refuse(format!("the CA bundle is not PEM: {e}")))?;
            if RootCertStore::empty().add(certificate.clone()).is_ok() {
                trusted.push(Certificate::from_der(&certificate).map_err(|e| refuse(chain(&e)))?);
            }
        }
        if trusted.is_empty() {
            return Err(refuse("the CA bundle has no certificate that can be trusted".to_owned()));
        }
        Ok(trusted)
    }
}

/// What a client is built for.
#[derive(Clone, Debug)]
pub(crate) struct Purpose<'a> {
    /// For the user agent.
    pub version: &'a str,
    pub egress: &'a Egress,
    /// CAs that are trusted beside those.
    pub more_roots: Option<&'a Bundle>,
    /// The address of a host, in place of a DNS query. The server's certificate must be for the host nevertheless.
    pub address: Option<(&'a str, IpAddr)>,
    pub timeout: Duration,
}

/// A client for servers outside the cluster. `version` goes into its user agent.
pub(crate) fn client(version: &str, egress: &Egress) -> Result<Client, HttpError> {
    build(&Purpose { version, egress, more_roots: None, address: None, timeout: TIMEOUT })
}

/// The beginning of any client: its redirects, and its proxy. Without an egress the proxy is that of the environment, as commands
/// have it.
pub(crate) fn begin(egress: Option<&Egress>) -> Result<ClientBuilder, HttpError> {
    // reqwest panics when no provider is installed. main installs the same one; only the first call has an effect.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let builder = Client::builder().connect_timeout(CONNECT_TIMEOUT).redirect(redirect::Policy::custom(follow));
    let Some(egress) = egress else { return Ok(builder) };
    let Some(settings) = &egress.proxy else { return Ok(builder.no_proxy()) };
    let proxies = Proxies::new(settings).map_err(HttpError::Proxy)?;
    Ok(builder.no_proxy().proxy(reqwest::Proxy::custom(move |url| proxies.of(url))))
}

pub(crate) fn build(purpose: &Purpose<'_>) -> Result<Client, HttpError> {
    let mut builder = begin(Some(purpose.egress))?
        .user_agent(format!("ClusterVersionOperator/{}", purpose.version))
        .timeout(purpose.timeout);
    let more = purpose.more_roots.map(Bundle::certificates).transpose()?;
    builder = match (&purpose.egress.roots, more) {
        (Roots::Only(bundle), more) => {
            builder.tls_certs_only(bundle.certificates()?.into_iter().chain(more.into_iter().flatten()))
        }
        (Roots::System, Some(more)) => builder.tls_certs_only(more),
        (Roots::System, None) => builder,
    };
    if let Some((host, address)) = purpose.address {
        // Port 0: that of the URL.
        builder = builder.resolve(host, SocketAddr::new(address, 0));
    }
    builder.build().map_err(|e| HttpError::Client(chain(&e)))
}

/// A few redirects are followed, but none from a server that has proved who it is to one that does not, and none to what only
/// this machine can reach: the server would have us ask there in its place.
fn follow(attempt: redirect::Attempt<'_>) -> redirect::Action {
    if attempt.previous().len() > MAX_REDIRECTS {
        attempt.error(format!("more than {MAX_REDIRECTS} redirects"))
    } else if let Some(problem) = attempt.previous().last().and_then(|from| misleads(from, attempt.url())) {
        attempt.error(format!("a redirect {problem} is not followed"))
    } else {
        attempt.follow()
    }
}

/// Why a server at the first URL may not send us to the second one.
pub(crate) fn misleads(from: &Url, to: &Url) -> Option<&'static str> {
    if from.scheme() == "https" && to.scheme() != "https" {
        return Some("from https to http");
    }
    (is_local(to) && !is_local(from)).then_some("to this machine or to its own link")
}

/// Whether the host is this machine, or an address of its link, where clouds serve the credentials of a machine.
fn is_local(url: &Url) -> bool {
    let v4 = |address: Ipv4Addr| address.is_loopback() || address.is_link_local() || address.is_unspecified();
    match url.host() {
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.').to_ascii_lowercase();
            name == "localhost" || name.ends_with(".localhost")
        }
        Some(Host::Ipv4(address)) => v4(address),
        Some(Host::Ipv6(address)) => {
            address.is_loopback()
                || address.is_unspecified()
                || address.is_unicast_link_local()
                || address.to_ipv4_mapped().is_some_and(v4)
        }
        None => false,
    }
}

/// What to ask for beside the URL.
#[derive(Clone, Debug, Default)]
pub(crate) struct Get<'a> {
    /// The media type; empty for any.
    pub accept: &'a str,
    /// The entity tag of what is known: the server answers 304 if it is still that.
    pub known: Option<&'a str>,
    /// A bearer token.
    pub token: Option<&'a str>,
}

/// A response with status 200 or, if something is known, 304; then the body is empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Response {
    pub unchanged: bool,
    pub tag: Option<String>,
    pub body: Vec<u8>,
}

/// Reads at most `max` bytes (after decompression) from `url`. Redirects are followed; a status that is not 2xx is an
/// error.
pub(crate) async fn get_bounded(client: &Client, url: &str, max: usize) -> Result<Vec<u8>, HttpError> {
    let mut response = send(client, url, &Get::default()).await?;
    if !response.status().is_success() {
        return Err(refused(response, url).await);
    }
    body(&mut response, url, max).await
}

/// The same with headers; any other status than 200 is an error, or 304 if something is known.
pub(crate) async fn get(client: &Client, url: &str, what: &Get<'_>, max: usize) -> Result<Response, HttpError> {
    let mut response = send(client, url, what).await?;
    let unchanged = response.status() == StatusCode::NOT_MODIFIED && what.known.is_some();
    if response.status() != StatusCode::OK && !unchanged {
        return Err(refused(response, url).await);
    }
    let tag = text(response.headers(), ETAG.as_str());
    let body = if unchanged { Vec::new() } else { body(&mut response, url, max).await? };
    Ok(Response { unchanged, tag, body })
}

fn shown(url: &str) -> String {
    without_password(url).into_owned()
}

async fn send(client: &Client, url: &str, what: &Get<'_>) -> Result<reqwest::Response, HttpError> {
    let mut request = client.get(url);
    if !what.accept.is_empty() {
        request = request.header(ACCEPT, what.accept);
    }
    if let Some(tag) = what.known {
        request = request.header(IF_NONE_MATCH, tag);
    }
    if let Some(token) = what.token {
        request = request.header(AUTHORIZATION, format!("Bearer {token}"));
    }
    request.send().await.map_err(|e| HttpError::Transport { url: shown(url), cause: chain(&e.without_url()) })
}

async fn refused(mut response: reqwest::Response, url: &str) -> HttpError {
    let (status, retry_after) = (response.status(), retry_after(response.headers(), Timestamp::now()));
    let mut beginning = Vec::new();
    // A body that breaks off says nothing that is more important than the status.
    while let Ok(Some(chunk)) = response.chunk().await {
        beginning.extend_from_slice(&chunk);
        if beginning.len() >= MAX_ERROR_BODY {
            break;
        }
    }
    beginning.truncate(MAX_ERROR_BODY);
    let body = String::from_utf8_lossy(&beginning).into_owned();
    HttpError::Status { url: shown(url), status, body, retry_after }
}

async fn body(response: &mut reqwest::Response, url: &str, max: usize) -> Result<Vec<u8>, HttpError> {
    let broke = |e: reqwest::Error| HttpError::Body { url: shown(url), cause: chain(&e.without_url()) };
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(broke)? {
        if body.len() + chunk.len() > max {
            return Err(HttpError::TooLarge { url: shown(url), max });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    headers.get(name).and_then(|value| value.to_str().ok()).map(str::to_owned)
}

/// `Retry-After`: a number of seconds, or a date.
pub(crate) fn retry_after(headers: &HeaderMap, now: Timestamp) -> Option<Duration> {
    let text = text(headers, RETRY_AFTER.as_str())?;
    if let Ok(seconds) = text.trim().parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = rfc2822::DateTimeParser::new().parse_timestamp(text.trim()).ok()?;
    Some(Duration::try_from(date.duration_since(now)).unwrap_or(Duration::ZERO))
}

#[cfg(test)]
pub(crate) mod tests;
