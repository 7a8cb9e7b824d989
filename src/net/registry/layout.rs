//! Images in a folder: an OCI image layout, which other tools read too. What is in it is complete: content appears under its
//! digest when all of it was written, and an image in the index when all of its content is there. So an interrupted copy is
//! simply begun again.

use super::MAX_DOCUMENT;
use super::partial::{ABANDONED, Partial, remove_abandoned};
use axum::body::Bytes;
use futures::stream::BoxStream;
use futures::{StreamExt, TryStreamExt};
use oci_client::manifest::OciDescriptor;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Mutex;
use tokio_util::io::ReaderStream;

/// The annotation with the name of an image.
const NAME: &str = "org.opencontainers.image.ref.name";
/// The file that says that a folder is a layout.
const MARK: &str = "oci-layout";
const INDEX: &str = "index.json";

/// A folder with images cannot be used.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LayoutError {
    #[error("{path}: {cause}")]
    File { path: String, cause: String },
    #[error("{0} is not a digest like sha256:HEX")]
    Digest(String),
    #[error("{place} has the digest {found} and not {expected}, or more than {size} bytes")]
    Content { place: String, expected: String, found: String, size: u64 },
}

/// A folder with images.
#[derive(Clone, Debug)]
pub(crate) struct Layout {
    root: PathBuf,
    /// Held while the index is changed.
    index: Arc<Mutex<()>>,
}

/// An image in the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    /// In place of a tag.
    pub name: String,
    pub digest: String,
    pub annotations: BTreeMap<String, String>,
}

impl Layout {
    /// Whether there is one in the folder.
    pub(crate) fn is_at(root: &Path) -> bool {
        root.join(MARK).is_file()
    }

    pub(crate) fn open(root: &Path) -> Layout {
        Layout { root: root.to_owned(), index: Arc::default() }
    }

    /// Makes the folder and what belongs into it, unless it is there.
    pub(crate) async fn create(root: &Path) -> Result<Layout, LayoutError> {
        let layout = Layout::open(root);
        let blobs = root.join("blobs/sha256");
        tokio::fs::create_dir_all(&blobs).await.map_err(of(&blobs))?;
        remove_abandoned(&blobs, ABANDONED);
        if !Layout::is_at(root) {
            layout.replace(&root.join(MARK), br#"{"imageLayoutVersion":"1.0.0"}"#).await?;
        }
        Ok(layout)
    }

    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    fn blob(&self, digest: &str) -> Result<PathBuf, LayoutError> {
        let hex = digest.strip_prefix("sha256:").filter(|_| super::layer::is_digest(digest));
        let hex = hex.ok_or_else(|| LayoutError::Digest(digest.chars().take(100).collect()))?;
        Ok(self.root.join("blobs/sha256").join(hex))
    }

    /// Whether the content is there, which is checked when it is written.
    pub(crate) async fn has(&self, descriptor: &OciDescriptor) -> Result<bool, LayoutError> {
        let found = tokio::fs::metadata(self.blob(&descriptor.digest)?).await;
        Ok(found.is_ok_and(|found| i64::try_from(found.len()) == Ok(descriptor.size)))
    }

    /// A manifest: by its name in the index, or by its digest.
    pub(crate) async fn document(&self, name: &str) -> Result<(Vec<u8>, String), LayoutError> {
        // The name of an image may be a whole reference, with colons.
        let digest = if super::layer::is_digest(name) {
            name.to_owned()
        } else {
            let entry = self.entries().await?.into_iter().find(|entry| entry.name == name);
            let missing = || of(&self.root.join(INDEX))(io::Error::other(format!("there is no image {name}")));
            entry.ok_or_else(missing)?.digest
        };
        let path = self.blob(&digest)?;
        let bytes = read(&path).await?;
        let found = super::layer::sha256(&bytes);
        if found != digest {
            let (place, size) = (path.display().to_string(), MAX_DOCUMENT);
            return Err(LayoutError::Content { place, expected: digest, found, size });
        }
        Ok((bytes, digest))
    }

    pub(crate) async fn stream(&self, digest: &str) -> Result<BoxStream<'static, io::Result<Bytes>>, LayoutError> {
        let path = self.blob(digest)?;
        let file = tokio::fs::File::open(&path).await.map_err(of(&path))?;
        let failed = move |error| io::Error::other(of(&path)(error));
        Ok(ReaderStream::with_capacity(file, 256 << 10).map_err(failed).boxed())
    }

    /// Writes content under its digest. What is not as the descriptor says leaves nothing behind.
    pub(crate) async fn write(
        &self,
        descriptor: &OciDescriptor,
        content: BoxStream<'static, io::Result<Bytes>>,
    ) -> Result<(), LayoutError> {
        let path = self.blob(&descriptor.digest)?;
        let temporary = Partial::of(&path);
        write_checked(&temporary.0, descriptor, content).await?;
        tokio::fs::rename(&temporary.0, &path).await.map_err(of(&path))
    }

    /// The images of the index.
    pub(crate) async fn entries(&self) -> Result<Vec<Entry>, LayoutError> {
        let text = |value: &Value, member: &str| value.get(member).and_then(Value::as_str).map(ToOwned::to_owned);
        let entry = |image: &Value| {
            let annotations = image.get("annotations").and_then(Value::as_object).into_iter().flatten();
            let mut annotations: BTreeMap<String, String> =
                annotations.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect();
            Some(Entry { name: annotations.remove(NAME)?, digest: text(image, "digest")?, annotations })
        };
        Ok(self.images().await?.iter().filter_map(entry).collect())
    }

    async fn images(&self) -> Result<Vec<Value>, LayoutError> {
        let path = self.root.join(INDEX);
        if !path.exists() {
            return Ok(Vec::new());
        }
        let index: Value = serde_json::from_slice(&read(&path).await?).map_err(|e| of(&path)(e.into()))?;
        Ok(index.get("manifests").and_then(Value::as_array).cloned().unwrap_or_default())
    }

    /// Puts an image into the index, whose content is there; another one of this name is replaced.
    pub(crate) async fn add(
        &self,
        entry: Entry,
        media_type: &str,
        manifest: Bytes,
        top: bool,
    ) -> Result<(), LayoutError> {
        let descriptor = OciDescriptor {
            digest: entry.digest.clone(),
            size: i64::try_from(manifest.len()).unwrap_or(i64::MAX),
            ..OciDescriptor::default()
        };
        let size = manifest.len();
        self.write(&descriptor, futures::stream::once(async move { Ok(manifest) }).boxed()).await?;
        if !top {
            return Ok(());
        }
        let _changing = self.index.lock().await;
        let mut images = self.images().await?;
        images.retain(|image| image.pointer("/annotations").and_then(|a| a.get(NAME)) != Some(&json!(entry.name)));
        let mut annotations = entry.annotations;
        annotations.insert(NAME.to_owned(), entry.name);
        images.push(json!({"mediaType": media_type, "digest": entry.digest, "size": size, "annotations": annotations}));
        let index = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": images,
        });
        self.replace(&self.root.join(INDEX), index.to_string().as_bytes()).await
    }

    async fn replace(&self, path: &Path, content: &[u8]) -> Result<(), LayoutError> {
        let temporary = Partial::of(path);
        tokio::fs::write(&temporary.0, content).await.map_err(of(&temporary.0))?;
        tokio::fs::rename(&temporary.0, path).await.map_err(of(path))
    }
}

fn of(path: &Path) -> impl FnOnce(io::Error) -> LayoutError + use<> {
    let path = path.display().to_string();
    move |error| LayoutError::File { path, cause: error.to_string() }
}

/// A small file.
async fn read(path: &Path) -> Result<Vec<u8>, LayoutError> {
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await.map_err(of(path))?;
    file.take(MAX_DOCUMENT + 1).read_to_end(&mut bytes).await.map_err(of(path))?;
    if bytes.len() as u64 > MAX_DOCUMENT {
        return Err(of(path)(io::Error::other(format!("it is larger than {MAX_DOCUMENT} bytes"))));
    }
    Ok(bytes)
}

async fn write_checked(
    path: &Path,
    descriptor: &OciDescriptor,
    mut content: BoxStream<'static, io::Result<Bytes>>,
) -> Result<(), LayoutError> {
    // Not on another thread: it would create the file even after this has been given up and the file removed.
    let file = std::fs::File::create(path).map_err(of(path))?;
    let mut file = tokio::fs::File::from_std(file);
    let (mut hash, mut left) = (Sha256::new(), u64::try_from(descriptor.size).unwrap_or(0));
    let content_error = |found: String| LayoutError::Content {
        place: path.display().to_string(),
        expected: descriptor.digest.clone(),
        found,
        size: u64::try_from(descriptor.size).unwrap_or(0),
    };
    while let Some(chunk) = content.next().await {
        let chunk = chunk.map_err(of(path))?;
        left =
            left.checked_sub(chunk.len() as u64).ok_or_else(|| content_error("none, because it is longer".into()))?;
        hash.update(&chunk);
        file.write_all(&chunk).await.map_err(of(path))?;
    }
    file.sync_all().await.map_err(of(path))?;
    let found = format!("sha256:{}", hex::encode(hash.finalize()));
    if found == descriptor.digest && left == 0 { Ok(()) } else { Err(content_error(found)) }
}

#[cfg(test)]
mod tests;
