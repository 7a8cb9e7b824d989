//! OCI registries: pulls and pushes images and their layers. Adds to the client library what it lacks: credentials files,
//! plain HTTP for local registries, bounds, and errors that say what to do.

mod content;
pub(crate) mod copy;
pub(crate) mod credentials;
pub(crate) mod image;
pub(crate) mod layer;
pub(crate) mod layout;

use crate::error::{CAUSE, chain, shortened};
use credentials::{Credentials, CredentialsError};
use futures::StreamExt;
use image::{Image, ImageError};
use layer::{Gathered, Layer, LayerError};
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::{IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciManifest};
use oci_client::secrets::RegistryAuth;
use oci_client::{Client, Reference, RegistryOperation};
use std::fmt::Display;
use std::io::Read;
use std::net::Ipv4Addr;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::io::StreamReader;

/// A registry that accepts no connection within this time counts as unreachable.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Longest pause in the middle of a response.
const READ_TIMEOUT: Duration = Duration::from_secs(60);
/// For all of a manifest or config. A registry that sends a byte now and then would keep a command busy for ever.
const DOCUMENT_TIMEOUT: Duration = Duration::from_secs(300);
/// For all of a layer, which may be large and come by a slow line.
const LAYER_TIMEOUT: Duration = Duration::from_secs(3600);
/// Largest manifest or config that is read, in bytes: the limit of the registries themselves.
const MAX_DOCUMENT: u64 = 4 << 20;
/// The types of manifests that can be read, the preferred first.
const MANIFEST_TYPES: &str = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json, \
     application/vnd.oci.image.index.v1+json, application/vnd.docker.distribution.manifest.list.v2+json";

/// A request to a registry failed.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RegistryError {
    #[error(
        "{given:?} is not an image reference: {cause} (write REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:HEX)"
    )]
    Reference { given: String, cause: String },
    #[error("registry {registry}, repository {repository}: cannot {attempt}: {cause}{way_out}")]
    Failed { registry: String, repository: String, attempt: String, cause: String, way_out: &'static str },
    #[error("image {image}: {source}")]
    Layer { image: String, source: LayerError },
    /// Where content comes from, while it is written elsewhere.
    #[error("{0}")]
    Source(String),
    #[error(transparent)]
    Image(#[from] ImageError),
    #[error(transparent)]
    Folder(#[from] layout::LayoutError),
    #[error(transparent)]
    Credentials(#[from] CredentialsError),
}

/// How registries are reached; the same for all repositories of one command.
#[derive(Clone, Debug, Default)]
pub(crate) struct Access {
    pub credentials: Credentials,
    /// `HOST[:PORT]` of registries that speak plain HTTP. Those on this machine need not be named.
    pub plain_http: Vec<String>,
    /// Certificates (PEM) to trust in addition to those of the system.
    pub extra_ca: Vec<u8>,
}

/// One repository of one registry, with its credentials.
#[derive(Clone)]
pub(crate) struct Repository {
    client: Client,
    /// For content that is sent. The limit between two reads of the other one would begin with the first byte that is sent, and so
    /// limit the whole.
    sender: Client,
    /// Longest pause in the middle of content.
    pause: Duration,
    /// For manifests, whose size the client library does not limit.
    http: reqwest::Client,
    auth: RegistryAuth,
    scheme: &'static str,
    reference: Reference,
}

impl std::fmt::Debug for Repository {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Repository").field("reference", &self.reference.whole()).finish_non_exhaustive()
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
        self.connect(reference, READ_TIMEOUT)
    }

    fn connect(&self, reference: &Reference, pause: Duration) -> Result<Repository, RegistryError> {
        let registry = reference.resolve_registry();
        let auth = self.credentials.of(registry, reference.repository());
        let plain = is_local(registry) || self.plain_http.iter().any(|host| host == registry);
        let failed = |cause: &dyn Display| RegistryError::Failed {
            registry: registry.into(),
            repository: reference.repository().into(),
            attempt: "prepare the connection".into(),
            cause: cause.to_string(),
            way_out: "",
        };
        let mut http = reqwest::Client::builder().connect_timeout(CONNECT_TIMEOUT).read_timeout(pause);
        if !self.extra_ca.is_empty() {
            http = http.tls_certs_merge(reqwest::Certificate::from_pem_bundle(&self.extra_ca).map_err(|e| failed(&e))?);
        }
        let client = |limit| Client::try_from(self.config(plain, limit)).map_err(|e| failed(&e));
        let (client, mut sender) = (client(Some(pause))?, client(None)?);
        sender.tokens = client.tokens.clone();
        Ok(Repository {
            client,
            sender,
            pause,
            http: http.build().map_err(|e| failed(&e))?,
            auth,
            scheme: if plain { "http" } else { "https" },
            reference: reference.clone(),
        })
    }

    fn config(&self, plain: bool, read_timeout: Option<Duration>) -> ClientConfig {
        let certificate = Certificate { encoding: CertificateEncoding::Pem, data: self.extra_ca.clone() };
        let certificates = (!self.extra_ca.is_empty()).then_some(certificate);
        ClientConfig {
            protocol: if plain { ClientProtocol::Http } else { ClientProtocol::Https },
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout,
            // One upload request per blob, because not every registry accepts chunks.
            use_monolithic_push: true,
            user_agent: concat!("cvo/", env!("CARGO_PKG_VERSION")),
            extra_root_certificates: certificates.into_iter().collect(),
            ..ClientConfig::default()
        }
    }
}

/// Registries on this machine speak plain HTTP, as other image tools assume too.
fn is_local(registry: &str) -> bool {
    let host = registry.rsplit_once(':').map_or(registry, |(host, _)| host);
    matches!(host, "localhost" | "[::1]") || host.parse().is_ok_and(|address: Ipv4Addr| address.is_loopback())
}

impl Repository {
    /// Pulls manifest and config. From an image index the image for Linux and `architecture` (as Go names it) is chosen.
    pub(crate) async fn pull(&self, architecture: &str) -> Result<Image, RegistryError> {
        let name = self.reference.digest().or(self.reference.tag()).unwrap_or("latest").to_string();
        let (mut bytes, mut digest) = self.manifest(&name).await?;
        let mut manifest = self.parse_manifest(&name, &bytes)?;
        if let OciManifest::ImageIndex(index) = &manifest {
            let entry = index.manifests.iter().find(|entry| {
                let platform = entry.platform.as_ref();
                platform.is_some_and(|p| p.os.to_string() == "linux" && p.architecture.to_string() == architecture)
            });
            let missing = || {
                self.failed(
                    format!("read manifest {name}"),
                    format!("it is an index without an image for linux/{architecture}"),
                    "",
                )
            };
            let entry = entry.ok_or_else(missing)?.digest.clone();
            (bytes, digest) = self.manifest(&entry).await?;
            manifest = self.parse_manifest(&entry, &bytes)?;
        }
        let OciManifest::Image(manifest) = manifest else {
            return Err(self.failed(
                format!("read manifest {digest}"),
                "an index within an index is not supported",
                "",
            ));
        };
        let config_bytes = self.blob(&manifest.config).await?;
        let config = serde_json::from_slice(&config_bytes)
            .map_err(|e| self.failed(format!("read config {}", manifest.config.digest), e, ""))?;
        let media_type = manifest.media_type.clone().unwrap_or_else(|| OCI_IMAGE_MEDIA_TYPE.into());
        Ok(Image { digest, manifest, manifest_bytes: bytes, media_type, config, config_bytes })
    }

    /// The digest of what a tag or a digest names: of the index, where it names one.
    pub(crate) async fn resolve(&self, name: &str) -> Result<String, RegistryError> {
        Ok(self.manifest(name).await?.1)
    }

    /// The manifest's bytes and digest. `name` is a tag or a digest; a digest is checked.
    async fn manifest(&self, name: &str) -> Result<(Vec<u8>, String), RegistryError> {
        let attempt = || format!("pull manifest {name}");
        let (registry, repository) = (self.reference.resolve_registry(), self.reference.repository());
        let token = self.client.auth(&self.reference, &self.auth, RegistryOperation::Pull);
        let token = self.within(&attempt(), token).await?;
        let url = format!("{}://{registry}/v2/{repository}/manifests/{name}", self.scheme);
        let mut request = self.http.get(url).header("Accept", MANIFEST_TYPES);
        request = match (&token, &self.auth) {
            (Some(token), _) => request.bearer_auth(token),
            (None, RegistryAuth::Basic(user, password)) => request.basic_auth(user, Some(password)),
            (None, _) => request,
        };
        let response = request.send().await.map_err(|e| self.refused(attempt(), e.into()))?;
        let status = response.status();
        let mut stream = response.bytes_stream();
        let read = async {
            let mut bytes = Vec::new();
            while let Some(chunk) = stream.next().await {
                bytes.extend_from_slice(&chunk.map_err(|e| self.refused(attempt(), e.into()))?);
                if bytes.len() as u64 > MAX_DOCUMENT {
                    return Err(self.failed(attempt(), format!("it is larger than {MAX_DOCUMENT} bytes"), ""));
                }
            }
            Ok::<_, RegistryError>(bytes)
        };
        let read = timeout(DOCUMENT_TIMEOUT, read).await;
        let bytes = read.unwrap_or_else(|_| Err(self.failed(attempt(), too_slow(DOCUMENT_TIMEOUT), "")))?;
        if !status.is_success() {
            let text: String = String::from_utf8_lossy(&bytes).chars().take(300).collect();
            return Err(self.failed(attempt(), format!("{status} {}", text.trim()), way_out(Some(status.as_u16()))));
        }
        let digest = layer::sha256(&bytes);
        if name.contains(':') && name != digest {
            return Err(self.failed(attempt(), format!("the registry sent content with digest {digest}"), ""));
        }
        Ok((bytes, digest))
    }

    fn parse_manifest(&self, name: &str, bytes: &[u8]) -> Result<OciManifest, RegistryError> {
        parse_manifest(bytes).map_err(|cause| self.failed(format!("read manifest {name}"), cause, ""))
    }

    /// A small blob, checked against its digest.
    async fn blob(&self, descriptor: &OciDescriptor) -> Result<Vec<u8>, RegistryError> {
        let attempt = format!("pull config {}", descriptor.digest);
        let mut bytes = Vec::new();
        let body = self.blob_reader(descriptor, &attempt).await?;
        let read = timeout(DOCUMENT_TIMEOUT, body.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes)).await;
        let read = read.unwrap_or_else(|_| Err(too_slow(DOCUMENT_TIMEOUT)));
        read.map_err(|e| self.failed(attempt.clone(), e, ""))?;
        if bytes.len() as u64 > MAX_DOCUMENT {
            return Err(self.failed(attempt, format!("it is larger than {MAX_DOCUMENT} bytes"), ""));
        }
        Ok(bytes)
    }

    async fn blob_reader(
        &self,
        descriptor: &OciDescriptor,
        attempt: &str,
    ) -> Result<impl AsyncRead + Unpin + Send + use<>, RegistryError> {
        self.client.store_auth_if_needed(self.reference.resolve_registry(), &self.auth).await;
        // Not from the `urls` of a foreign layer: they could name any server.
        let stream = self.client.pull_blob_stream(&self.reference, descriptor.digest.as_str()).await;
        Ok(StreamReader::new(stream.map_err(|e| self.refused(attempt.into(), e))?))
    }

    /// Reads the files under `prefixes` from the image's layers, topmost first, until `enough` says so.
    pub(crate) async fn gather(
        &self,
        image: &Image,
        prefixes: &[&str],
        enough: impl Fn(&Gathered) -> bool,
    ) -> Result<Gathered, RegistryError> {
        let mut gathered = Gathered::under(prefixes);
        for descriptor in image.manifest.layers.iter().rev() {
            let attempt = format!("pull layer {}", descriptor.digest);
            let size = u64::try_from(descriptor.size);
            let size = size.map_err(|_| self.failed(attempt.clone(), "the manifest gives it a negative size", ""))?;
            let body =
                Blocking::new(self.blob_reader(descriptor, &attempt).await?, size, Instant::now() + LAYER_TIMEOUT);
            // Unpacking uses the CPU, so it must not block the threads of the runtime.
            let read = tokio::task::spawn_blocking(move || {
                let result = gathered.read_layer(body);
                (gathered, result)
            });
            let (back, result) = read.await.map_err(|e| self.failed(attempt, e, ""))?;
            gathered = back;
            let place = || format!("{}, layer {}", self.reference, descriptor.digest);
            result.map_err(|source| RegistryError::Layer { image: place(), source })?;
            if enough(&gathered) {
                break;
            }
        }
        let failed = |source| RegistryError::Layer { image: self.reference.to_string(), source };
        gathered.follow_links().map_err(failed)?;
        Ok(gathered)
    }

    /// Pushes the image under the reference's tag. `new_layers` are sent from memory; all others are copied from `base`'s
    /// repository unless they are here already. Returns the digest.
    pub(crate) async fn push(
        &self,
        image: &Image,
        new_layers: Vec<Layer>,
        base: Option<&Repository>,
    ) -> Result<String, RegistryError> {
        self.client.store_auth_if_needed(self.reference.resolve_registry(), &self.auth).await;
        let mut new_layers: std::collections::BTreeMap<String, Vec<u8>> =
            new_layers.into_iter().map(|layer| (layer.digest, layer.bytes)).collect();
        for descriptor in &image.manifest.layers {
            match (new_layers.remove(&descriptor.digest), base) {
                (Some(bytes), _) => self.upload(&descriptor.digest, bytes).await?,
                (None, Some(base)) => self.copy(descriptor, base).await?,
                (None, None) => {
                    let attempt = format!("push layer {}", descriptor.digest);
                    return Err(self.failed(attempt, "its content is neither given nor in a base image", ""));
                }
            }
        }
        self.upload(&image.manifest.config.digest, image.config_bytes.clone()).await?;
        let attempt = || format!("push manifest {}", image.digest);
        let content_type = image.media_type.parse().map_err(|e| self.failed(attempt(), e, ""))?;
        let pushed = self.client.push_manifest_raw(&self.reference, image.manifest_bytes.clone(), content_type);
        self.within(&attempt(), pushed).await?;
        Ok(image.digest.clone())
    }

    async fn has(&self, digest: &str) -> Result<bool, RegistryError> {
        self.within(&format!("look for blob {digest}"), self.client.blob_exists(&self.reference, digest)).await
    }

    async fn upload(&self, digest: &str, bytes: Vec<u8>) -> Result<(), RegistryError> {
        if self.has(digest).await? {
            return Ok(());
        }
        let size = bytes.len() as u64;
        self.send(digest, size, content::parts(bytes)).await
    }

    /// Copies a layer from another repository: mounts it if the registry can, else streams it through this machine.
    async fn copy(&self, descriptor: &OciDescriptor, from: &Repository) -> Result<(), RegistryError> {
        let digest = descriptor.digest.as_str();
        if self.has(digest).await? {
            return Ok(());
        }
        if self.mounts(descriptor, from).await {
            return Ok(());
        }
        let attempt = || format!("copy layer {digest}");
        let size = u64::try_from(descriptor.size);
        let size = size.map_err(|_| from.failed(attempt(), "the manifest gives it a negative size", ""))?;
        let (content, failure) = content::kept(from.content(digest).await?);
        self.send(digest, size, content).await.map_err(|error| content::cause_of(&failure, error))
    }

    /// Takes content over from another repository of the same registry, if the registry can do that.
    async fn mounts(&self, part: &OciDescriptor, from: &Repository) -> bool {
        self.reference.resolve_registry() == from.reference.resolve_registry()
            && self
                .within("mount", self.client.mount_blob(&self.reference, &from.reference, &part.digest))
                .await
                .is_ok()
    }

    fn failed(&self, attempt: String, cause: impl Display, way_out: &'static str) -> RegistryError {
        RegistryError::Failed {
            registry: self.reference.registry().into(),
            repository: self.reference.repository().into(),
            attempt,
            cause: cause.to_string(),
            way_out,
        }
    }

    fn refused(&self, attempt: String, error: OciDistributionError) -> RegistryError {
        let status = match &error {
            OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
                Some(401)
            }
            OciDistributionError::ServerError { code, .. } => Some(*code),
            OciDistributionError::RequestError(e) => e.status().map(|s| s.as_u16()),
            _ => Some(0),
        };
        self.failed(attempt, shortened(&chain(&error), CAUSE), way_out(status))
    }
}

/// An image or an index. The error is the cause only.
fn parse_manifest(bytes: &[u8]) -> Result<OciManifest, String> {
    serde_json::from_slice(bytes).map_err(|_| {
        format!("it is neither {OCI_IMAGE_MEDIA_TYPE} nor {IMAGE_MANIFEST_MEDIA_TYPE} nor an index of these")
    })
}

/// What to do about a response with this status; `None`: there was no response.
fn way_out(status: Option<u16>) -> &'static str {
    match status {
        None => {
            " (is the name right and the registry running? if it speaks plain HTTP, name it with --insecure-registry; if its certificate is from your own CA, give that with --registry-ca)"
        }
        Some(401 | 403) => {
            " (log in with `docker login` or `podman login`, or give the credentials file with --registry-config)"
        }
        Some(404) => " (check repository, tag and digest)",
        Some(429) => " (the registry limits the rate of requests: try again later)",
        Some(500..=599) => " (the registry itself fails: look into its log, then try again)",
        Some(_) => "",
    }
}

fn too_slow(limit: Duration) -> std::io::Error {
    let cause = format!("the registry has not sent all of it within {} s", limit.as_secs());
    std::io::Error::new(std::io::ErrorKind::TimedOut, cause)
}

/// A blocking reader of an asynchronous body; only for threads that may block. It fails where the body is longer than it should
/// be, since the client library checks the digest at the end of the body and nothing makes that come.
struct Blocking<R> {
    runtime: tokio::runtime::Handle,
    body: R,
    size: u64,
    /// Of the size.
    left: u64,
    until: Instant,
}

impl<R> Blocking<R> {
    fn new(body: R, size: u64, until: Instant) -> Self {
        Blocking { runtime: tokio::runtime::Handle::current(), body, size, left: size, until }
    }
}

impl<R: AsyncRead + Unpin> Read for Blocking<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let (body, until) = (&mut self.body, self.until);
        let read = self.runtime.block_on(async move { timeout_at(until, body.read(buffer)).await });
        let read = read.unwrap_or_else(|_| Err(too_slow(LAYER_TIMEOUT)))?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| {
            std::io::Error::other(format!("the registry sends more than the {} bytes of its manifest", self.size))
        })?;
        Ok(read)
    }
}

#[cfg(test)]
mod tests;
