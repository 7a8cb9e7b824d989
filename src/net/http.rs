//! HTTP clients with the cluster's proxy and trusted CAs, and bounded reads.
//!
//! A client depends on its arguments alone: proxy variables of the environment have no effect. A client never changes;
//! build a new one when the proxy or the CA bundle changes.

use crate::error::chain;
use reqwest::{Certificate, Client, NoProxy, Proxy, StatusCode};
use std::time::Duration;

/// Hosts that are reached directly whatever the proxy settings say.
const NEVER_PROXIED: &str = "localhost,127.0.0.0/8,::1";

/// The status of the cluster's Proxy object; empty strings mean "none".
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ProxySettings {
    /// Proxy for `http` URLs.
    pub http: String,
    /// Proxy for `https` URLs.
    pub https: String,
    /// Comma-separated hosts, domains, addresses and CIDRs that are reached directly.
    pub no_proxy: String,
}

/// Which certificate authorities are trusted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub enum Trust {
    /// The system's bundle.
    #[default]
    System,
    /// The system's bundle and the certificates of this PEM text.
    SystemAnd(String),
    /// Only the certificates of this PEM text, as for the cluster's trusted CA bundle.
    Only(String),
}

/// Everything a client depends on.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ClientOptions {
    /// Goes into the user agent: `ClusterVersionOperator/<version>`.
    pub version: String,
    pub connect_timeout: Duration,
    /// For a whole request, including the body of the response.
    pub timeout: Duration,
    pub proxy: ProxySettings,
    pub trust: Trust,
}

impl ClientOptions {
    /// No proxy, the system's CAs, ten seconds to connect and one minute for a request.
    pub fn new(version: &str) -> Self {
        ClientOptions {
            version: version.to_owned(),
            connect_timeout: Duration::from_secs(10),
            timeout: Duration::from_secs(60),
            proxy: ProxySettings::default(),
            trust: Trust::System,
        }
    }
}

/// Why a client could not be built or a URL could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HttpError {
    #[error("the {scheme} proxy {url:?} cannot be used: {cause}")]
    Proxy { scheme: &'static str, url: String, cause: String },
    #[error("the trusted CA bundle cannot be used: {0}")]
    Trust(String),
    #[error("cannot build an HTTP client: {0}; is there a CA bundle under /etc/ssl/certs?")]
    Client(String),
    #[error("GET {url}: {cause}")]
    Transport { url: String, cause: String },
    #[error("GET {url}: the response broke off: {cause}")]
    Body { url: String, cause: String },
    #[error("GET {url}: the server answered {status}")]
    Status { url: String, status: StatusCode },
    #[error("GET {url}: the response is larger than {max} bytes")]
    TooLarge { url: String, max: usize },
}

impl HttpError {
    /// Whether the server answered 404.
    pub fn is_not_found(&self) -> bool {
        matches!(self, HttpError::Status { status, .. } if *status == StatusCode::NOT_FOUND)
    }
}

/// Builds a client.
pub fn client(options: &ClientOptions) -> Result<Client, HttpError> {
    // reqwest panics when no provider is installed. main installs the same one; only the first call has an effect.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut builder = Client::builder()
        .user_agent(format!("ClusterVersionOperator/{}", options.version))
        .connect_timeout(options.connect_timeout)
        .timeout(options.timeout)
        .no_proxy();
    for (scheme, url) in [("http", &options.proxy.http), ("https", &options.proxy.https)] {
        if !url.is_empty() {
            builder = builder.proxy(proxy(scheme, url, &options.proxy.no_proxy)?);
        }
    }
    builder = match &options.trust {
        Trust::System => builder,
        Trust::SystemAnd(pem) => builder.tls_certs_merge(certificates(pem)?),
        Trust::Only(pem) => builder.tls_certs_only(certificates(pem)?),
    };
    builder.build().map_err(|e| HttpError::Client(chain(&e)))
}

fn proxy(scheme: &'static str, url: &str, no_proxy: &str) -> Result<Proxy, HttpError> {
    let built = if scheme == "http" { Proxy::http(url) } else { Proxy::https(url) };
    let proxy = built.map_err(|e| HttpError::Proxy { scheme, url: without_password(url), cause: chain(&e) })?;
    Ok(proxy.no_proxy(NoProxy::from_string(&format!("{NEVER_PROXIED},{no_proxy}"))))
}

/// A proxy URL as it may be shown: the part before `@` can be a password.
fn without_password(url: &str) -> String {
    match url.rsplit_once('@') {
        Some((before, host)) => {
            let scheme = before.split_once("://").map_or("", |(scheme, _)| scheme);
            format!("{scheme}://…@{host}")
        }
        None => url.to_owned(),
    }
}

fn certificates(pem: &str) -> Result<Vec<Certificate>, HttpError> {
    match Certificate::from_pem_bundle(pem.as_bytes()) {
        Ok(found) if found.is_empty() => Err(HttpError::Trust("it contains no PEM certificate".to_owned())),
        Ok(found) => Ok(found),
        Err(error) => Err(HttpError::Trust(chain(&error))),
    }
}

/// Reads at most `max` bytes (after decompression) from `url`. Redirects are followed; a status that is not 2xx is an
/// error.
pub async fn get_bounded(client: &Client, url: &str, max: usize) -> Result<Vec<u8>, HttpError> {
    let transport = |e: reqwest::Error| HttpError::Transport { url: url.to_owned(), cause: chain(&e.without_url()) };
    let body_broke = |e: reqwest::Error| HttpError::Body { url: url.to_owned(), cause: chain(&e.without_url()) };
    let mut response = client.get(url).send().await.map_err(transport)?;
    let status = response.status();
    if !status.is_success() {
        return Err(HttpError::Status { url: url.to_owned(), status });
    }
    let mut body = Vec::new();
    while let Some(chunk) = response.chunk().await.map_err(body_broke)? {
        if body.len() + chunk.len() > max {
            return Err(HttpError::TooLarge { url: url.to_owned(), max });
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use axum::Router;
    use axum::http::{HeaderMap, Uri};
    use axum::routing::get;
    use std::net::SocketAddr;

    async fn serve(router: Router) -> SocketAddr {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move { axum::serve(listener, router).await });
        address
    }

    fn agent(headers: &HeaderMap) -> String {
        headers.get("user-agent").unwrap().to_str().unwrap().to_owned()
    }

    #[tokio::test]
    async fn read_is_bounded_and_error_names_url_and_cause() {
        let router = Router::new()
            .route("/agent", get(|headers: HeaderMap| async move { agent(&headers) }))
            .route("/big", get(|| async { vec![b'x'; 100] }));
        let base = format!("http://{}", serve(router).await);
        let client = client(&ClientOptions::new("5.0.1")).unwrap();
        let body = get_bounded(&client, &format!("{base}/agent"), 100).await.unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), "ClusterVersionOperator/5.0.1");

        let url = format!("{base}/big");
        assert_eq!(get_bounded(&client, &url, 100).await.unwrap().len(), 100);
        assert_eq!(get_bounded(&client, &url, 99).await, Err(HttpError::TooLarge { url: url.clone(), max: 99 }));
        let url = format!("{base}/none");
        let error = get_bounded(&client, &url, 99).await.unwrap_err();
        assert!(error.is_not_found() && error.to_string().contains(&url), "{error}");

        let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
        let url = format!("http://{free}/x");
        let text = get_bounded(&client, &url, 99).await.unwrap_err().to_string();
        assert!(text.contains(&url) && text.to_lowercase().contains("connection refused"), "{text}");
        let text = get_bounded(&client, "no url", 99).await.unwrap_err().to_string();
        assert!(text.starts_with("GET no url: "), "{text}");
    }

    #[tokio::test]
    async fn proxy_is_used_unless_the_host_is_excluded() {
        let router = Router::new().fallback(|uri: Uri| async move { format!("proxied {uri}") });
        let mut options = ClientOptions::new("1");
        options.proxy.http = format!("http://{}", serve(router).await);
        options.proxy.no_proxy = "direct.invalid".to_owned();
        let client = client(&options).unwrap();
        let body = get_bounded(&client, "http://far.invalid/a", 100).await.unwrap();
        assert_eq!(String::from_utf8(body).unwrap(), "proxied http://far.invalid/a");
        assert!(get_bounded(&client, "http://direct.invalid/a", 100).await.is_err());

        let local = serve(Router::new().route("/a", get(|| async { "direct" }))).await;
        let body = get_bounded(&client, &format!("http://{local}/a"), 100).await.unwrap();
        assert_eq!(body, b"direct");
    }

    #[test]
    fn bad_setting_is_named_without_secrets() {
        let mut options = ClientOptions::new("1");
        options.proxy.https = "http://user:secret@:bad:port:".to_owned();
        let text = client(&options).unwrap_err().to_string();
        assert!(text.contains("https proxy") && !text.contains("secret"), "{text}");
        for pem in ["", "junk", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let mut options = ClientOptions::new("1");
            options.trust = Trust::Only(pem.to_owned());
            let error = client(&options).unwrap_err();
            assert!(matches!(error, HttpError::Trust(_) | HttpError::Client(_)), "{pem}: {error}");
        }
    }
}
