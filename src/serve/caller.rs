//! Who asks for a page, and the answer to those who may not read it.

use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use futures::future::BoxFuture;
use rustls::pki_types::CertificateDer;
use std::net::IpAddr;
use std::sync::Arc;

/// What is known of the client of a request. Nothing of it has been checked yet, except that the client has the key of the
/// first certificate.
#[derive(Clone)]
pub(crate) struct Caller {
    pub address: IpAddr,
    /// The client's certificate and those that sign it, if it has sent one.
    pub chain: Vec<CertificateDer<'static>>,
    /// A bearer token.
    pub token: Option<String>,
}

/// The header for the token of a request that the API server passes on, with the value of `Authorization`.
pub(crate) const FORWARDED: &str = "x-forwarded-authorization";

/// Decides whether a caller may read the metrics.
pub(crate) type Guard = Arc<dyn Fn(Caller) -> BoxFuture<'static, Result<(), Refusal>> + Send + Sync>;

/// Why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    pub status: StatusCode,
    /// For the caller: it contains nothing that only the cluster should know.
    pub cause: String,
}

impl Refusal {
    /// The caller has not said, or not proven, who it is.
    pub(crate) fn unauthorized(cause: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::UNAUTHORIZED, cause: cause.into() }
    }

    /// It is known who the caller is.
    pub(crate) fn forbidden(cause: impl Into<String>) -> Refusal {
        Refusal { status: StatusCode::FORBIDDEN, cause: cause.into() }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let text = self.cause + "\n";
        if self.status == StatusCode::UNAUTHORIZED {
            return (self.status, [(header::WWW_AUTHENTICATE, "Bearer")], text).into_response();
        }
        (self.status, text).into_response()
    }
}

impl Caller {
    /// The same connection with the token of this request. What asks through the API server cannot have it in `Authorization`,
    /// which the API server keeps for itself.
    pub(super) fn with_token_of(mut self, headers: &HeaderMap) -> Caller {
        let value = headers.get(header::AUTHORIZATION).or_else(|| headers.get(FORWARDED));
        let value = value.and_then(|value| value.to_str().ok());
        let token = value.and_then(|value| value.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer")).map(|(_, token)| token.trim());
        self.token = token.filter(|token| !token.is_empty()).map(ToOwned::to_owned);
        self
    }
}

// No token is ever logged.
impl std::fmt::Debug for Caller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (certificates, token) = (self.chain.len(), self.token.is_some());
        f.debug_struct("Caller")
            .field("address", &self.address)
            .field("certificates", &certificates)
            .field("token", &token)
            .finish()
    }
}
