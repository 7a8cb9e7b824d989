//! Requests that read from a registry: with the credentials that it accepts, within a time, and with errors that say what it
//! answered.

use super::{RegistryError, Repository};
use crate::error::{CAUSE, chain, shortened};
use crate::images::credentials::Credential;
use crate::net::http::retry_after;
use futures::StreamExt;
use jiff::Timestamp;
use reqwest::header::{AUTHORIZATION, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use reqwest::{Method, Response, StatusCode};
use serde_json::Value;
use std::fmt::Display;
use std::sync::OnceLock;
use std::time::Duration;
use tokio::time::timeout;

/// Most bytes of what a registry says of an error that are read.
const MAX_ERROR: usize = 16 << 10;

/// And how long that may take: the status says most.
const ERROR_TIME: Duration = Duration::from_secs(10);

/// A registry, and how it is reached.
#[derive(Debug)]
pub(super) struct Host {
    pub http: reqwest::Client,
    /// `host[:port]`.
    registry: String,
    /// The first one that works is used from then on.
    schemes: &'static [&'static str],
    works: OnceLock<&'static str>,
}

/// What is asked of a repository.
#[derive(Clone, Debug)]
pub(super) struct Ask<'a> {
    pub method: Method,
    /// Below the repository: `manifests/latest`. Empty: the root of the registry, which says how it wants to be asked.
    pub path: String,
    pub headers: Vec<(HeaderName, &'a str)>,
    /// What it is for: `pull manifest latest`.
    pub attempt: &'a str,
}

impl Host {
    pub(super) fn new(http: reqwest::Client, registry: &str, schemes: &'static [&'static str]) -> Host {
        Host { http, registry: registry.to_owned(), schemes, works: OnceLock::new() }
    }

    /// Its URL.
    pub(super) fn base(&self) -> String {
        let scheme = self.works.get().or(self.schemes.first()).copied().unwrap_or_default();
        format!("{scheme}://{}", self.registry)
    }

    async fn send(&self, repository: &str, ask: &Ask<'_>, shown: Option<HeaderValue>) -> reqwest::Result<Response> {
        let path = if ask.path.is_empty() { String::new() } else { format!("{repository}/{}", ask.path) };
        let mut schemes = self.works.get().map_or(self.schemes, std::slice::from_ref).iter().peekable();
        loop {
            let scheme = schemes.next().copied().unwrap_or_default();
            let url = format!("{scheme}://{}/v2/{path}", self.registry);
            let mut request = self.http.request(ask.method.clone(), url);
            for (name, value) in &ask.headers {
                request = request.header(name, *value);
            }
            if let Some(shown) = &shown {
                request = request.header(AUTHORIZATION, shown);
            }
            match request.send().await {
                Err(error) if error.is_connect() && schemes.peek().is_some() => {}
                Err(error) => return Err(error),
                Ok(response) => {
                    // Somebody else may have found out at the same time.
                    let _ = self.works.set(scheme);
                    return Ok(response);
                }
            }
        }
    }
}

impl Repository {
    /// `host[:port]/path`, as the registry is reached.
    pub(super) fn place(&self) -> String {
        format!("{}/{}", self.reference.resolve_registry(), self.reference.repository())
    }

    pub(super) fn login(&self, position: usize) -> Option<&Credential> {
        self.logins.get(position)
    }

    /// The response to a request that the registry does not refuse with all of the credentials, whatever its status is.
    pub(super) async fn ask(&self, ask: &Ask<'_>) -> Result<Response, RegistryError> {
        let count = self.logins.len().max(1);
        let first = self.known.of(&self.key).login;
        let (mut refusal, mut missing) = (None, None);
        for login in (0..count).map(|turn| (first + turn) % count) {
            match self.ask_as(login, ask).await {
                Ok(response) if is_denial(response.status()) => {
                    refusal = Some(self.answered(ask.attempt.to_owned(), response).await);
                }
                // Some registries hide what these credentials do not open.
                Ok(response) if response.status() == StatusCode::NOT_FOUND => missing = missing.or(Some(response)),
                Ok(response) => {
                    self.known.remember(&self.key, |known| known.login = login);
                    return Ok(response);
                }
                Err(error) if error.is_denied() => refusal = Some(error),
                Err(error) => return Err(error),
            }
        }
        if let Some(response) = missing {
            return Ok(response);
        }
        let refusal = refusal.unwrap_or_else(|| self.failed(ask.attempt.to_owned(), "it was not asked", ""));
        Err(refusal.with_credentials(&self.logins))
    }

    async fn ask_as(&self, login: usize, ask: &Ask<'_>) -> Result<Response, RegistryError> {
        let shown = self.shown(ask.attempt, login).await?;
        let response = self.ask_once(ask, shown.clone()).await?;
        let header = match response.status() {
            StatusCode::UNAUTHORIZED => self.challenged(ask.attempt, login, &response).await?,
            // Some registries hide from strangers what they have.
            StatusCode::NOT_FOUND if shown.is_none() => self.introduced(ask.attempt, login).await?,
            _ => return Ok(response),
        };
        match header {
            Some(header) if shown.as_ref() != Some(&header) => self.ask_once(ask, Some(header)).await,
            _ => Ok(response),
        }
    }

    pub(super) async fn ask_once(&self, ask: &Ask<'_>, shown: Option<HeaderValue>) -> Result<Response, RegistryError> {
        let sent = timeout(self.document_timeout, self.host.send(self.reference.repository(), ask, shown)).await;
        let late = |_| Err(self.failed(ask.attempt.to_owned(), too_slow(self.document_timeout), ""));
        sent.map_or_else(late, |sent| sent.map_err(|error| self.unsent(ask.attempt.to_owned(), &error)))
    }

    /// A small document, of a response that must be a success.
    pub(super) async fn document(
        &self,
        attempt: &str,
        response: Response,
        max: usize,
    ) -> Result<Vec<u8>, RegistryError> {
        if !response.status().is_success() {
            return Err(self.answered(attempt.to_owned(), response).await);
        }
        if is_page(response.headers()) {
            let way_out = " (is this the address of the registry? A proxy or a login page answers)";
            return Err(self.failed(attempt.to_owned(), "the answer is an HTML page", way_out));
        }
        let read = timeout(self.document_timeout, body(response, max)).await;
        let read = read.unwrap_or_else(|_| Err(too_slow(self.document_timeout).to_string()));
        read.map_err(|cause| self.failed(attempt.to_owned(), cause, ""))
    }

    /// The error for a response that is none that is wanted.
    pub(super) async fn answered(&self, attempt: String, response: Response) -> RegistryError {
        let (status, is_page) = (response.status(), is_page(response.headers()));
        let retry_after = retry_after(response.headers(), Timestamp::now());
        let beginning = timeout(self.document_timeout.min(ERROR_TIME), beginning(response)).await.unwrap_or_default();
        let said = if is_page { "(an HTML page)".to_owned() } else { said(&beginning) };
        let wait = retry_after.map(|wait| format!("; it wants to be asked again in {} s", wait.as_secs()));
        let cause = format!("{status} {said}").trim_end().to_owned() + &wait.unwrap_or_default();
        self.of_status(attempt, cause, Some(status.as_u16()), retry_after)
    }

    /// The error for a request without a response.
    pub(super) fn unsent(&self, attempt: String, error: &reqwest::Error) -> RegistryError {
        let status = error.is_redirect().then_some(0);
        self.of_status(attempt, shortened(&chain(error), CAUSE).into_owned(), status, None)
    }

    /// `status`: of the response; 0 if something else is wrong than that there is none.
    pub(super) fn of_status(
        &self,
        attempt: String,
        cause: String,
        status: Option<u16>,
        retry_after: Option<Duration>,
    ) -> RegistryError {
        RegistryError::Failed {
            registry: self.reference.registry().into(),
            repository: self.reference.repository().into(),
            attempt: attempt.into(),
            cause,
            way_out: self.advice.way_out(status),
            status: status.filter(|status| *status != 0),
            retry_after,
        }
    }

    pub(super) fn failed(&self, attempt: String, cause: impl Display, way_out: &'static str) -> RegistryError {
        let mut error = self.of_status(attempt, cause.to_string(), Some(0), None);
        if let RegistryError::Failed { way_out: place, .. } = &mut error {
            *place = way_out;
        }
        error
    }
}

pub(super) fn is_denial(status: StatusCode) -> bool {
    matches!(status, StatusCode::UNAUTHORIZED | StatusCode::FORBIDDEN)
}

fn is_page(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
}

/// All of a body. The error is the cause only.
pub(super) async fn body(response: Response, max: usize) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut stream = response.bytes_stream();
    while let Some(chunk) = stream.next().await {
        bytes.extend_from_slice(&chunk.map_err(|error| shortened(&chain(&error), CAUSE).into_owned())?);
        if bytes.len() > max {
            return Err(format!("it is larger than {max} bytes"));
        }
    }
    Ok(bytes)
}

async fn beginning(mut response: Response) -> Vec<u8> {
    let mut bytes = Vec::new();
    while let Ok(Some(chunk)) = response.chunk().await {
        bytes.extend_from_slice(&chunk);
        if bytes.len() >= MAX_ERROR {
            break;
        }
    }
    bytes.truncate(MAX_ERROR);
    bytes
}

/// What a registry says of an error: code and message, if it has the usual form.
fn said(bytes: &[u8]) -> String {
    let usual = || -> Option<String> {
        let value: Value = serde_json::from_slice(bytes).ok()?;
        let error = value.get("errors")?.get(0)?;
        let text = |key: &str| error.get(key).and_then(Value::as_str).filter(|text| !text.is_empty());
        Some([text("code"), text("message")].into_iter().flatten().collect::<Vec<_>>().join(": "))
    };
    let text = usual().unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
    let printable: String = text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    shortened(printable.trim(), CAUSE).into_owned()
}

pub(super) fn too_slow(limit: Duration) -> std::io::Error {
    let cause = format!("the registry has not sent all of it within {} s", limit.as_secs());
    std::io::Error::new(std::io::ErrorKind::TimedOut, cause)
}
