//! A release in a folder: every manifest in load order, and whether it is included.

use super::filters::{self, FilterArgs};
use crate::object::manifest::Manifest;
use crate::object::manifest::run_level;
use crate::release::work::payload_dir;
use crate::release::{LoadError, LoadOptions, PayloadFiles, SourceFile, check_inclusion, load};
use crate::version;
use anyhow::bail;
use serde::Serialize;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// The component of the daemon's manifests, for folders whose layout does not show which they are.
const OWN_COMPONENT: &str = "cluster-version-operator";
/// A placeholder for a release image that is not given: a valid pull spec that names no real image.
pub(crate) const NO_IMAGE: &str = "release.invalid/image";

const WHAT: &str = "the root of a release (with manifests/ and release-manifests/, as cvo release extract writes it) \
                    or a folder of .yaml, .yml and .json files";

/// The content of a folder.
#[derive(Debug)]
pub(crate) struct Folder {
    /// Empty if it is not known.
    pub version: String,
    /// In load order: the daemon's first, each folder in byte order of file names.
    pub documents: Vec<Document>,
    /// Not errors, but worth knowing.
    pub warnings: Vec<String>,
}

/// One manifest, and why it is excluded, if it is.
#[derive(Debug)]
pub(crate) struct Document {
    pub manifest: Arc<Manifest>,
    pub excluded: Option<String>,
}

impl Folder {
    /// The included manifests, in load order.
    pub(crate) fn included(&self) -> Vec<Arc<Manifest>> {
        self.documents.iter().filter(|d| d.excluded.is_none()).map(|d| d.manifest.clone()).collect()
    }
}

/// A manifest in JSON output: its place, and the identity of its object. Keys are written in this order.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Entry<'a> {
    file: &'a str,
    index: usize,
    api_version: &'a str,
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl<'a> Entry<'a> {
    pub(crate) fn of(manifest: &'a Manifest) -> Entry<'a> {
        Entry {
            file: &manifest.file,
            index: manifest.index_in_file,
            api_version: &manifest.api_version,
            kind: &manifest.id.kind,
            namespace: &manifest.id.namespace,
            name: &manifest.id.name,
        }
    }
}

/// Reads a payload root (`manifests/` and `release-manifests/`), or a plain folder of manifests.
///
/// A plain folder is read like the release that would be made from it: files of the component `cluster-version-operator`
/// come first, and templates in them are filled in. Its major version and its images are known only if it contains
/// `release-metadata` and `image-references`.
pub(crate) fn open(dir: &Path, image: &str, filters: &FilterArgs) -> anyhow::Result<Folder> {
    let found = fs::metadata(dir).map_err(|error| error.to_string());
    if let Err(why) = found.and_then(|found| if found.is_dir() { Ok(()) } else { Err("it is not a folder".to_owned()) })
    {
        bail!("cannot read {}: {why}. DIR must be {WHAT}", dir.display());
    }
    let options = LoadOptions {
        image: image.to_owned(),
        profile: filters.profile.clone(),
        strict_templates: false,
        filter: filters.filter(None),
    };
    if payload_dir::is_payload_root(dir) {
        release(payload_dir::read(dir)?, &options, filters)
    } else {
        plain(payload_dir::read_plain(dir)?, &options, filters)
    }
}

fn release(files: PayloadFiles, options: &LoadOptions, filters: &FilterArgs) -> anyhow::Result<Folder> {
    let payload = load::load(files, options)?;
    let excluded = payload.excluded.into_iter().map(|(manifest, _)| manifest);
    let mut manifests: Vec<Arc<Manifest>> = payload.manifests.into_iter().chain(excluded).collect();
    manifests.sort_by(|a, b| place(a).cmp(&place(b)));
    let documents = judge(manifests, &payload.release.version, filters)?;
    Ok(Folder {
        version: payload.release.version,
        warnings: warnings(payload.warnings, &documents, filters),
        documents,
    })
}

/// The warnings of loading and those about the filters.
fn warnings(mut warnings: Vec<String>, documents: &[Document], filters: &FilterArgs) -> Vec<String> {
    let manifests = || documents.iter().map(|document| &*document.manifest);
    warnings.extend(filters.unknown_capabilities(manifests()));
    if documents.iter().all(|document| document.excluded.is_some()) {
        warnings.push(filters::nothing_included(&filters.profile, manifests()));
    }
    warnings
}

/// `version`: empty if it is not known.
fn judge(manifests: Vec<Arc<Manifest>>, version: &str, filters: &FilterArgs) -> anyhow::Result<Vec<Document>> {
    let major = if version.is_empty() { None } else { Some(version::parse(version)?.major) };
    let filter = filters.apply_filter(major);
    let judged = |manifest: Arc<Manifest>| Document { excluded: check_inclusion(&manifest, &filter).err(), manifest };
    Ok(manifests.into_iter().map(judged).collect())
}

/// The sort key of load order.
fn place(manifest: &Manifest) -> (crate::object::manifest::Origin, &[u8], usize) {
    (manifest.origin, manifest.file.as_bytes(), manifest.index_in_file)
}

fn plain(mut files: PayloadFiles, options: &LoadOptions, filters: &FilterArgs) -> anyhow::Result<Folder> {
    let is_own = |file: &SourceFile| run_level(&file.name).is_some_and(|(_, component)| component == OWN_COMPONENT);
    (files.own, files.release) = std::mem::take(&mut files.release).into_iter().partition(is_own);
    let place = files.place.clone();
    let load::PartialPayload { version, manifests, mut warnings } = load::partial(files, options).map_err(flat)?;
    anyhow::ensure!(!manifests.is_empty() || !warnings.is_empty(), "{place} contains no manifest: give {WHAT}");
    warnings.iter_mut().for_each(without_folder);
    let documents = judge(manifests, &version, filters)?;
    Ok(Folder { version, warnings: self::warnings(warnings, &documents, filters), documents })
}

/// Removes the folders `manifests/` and `release-manifests/` that loading puts before file names: a plain folder has none.
pub(crate) fn flat(error: LoadError) -> LoadError {
    match error {
        LoadError::Integrity { place, mut problems } => {
            problems.iter_mut().for_each(without_folder);
            LoadError::Integrity { place, problems }
        }
        other => other,
    }
}

fn without_folder(message: &mut String) {
    for folder in ["manifests/", "release-manifests/"] {
        if let Some(rest) = message.strip_prefix(folder) {
            *message = rest.to_owned();
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
