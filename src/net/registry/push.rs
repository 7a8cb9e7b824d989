//! Pushes images, through the client library.

use super::image::Image;
use super::layer::{Layer, LayerBytes};
use super::place::size_of;
use super::request::too_slow;
use super::{CONNECT_TIMEOUT, RegistryError, Repository, USER_AGENT, content, credentials};
use crate::error::{CAUSE, chain, shortened};
use oci_client::Client;
use oci_client::client::{Certificate, CertificateEncoding, ClientConfig, ClientProtocol};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OciDescriptor;
use std::time::Duration;
use tokio::time::timeout;

/// The clients of the library.
pub(super) struct Writers {
    pub client: Client,
    /// For content that is sent. The limit between two reads of the other one would begin with the first byte that is sent, and so
    /// limit the whole.
    pub sender: Client,
}

impl Repository {
    /// The clients, made at the first time.
    pub(super) async fn writers(&self) -> Result<&Writers, RegistryError> {
        if self.writers.get().is_none() {
            let client = |limit| Client::try_from(self.config(limit));
            let both = client(Some(self.pause)).and_then(|one| Ok((one, client(None)?)));
            let (client, mut sender) = both.map_err(|e| self.refused("prepare the connection".into(), e))?;
            sender.tokens = client.tokens.clone();
            let auth = credentials::first(&self.logins);
            for client in [&client, &sender] {
                client.store_auth_if_needed(self.reference.resolve_registry(), &auth).await;
            }
            // Whoever was first has made the same.
            let _ = self.writers.set(Writers { client, sender });
        }
        self.writers.get().ok_or_else(|| self.failed("prepare the connection".into(), "it is gone", ""))
    }

    fn config(&self, read_timeout: Option<Duration>) -> ClientConfig {
        let certificate = Certificate { encoding: CertificateEncoding::Pem, data: self.extra_ca.clone() };
        let certificates = (!self.extra_ca.is_empty()).then_some(certificate);
        ClientConfig {
            protocol: if self.plain { ClientProtocol::Http } else { ClientProtocol::Https },
            connect_timeout: Some(CONNECT_TIMEOUT),
            read_timeout,
            // One upload request per blob, because not every registry accepts chunks.
            use_monolithic_push: true,
            user_agent: USER_AGENT,
            extra_root_certificates: certificates.into_iter().collect(),
            ..ClientConfig::default()
        }
    }

    /// Pushes the image under the reference's tag. `new_layers` are sent from here; all others are copied from `base`'s
    /// repository unless they are here already. Returns the digest.
    pub(crate) async fn push(
        &self,
        image: &Image,
        new_layers: Vec<Layer>,
        base: Option<&Repository>,
    ) -> Result<String, RegistryError> {
        let mut new_layers: std::collections::BTreeMap<String, LayerBytes> =
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
        self.upload(&image.manifest.config.digest, image.config_bytes.clone().into()).await?;
        let attempt = || format!("push manifest {}", image.digest);
        let content_type = image.media_type.parse().map_err(|e| self.failed(attempt(), e, ""))?;
        let pushed =
            self.writers().await?.client.push_manifest_raw(&self.reference, image.manifest_bytes.clone(), content_type);
        self.within(&attempt(), pushed).await?;
        Ok(image.digest.clone())
    }

    pub(super) async fn has(&self, digest: &str) -> Result<bool, RegistryError> {
        let client = &self.writers().await?.client;
        self.within(&format!("look for blob {digest}"), client.blob_exists(&self.reference, digest)).await
    }

    async fn upload(&self, digest: &str, bytes: LayerBytes) -> Result<(), RegistryError> {
        if self.has(digest).await? {
            return Ok(());
        }
        let size = bytes.len();
        let content = content::of_layer(bytes).await;
        let content = content.map_err(|cause| self.failed(format!("read layer {digest}"), cause, ""))?;
        self.send(digest, size, content).await
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
        let size = size_of(descriptor).map_err(|cause| from.failed(attempt(), cause, ""))?;
        let (content, failure) = content::kept(from.content(descriptor).await?);
        self.send(digest, size, content).await.map_err(|error| content::cause_of(&failure, error))
    }

    /// Takes content over from another repository of the same registry, if the registry can do that.
    pub(super) async fn mounts(&self, part: &OciDescriptor, from: &Repository) -> bool {
        let Ok(writers) = self.writers().await else { return false };
        let mount = writers.client.mount_blob(&self.reference, &from.reference, &part.digest);
        self.reference.resolve_registry() == from.reference.resolve_registry()
            && self.within("mount", mount).await.is_ok()
    }

    /// The client library reads tokens, and what a registry says of an error, whole and by a client of its own, so that their
    /// length cannot be limited: their time is.
    pub(super) async fn within<T>(
        &self,
        attempt: &str,
        request: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, RegistryError> {
        match timeout(self.document_timeout, request).await {
            Ok(done) => done.map_err(|error| self.refused(attempt.to_owned(), error)),
            Err(_) => Err(self.failed(attempt.to_owned(), too_slow(self.document_timeout), "")),
        }
    }

    pub(super) fn refused(&self, attempt: String, error: OciDistributionError) -> RegistryError {
        let status = match &error {
            OciDistributionError::UnauthorizedError { .. } | OciDistributionError::AuthenticationFailure(_) => {
                Some(401)
            }
            OciDistributionError::ServerError { code, .. } => Some(*code),
            OciDistributionError::RequestError(e) => e.status().map(|s| s.as_u16()),
            _ => Some(0),
        };
        self.of_status(attempt, shortened(&chain(&error), CAUSE).into_owned(), status, None)
    }
}
