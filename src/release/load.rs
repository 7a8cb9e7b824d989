//! Loads a payload from its files: metadata, manifests, load-time filters, and one error that names every bad file.

mod identity;
pub(crate) mod read;

use super::filter::{DEFAULT_PROFILE, Filter};
use super::metadata::{self, ReleaseMetadata};
use super::references::{self, ImageReferences};
use super::{hash, typed};
use crate::object::manifest::{Manifest, ObjectId};
use crate::release::api::Release;
use crate::version;
use jiff::Timestamp;
use read::{Documents, IS_SKIPPED, MAX_TOTAL, Read};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use read::manifests_of;

/// One file of a release folder.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Base name.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The files of both folders of a release, in any order; loading sorts them.
#[derive(Clone, Debug, Default)]
pub struct PayloadFiles {
    /// Where they were read from, for messages.
    pub place: String,
    /// `manifests/`.
    pub own: Vec<SourceFile>,
    /// `release-manifests/`, including `image-references` and `release-metadata`.
    pub release: Vec<SourceFile>,
    /// An error for each manifest file that could not be read. Loading reports them together with all other bad files.
    pub unreadable: Vec<String>,
}

/// Options of loading.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Pull spec of the release being loaded, which templates use as `.ReleaseImage`.
    pub image: String,
    /// Cluster profile, which templates use as `.ClusterProfile`.
    pub profile: String,
    /// Whether a template that cannot be evaluated fails the load, as `cvo render` needs it, instead of skipping the file.
    pub strict_templates: bool,
    /// `major` is replaced by the payload's major version and `profile` by the profile above.
    pub filter: Filter,
}

impl Default for LoadOptions {
    fn default() -> Self {
        LoadOptions {
            image: String::new(),
            profile: DEFAULT_PROFILE.to_owned(),
            strict_templates: false,
            filter: Filter::default(),
        }
    }
}

/// A loaded release.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The properties in release-metadata, and the image from the options.
    pub release: Release,
    /// When the release was built, if image-references says so.
    pub built: Option<Timestamp>,
    /// Major version of the release, by which manifests may be filtered.
    pub major: u64,
    /// Short name to pull spec.
    pub images: BTreeMap<String, String>,
    /// Versions of parts of the images, such as `kubernetes`, as image-references has them.
    pub versions: BTreeMap<String, BTreeSet<String>>,
    /// Included manifests: `manifests/` first, then `release-manifests/`, each in byte order of file names.
    pub manifests: Vec<Arc<Manifest>>,
    /// What the load-time filters exclude, with the reason.
    pub excluded: Vec<(Arc<Manifest>, String)>,
    /// `status.versionHash`: a hash of the included manifests.
    pub hash: String,
    /// Properties that are ignored, missing images, and files that are skipped because of unknown templates.
    pub warnings: Vec<String>,
}

/// Why loading failed.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    #[error(
        "{place} is not a release payload: {missing} is missing (a payload has manifests/, release-manifests/, release-manifests/release-metadata and release-manifests/image-references)"
    )]
    NotAPayload { place: String, missing: String },
    #[error("the payload in {place} cannot be used: {}", .problems.join("; "))]
    Integrity { place: String, problems: Vec<String> },
}

/// Loads a release. All files are read before it fails, so that one error names all bad ones.
pub fn load(files: PayloadFiles, options: &LoadOptions) -> Result<Payload, LoadError> {
    load_within(files, options, MAX_TOTAL)
}

/// `limit` is the number of bytes that all manifests together may take.
fn load_within(files: PayloadFiles, options: &LoadOptions, limit: usize) -> Result<Payload, LoadError> {
    let required = [metadata::FILE, references::FILE];
    let missing = required.into_iter().find(|name| files.release.iter().all(|file| file.name != **name));
    if let Some(name) = missing {
        return Err(LoadError::NotAPayload { place: files.place, missing: format!("release-manifests/{name}") });
    }
    let mut problems = Vec::new();
    let Description { metadata, references, major } = describe(&files.release, &mut problems);
    let images = references.as_ref().map(ImageReferences::images);
    let built = references.as_ref().and_then(|references| references.created);
    let versions = references.as_ref().map(ImageReferences::versions).unwrap_or_default();
    let context = Context { images: images.as_ref(), major, limit };
    let Checked { place, manifests: all, mut warnings, problems } = read_and_check(files, options, &context, problems);
    let (Some(metadata), Some(images), Some(major), true) = (metadata, images, major, problems.is_empty()) else {
        return Err(LoadError::Integrity { place, problems });
    };

    let (mut manifests, mut excluded) = (Vec::new(), Vec::new());
    for (manifest, inclusion) in all {
        match inclusion {
            Ok(()) => manifests.push(manifest),
            Err(reason) => excluded.push((manifest, reason)),
        }
    }
    let (release, more) = metadata.release(&options.image);
    warnings.extend(more);
    Ok(Payload {
        release,
        built,
        major,
        images,
        versions,
        hash: hash::of(manifests.iter().map(|m| m.raw.bytes())),
        manifests,
        excluded,
        warnings,
    })
}

impl Payload {
    /// An error that says why this required manifest is not included; `None` if it is.
    pub fn missing(&self, id: &ObjectId) -> Option<String> {
        if self.manifests.iter().any(|manifest| manifest.id == *id) {
            return None;
        }
        let skipped: Vec<&str> = self.warnings.iter().map(String::as_str).filter(|w| w.contains(IS_SKIPPED)).collect();
        let excluded = self.excluded.iter().find(|(manifest, _)| manifest.id == *id);
        let why = match excluded {
            Some((manifest, reason)) => format!("{} is excluded: {reason}", manifest.file),
            None if skipped.is_empty() => "no file contains it".to_owned(),
            None => format!("no file that could be read contains it; {}", skipped.join("; ")),
        };
        Some(format!("release {} has no {id} for this cluster: {why}", self.release.version))
    }
}

/// The manifests of a folder that may not be a complete release.
#[derive(Clone, Debug)]
pub(crate) struct PartialPayload {
    /// Empty if there is no `release-metadata` among the files.
    pub version: String,
    /// All manifests in load order, included or not.
    pub manifests: Vec<Arc<Manifest>>,
    pub warnings: Vec<String>,
}

/// Loads files that need not be a complete release: `release-metadata` and `image-references` may be missing.
pub(crate) fn partial(files: PayloadFiles, options: &LoadOptions) -> Result<PartialPayload, LoadError> {
    let mut problems = Vec::new();
    let Description { metadata, references, major } = describe(&files.release, &mut problems);
    let images = references.as_ref().map(ImageReferences::images);
    let context = Context { images: images.as_ref(), major, limit: MAX_TOTAL };
    let (manifests, warnings) = read_and_check(files, options, &context, problems).all()?;
    Ok(PartialPayload { version: metadata.map(|metadata| metadata.version).unwrap_or_default(), manifests, warnings })
}

/// All manifests of both folders in load order, included or not, and warnings. Templates use the given images.
pub(crate) fn manifests(
    files: PayloadFiles,
    options: &LoadOptions,
    images: &BTreeMap<String, String>,
) -> Result<(Vec<Arc<Manifest>>, Vec<String>), LoadError> {
    let context = Context { images: Some(images), major: None, limit: MAX_TOTAL };
    read_and_check(files, options, &context, Vec::new()).all()
}

/// What reading and checking need to know beside the options.
struct Context<'a> {
    /// `None` if the images are unknown; then none is reported as missing.
    images: Option<&'a BTreeMap<String, String>>,
    /// `None` if the version is unknown.
    major: Option<u64>,
    /// Number of bytes that all manifests together may take.
    limit: usize,
}

/// Manifests of both folders in load order, each with the reason if it is excluded.
struct Checked {
    place: String,
    manifests: Vec<(Arc<Manifest>, Result<(), String>)>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Checked {
    /// All manifests and the warnings, or the error if there is any problem.
    fn all(self) -> Result<(Vec<Arc<Manifest>>, Vec<String>), LoadError> {
        let Checked { place, manifests, warnings, problems } = self;
        if !problems.is_empty() {
            return Err(LoadError::Integrity { place, problems });
        }
        Ok((manifests.into_iter().map(|(manifest, _)| manifest).collect(), warnings))
    }
}

/// Reads all files and checks the manifests that are included.
fn read_and_check(files: PayloadFiles, options: &LoadOptions, context: &Context<'_>, problems: Vec<String>) -> Checked {
    let Documents { place, manifests: all, warnings, mut problems } =
        read::documents(files, options, context.images, context.limit, problems);
    let filter = Filter { major: context.major, profile: Some(options.profile.clone()), ..options.filter.clone() };
    let mut manifests = Vec::new();
    for Read { line, manifest, invalid } in all {
        let inclusion = filter.check(&manifest);
        // An excluded manifest is never applied, so it need not be valid; nor one that the major version may exclude.
        if inclusion.is_ok()
            && !filter.depends_on_major(&manifest)
            && let Err(cause) = invalid.map_or_else(|| typed::check(&manifest), Err)
        {
            problems.push(format!("{}/{}: line {line}: {cause}", read::folder(manifest.origin), manifest.file));
        }
        let manifest = if filter.runs_anywhere(&manifest) { without_node_affinity(&manifest) } else { manifest };
        manifests.push((manifest, inclusion));
    }
    Checked { place, manifests, warnings, problems }
}

/// The same, with pods for any node. Their affinity stays, without that to nodes, so that a rollout removes it from an object
/// that has it.
fn without_node_affinity(manifest: &Arc<Manifest>) -> Arc<Manifest> {
    let changed = manifest.object().and_then(|mut object| {
        let affinity = object.pointer_mut("/spec/template/spec/affinity");
        if let Some(affinity) = affinity.and_then(serde_json::Value::as_object_mut) {
            affinity.remove("nodeAffinity");
        }
        serde_json::to_vec(&object)
    });
    // Decoding does not fail, since the manifest was written from a value.
    changed.map_or_else(|_| manifest.clone(), |raw| Arc::new(Manifest { raw: raw.into(), ..Manifest::clone(manifest) }))
}

/// `release-metadata` and `image-references`, as far as they exist and are valid.
struct Description {
    metadata: Option<ReleaseMetadata>,
    references: Option<ImageReferences>,
    /// `None` if the files contradict each other.
    major: Option<u64>,
}

/// Reads both files and adds their errors to `problems`.
fn describe(release: &[SourceFile], problems: &mut Vec<String>) -> Description {
    let content = |name: &str| release.iter().find(|f| f.name == name).map(|f| f.bytes.as_slice());
    let metadata = content(metadata::FILE)
        .and_then(|bytes| ReleaseMetadata::parse(bytes).map_err(|e| problems.push(e.to_string())).ok());
    let references = content(references::FILE)
        .and_then(|bytes| ImageReferences::parse(bytes).map_err(|e| problems.push(e.to_string())).ok());
    let mut major = None;
    match (&metadata, &references) {
        (Some(metadata), Some(references)) if metadata.version != references.name => problems.push(format!(
            "{} is of version {:?} but {} is named {:?}; they must be of one release",
            metadata::FILE,
            metadata.version,
            references::FILE,
            references.name
        )),
        (Some(metadata), _) => match version::parse(&metadata.version) {
            Ok(version) => major = Some(version.major),
            Err(error) => problems.push(error.to_string()),
        },
        (None, _) => {}
    }
    Description { metadata, references, major }
}

#[cfg(test)]
mod tests;
