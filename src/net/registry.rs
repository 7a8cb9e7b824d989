//! OCI registries: reads images and their layers, and pushes them. Adds to the client library what it lacks: several credentials for
//! one registry, tokens that are kept, plain HTTP for local registries, bounds, and errors that say what to do.

mod auth;
mod blocking;
mod content;
pub(crate) mod copy;
pub(crate) mod credentials;
pub(crate) mod digest;
pub(crate) mod files;
mod gather;
pub(crate) mod image;
pub(crate) mod layer;
pub(crate) mod layout;
pub(crate) mod partial;
pub(crate) mod place;
mod push;
mod request;
pub(crate) mod source;

use crate::images;
use crate::images::credentials::{Credential, Keyring};
use crate::images::platform::Platform;
use crate::net::http::{Egress, HttpError, Roots, begin};
use image::{Image, ImageError};
use layer::LayerError;
use oci_client::Reference;
use place::Place;
use request::{Ask, Host};
use reqwest::header::ACCEPT;
use reqwest::{Certificate, Method};
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A registry that accepts no connection within this time counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest pause in the middle of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// For all of a manifest or config. A registry that sends a byte now and then would keep a command busy for ever.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(300);
/// Largest manifest or config that is read, in bytes: the limit of the registries themselves.
const MAX_DOCUMENT: u64 = 4 << 20;
/// The types of manifests that can be read, the preferred first.
const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json";

const USER_AGENT: &str = concat!("cvo/", env!("CARGO_PKG_VERSION"));

/// A request to a registry failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error(
        "{given:?} is not an image reference: {cause} (write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:HEX)"
    )]
    Reference { given: String, cause: String },
    #[error("registry {registry}, repository {repository}: cannot {attempt}: {cause}{way_out}")]
    Failed {
        registry: Box<str>,
        repository: Box<str>,
        attempt: Box<str>,
        cause: String,
        way_out: &'static str,
        /// Of the response, if there was one.
        status: Option<u16>,
        /// When the registry wants to be asked again. It may say any time.
        retry_after: Option<Duration>,
    },
    #[error("image {image}: {source}")]
    Layer { image: String, source: LayerError },
    #[error("image {image}: {source}")]
    Files { image: String, source: files::FilesError },
    /// Where content comes from, while it is written elsewhere.
    #[error("{0}")]
    Source(String),
    /// One error for each place where the image could be.
    #[error("image {image}: it cannot be read anywhere: {}", listed(attempts))]
    Everywhere { image: String, attempts: Vec<RegistryError> },
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Folder(#[from] layout::LayoutError),
    #[error(transparent)]
    Credentials(#[from] credentials::FileError),
    #[error(transparent)]
    Policy(#[from] images::policy::PolicyError),
    #[error(transparent)]
    NoPlace(#[from] images::mirrors::NoPlace),
}

fn listed(attempts: &[RegistryError]) -> String {
    attempts.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl RegistryError {
    /// The status of the response that the error is about; if several places were asked, of the last one that has answered.
    pub(crate) fn status(&self) -> Option<u16> {
        match self {
            RegistryError::Failed { status, .. } => *status,
            RegistryError::Everywhere { attempts, .. } => attempts.iter().rev().find_map(RegistryError::status),
            _ => None,
        }
    }

    /// When the registry wants to be asked again, if it said so.
    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            RegistryError::Failed { retry_after, .. } => *retry_after,
            RegistryError::Everywhere { attempts, .. } => attempts.iter().filter_map(RegistryError::retry_after).max(),
            _ => None,
        }
    }

    /// Whether credentials are missing or wrong.
    pub(crate) fn is_denied(&self) -> bool {
        matches!(self.status(), Some(401 | 403))
    }

    /// Whether it is the place that fails, so that another one may have the image.
    fn is_of_place(&self) -> bool {
        matches!(
            self,
            RegistryError::Failed { .. }
                | RegistryError::Source(_)
                | RegistryError::Folder(_)
                | RegistryError::Policy(_)
        )
    }

    /// Says which credentials were refused.
    fn with_credentials(mut self, logins: &[Credential]) -> RegistryError {
        if let RegistryError::Failed { cause, .. } = &mut self {
            let mut origins: Vec<&str> = logins.iter().map(|known| known.origin.as_str()).collect();
            origins.dedup();
            *cause += &match origins.as_slice() {
                [] => ", without credentials".to_owned(),
                origins => format!(", with the credentials of {}", origins.join(", ")),
            };
        }
        self
    }
}

/// Who reads the errors, and so what they can do about them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Advice {
    /// Who has typed a command.
    #[default]
    Command,
    /// Who looks after a cluster.
    Cluster,
}

/// How registries are reached; the same for all repositories of one command or process. Clones share connections and tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub credentials: Keyring,
    /// `HOST[:PORT]` of registries that speak plain HTTP. Those on this machine need not be named.
    pub plain_http: Vec<String>,
    /// Certificates (PEM) to trust in addition to those of the system.
    pub extra_ca: Vec<u8>,
    /// The same for single registries, by `HOST[:PORT]`.
    pub registry_ca: BTreeMap<String, Vec<u8>>,
    /// Proxy and CAs of the cluster; without them those of the environment count.
    pub egress: Option<Egress>,
    pub advice: Advice,
    pub known: auth::Known,
}

/// One repository of one registry, with its credentials.
#[derive(Clone)]
pub(crate) struct Repository {
    reference: Reference,
    host: Arc<Host>,
    /// The first that the registry accepts is used.
    logins: Vec<Credential>,
    known: auth::Known,
    /// Under which it is known.
    key: String,
    advice: Advice,
    /// Longest pause in the middle of content.
    pause: Duration,
    /// For all of a document.
    document_timeout: Duration,
    plain: bool,
    extra_ca: Vec<u8>,
    writers: Arc<OnceLock<push::Writers>>,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository").field("reference", &self.reference.whole()).finish_non_exhaustive()
    }
}

/// The architecture of this machine as images name it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        "powerpc64" => "ppc64le",
        other => other,
    }
}

/// Parses an image reference; `latest` is assumed when there is neither tag nor digest.
pub(crate) fn parse_reference(given: &str) -> Result<Reference, RegistryError> {
    given
        .parse()
        .map_err(|e: oci_client::ParseError| RegistryError::Reference { given: given.into(), cause: e.to_string() })
}

/// `REGISTRY/REPOSITORY@sha256:…`.
pub(crate) fn pull_spec(reference: &Reference, digest: &str) -> String {
    format!("{}/{}@{digest}", reference.registry(), reference.repository())
}

impl Access {
    /// The repository of the reference. Sends nothing yet.
    pub(crate) fn repository(&self, reference: &Reference) -> Result<Repository, RegistryError> {
        self.connect(reference, READ_TIMEOUT, false)
    }

    /// `insecure`: the registry need not prove who it is, and may speak plain HTTP.
    fn connect(&self, reference: &Reference, pause: Duration, insecure: bool) -> Result<Repository, RegistryError> {
        let registry = reference.resolve_registry();
        let plain = is_local(registry) || self.plain_http.iter().any(|host| host == registry);
        let schemes: &[&str] = match (plain, insecure) {
            (true, _) => &["http"],
            (false, true) => &["https", "http"],
            (false, false) => &["https"],
        };
        // A certificate may end without a line break.
        let extra_ca = [self.extra_ca.as_slice(), self.registry_ca.get(registry).map_or(&[], Vec::as_slice)];
        let extra_ca = extra_ca.into_iter().filter(|pem| !pem.is_empty()).collect::<Vec<_>>().join(b"\n".as_slice());
        let make = || Ok::<_, String>(Host::new(self.http(&extra_ca, pause, insecure)?, registry, schemes));
        let way = layer::sha256(format!("{:?} {}", self.egress, String::from_utf8_lossy(&extra_ca)).as_bytes());
        let host = self.known.host(&format!("{registry} {insecure} {} {way}", pause.as_millis()), make);
        let host = host.map_err(|cause| RegistryError::Failed {
            registry: registry.into(),
            repository: reference.repository().into(),
            attempt: "prepare the connection".into(),
            cause,
            way_out: "",
            status: None,
            retry_after: None,
        })?;
        let logins = self.credentials.of(reference.registry(), reference.repository());
        let logins: Vec<Credential> = logins.into_iter().cloned().collect();
        Ok(Repository {
            reference: reference.clone(),
            host,
            key: auth::key(registry, reference.repository(), &logins),
            logins,
            known: self.known.clone(),
            advice: self.advice,
            pause,
            document_timeout: DOCUMENT_TIMEOUT,
            plain,
            extra_ca,
            writers: Arc::default(),
        })
    }

    fn http(&self, extra_ca: &[u8], pause: Duration, insecure: bool) -> Result<reqwest::Client, String> {
        let text = |error: HttpError| error.to_string();
        let extra = match extra_ca {
            [] => Vec::new(),
            pem => Certificate::from_pem_bundle(pem).map_err(|e| crate::error::chain(&e))?,
        };
        // A layer is to come as it is stored, whatever a server thinks that could be done to it on the way.
        let builder = begin(self.egress.as_ref()).map_err(text)?.read_timeout(pause).gzip(false).user_agent(USER_AGENT);
        let builder = match self.egress.as_ref().map(|egress| &egress.roots) {
            Some(Roots::Only(bundle)) => {
                builder.tls_certs_only(bundle.certificates().map_err(text)?.into_iter().chain(extra))
            }
            Some(Roots::System) | None if extra.is_empty() => builder,
            Some(Roots::System) | None => builder.tls_certs_merge(extra),
        };
        builder.tls_danger_accept_invalid_certs(insecure).build().map_err(|e| crate::error::chain(&e))
    }
}

/// Registries on this machine speak plain HTTP, as other image tools assume too.
fn is_local(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    matches!(host, "localhost" | "[::1]") || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
}

impl Repository {
    /// Pulls manifest and config of what is to run. From an image index the image for Linux and `architecture` (as Go names it) is
    /// chosen.
    pub(crate) async fn pull(&self, architecture: &str) -> Result<Image, RegistryError> {
        Place::Registry(Box::new(self.clone())).image(self.name(), Platform::Only(architecture)).await
    }

    /// The digest of what a tag or a digest names: of the index, where it names one.
    pub(crate) async fn resolve(&self, name: &str) -> Result<String, RegistryError> {
        Ok(self.manifest(name).await?.1)
    }

    /// The digest, else the tag.
    fn name(&self) -> &str {
        self.reference.digest().or(self.reference.tag()).unwrap_or("latest")
    }

    /// The manifest's bytes and digest. `name` is a tag or a digest; a digest is checked.
    async fn manifest(&self, name: &str) -> Result<(Vec<u8>, String), RegistryError> {
        let attempt = format!("pull manifest {name}");
        let headers = vec![(ACCEPT, MANIFEST_TYPES)];
        let ask = Ask { method: Method::GET, path: format!("manifests/{name}"), headers, attempt: &attempt };
        let response = self.ask(&ask).await?;
        let bytes = self.document(&attempt, response, MAX_DOCUMENT as usize).await?;
        let digest = layer::sha256(&bytes);
        if name.contains(':') && name != digest {
            return Err(self.failed(attempt, format!("the registry sent content with digest {digest}"), ""));
        }
        Ok((bytes, digest))
    }
}

impl Advice {
    /// What to do about a response with this status; `None`: there was no response.
    fn way_out(self, status: Option<u16>) -> &'static str {
        match (status, self) {
            (None, Advice::Command) => {
                " (is the name right and the registry running? if it speaks plain HTTP, name it with --insecure-registry; if its certificate is from your own CA, give that with --registry-ca)"
            }
            (None, Advice::Cluster) => {
                " (is the name right and the registry running? can pods reach it, by the proxy of the cluster if there is one? a CA of your own belongs into additionalTrustedCA of the cluster's image configuration, a registry with plain HTTP into its registrySources.insecureRegistries)"
            }
            (Some(401 | 403), Advice::Command) => {
                " (log in with `docker login` or `podman login`, or give the credentials file with --registry-config)"
            }
            (Some(401 | 403), Advice::Cluster) => {
                " (name a pull secret with credentials for it, or add them to the pull secret of the cluster)"
            }
            (Some(404), _) => " (check repository, tag and digest)",
            (Some(429), _) => " (the registry limits the rate of requests: try again later)",
            (Some(500..=599), _) => " (the registry itself fails: look into its log, then try again)",
            (Some(_), _) => "",
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
