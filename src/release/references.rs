//! `image-references`: the ImageStream that names every component image of a release. Loading reads it, building a release
//! writes it.

use super::metadata::null_is_empty;
use crate::object::yaml;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// File name in `release-manifests/`.
pub const FILE: &str = "image-references";
const API_VERSION: &str = "image.openshift.io/v1";
const KIND: &str = "ImageStream";
const DOCKER_IMAGE: &str = "DockerImage";
/// Annotation of a tag with the versions of the parts of its image: `kubernetes=1.36.0,kernel=6.1.0`.
pub(crate) const BUILD_VERSIONS: &str = "io.openshift.build.versions";
/// The part that says which Kubernetes a release brings.
pub(crate) const KUBERNETES: &str = "kubernetes";

/// The part of the ImageStream that a release uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageReferences {
    /// Must equal the release's version.
    pub name: String,
    /// When the release was built.
    pub created: Option<Timestamp>,
    /// In the order of the file.
    pub tags: Vec<Tag>,
}

/// One component image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tag {
    /// Short name, as used by templates and `cvo image`.
    pub name: String,
    // Go tools write null for an empty map.
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<From>,
}

/// What a tag refers to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct From {
    #[serde(default, deserialize_with = "null_is_empty")]
    pub kind: String,
    /// Pull spec, for kind `DockerImage`.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub name: String,
}

impl Tag {
    /// A tag that refers to a pull spec.
    pub fn image(name: &str, pull_spec: &str) -> Self {
        let from = From { kind: DOCKER_IMAGE.into(), name: pull_spec.into() };
        Tag { name: name.into(), from: Some(from), annotations: BTreeMap::new() }
    }
}

/// Why `image-references` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReferencesError {
    #[error("{FILE} is neither JSON nor YAML: {0}")]
    Syntax(#[from] yaml::YamlError),
    #[error("{FILE} is empty; it must contain one {KIND} of {API_VERSION}")]
    Empty,
    #[error("{FILE} contains kind {kind:?} of {api_version:?}; it must contain one {KIND} of {API_VERSION}")]
    Kind { kind: String, api_version: String },
    #[error("{FILE} does not have the form of an {KIND}: {0}")]
    Form(String),
}

#[derive(Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct ImageStream {
    #[serde(default)]
    kind: String,
    #[serde(default)]
    api_version: String,
    #[serde(default, deserialize_with = "null_is_empty")]
    metadata: Metadata,
    #[serde(default, deserialize_with = "null_is_empty")]
    spec: Spec,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Metadata {
    name: String,
    creation_timestamp: Option<Timestamp>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Spec {
    tags: Option<Vec<Tag>>,
}

impl ImageReferences {
    /// Reads JSON or YAML.
    pub fn parse(bytes: &[u8]) -> Result<Self, ReferencesError> {
        let first = yaml::documents(bytes)?.into_iter().next().ok_or(ReferencesError::Empty)?;
        let text = |key| first.value.get(key).and_then(|v| v.as_str()).unwrap_or_default().to_owned();
        let (kind, api_version) = (text("kind"), text("apiVersion"));
        if kind != KIND || api_version != API_VERSION {
            return Err(ReferencesError::Kind { kind, api_version });
        }
        let stream: ImageStream =
            serde_json::from_value(first.value).map_err(|e| ReferencesError::Form(e.to_string()))?;
        Ok(ImageReferences {
            name: stream.metadata.name,
            created: stream.metadata.creation_timestamp,
            tags: stream.spec.tags.unwrap_or_default(),
        })
    }

    /// The ImageStream as indented JSON. Tags are sorted by name, so that equal content gives equal bytes.
    pub fn to_json(&self) -> Result<Vec<u8>, ReferencesError> {
        let mut tags = self.tags.clone();
        tags.sort_by(|a, b| a.name.cmp(&b.name));
        let stream = ImageStream {
            kind: KIND.into(),
            api_version: API_VERSION.into(),
            metadata: Metadata { name: self.name.clone(), creation_timestamp: self.created },
            spec: Spec { tags: Some(tags) },
        };
        let mut bytes = serde_json::to_vec_pretty(&stream).map_err(|e| ReferencesError::Form(e.to_string()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// Short name to pull spec, of the tags that refer to an image.
    pub fn images(&self) -> BTreeMap<String, String> {
        let named = |tag: &Tag| {
            let from = tag.from.as_ref().filter(|from| from.kind == DOCKER_IMAGE)?;
            Some((tag.name.clone(), from.name.clone()))
        };
        self.tags.iter().filter_map(named).collect()
    }

    /// The versions that tags declare of the parts of their images, by the names of the parts. A release without contradictions has one
    /// for each. Entries that are none are passed over.
    pub fn versions(&self) -> BTreeMap<String, BTreeSet<String>> {
        let mut versions: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        let declared = self.tags.iter().filter_map(|tag| tag.annotations.get(BUILD_VERSIONS));
        for (part, version) in declared.flat_map(|declared| build_versions(declared)).flatten() {
            versions.entry(part.to_owned()).or_default().insert(version.to_owned());
        }
        versions
    }
}

/// The parts of an image and their versions without build metadata, as [`BUILD_VERSIONS`] has them. An error is an entry that is none.
pub(crate) fn build_versions(declared: &str) -> impl Iterator<Item = Result<(&str, &str), &str>> {
    declared.split(',').map(str::trim).filter(|entry| !entry.is_empty()).map(|entry| {
        let (part, version) = entry.split_once('=').ok_or(entry)?;
        Ok((part, version.split('+').next().unwrap_or_default()))
    })
}

#[cfg(test)]
mod tests;
