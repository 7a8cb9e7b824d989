//! Makes the files of a release from the manifests of its components: names them, replaces image and version placeholders,
//! checks them. Does no IO: the same input gives the same bytes.

use super::mark::{is_marked, marked};
use crate::object::manifest::Origin;
use crate::release::load::manifests_of;
use crate::release::references::{BUILD_VERSIONS, build_versions};
use crate::release::typed;
use jiff::Timestamp;
use regex::Regex;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// What manifests contain in place of the version of the release.
const VERSION_PLACEHOLDER: &str = r"0\.0\.1-snapshot(?:-([a-z0-9]+(?:-[a-z0-9]+)*))?";
/// Tag or digest after a repository.
const IMAGE_SUFFIX: &str = r"(?::[A-Za-z0-9_][A-Za-z0-9_.-]{0,127})?(?:@[a-z0-9]+:[0-9a-f]{32,})?";

/// The release cannot be built; lists all problems.
#[derive(Debug, thiserror::Error)]
#[error("the release cannot be built:\n  {}", .problems.join("\n  "))]
pub(crate) struct AssembleError {
    pub problems: Vec<String>,
}

/// The manifests of one component as in its source tree.
#[derive(Clone, Debug, Default)]
pub(crate) struct Component {
    pub name: String,
    /// The folder, for messages.
    pub place: String,
    /// Base name and content, in byte order of names.
    pub manifests: Vec<(String, Vec<u8>)>,
    /// Its `image-references`: which repositories are placeholders for which component image.
    pub placeholders: Option<Vec<u8>>,
}

/// An image of the release.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tag {
    /// Pull spec with digest.
    pub image: String,
    pub annotations: BTreeMap<String, String>,
}

/// Everything that goes into a release.
#[derive(Clone, Debug)]
pub(crate) struct Input {
    pub version: semver::Version,
    pub previous: Vec<semver::Version>,
    pub next: Vec<semver::Version>,
    /// Further properties, such as `url`.
    pub metadata: Map<String, Value>,
    pub created: Timestamp,
    /// Versions of parts of the images, by name, which replace `0.0.1-snapshot-<name>`. They take precedence over those that
    /// the images declare.
    pub versions: BTreeMap<String, semver::Version>,
    /// Component images by name.
    pub tags: BTreeMap<String, Tag>,
    pub components: Vec<Component>,
    /// Objects without a cluster profile take part in clusters with this one.
    pub profile: Option<String>,
}

/// The content of `release-manifests/`.
#[derive(Clone, Debug)]
pub(crate) struct ReleaseFiles {
    /// Base name to content, including `image-references` and `release-metadata`.
    pub files: BTreeMap<String, Vec<u8>>,
    /// Objects in the manifests.
    pub objects: usize,
    /// Objects without a cluster profile, which are excluded everywhere.
    pub unmarked: Vec<String>,
}

/// An `image-references` file, in JSON or YAML; other fields are ignored.
#[derive(Deserialize)]
struct ImageStream {
    kind: String,
    #[serde(rename = "apiVersion")]
    api_version: String,
    spec: ImageStreamSpec,
}

#[derive(Deserialize)]
struct ImageStreamSpec {
    #[serde(default)]
    tags: Vec<ImageStreamTag>,
}

#[derive(Deserialize)]
struct ImageStreamTag {
    name: String,
    from: Option<ImageStreamFrom>,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

#[derive(Deserialize)]
struct ImageStreamFrom {
    kind: String,
    name: String,
}

/// Name, `from.name` and annotations of the tags of an `image-references` file; tags that are not images are skipped.
pub(crate) fn image_stream(bytes: &[u8]) -> Result<Vec<(String, Tag)>, String> {
    let stream: ImageStream = serde_yaml::from_slice(bytes).map_err(|e| format!("it is not an ImageStream: {e}"))?;
    if stream.kind != "ImageStream" || stream.api_version != "image.openshift.io/v1" {
        let found = format!("{} {}", stream.api_version, stream.kind);
        return Err(format!("it must be an image.openshift.io/v1 ImageStream, not {found}"));
    }
    let tag = |t: ImageStreamTag| {
        let from = t.from.filter(|f| f.kind == "DockerImage")?;
        Some((t.name, Tag { image: from.name, annotations: t.annotations.unwrap_or_default() }))
    };
    Ok(stream.spec.tags.into_iter().filter_map(tag).collect())
}

/// Builds the files of the release.
pub(crate) fn assemble(input: &Input) -> Result<ReleaseFiles, AssembleError> {
    let mut problems = Vec::new();
    let mut files = BTreeMap::new();
    let (mut objects, mut unmarked) = (0, Vec::new());
    let versions = Versions::of(input, &mut problems);
    let mut components: Vec<&Component> = input.components.iter().collect();
    components.sort_by(|a, b| a.name.cmp(&b.name));
    for component in components {
        let images = Images::of(component, &input.tags, &mut problems);
        for (name, bytes) in &component.manifests {
            let place = format!("{}/{name}", component.place);
            let filled = fill(bytes, &images, &versions).and_then(|text| check(name, text, input.profile.as_deref()));
            match filled {
                Ok(((count, alone), text)) => {
                    objects += count;
                    unmarked.extend(alone);
                    files.insert(free_name(&payload_name(&component.name, name), &files), text.into_bytes());
                }
                Err(problem) => problems.push(format!("{place}: {problem}")),
            }
        }
    }
    files.insert("image-references".into(), pretty(&image_references(input), &mut problems));
    files.insert("release-metadata".into(), pretty(&release_metadata(input), &mut problems));
    if problems.is_empty() { Ok(ReleaseFiles { files, objects, unmarked }) } else { Err(AssembleError { problems }) }
}

fn pretty(value: &Value, problems: &mut Vec<String>) -> Vec<u8> {
    let written = serde_json::to_vec_pretty(value).map(|mut bytes| {
        bytes.push(b'\n');
        bytes
    });
    written.unwrap_or_else(|e| {
        problems.push(format!("the metadata cannot be written: {e}"));
        Vec::new()
    })
}

/// The name of a file in the release. A file without a run level belongs to level 50.
pub(crate) fn payload_name(component: &str, file: &str) -> String {
    if file.starts_with("0000_") { file.into() } else { format!("0000_50_{component}_{file}") }
}

/// `name`, or `name_2` and so on before the extension when it is taken.
fn free_name(name: &str, taken: &BTreeMap<String, Vec<u8>>) -> String {
    let (stem, extension) = name.rsplit_once('.').unwrap_or((name, ""));
    let numbered = (2u32..).map(|n| format!("{stem}_{n}.{extension}"));
    std::iter::once(name.to_string()).chain(numbered).find(|n| !taken.contains_key(n)).unwrap_or_default()
}

fn release_metadata(input: &Input) -> Value {
    let list = |versions: &[semver::Version]| -> Vec<String> {
        let unique: BTreeSet<&semver::Version> = versions.iter().collect();
        unique.into_iter().map(|v| v.to_string()).collect()
    };
    let mut metadata = json!({
        "kind": "cincinnati-metadata-v0",
        "version": input.version.to_string(),
        "previous": list(&input.previous),
    });
    if let Some(top) = metadata.as_object_mut() {
        if !input.next.is_empty() {
            top.insert("next".into(), json!(list(&input.next)));
        }
        if !input.metadata.is_empty() {
            top.insert("metadata".into(), Value::Object(input.metadata.clone()));
        }
    }
    metadata
}

fn image_references(input: &Input) -> Value {
    let tags = input.tags.iter().map(|(name, tag)| {
        json!({ "name": name, "annotations": tag.annotations, "from": { "kind": "DockerImage", "name": tag.image } })
    });
    json!({
        "kind": "ImageStream",
        "apiVersion": "image.openshift.io/v1",
        "metadata": {
            "name": input.version.to_string(),
            "creationTimestamp": crate::net::registry::image::seconds(input.created),
        },
        "spec": { "lookupPolicy": { "local": false }, "tags": tags.collect::<Vec<_>>() },
    })
}

/// Replaces the placeholders in one manifest file.
fn fill(bytes: &[u8], images: &Images, versions: &Versions) -> Result<String, String> {
    let text = std::str::from_utf8(bytes).map_err(|e| format!("it is not UTF-8 text: {e}"))?;
    versions.fill(&images.fill(text))
}

/// The repositories to be replaced, and by which pull spec, for one component.
struct Images {
    /// `None`: the component has no placeholders.
    pattern: Option<Regex>,
    /// Pull spec by what the matching group of the pattern captures.
    targets: BTreeMap<String, String>,
}

impl Images {
    fn of(component: &Component, tags: &BTreeMap<String, Tag>, problems: &mut Vec<String>) -> Images {
        let none = Images { pattern: None, targets: BTreeMap::new() };
        let Some(bytes) = &component.placeholders else { return none };
        let place = format!("{}/image-references", component.place);
        let placeholders = match image_stream(bytes) {
            Ok(placeholders) => placeholders,
            Err(cause) => {
                problems.push(format!("{place}: {cause}"));
                return none;
            }
        };
        let mut repositories: BTreeMap<String, Vec<(String, String)>> = BTreeMap::new();
        for (name, tag) in placeholders {
            match tags.get(&name) {
                Some(target) => repositories
                    .entry(repository(&tag.image).to_string())
                    .or_default()
                    .push((tag.image, target.image.clone())),
                None => problems.push(format!(
                    "{place}: tag {name:?} has no image in this release (add {name}=IMAGE@sha256:… to the command)"
                )),
            }
        }
        let mut targets = BTreeMap::new();
        let mut alternatives = Vec::new();
        for (repository, placeholders) in repositories {
            let unique: BTreeSet<&String> = placeholders.iter().map(|(_, target)| target).collect();
            // If one repository is the placeholder for several images, only the whole placeholder tells them apart.
            let whole = unique.len() > 1;
            for (placeholder, target) in placeholders {
                let key = if whole { placeholder } else { repository.clone() };
                let suffix = if whole { "" } else { IMAGE_SUFFIX };
                alternatives.push((key.clone(), format!("({}){suffix}", regex::escape(&key))));
                if targets.insert(key.clone(), target.clone()).is_some_and(|other| other != target) {
                    problems.push(format!("{place}: {key} is the placeholder for two different images"));
                }
            }
        }
        alternatives.sort_by_key(|(key, _)| std::cmp::Reverse(key.len()));
        let pattern = alternatives.iter().map(|(_, p)| p.as_str()).collect::<Vec<_>>().join("|");
        let pattern = if pattern.is_empty() {
            None
        } else {
            Regex::new(&pattern).map_err(|e| problems.push(format!("{place}: {e}"))).ok()
        };
        Images { pattern, targets }
    }

    fn fill(&self, text: &str) -> String {
        let Some(pattern) = &self.pattern else { return text.into() };
        let mut out = String::with_capacity(text.len());
        let mut done = 0;
        let mut at = 0;
        while let Some(found) = pattern.captures_at(text, at) {
            let Some(whole) = found.get(0) else { break };
            let key = found.iter().skip(1).flatten().next().map_or("", |m| m.as_str());
            let before = text.get(..whole.start()).and_then(|t| t.chars().next_back());
            let after = text.get(whole.end()..).unwrap_or_default();
            match self.targets.get(key).filter(|_| !continues_left(before) && !continues_right(after)) {
                Some(target) => {
                    out.push_str(text.get(done..whole.start()).unwrap_or_default());
                    out.push_str(target);
                    done = whole.end();
                    at = done;
                }
                // Part of a longer name. Placeholders start with an ASCII character.
                None => at = whole.start() + key.chars().next().map_or(1, char::len_utf8),
            }
        }
        out.push_str(text.get(done..).unwrap_or_default());
        out
    }
}

/// Whether the character belongs to the same name as the text after it.
fn continues_left(before: Option<char>) -> bool {
    before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '/'))
}

/// Whether the text belongs to the same name as what precedes it. A full stop at the end of a sentence does not.
fn continues_right(after: &str) -> bool {
    let mut chars = after.chars();
    match chars.next() {
        Some('.') => chars.next().is_some_and(char::is_alphanumeric),
        Some(c) => c.is_alphanumeric() || matches!(c, '_' | '-' | '/' | '@'),
        None => false,
    }
}

/// A pull spec without tag and digest.
pub(crate) fn repository(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // A colon before the last slash belongs to a port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
}

/// The version of the release and of the parts of its images.
struct Versions {
    pattern: Option<Regex>,
    release: String,
    /// Each with all versions that images declare.
    parts: BTreeMap<String, BTreeSet<String>>,
}

impl Versions {
    fn of(input: &Input, problems: &mut Vec<String>) -> Versions {
        let release = semver::Version { build: semver::BuildMetadata::EMPTY, ..input.version.clone() }.to_string();
        let mut parts: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (tag, declared) in input.tags.iter().filter_map(|(n, t)| Some((n, t.annotations.get(BUILD_VERSIONS)?))) {
            for entry in build_versions(declared) {
                match entry {
                    Ok((name, version)) => {
                        parts.entry(name.into()).or_default().insert(version.into());
                    }
                    Err(entry) => {
                        problems
                            .push(format!("image {tag}: annotation {BUILD_VERSIONS}: {entry:?} is not NAME=VERSION"));
                    }
                }
            }
        }
        for (name, version) in &input.versions {
            parts.insert(name.clone(), [version.to_string()].into());
        }
        let pattern = Regex::new(VERSION_PLACEHOLDER).map_err(|e| problems.push(e.to_string())).ok();
        Versions { pattern, release, parts }
    }

    fn fill(&self, text: &str) -> Result<String, String> {
        let Some(pattern) = &self.pattern else { return Ok(text.into()) };
        let mut problem = None;
        let filled = pattern.replace_all(text, |found: &regex::Captures<'_>| match found.get(1) {
            None => self.release.clone(),
            Some(part) => self.part(part.as_str()).unwrap_or_else(|cause| {
                problem.get_or_insert(cause);
                String::new()
            }),
        });
        problem.map_or(Ok(filled.into_owned()), Err)
    }

    fn part(&self, name: &str) -> Result<String, String> {
        let declared = self.parts.get(name).cloned().unwrap_or_default();
        let mut values = declared.into_iter();
        match (values.next(), values.next()) {
            (Some(version), None) => Ok(version),
            (Some(one), Some(other)) => {
                Err(format!("0.0.1-snapshot-{name}: the images declare two versions of {name}, {one} and {other}"))
            }
            (None, _) => Err(format!(
                "0.0.1-snapshot-{name}: no image declares a version of {name} (add --component-version {name}=VERSION, or an annotation {BUILD_VERSIONS} on a tag of image-references)"
            )),
        }
    }
}

/// How many objects a file has, and those without a cluster profile.
type Checked = (usize, Vec<String>);

/// Reads a file as the daemon does, and marks what has no cluster profile if one is given.
fn check(name: &str, text: String, profile: Option<&str>) -> Result<(Checked, String), String> {
    let manifests = manifests_of(Origin::Release, name, text.as_bytes())?;
    if let Some(cause) = manifests.iter().find_map(|m| typed::check(m).err()) {
        return Err(cause);
    }
    let unmarked: Vec<String> =
        manifests.iter().filter(|m| !is_marked(m)).map(|m| format!("{} in {name}", m.id)).collect();
    match profile.filter(|_| !unmarked.is_empty()) {
        Some(profile) => Ok(((manifests.len(), Vec::new()), marked(&manifests, profile)?)),
        None => Ok(((manifests.len(), unmarked), text)),
    }
}

#[cfg(test)]
mod tests;
