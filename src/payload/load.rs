//! From files to a payload: order, templates, decoding, identity, filters, one error for all bad files (§1.7-§1.10).

use super::filter::{DEFAULT_PROFILE, Filter};
use super::manifest::{Manifest, ObjectId, Origin};
use super::metadata::{self, ReleaseMetadata};
use super::references::{self, ImageReferences};
use super::template::{self, Variables};
use super::{hash, typed, yaml};
use crate::api::Release;
use crate::version;
use jiff::Timestamp;
use serde_json::{Map, Value};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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

/// In the warning about a file whose templates are not known here.
const IS_SKIPPED: &str = " is skipped: ";

/// Loads a release (§1.7-§1.10). Every file is looked at before the verdict: one error names all that are bad.
pub fn load(files: PayloadFiles, options: &LoadOptions) -> Result<Payload, LoadError> {
    let mut problems = Vec::new();
    let described = describe(&files.place, &files.release, &mut problems)?;
    let images = described.as_ref().map(|d| d.references.images()).unwrap_or_default();
    let Documents { place, manifests: all, mut warnings, mut problems } = documents(files, options, &images, problems);
    let Some(Described { metadata, references, major }) = described else {
        return Err(LoadError::Integrity { place, problems });
    };

    let filter = Filter { major: Some(major), profile: Some(options.profile.clone()), ..options.filter.clone() };
    let (mut manifests, mut excluded) = (Vec::new(), Vec::new());
    for Read { line, manifest, misfit } in all {
        match filter.check(&manifest) {
            Ok(()) => {
                // What takes no part may be anything.
                if let Err(cause) = misfit.map_or_else(|| typed::check(&manifest), Err) {
                    problems.push(problem(&manifest, line, &cause));
                }
                manifests.push(manifest);
            }
            Err(reason) => excluded.push((manifest, reason)),
        }
    }
    if !problems.is_empty() {
        return Err(LoadError::Integrity { place, problems });
    }
    let (release, more) = metadata.release(&options.image);
    warnings.extend(more);
    Ok(Payload {
        release,
        major,
        previous: metadata.previous,
        images,
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

/// Every manifest of both folders in load order, before any filter, and warnings. For files that are no whole release:
/// `release-metadata` and `image-references` need not be among them.
pub fn manifests(
    files: PayloadFiles,
    options: &LoadOptions,
    images: &BTreeMap<String, String>,
) -> Result<(Vec<Arc<Manifest>>, Vec<String>), LoadError> {
    let Documents { place, manifests: all, warnings, mut problems } = documents(files, options, images, Vec::new());
    let mut manifests = Vec::new();
    for Read { line, manifest, misfit } in all {
        problems.extend(misfit.map(|cause| problem(&manifest, line, &cause)));
        manifests.push(manifest);
    }
    if problems.is_empty() { Ok((manifests, warnings)) } else { Err(LoadError::Integrity { place, problems }) }
}

/// What reading both folders gave.
struct Documents {
    place: String,
    manifests: Vec<Read>,
    warnings: Vec<String>,
    problems: Vec<String>,
}

fn documents(
    files: PayloadFiles,
    options: &LoadOptions,
    images: &BTreeMap<String, String>,
    mut problems: Vec<String>,
) -> Documents {
    let PayloadFiles { place, own, release, unreadable } = files;
    problems.extend(unreadable);
    let variables = Variables { release_image: &options.image, cluster_profile: &options.profile, images };
    let mut reader = Reader { variables, strict: options.strict_templates, warnings: Vec::new(), problems };
    let mut manifests = reader.folder(Origin::Own, own);
    manifests.extend(reader.folder(Origin::Release, release));
    let Reader { warnings, problems, .. } = reader;
    Documents { place, manifests, warnings, problems }
}

/// The two files that say which release this is.
struct Described {
    metadata: ReleaseMetadata,
    references: ImageReferences,
    major: u64,
}

/// Reads both; `None` after adding what is wrong with them to `problems`.
fn describe(place: &str, release: &[SourceFile], problems: &mut Vec<String>) -> Result<Option<Described>, LoadError> {
    let file = |name: &str| {
        release.iter().find(|f| f.name == name).ok_or_else(|| LoadError::NotAPayload {
            place: place.to_owned(),
            missing: format!("release-manifests/{name}"),
        })
    };
    let (metadata, references) = (file(metadata::FILE)?, file(references::FILE)?);
    let metadata = ReleaseMetadata::parse(&metadata.bytes).map_err(|e| problems.push(e.to_string())).ok();
    let references = ImageReferences::parse(&references.bytes).map_err(|e| problems.push(e.to_string())).ok();
    let Some((metadata, references)) = metadata.zip(references) else { return Ok(None) };
    if metadata.version != references.name {
        problems.push(format!(
            "{} is of version {:?} but {} is named {:?}; they must be of one release",
            metadata::FILE,
            metadata.version,
            references::FILE,
            references.name
        ));
        return Ok(None);
    }
    match version::parse(&metadata.version) {
        Ok(version) => Ok(Some(Described { metadata, references, major: version.major })),
        Err(error) => {
            problems.push(error.to_string());
            Ok(None)
        }
    }
}

/// Goes through files and remembers what was wrong.
struct Reader<'a> {
    variables: Variables<'a>,
    strict: bool,
    warnings: Vec<String>,
    problems: Vec<String>,
}

impl Reader<'_> {
    /// All manifests of one folder, in byte order of file names; other suffixes are left alone (§1.7).
    fn folder(&mut self, origin: Origin, mut files: Vec<SourceFile>) -> Vec<Read> {
        files.retain(|f| [".yaml", ".yml", ".json"].iter().any(|suffix| f.name.ends_with(suffix)));
        files.sort_by(|a, b| a.name.as_bytes().cmp(b.name.as_bytes()));
        let mut manifests = Vec::new();
        for file in files {
            let bytes = match origin {
                Origin::Own => match self.templated(&file) {
                    Some(text) => text,
                    None => continue,
                },
                Origin::Release => file.bytes,
            };
            match documents_of(origin, &file.name, &bytes) {
                Ok(found) => manifests.extend(found),
                Err(problem) => self.problems.push(format!("{}/{}: {problem}", folder(origin), file.name)),
            }
        }
        manifests
    }

    /// The file after its templates; `None` if it is to be skipped. A release made later may use what this program
    /// does not know; its own orchestrator will load the file (§1.6 rule 1).
    fn templated(&mut self, file: &SourceFile) -> Option<Vec<u8>> {
        let Ok(text) = std::str::from_utf8(&file.bytes) else {
            // The decoder names the line.
            return Some(file.bytes.clone());
        };
        let place = format!("{}/{}", folder(Origin::Own), file.name);
        let rendered = match template::render(text, &self.variables) {
            Ok(rendered) => rendered,
            Err(error) if self.strict => {
                self.problems.push(format!("{place}: {error}"));
                return None;
            }
            Err(error) => {
                self.warnings.push(format!("{place}{IS_SKIPPED}{error}"));
                return None;
            }
        };
        let said = if self.strict { &mut self.problems } else { &mut self.warnings };
        for image in &rendered.missing_images {
            said.push(format!("{place}: the release has no image {image:?}, the empty string stands for it"));
        }
        Some(rendered.text.into_bytes())
    }
}

/// What is wrong with a manifest that begins on this line of its file.
fn problem(manifest: &Manifest, line: usize, cause: &str) -> String {
    format!("{}/{}: line {line}: {cause}", folder(manifest.origin), manifest.file)
}

fn folder(origin: Origin) -> &'static str {
    match origin {
        Origin::Own => "manifests",
        Origin::Release => "release-manifests",
    }
}

/// The manifests of one file, before any filter; one identity must not come twice (§1.9).
pub fn manifests_of(origin: Origin, name: &str, bytes: &[u8]) -> Result<Vec<Arc<Manifest>>, String> {
    let fit = |read: Read| match read.misfit {
        Some(cause) => Err(format!("line {}: {cause}", read.line)),
        None => Ok(read.manifest),
    };
    documents_of(origin, name, bytes)?.into_iter().map(fit).collect()
}

/// A manifest and the line of its file on which it begins.
struct Read {
    line: usize,
    manifest: Arc<Manifest>,
    /// Why no API server would take it, if that is known without its type.
    misfit: Option<String>,
}

fn documents_of(origin: Origin, name: &str, bytes: &[u8]) -> Result<Vec<Read>, String> {
    let file: Arc<str> = name.into();
    let mut seen = BTreeSet::new();
    let mut manifests = Vec::new();
    for (index, document) in yaml::documents(bytes).map_err(|e| e.to_string())?.into_iter().enumerate() {
        let problem = |cause: String| format!("line {}: {cause}", document.line);
        let (id, api_version, annotations) = identify(&document.value).map_err(problem)?;
        if !seen.insert(id.clone()) {
            return Err(problem(format!("{id} stands in this file twice")));
        }
        let raw = serde_json::to_vec(&document.value).map_err(|e| problem(e.to_string()))?;
        let manifest = Manifest {
            origin,
            file: Arc::clone(&file),
            index_in_file: index,
            id,
            api_version,
            annotations,
            raw: raw.into(),
        };
        let misfit = misfit(&document.value, &manifest.id).err();
        manifests.push(Read { line: document.line, manifest: Arc::new(manifest), misfit });
    }
    Ok(manifests)
}

type Identity = (ObjectId, String, BTreeMap<String, String>);

/// Identity and annotations of an object, by which it is known whether it takes part (§1.8, §9.3 C1).
fn identify(value: &Value) -> Result<Identity, String> {
    let object = value.as_object().ok_or("a manifest must be an object with kind and metadata.name")?;
    let empty = Map::new();
    let metadata = match object.get("metadata") {
        None | Some(Value::Null) => &empty,
        Some(metadata) => metadata.as_object().ok_or("metadata must be an object")?,
    };
    let kind = required(object, "kind", "kind")?;
    let api_version = required(object, "apiVersion", "apiVersion")?;
    let name = required(metadata, "name", "metadata.name")?;
    let namespace = text(metadata, "namespace", "metadata.namespace")?.unwrap_or_default();
    let annotations = texts(metadata, "annotations", "metadata.annotations")?;
    let group = match api_version.split_once('/') {
        None => "",
        Some((group, version)) if !group.is_empty() && !version.is_empty() && !version.contains('/') => group,
        Some(_) => return Err(format!("apiVersion {api_version:?} is neither VERSION nor GROUP/VERSION")),
    };
    Ok((ObjectId::new(group, kind, namespace, name), api_version.to_owned(), annotations))
}

/// What of any kind must be text.
fn misfit(value: &Value, id: &ObjectId) -> Result<(), String> {
    if let Some(metadata) = value.get("metadata").and_then(Value::as_object) {
        texts(metadata, "labels", "metadata.labels")?;
    }
    if let Some(object) = value.as_object()
        && id.group.is_empty()
        && id.kind == "ConfigMap"
    {
        texts(object, "data", "data")?;
    }
    Ok(())
}

fn text<'a>(object: &'a Map<String, Value>, key: &str, path: &str) -> Result<Option<&'a str>, String> {
    match object.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(other) => Err(format!("{path} must be text, not {other}; quote it")),
    }
}

fn required<'a>(object: &'a Map<String, Value>, key: &str, path: &str) -> Result<&'a str, String> {
    text(object, key, path)?.filter(|t| !t.is_empty()).ok_or_else(|| format!("{path} is missing"))
}

/// A map whose values are all text; empty if it is not there. Nothing in the place of a text is the empty one, as Go's
/// decoders take it.
fn texts(object: &Map<String, Value>, key: &str, path: &str) -> Result<BTreeMap<String, String>, String> {
    let map = match object.get(key) {
        None | Some(Value::Null) => return Ok(BTreeMap::new()),
        Some(value) => value.as_object().ok_or_else(|| format!("{path} must be a map of text"))?,
    };
    map.iter()
        .map(|(key, value)| match value {
            Value::String(text) => Ok((key.clone(), text.clone())),
            Value::Null => Ok((key.clone(), String::new())),
            other => Err(format!("{path}[{key:?}] must be text, not {other}; quote it")),
        })
        .collect()
}

#[cfg(test)]
mod tests;
