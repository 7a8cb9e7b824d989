//! From files to a payload: what it says of itself, filters, one error for all bad files (§1.7-§1.10).

mod identity;
mod read;

use super::filter::{DEFAULT_PROFILE, Filter};
use super::manifest::{Manifest, ObjectId};
use super::metadata::{self, ReleaseMetadata};
use super::references::{self, ImageReferences};
use super::{hash, typed};
use crate::api::Release;
use crate::version;
use jiff::Timestamp;
use read::{Documents, IS_SKIPPED, MAX_KEPT, Read};
use std::collections::BTreeMap;
use std::sync::Arc;

pub use read::manifests_of;

/// One file of a release folder, read by the shell.
#[derive(Clone, Debug)]
pub struct SourceFile {
    /// Base name.
    pub name: String,
    pub bytes: Vec<u8>,
}

/// The two folders of a release as bytes. Order does not matter; loading sorts bytewise.
#[derive(Clone, Debug, Default)]
pub struct PayloadFiles {
    /// Where they were read, for messages.
    pub place: String,
    /// `manifests/`.
    pub own: Vec<SourceFile>,
    /// `release-manifests/`, including `image-references` and `release-metadata`.
    pub release: Vec<SourceFile>,
    /// Manifests that could not be read, and why: loading names them with all others that are bad.
    pub unreadable: Vec<String>,
}

/// What loading needs to know beside the files.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// Pull spec of the release being loaded: `.ReleaseImage`.
    pub image: String,
    /// `.ClusterProfile`; also a filter.
    pub profile: String,
    /// A template that cannot be evaluated fails the load instead of skipping the file (`render`, §1.6 rule 2).
    pub strict_templates: bool,
    /// Its `major` and `profile` are replaced by the payload's and by the profile above.
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
    /// `version`, `url`, `channels`, `architecture` from release-metadata; `image` as loaded.
    pub release: Release,
    /// Major version of the release, which manifests may ask for (§2.5).
    pub major: u64,
    /// Versions this release may be reached from.
    pub previous: Vec<String>,
    /// Short name to pull spec (§1.4).
    pub images: BTreeMap<String, String>,
    /// Creation time of image-references.
    pub created: Option<Timestamp>,
    /// Included manifests: `manifests/` first, then `release-manifests/`, each in byte order of file names.
    pub manifests: Vec<Arc<Manifest>>,
    /// What the load-time filters dropped, with the reason.
    pub excluded: Vec<(Arc<Manifest>, String)>,
    /// `status.versionHash` (§1.10).
    pub hash: String,
    /// Files skipped because of templates this program does not know (§1.6 rule 1), with the reason.
    pub warnings: Vec<String>,
}

/// Loading failed; every bad file is named.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LoadError {
    #[error(
        "{place} is not a release payload: {missing} is missing (a payload has manifests/, release-manifests/, release-manifests/release-metadata and release-manifests/image-references)"
    )]
    NotAPayload { place: String, missing: String },
    #[error("the payload in {place} cannot be used: {}", .problems.join("; "))]
    Integrity { place: String, problems: Vec<String> },
}

/// Loads a release (§1.7-§1.10). Every file is looked at before the verdict: one error names all that are bad.
pub fn load(files: PayloadFiles, options: &LoadOptions) -> Result<Payload, LoadError> {
    load_within(files, options, MAX_KEPT)
}

/// `kept` is the most that may be kept of all manifests together, in bytes.
fn load_within(files: PayloadFiles, options: &LoadOptions, kept: usize) -> Result<Payload, LoadError> {
    let described = [metadata::FILE, references::FILE];
    let missing = described.into_iter().find(|name| files.release.iter().all(|file| file.name != **name));
    if let Some(name) = missing {
        return Err(LoadError::NotAPayload { place: files.place, missing: format!("release-manifests/{name}") });
    }
    let mut problems = Vec::new();
    let Described { metadata, references, major } = describe(&files.release, &mut problems);
    let images = references.as_ref().map(ImageReferences::images);
    let about = About { images: images.as_ref(), major, kept };
    let Judged { place, manifests: all, mut warnings, problems } = read_and_judge(files, options, &about, problems);
    let (Some(metadata), Some(references), Some(major), true) = (metadata, references, major, problems.is_empty())
    else {
        return Err(LoadError::Integrity { place, problems });
    };

    let (mut manifests, mut excluded) = (Vec::new(), Vec::new());
    for (manifest, verdict) in all {
        match verdict {
            Ok(()) => manifests.push(manifest),
            Err(reason) => excluded.push((manifest, reason)),
        }
    }
    let (release, more) = metadata.release(&options.image);
    warnings.extend(more);
    Ok(Payload {
        release,
        major,
        previous: metadata.previous,
        images: images.unwrap_or_default(),
        created: references.created,
        hash: hash::of(manifests.iter().map(|m| m.raw.bytes())),
        manifests,
        excluded,
        warnings,
    })
}

impl Payload {
    /// Why this manifest, without which the release is of no use, takes no part; nothing if it does. For errors.
    pub fn missing(&self, id: &ObjectId) -> Option<String> {
        if self.manifests.iter().any(|manifest| manifest.id == *id) {
            return None;
        }
        let skipped: Vec<&str> = self.warnings.iter().map(String::as_str).filter(|w| w.contains(IS_SKIPPED)).collect();
        let excluded = self.excluded.iter().find(|(manifest, _)| manifest.id == *id);
        let why = match excluded {
            Some((manifest, reason)) => format!("{} takes no part: {reason}", manifest.file),
            None if skipped.is_empty() => "no file holds it".to_owned(),
            None => format!("no file that could be read holds it; {}", skipped.join("; ")),
        };
        Some(format!("release {} has no {id} for this cluster: {why}", self.release.version))
    }
}

/// Manifests that are no whole release, judged as those of a release are.
#[derive(Clone, Debug)]
pub struct Loose {
    /// Empty if no `release-metadata` lies among the files.
    pub version: String,
    /// All in load order, those as well that take no part.
    pub manifests: Vec<Arc<Manifest>>,
    pub warnings: Vec<String>,
}

/// Loads files of which a release would be made: `release-metadata` and `image-references` count where they are there.
pub fn loose(files: PayloadFiles, options: &LoadOptions) -> Result<Loose, LoadError> {
    let mut problems = Vec::new();
    let Described { metadata, references, major } = describe(&files.release, &mut problems);
    let images = references.as_ref().map(ImageReferences::images);
    let about = About { images: images.as_ref(), major, kept: MAX_KEPT };
    let (manifests, warnings) = read_and_judge(files, options, &about, problems).all()?;
    Ok(Loose { version: metadata.map(|metadata| metadata.version).unwrap_or_default(), manifests, warnings })
}

/// Every manifest of both folders in load order, those as well that take no part, and warnings. For files beside a
/// release, whose images are these.
pub fn manifests(
    files: PayloadFiles,
    options: &LoadOptions,
    images: &BTreeMap<String, String>,
) -> Result<(Vec<Arc<Manifest>>, Vec<String>), LoadError> {
    let about = About { images: Some(images), major: None, kept: MAX_KEPT };
    read_and_judge(files, options, &about, Vec::new()).all()
}

/// What files are read and judged by, beside the options.
struct About<'a> {
    /// `None` if they are not known: then none is missing.
    images: Option<&'a BTreeMap<String, String>>,
    /// `None` if it is not known.
    major: Option<u64>,
    /// Most that may be kept of all manifests together, in bytes.
    kept: usize,
}

/// Manifests of both folders in load order, each with the reason if it takes no part.
struct Judged {
    place: String,
    manifests: Vec<(Arc<Manifest>, Result<(), String>)>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Judged {
    /// All manifests, and warnings; the error if anything is wrong.
    fn all(self) -> Result<(Vec<Arc<Manifest>>, Vec<String>), LoadError> {
        let Judged { place, manifests, warnings, problems } = self;
        if !problems.is_empty() {
            return Err(LoadError::Integrity { place, problems });
        }
        Ok((manifests.into_iter().map(|(manifest, _)| manifest).collect(), warnings))
    }
}

/// The one place where it is said what is wrong with a manifest, be it of a release or not.
fn read_and_judge(files: PayloadFiles, options: &LoadOptions, about: &About<'_>, problems: Vec<String>) -> Judged {
    let Documents { place, manifests: all, warnings, mut problems } =
        read::documents(files, options, about.images, about.kept, problems);
    let filter = Filter { major: about.major, profile: Some(options.profile.clone()), ..options.filter.clone() };
    let mut manifests = Vec::new();
    for Read { line, manifest, misfit } in all {
        let verdict = filter.check(&manifest);
        // What takes no part may be anything. In doubt it takes none.
        if verdict.is_ok()
            && !filter.depends_on_major(&manifest)
            && let Err(cause) = misfit.map_or_else(|| typed::check(&manifest), Err)
        {
            problems.push(format!("{}/{}: line {line}: {cause}", read::folder(manifest.origin), manifest.file));
        }
        manifests.push((manifest, verdict));
    }
    Judged { place, manifests, warnings, problems }
}

/// What the two files say that tell which release this is, as far as they are there and good.
struct Described {
    metadata: Option<ReleaseMetadata>,
    references: Option<ImageReferences>,
    /// `None` if the files contradict each other.
    major: Option<u64>,
}

/// Reads both, adding what is wrong with them to `problems`.
fn describe(release: &[SourceFile], problems: &mut Vec<String>) -> Described {
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
    Described { metadata, references, major }
}

#[cfg(test)]
mod tests;
