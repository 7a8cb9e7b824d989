//! The HTTP client, and bounded reads.
//!
//! A client does not depend on the environment: its proxy variables have no effect.

use crate::error::chain;
use reqwest::{Client, StatusCode};
use std::time::Duration;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// For a whole request, including the body of the response.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Why a client could not be built or a URL could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum HttpError {
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
    pub(crate) fn is_not_found(&self) -> bool {
        matches!(self, HttpError::Status { status, .. } if *status == StatusCode::NOT_FOUND)
    }
}

/// Builds a client. `version` goes into its user agent.
pub(crate) fn client(version: &str) -> Result<Client, HttpError> {
    // reqwest panics when no provider is installed. main installs the same one; only the first call has an effect.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    Client::builder()
        .user_agent(format!("ClusterVersionOperator/{version}"))
        .connect_timeout(CONNECT_TIMEOUT)
        .timeout(TIMEOUT)
        .no_proxy()
        .build()
        .map_err(|e| HttpError::Client(chain(&e)))
}

/// Reads at most `max` bytes (after decompression) from `url`. Redirects are followed; a status that is not 2xx is an
/// error.
pub(crate) async fn get_bounded(client: &Client, url: &str, max: usize) -> Result<Vec<u8>, HttpError> {
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
mod tests;
