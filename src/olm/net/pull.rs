//! Catalogs in images and ConfigMaps, read into the store.

use super::registry_client;
use super::store::{Key, Store, StoreError, Stored};
use crate::images::platform::Platform;
use crate::images::reference::Reference;
use crate::net::registry::files::{FilesError, Limits, Slowest};
use crate::net::registry::source::{Opened, Sources};
use crate::net::registry::{RegistryError, architecture};
use crate::olm::bundle::config_map::{self, ConfigMapError};
use crate::olm::catalog::fault::Rules;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::OwnedSemaphorePermit;

/// The label of an image that says where its catalog is, and that of one with a database in its place.
pub(crate) const CONFIGS_LABEL: &str = "operators.operatorframework.io.index.configs.v1";
const DATABASE_LABEL: &str = "operators.operatorframework.io.index.database.v1";
/// Where catalogs are in images that do not say so.
pub(crate) const CONFIGS: &str = "/configs";
/// How much is read of the image of a catalog. The largest known ones have some 500 MB of files.
const LIMITS: Limits = Limits {
    files: 100_000,
    bytes: 3 << 30,
    file_bytes: 1 << 30,
    packed: 4 << 30,
    unpacked: 16 << 30,
    window: 16 << 20,
    time: Duration::from_secs(1800),
    // One that is slower keeps those of others waiting.
    slowest: Some(Slowest { rate: 32 << 10, grace: Duration::from_secs(30) }),
};

/// A catalog cannot be read.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PullError {
    #[error("{0}")]
    Registry(RegistryError),
    #[error(
        "image {image} has no folder {folder} with a catalog: build it with one (label {CONFIGS_LABEL}), or name its folder in \
         spec.grpcPodConfig.extractContent.catalogDir"
    )]
    NoCatalog { image: String, folder: String },
    #[error(
        "image {image} has its catalog in a database, {path}, which only its own program can read: use an image of the same \
         catalog as files (`opm migrate` makes one)"
    )]
    Database { image: String, path: String },
    #[error("{0}")]
    ConfigMap(#[from] ConfigMapError),
    #[error("{0}")]
    Server(#[from] registry_client::RegistryError),
    #[error("{0}")]
    Store(#[from] StoreError),
}

/// Where the disk is full matters to nobody, and the way out is the same.
impl From<RegistryError> for PullError {
    fn from(error: RegistryError) -> PullError {
        match error {
            RegistryError::Files { source: FilesError::Disk { path, cause }, .. } => {
                StoreError::write(Path::new(&path), cause).into()
            }
            other => PullError::Registry(other),
        }
    }
}

impl PullError {
    /// Whether only a server in the image itself can read the catalog.
    pub(crate) fn only_serves(&self) -> bool {
        matches!(self, PullError::Database { .. })
    }

    /// Whether it will be the same as long as the content is.
    pub(crate) fn is_of_content(&self) -> bool {
        match self {
            PullError::NoCatalog { .. } | PullError::Database { .. } | PullError::ConfigMap(_) => true,
            PullError::Store(error) => error.is_of_content(),
            PullError::Registry(RegistryError::Files { source, .. }) => matches!(
                source,
                FilesError::Overlay(_)
                    | FilesError::Packed { .. }
                    | FilesError::Unpacked { .. }
                    | FilesError::DiffId { .. }
            ),
            PullError::Registry(_) | PullError::Server(_) => false,
        }
    }
}

/// The image that the name stands for now, or, if a digest is given, that one. It is looked for where the name leads to, and then
/// where the digest does, because a cluster may have other mirrors for each.
pub(crate) async fn open(sources: &Sources, image: &Reference, digest: Option<&str>) -> Result<Opened, RegistryError> {
    let platform = Platform::Preferred(architecture());
    let Some(digest) = digest.filter(|_| image.digest.is_none()) else {
        return sources.open(image, platform).await;
    };
    let by_name = sources.open(image, platform).await;
    match by_name {
        Ok(found) if found.image.named == digest => Ok(found),
        by_name => {
            let exact = Reference { digest: Some(digest.to_owned()), ..image.clone() };
            let found = sources.open(&exact, platform).await;
            // Whatever is wrong with the name is wrong with both.
            found.map_err(|error| by_name.err().unwrap_or(error))
        }
    }
}

/// Reads the catalog in an image. `directory`: where it is; if empty, the image says so. `place` is waited for when all of it is on
/// disk, and given back once nothing of it is read any more, also if nobody waits.
pub(crate) async fn image(
    store: &Arc<Store>,
    opened: &Opened,
    directory: &str,
    key: Key,
    place: impl Future<Output = Result<OwnedSemaphorePermit, StoreError>>,
) -> Result<Stored, PullError> {
    let aside = store.aside()?;
    let catalog = unpacked(opened, directory, &aside.files()).await?;
    let (store, permit) = (store.clone(), place.await?);
    blocking(move || {
        let _permit = permit;
        Ok(store.keep(&key, &catalog, aside, Rules::Files, Vec::new())?)
    })
    .await
}

/// Writes the files of the catalog in an image below a folder that does not exist yet, and returns where its root is. `directory`:
/// as for [`image`].
pub(crate) async fn unpacked(opened: &Opened, directory: &str, to: &Path) -> Result<PathBuf, PullError> {
    let found = &opened.image;
    let name = || format!("{} ({})", opened.name(), found.named);
    let folder = match (directory, found.label(CONFIGS_LABEL), found.label(DATABASE_LABEL)) {
        ("", Some(folder), _) if !folder.is_empty() => folder,
        ("", _, Some(path)) => return Err(PullError::Database { image: name(), path: path.to_owned() }),
        ("", _, None) => CONFIGS,
        (folder, ..) => folder,
    };
    let summary = opened.write(&[folder], to, &LIMITS).await?;
    let inside = summary.found.first();
    let inside = inside.ok_or_else(|| PullError::NoCatalog { image: name(), folder: folder.to_owned() })?;
    Ok(to.join(inside))
}

/// Reads the catalog in the data of a ConfigMap.
pub(crate) async fn config_map(
    store: &Arc<Store>,
    data: BTreeMap<String, String>,
    key: Key,
    permit: OwnedSemaphorePermit,
) -> Result<Stored, PullError> {
    let store = store.clone();
    blocking(move || {
        let _permit = permit;
        let blobs = config_map::read(&data)?;
        let findings = blobs.findings.iter().map(|it| format!("{}: {}", it.location(), it.message)).collect();
        let aside = store.aside()?;
        let (folder, file) = (aside.files(), aside.files().join("catalog.json"));
        let write = |path: &Path| fs::create_dir(&folder).and_then(|()| fs::write(path, blobs.json.as_bytes()));
        write(&file).map_err(|cause| StoreError::write(&file, cause))?;
        Ok(store.keep(&key, &folder, aside, Rules::Tolerant, findings)?)
    })
    .await
}

/// What is on disk of this content.
pub(crate) async fn stored(store: &Arc<Store>, key: &Key) -> Option<Stored> {
    let (store, key) = (store.clone(), key.clone());
    tokio::task::spawn_blocking(move || store.get(&key)).await.ok().flatten()
}

pub(super) async fn blocking(
    work: impl FnOnce() -> Result<Stored, PullError> + Send + 'static,
) -> Result<Stored, PullError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error| Err(StoreError::Stopped(error.to_string()).into()))
}

#[cfg(test)]
mod tests;
