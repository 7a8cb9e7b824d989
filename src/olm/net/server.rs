//! Catalogs that other servers have, read into the store.

use super::pull::{self, PullError, blocking};
use super::registry_client::{MAX_KEPT, MOST_REQUESTS, RegistryClient, RegistryError};
use super::store::{Key, Store, StoreError, Stored};
use crate::olm::catalog::fault::Rules;
use crate::olm::registry::blobs::{Blobs, TooMuch};
use crate::olm::registry::messages::{GetBundleRequest, GetPackageRequest};
use crate::olm::source::content::Content;
use futures::stream::{self, StreamExt, TryStreamExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::sync::Semaphore;
use tonic::Code;

/// Reads the catalog that the server has at present. `places`: of which one is taken while the index is made.
pub(crate) async fn read(
    store: &Arc<Store>,
    client: &RegistryClient,
    places: &Arc<Semaphore>,
) -> Result<(Content, Stored), PullError> {
    let aside = store.aside()?;
    let limit = client.times().catalog;
    let told = tokio::time::timeout(limit, told(client, &aside.files())).await;
    let digest = told.map_err(|_| RegistryError::Late { address: client.address().to_owned(), limit })??;
    let content = Content::Server { address: client.address().to_owned(), digest };
    let key = Key::of(&content);
    let reading = store.reading(&key);
    let _alone = reading.lock().await;
    // Most often it is what it was before.
    if let Some(stored) = pull::stored(store, &key).await {
        return Ok((content, stored));
    }
    let permit = places.clone().acquire_owned().await.map_err(|error| StoreError::Stopped(error.to_string()))?;
    let store = store.clone();
    let stored = blocking(move || {
        let _permit = permit;
        let folder = aside.files();
        Ok(store.keep(&key, &folder, aside, Rules::Tolerant, Vec::new())?)
    });
    Ok((content, stored.await?))
}

/// Writes what the server tells as the one file of a folder, which is made, and returns the digest of it.
pub(crate) async fn told(client: &RegistryClient, folder: &Path) -> Result<String, PullError> {
    Reading::read(client, folder).await
}

/// A catalog that is being written as a file.
struct Reading<'a> {
    client: &'a RegistryClient,
    blobs: Blobs,
    path: PathBuf,
    file: BufWriter<File>,
}

impl Reading<'_> {
    /// Returns the digest of what the server tells.
    async fn read(client: &RegistryClient, folder: &Path) -> Result<String, PullError> {
        let path = folder.join("catalog.json");
        let failed = |cause| StoreError::write(&path, cause);
        tokio::fs::create_dir(folder).await.map_err(failed)?;
        let file = BufWriter::new(File::create(&path).await.map_err(failed)?);
        let mut reading = Reading { client, blobs: Blobs::new(MAX_KEPT), path, file };
        reading.packages().await?;
        reading.bundles().await?;
        reading.heads().await?;
        while let Some(blob) = reading.blobs.next() {
            reading.write(&blob).await?;
        }
        reading.file.flush().await.map_err(|cause| StoreError::write(&reading.path, cause))?;
        Ok(reading.blobs.digest())
    }

    async fn packages(&mut self) -> Result<(), PullError> {
        let client = self.client;
        let packages = client.packages().map_ok(|package| client.one(GetPackageRequest { name: package.name }));
        let mut packages = std::pin::pin!(packages.try_buffered(MOST_REQUESTS));
        while let Some(package) = packages.try_next().await? {
            self.blobs.package(package).map_err(|TooMuch| too_much(client))?;
        }
        Ok(())
    }

    async fn bundles(&mut self) -> Result<(), PullError> {
        let client = self.client;
        let mut bundles = std::pin::pin!(client.bundles());
        while let Some(bundle) = bundles.try_next().await? {
            if let Some(blob) = self.blobs.listed(bundle).map_err(|TooMuch| too_much(client))? {
                self.write(&blob).await?;
            }
        }
        Ok(())
    }

    /// Asks for the manifests of bundles at the heads of channels: they say for people what a package is.
    async fn heads(&mut self) -> Result<(), PullError> {
        let client = self.client;
        let whole = self.blobs.take_bare().into_iter().map(|bundle| async move {
            let query = GetBundleRequest {
                pkg_name: bundle.package_name.clone(),
                channel_name: bundle.channel_name.clone(),
                csv_name: bundle.csv_name.clone(),
            };
            match client.one(query).await {
                Ok(whole) => Ok((bundle, Some(whole))),
                Err(RegistryError::Status { code: Code::NotFound | Code::Unknown, .. }) => Ok((bundle, None)),
                Err(error) => Err(error),
            }
        });
        let mut whole = std::pin::pin!(stream::iter(whole).buffered(MOST_REQUESTS));
        while let Some((bundle, whole)) = whole.try_next().await? {
            let blob = self.blobs.head(bundle, whole);
            self.write(&blob).await?;
        }
        Ok(())
    }

    async fn write(&mut self, blob: &str) -> Result<(), PullError> {
        let written = async {
            self.file.write_all(blob.as_bytes()).await?;
            self.file.write_all(b"\n").await
        };
        written.await.map_err(|cause| StoreError::write(&self.path, cause).into())
    }
}

fn too_much(client: &RegistryClient) -> PullError {
    RegistryError::TooMuchKept { address: client.address().to_owned() }.into()
}

#[cfg(test)]
mod tests;
