//! Where images are, and how they are read there.

use super::content::{Content, verified};
use super::image::Image;
use super::layer::{is_digest, no_digest};
use super::layout::{Layout, LayoutError};
use super::request::too_slow;
use super::{DOCUMENT_TIMEOUT, MAX_DOCUMENT, RegistryError, Repository};
use crate::images::platform::Platform;
use futures::TryStreamExt;
use oci_client::manifest::{IMAGE_MANIFEST_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciManifest};
use std::fmt::Display;
use std::io;
use tokio::time::timeout;

/// Largest manifest or config of an image that is read as data, in bytes. Those of real images have some 10 KB.
const MAX_DATA_DOCUMENT: u64 = 512 << 10;

/// Where images are.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Registry(Box<Repository>),
    Folder(Layout),
}

impl Place {
    /// Manifest and config of what a tag or a digest names. From an image index the image for the platform is chosen.
    pub(crate) async fn image(&self, name: &str, platform: Platform<'_>) -> Result<Image, RegistryError> {
        // An image that runs is trusted; one that anybody names is not, and a byte of it takes many in memory.
        let max = if matches!(platform, Platform::Only(_)) { MAX_DOCUMENT } else { MAX_DATA_DOCUMENT };
        let (mut bytes, mut digest) = self.small(name, max).await?;
        let named = digest.clone();
        let mut manifest = self.parse(name, &bytes)?;
        if let OciManifest::ImageIndex(index) = &manifest {
            let platforms: Vec<Option<(String, String)>> = index
                .manifests
                .iter()
                .map(|entry| entry.platform.as_ref().map(|p| (p.os.to_string(), p.architecture.to_string())))
                .collect();
            let texts =
                platforms.iter().map(|it| it.as_ref().map(|(os, architecture)| (os.as_str(), architecture.as_str())));
            let missing = || {
                let cause = match platform {
                    Platform::Only(architecture) => format!("without an image for linux/{architecture}"),
                    Platform::Preferred(_) => "without images".to_owned(),
                };
                self.failed(&format!("read manifest {name}"), format!("it is an index {cause}"))
            };
            let entry =
                platform.choose(texts).and_then(|at| index.manifests.get(at)).ok_or_else(missing)?.digest.clone();
            self.check_digest(name, &entry)?;
            (bytes, digest) = self.small(&entry, max).await?;
            manifest = self.parse(&entry, &bytes)?;
        }
        let OciManifest::Image(manifest) = manifest else {
            return Err(self.failed(&format!("read manifest {digest}"), "an index within an index is not supported"));
        };
        let config_bytes = self.config(&manifest.config, max).await?;
        let config = serde_json::from_slice(&config_bytes)
            .map_err(|e| self.failed(&format!("read config {}", manifest.config.digest), e))?;
        let media_type = manifest.media_type.clone().unwrap_or_else(|| OCI_IMAGE_MEDIA_TYPE.into());
        Ok(Image { digest, named, manifest, manifest_bytes: bytes, media_type, config, config_bytes })
    }

    /// Refuses what stands in the index `name` in place of a digest.
    pub(super) fn check_digest(&self, name: &str, digest: &str) -> Result<(), RegistryError> {
        if is_digest(digest) { Ok(()) } else { Err(self.failed(&format!("read manifest {name}"), no_digest(digest))) }
    }

    async fn small(&self, name: &str, max: u64) -> Result<(Vec<u8>, String), RegistryError> {
        let found = self.document(name).await?;
        let large = || self.failed(&format!("read manifest {name}"), format!("it is larger than {max} bytes"));
        if found.0.len() as u64 > max { Err(large()) } else { Ok(found) }
    }

    /// A manifest, by its tag or digest, and its digest.
    pub(super) async fn document(&self, name: &str) -> Result<(Vec<u8>, String), RegistryError> {
        match self {
            Place::Registry(repository) => repository.manifest(name).await,
            Place::Folder(layout) => Ok(layout.document(name).await?),
        }
    }

    pub(super) fn parse(&self, name: &str, bytes: &[u8]) -> Result<OciManifest, RegistryError> {
        let what =
            format!("it is neither {OCI_IMAGE_MEDIA_TYPE} nor {IMAGE_MANIFEST_MEDIA_TYPE} nor an index of these");
        serde_json::from_slice(bytes).map_err(|_| self.failed(&format!("read manifest {name}"), what))
    }

    async fn config(&self, descriptor: &OciDescriptor, max: u64) -> Result<Vec<u8>, RegistryError> {
        let attempt = format!("pull config {}", descriptor.digest);
        let content = self.content(descriptor).await?;
        let read = content.try_fold(Vec::new(), |mut bytes, chunk| async move {
            bytes.extend_from_slice(&chunk);
            let large = || io::Error::other(format!("it is larger than {max} bytes"));
            if bytes.len() as u64 > max { Err(large()) } else { Ok(bytes) }
        });
        let limit = match self {
            Place::Registry(repository) => repository.document_timeout,
            Place::Folder(_) => DOCUMENT_TIMEOUT,
        };
        let read = timeout(limit, read).await.unwrap_or_else(|_| Err(too_slow(limit)));
        read.map_err(|error| self.failed(&attempt, error))
    }

    /// A layer or a config. It ends with an error unless it is all of what the descriptor says.
    pub(super) async fn content(&self, part: &OciDescriptor) -> Result<Content, RegistryError> {
        match self {
            Place::Registry(repository) => repository.content(part).await,
            Place::Folder(layout) => {
                let place = self.clone();
                let attempt = format!("read {}", part.digest);
                let wrong = move |cause: String| io::Error::other(place.failed(&attempt, cause));
                Ok(verified(layout.stream(&part.digest).await?, part, wrong))
            }
        }
    }

    pub(super) fn failed(&self, attempt: &str, cause: impl Display) -> RegistryError {
        match self {
            Place::Registry(repository) => repository.failed(attempt.to_owned(), cause, ""),
            Place::Folder(layout) => {
                let path = layout.root().display().to_string();
                RegistryError::Folder(LayoutError::File { path, cause: format!("cannot {attempt}: {cause}") })
            }
        }
    }
}

/// The size that a manifest gives a part of an image. The error is the cause only.
pub(super) fn size_of(part: &OciDescriptor) -> Result<u64, &'static str> {
    u64::try_from(part.size).map_err(|_| "the manifest gives it a negative size")
}
