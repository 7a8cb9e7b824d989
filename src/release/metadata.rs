//! `release-metadata`: version, predecessors and properties of a release. Loading reads it, building a release writes it.

use crate::release::api::Release;
use crate::version;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// The only supported kind.
pub(crate) const KIND: &str = "cincinnati-metadata-v0";
/// File name in `release-manifests/`.
pub const FILE: &str = "release-metadata";
const ARCHITECTURE: &str = "release.openshift.io/architecture";
const CHANNELS: &str = "io.openshift.upgrades.graph.release.channels";

/// The document as it is in the image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ReleaseMetadata {
    #[serde(default)]
    pub kind: String,
    #[serde(default)]
    pub version: String,
    /// Versions from which this release may be reached.
    #[serde(default, deserialize_with = "null_is_empty")]
    pub previous: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Vec::is_empty")]
    pub next: Vec<String>,
    #[serde(default, deserialize_with = "null_is_empty", skip_serializing_if = "Map::is_empty")]
    pub metadata: Map<String, Value>,
}

/// Why `release-metadata` cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    #[error("{FILE} is not the JSON object that is expected: {0}")]
    Json(String),
    #[error("{FILE} has kind {0:?}, only {KIND:?} is supported")]
    Kind(String),
    #[error("{FILE} has no valid version: {0}")]
    Version(#[from] version::VersionError),
}

impl ReleaseMetadata {
    /// Metadata of this version without predecessors. Fails if the version is invalid.
    pub fn new(version: &str) -> Result<Self, MetadataError> {
        version::parse(version)?;
        Ok(ReleaseMetadata { kind: KIND.into(), version: version.into(), ..ReleaseMetadata::default() })
    }

    pub fn parse(bytes: &[u8]) -> Result<Self, MetadataError> {
        let wrong = |e: serde_json::Error| MetadataError::Json(e.to_string());
        // Decoded as a map first, since serde would accept a list of the field values as well.
        let object: Map<String, Value> = serde_json::from_slice(bytes).map_err(wrong)?;
        let parsed: Self = serde_json::from_value(Value::Object(object)).map_err(wrong)?;
        if parsed.kind != KIND {
            return Err(MetadataError::Kind(parsed.kind));
        }
        version::parse(&parsed.version)?;
        Ok(parsed)
    }

    /// The document as indented JSON. The keys of `metadata` are sorted, so that equal content gives equal bytes.
    pub fn to_json(&self) -> Result<Vec<u8>, MetadataError> {
        let mut bytes = serde_json::to_vec_pretty(self).map_err(|e| MetadataError::Json(e.to_string()))?;
        bytes.push(b'\n');
        Ok(bytes)
    }

    /// The release as status shows it, and a warning for each property that is ignored because its value is invalid.
    pub fn release(&self, image: &str) -> (Release, Vec<String>) {
        let mut release = Release { version: self.version.clone(), image: image.into(), ..Release::default() };
        let mut warnings = Vec::new();
        let mut unusable = |key: &str, value: &Value, expected: &str| {
            warnings.push(format!("{FILE}: metadata {key:?} is {value}, not {expected}; it is ignored"));
        };
        if let Some(value) = self.metadata.get("url") {
            match value.as_str() {
                Some(url) if url.parse::<http::Uri>().is_ok() => release.url = url.into(),
                _ => unusable("url", value, "a URL"),
            }
        }
        if let Some(value) = self.metadata.get(ARCHITECTURE) {
            match value.as_str() {
                Some("multi") => release.architecture = "Multi".into(),
                _ => unusable(ARCHITECTURE, value, "\"multi\""),
            }
        }
        if let Some(value) = self.metadata.get(CHANNELS) {
            match value.as_str() {
                Some(list) => {
                    release.channels = list.split(',').filter(|c| !c.is_empty()).map(str::to_owned).collect();
                    release.channels.sort();
                    // The schema has channels as a set: the API server refuses a status with a duplicate.
                    release.channels.dedup();
                }
                None => unusable(CHANNELS, value, "a comma-separated list"),
            }
        }
        (release, warnings)
    }
}

/// Go reads `null` as the empty value.
pub(super) fn null_is_empty<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(input: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(input)?.unwrap_or_default())
}

#[cfg(test)]
mod tests;
