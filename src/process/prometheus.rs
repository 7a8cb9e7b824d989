//! Sends PromQL queries to the monitoring of the cluster: those of published risks, and those of pools of nodes.

use crate::cluster::{Kind, Objects};
use crate::error::{CAUSE, shortened, without_password};
use crate::net::http::{self, Bundle, Egress, Get, HttpError, Purpose, Roots};
use crate::promql::{self, MAX_ANSWER, QueryError};
use serde_json::Value;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::AsyncReadExt;
use url::{Host, Url};

/// For one query, with the look-up of the Service.
const TIMEOUT: Duration = Duration::from_secs(30);
/// Most bytes of the token and the CA bundle that are read.
const MAX_FILE: u64 = 1 << 20;

/// Where queries are sent, from the command line.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    /// A Prometheus API.
    pub url: String,
    /// Namespace and name of the Service whose address replaces the host of the URL; `None` to ask DNS.
    pub service: Option<(String, String)>,
    /// CAs of its certificate; read for each query, because they are rotated.
    pub ca_bundle: Option<PathBuf>,
    /// The bearer token; read for each query too.
    pub token: Option<PathBuf>,
}

/// Sends queries.
#[derive(Clone, Debug)]
pub(crate) struct Querier {
    pub source: Source,
    pub objects: Objects,
    /// Of the running release, for the user agent.
    pub version: String,
}

const KEPT_BACK: &str =
    "; the token is not sent to it, because anybody on the way could read it: give an https URL with --metrics-url";

/// Whether nobody on the way can read what is sent: the token may be that of an account that may do everything.
fn is_private(url: &Url) -> bool {
    let loopback = match url.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(_)) | None => false,
    };
    url.scheme() == "https" || loopback
}

impl Querier {
    /// Whether the query matches now.
    pub(crate) async fn query(&self, query: &str) -> Result<bool, QueryError> {
        let late = |_| {
            Err(QueryError::Source(format!(
                "no answer from {} within {} s",
                without_password(&self.source.url),
                TIMEOUT.as_secs()
            )))
        };
        let answer = tokio::time::timeout(TIMEOUT, self.send(query)).await.unwrap_or_else(late);
        // Both the query and what the server says of it may be of any length.
        let answer = answer.map_err(|error| match error {
            QueryError::Source(cause) => QueryError::Source(shortened(&cause, CAUSE).into_owned()),
            QueryError::Answer(cause) => QueryError::Answer(shortened(&cause, CAUSE).into_owned()),
        });
        if let Err(error) = &answer {
            tracing::info!(query = %shortened(query, CAUSE), ?error, "a query cannot be evaluated");
        }
        answer
    }

    async fn send(&self, query: &str) -> Result<bool, QueryError> {
        let url = promql::query_url(&self.source.url, query).map_err(QueryError::Source)?;
        let address = self.address(&url).await.map_err(QueryError::Source)?;
        let roots = match &self.source.ca_bundle {
            Some(file) if url.scheme() == "https" => {
                let pem = read(file, "the CA bundle of the metrics", "--metrics-ca-bundle-file").await?;
                Roots::Only(Bundle { pem, origin: file.display().to_string() })
            }
            _ => Roots::System,
        };
        let token = match self.source.token.as_ref().filter(|_| is_private(&url)) {
            Some(file) => Some(read(file, "the token for the metrics", "--metrics-token-file").await?),
            None => None,
        };
        // Inside the cluster no proxy is used.
        let egress = Egress { proxy: None, roots };
        let host = url.host_str().unwrap_or_default();
        let client = http::build(&Purpose {
            version: &self.version,
            egress: &egress,
            more_roots: None,
            address: address.map(|address| (host, address)),
            timeout: TIMEOUT,
        });
        let client = client.map_err(|e| QueryError::Source(e.to_string()))?;
        let token = token.as_deref().map(str::trim);
        let what = Get { accept: "application/json", token, known: None };
        let response = http::get(&client, url.as_str(), &what, MAX_ANSWER).await.map_err(|e| self.failed(e))?;
        let answer = promql::answer(&response.body).map_err(QueryError::Answer)?;
        for warning in &answer.warnings {
            tracing::info!(%query, %warning, "answer to a query");
        }
        Ok(answer.matches)
    }

    /// The URL with the query is long, and the query stands in the risk: only the server is named.
    fn failed(&self, error: HttpError) -> QueryError {
        let server = without_password(&self.source.url);
        match error {
            HttpError::Status { status, body, .. } => match promql::error_in(body.as_bytes()) {
                Some(cause) => QueryError::Answer(cause),
                None => {
                    let hint = if self.keeps_token_back(status.as_u16()) { KEPT_BACK } else { "" };
                    QueryError::Source(format!("{server} answered {status}{hint}"))
                }
            },
            HttpError::TooLarge { max, .. } => QueryError::Answer(format!("the answer is larger than {max} bytes")),
            HttpError::Transport { cause, .. } => QueryError::Source(format!("{server} cannot be reached: {cause}")),
            HttpError::Body { cause, .. } => QueryError::Source(format!("the answer of {server} broke off: {cause}")),
            other => QueryError::Source(other.to_string()),
        }
    }

    /// Whether the server may have refused because it was not sent the token.
    fn keeps_token_back(&self, status: u16) -> bool {
        let open = self.source.url.parse().is_ok_and(|url| !is_private(&url));
        [401, 403].contains(&status) && open && self.source.token.is_some()
    }

    /// The address of the Service, because the cluster's names cannot be resolved on the host network. `None` if the URL has
    /// an address, or DNS is to be used.
    async fn address(&self, url: &Url) -> Result<Option<IpAddr>, String> {
        let Some((namespace, name)) = &self.source.service else { return Ok(None) };
        if !matches!(url.host(), Some(Host::Domain(_))) {
            return Ok(None);
        }
        let kind = Kind::known("", "v1", "Service", "services", true);
        let way_out = "set --metrics-namespace and --metrics-service, or --use-dns-for-services";
        let service = self.objects.get(&kind, namespace, name).await.map_err(|e| e.to_string())?;
        let service = service.ok_or_else(|| format!("there is no Service {namespace}/{name}: {way_out}"))?;
        let address = service.pointer("/spec/clusterIP").and_then(Value::as_str).unwrap_or_default();
        match address.parse() {
            Ok(address) => Ok(Some(address)),
            Err(_) => Err(format!("the Service {namespace}/{name} has no cluster IP ({address:?}): {way_out}")),
        }
    }
}

async fn read(file: &Path, what: &str, flag: &str) -> Result<String, QueryError> {
    let fail =
        |e: std::io::Error| QueryError::Source(format!("cannot read {what}, {}: {e}; see {flag}", file.display()));
    let mut text = String::new();
    let opened = tokio::fs::File::open(file).await.map_err(fail)?;
    opened.take(MAX_FILE).read_to_string(&mut text).await.map_err(fail)?;
    Ok(text)
}

#[cfg(test)]
mod tests;
