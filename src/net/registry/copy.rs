//! Copies images between registries and folders, by digest and with everything they consist of. What is at the target already is
//! not sent again, so a copy that was interrupted goes on where it was.

use super::content::{cause_of, kept, of_layer, parts};
use super::image::Image;
use super::layer::{Layer, LayerBytes};
use super::layout::{Entry, Layout};
use super::place::Place;
use super::{RegistryError, Repository};
use futures::{StreamExt, TryStreamExt, stream};
use oci_client::Reference;
use oci_client::manifest::{OCI_IMAGE_INDEX_MEDIA_TYPE, OCI_IMAGE_MEDIA_TYPE, OciDescriptor, OciManifest};
use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use tokio::sync::OwnedMutexGuard;

/// Layers that are copied at once.
const LAYERS: usize = 4;

/// Holds back others that would copy the same content: images of a release have layers in common, registries refuse content that two
/// send at the same time, and who comes second finds it there.
async fn alone(digest: &str) -> OwnedMutexGuard<()> {
    static BUSY: LazyLock<Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<()>>>>> = LazyLock::new(Mutex::default);
    let one = BUSY.lock().unwrap_or_else(PoisonError::into_inner).entry(digest.to_owned()).or_default().clone();
    one.lock_owned().await
}

/// Is told of bytes: first of those that an image consists of, then of those that are there.
pub(crate) trait Progress: Send + Sync {
    fn expect(&self, bytes: u64);
    /// `copied`: they were not there before.
    fn done(&self, bytes: u64, copied: bool);
}

/// What an image is called at the target.
#[derive(Clone, Debug)]
pub(crate) struct Name {
    /// The tag.
    pub tag: String,
    /// For the index of a folder.
    pub annotations: BTreeMap<String, String>,
}

/// Copies an image, which is named by tag or digest where it comes from, and returns its digest. From an index all images are
/// copied.
pub(crate) async fn copy(
    from: &Place,
    to: &Place,
    image: &str,
    name: Option<&Name>,
    progress: &Arc<dyn Progress>,
) -> Result<String, RegistryError> {
    let (bytes, digest) = from.document(image).await?;
    let media_type = match from.parse(image, &bytes)? {
        OciManifest::ImageIndex(index) => {
            for entry in &index.manifests {
                from.check_digest(image, &entry.digest)?;
                Box::pin(copy(from, to, &entry.digest, None, progress)).await?;
            }
            index.media_type.unwrap_or_else(|| OCI_IMAGE_INDEX_MEDIA_TYPE.to_owned())
        }
        OciManifest::Image(manifest) => {
            let parts: Vec<OciDescriptor> = manifest.layers.into_iter().chain([manifest.config]).collect();
            progress.expect(parts.iter().map(size).sum());
            let copies = stream::iter(parts).map(|part| async move { to.take(from, &part, progress).await });
            copies.buffer_unordered(LAYERS).try_collect::<()>().await?;
            manifest.media_type.unwrap_or_else(|| OCI_IMAGE_MEDIA_TYPE.to_owned())
        }
    };
    to.finish(bytes, &digest, &media_type, name).await?;
    Ok(digest)
}

fn size(descriptor: &OciDescriptor) -> u64 {
    u64::try_from(descriptor.size).unwrap_or(0)
}

impl Place {
    async fn has(&self, part: &OciDescriptor) -> Result<bool, RegistryError> {
        match self {
            Place::Registry(repository) => repository.has(&part.digest).await,
            Place::Folder(layout) => Ok(layout.has(part).await?),
        }
    }

    /// Copies a layer or a config from there, unless it is here already.
    async fn take(
        &self,
        from: &Place,
        part: &OciDescriptor,
        progress: &Arc<dyn Progress>,
    ) -> Result<(), RegistryError> {
        let _alone = alone(&part.digest).await;
        if self.has(part).await? {
            progress.done(size(part), false);
            return Ok(());
        }
        if let (Place::Registry(to), Place::Registry(from)) = (self, from)
            && to.mounts(part, from).await
        {
            progress.done(size(part), true);
            return Ok(());
        }
        let told = progress.clone();
        let content = from.content(part).await?.inspect_ok(move |chunk| told.done(chunk.len() as u64, true)).boxed();
        let (content, failure) = kept(content);
        let taken = match self {
            Place::Folder(layout) => layout.write(part, content).await.map_err(RegistryError::from),
            Place::Registry(repository) => repository.send(&part.digest, size(part), content).await,
        };
        taken.map_err(|error| cause_of(&failure, error))
    }

    /// Makes the image known, when everything it consists of is here.
    async fn finish(
        &self,
        manifest: Vec<u8>,
        digest: &str,
        media_type: &str,
        name: Option<&Name>,
    ) -> Result<(), RegistryError> {
        match self {
            Place::Folder(layout) => {
                let (tag, annotations) =
                    name.map(|name| (name.tag.clone(), name.annotations.clone())).unwrap_or_default();
                let entry = Entry { name: tag, digest: digest.to_owned(), annotations };
                Ok(layout.add(entry, media_type, manifest.into(), name.is_some()).await?)
            }
            Place::Registry(repository) => {
                let at = &repository.reference;
                let (registry, path) = (at.registry().to_owned(), at.repository().to_owned());
                let reference = match name {
                    Some(name) => Reference::with_tag(registry, path, name.tag.clone()),
                    None => Reference::with_digest(registry, path, digest.to_owned()),
                };
                let attempt = || format!("push manifest {digest}");
                let content_type = media_type.parse().map_err(|e| repository.failed(attempt(), e, ""))?;
                let pushed = repository.writers().await?.client.push_manifest_raw(&reference, manifest, content_type);
                repository.within(&attempt(), pushed).await.map(drop)
            }
        }
    }
}

/// Nobody is told.
#[derive(Debug)]
struct Silent;

impl Progress for Silent {
    fn expect(&self, _bytes: u64) {}

    fn done(&self, _bytes: u64, _copied: bool) {}
}

/// Writes an image that was built into a folder, under a name. Layers that are not among the new ones are copied from where the base
/// image is.
pub(crate) async fn keep(
    image: &Image,
    new_layers: Vec<Layer>,
    base: Option<&Repository>,
    (folder, name): (&Layout, &str),
) -> Result<(), RegistryError> {
    let (to, silent): (_, Arc<dyn Progress>) = (Place::Folder(folder.clone()), Arc::new(Silent));
    let mut new_layers: BTreeMap<String, LayerBytes> =
        new_layers.into_iter().map(|layer| (layer.digest, layer.bytes)).collect();
    let of_base = base.map(|base| Place::Registry(Box::new(base.clone())));
    for part in &image.manifest.layers {
        match (new_layers.remove(&part.digest), &of_base) {
            (Some(bytes), _) => {
                let content = of_layer(bytes).await;
                let content = content.map_err(|cause| to.failed(&format!("read layer {}", part.digest), cause))?;
                folder.write(part, content).await?;
            }
            (None, Some(base)) => to.take(base, part, &silent).await?,
            (None, None) => {
                let cause = "its content is neither given nor in a base image";
                return Err(to.failed(&format!("write layer {}", part.digest), cause));
            }
        }
    }
    folder.write(&image.manifest.config, parts(image.config_bytes.clone())).await?;
    let name = Name { tag: name.to_owned(), annotations: BTreeMap::new() };
    to.finish(image.manifest_bytes.clone(), &image.digest, &image.media_type, Some(&name)).await
}

#[cfg(test)]
mod tests;
