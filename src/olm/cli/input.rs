//! What commands are given: catalogs and bundles, in folders and in images.

use crate::cli::image_files::in_folder;
use crate::cli::release::ImageSource;
use crate::images::platform::Platform;
use crate::net::registry::layout::Layout;
use crate::net::registry::source::{Opened, Sources, parse};
use crate::olm::bundle::unpackaged::Unpackaged;
use crate::olm::bundle::{Contents, read, unpackaged};
use crate::olm::net::bundle::{self, files, is_bundle, labels};
use crate::olm::net::pull;
use anyhow::{Context, bail};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Where bundles have their objects.
const MANIFESTS: &str = "manifests";
/// What the name of a file ends with that lists the channels of a package.
const PACKAGE_FILES: [&str; 3] = ["package.yaml", "package.yml", "package.json"];
/// Folders below each other in which such a file is looked for.
const MAX_DEPTH: usize = 8;

/// Something that was given.
#[derive(Debug)]
pub(crate) enum Input {
    Catalog(Catalog),
    /// With the image that it is from; empty for a folder.
    Bundle(Box<Contents>, String),
    /// A folder of the format before bundles.
    Unpackaged(Unpackaged),
}

/// A catalog in a folder, which is removed again if it was made of an image.
#[derive(Debug)]
pub(crate) struct Catalog {
    pub folder: PathBuf,
    _unpacked: Option<TempDir>,
}

/// Finds out what is given, and takes it out of its image.
pub(crate) async fn open(given: &str, source: &ImageSource) -> anyhow::Result<Input> {
    let path = Path::new(given);
    if path.is_dir() && Layout::is_at(path) {
        let (place, name) = in_folder(path, None).await?;
        let opened = Opened::at(place, &name, Platform::Preferred(&source.architecture)).await?;
        return image(&opened).await;
    }
    if path.exists() {
        return folder(path);
    }
    // Whatever has a dot or a colon in its first part names a registry.
    let registry = given.split_once('/').map_or("", |(registry, _)| registry);
    if !registry.contains(['.', ':']) && registry != "localhost" || given.starts_with(['.', '/']) {
        bail!("there is no folder {given}, and an image is named as REGISTRY/REPOSITORY:TAG");
    }
    let sources = Sources { access: source.registry.access()?, ..Sources::default() };
    image(&sources.open(&parse(given)?, Platform::Preferred(&source.architecture)).await?).await
}

/// The same where only a catalog will do.
pub(crate) async fn catalog(given: &str, source: &ImageSource) -> anyhow::Result<Catalog> {
    match open(given, source).await? {
        Input::Catalog(catalog) => Ok(catalog),
        Input::Bundle(..) => bail!("{given} is a bundle: give a catalog, a folder such as /configs of its image"),
        Input::Unpackaged(_) => {
            bail!("{given} has a package.yaml: make a catalog of it first, as with cvo catalog render {given}")
        }
    }
}

/// The same of an image that is open.
pub(crate) async fn catalog_of(opened: &Opened) -> anyhow::Result<Catalog> {
    match image(opened).await? {
        Input::Catalog(catalog) => Ok(catalog),
        Input::Bundle(..) | Input::Unpackaged(_) => bail!("{} is no catalog", opened.name()),
    }
}

/// The same where only a bundle will do, with the image that it is from.
pub(crate) async fn bundle(given: &str, source: &ImageSource) -> anyhow::Result<(Contents, String)> {
    match open(given, source).await? {
        Input::Bundle(contents, image) => Ok((*contents, image)),
        Input::Catalog(_) | Input::Unpackaged(_) => {
            bail!(
                "{given} is no bundle: it has no manifests/ with a ClusterServiceVersion and no metadata/annotations.yaml"
            )
        }
    }
}

async fn image(opened: &Opened) -> anyhow::Result<Input> {
    let unpacked = tempfile::tempdir().context("cannot make a folder for the files of the image (see TMPDIR)")?;
    let to = unpacked.path().join("files");
    if is_bundle(&labels(opened)) {
        return Ok(Input::Bundle(Box::new(bundle::image(opened, &to).await?), opened.name().to_owned()));
    }
    let folder = pull::unpacked(opened, "", &to).await?;
    Ok(Input::Catalog(Catalog { folder, _unpacked: Some(unpacked) }))
}

fn folder(path: &Path) -> anyhow::Result<Input> {
    if path.join(MANIFESTS).is_dir() {
        return Ok(Input::Bundle(Box::new(read::read(&files(path)?, &BTreeMap::new())?), String::new()));
    }
    if path.is_dir() && has_package_file(path, MAX_DEPTH) {
        return Ok(Input::Unpackaged(unpackaged::read_folder(&files(path)?)?));
    }
    Ok(Input::Catalog(Catalog { folder: path.to_owned(), _unpacked: None }))
}

/// Whether there is a file that has such a name, and not the keys of a blob.
fn has_package_file(folder: &Path, depth: usize) -> bool {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).any(|path| {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let named = PACKAGE_FILES.iter().any(|end| name.ends_with(end));
        let has = |text: String| text.contains("packageName") && !text.contains("olm.package");
        match path.is_dir() {
            true => depth > 0 && has_package_file(&path, depth - 1),
            false => named && fs::read_to_string(&path).is_ok_and(has),
        }
    })
}
