//! One manifest: its identity, its annotations, and its content as compact JSON.

use super::packed::Packed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

/// Whether a file of this name in a release is a manifest.
pub(crate) fn is_manifest(file: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|suffix| file.ends_with(suffix))
}

/// Identity of an object: group, kind, namespace and name. The version is not part of it, since an object may be read and
/// written in several versions.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
    /// Empty if the manifest has none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectId {
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        ObjectId { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// `deployment.apps "ns/name"`, the form that messages use.
impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind.to_lowercase())?;
        if !self.group.is_empty() {
            write!(f, ".{}", self.group)?;
        }
        if self.namespace.is_empty() {
            write!(f, " \"{}\"", self.name)
        } else {
            write!(f, " \"{}/{}\"", self.namespace, self.name)
        }
    }
}

/// The folder of the release that contains a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `manifests/`: the orchestrator's own manifests, which are templates.
    Own,
    /// `release-manifests/`: those of all other components, which are not templates.
    Release,
}

/// A manifest of a release.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub origin: Origin,
    /// Base name of its file.
    pub file: Arc<str>,
    /// Position in that file, from 0, not counting empty documents.
    pub index_in_file: usize,
    pub id: ObjectId,
    /// `group/version`, or `version` for the core group.
    pub api_version: String,
    pub annotations: BTreeMap<String, String>,
    /// The object as compact JSON with sorted keys.
    pub raw: Packed,
}

impl Manifest {
    /// The decoded object. Does not fail for a loaded manifest, since `raw` was written from a value.
    pub fn object(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.raw.bytes())
    }

    /// The value of the annotation.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// Whether `release.openshift.io/create-only` is `true`, in upper or lower case.
    pub fn create_only(&self) -> bool {
        self.annotation("release.openshift.io/create-only").is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }

    /// Whether `release.openshift.io/delete` asks for deletion. Any value but exactly `true` is an error, so that a typing
    /// mistake neither deletes nor applies the object.
    pub fn delete(&self) -> Result<bool, String> {
        match self.annotation("release.openshift.io/delete") {
            None => Ok(false),
            Some("true") => Ok(true),
            Some(other) => Err(format!(
                "{} in {}: annotation release.openshift.io/delete must be exactly \"true\", not {other:?}",
                self.id, self.file
            )),
        }
    }

    /// Names of the capabilities that the manifest needs; none if the annotation is missing or empty.
    pub(crate) fn required_capabilities(&self) -> BTreeSet<&str> {
        let names = self.annotation("capability.openshift.io/name").filter(|names| !names.is_empty());
        names.map(|names| names.split('+').collect()).unwrap_or_default()
    }

    /// Run level and component from the file name. A file without them is an ordering barrier in updates.
    pub fn run_level(&self) -> Option<(&str, &str)> {
        run_level(&self.file)
    }
}

/// Splits `0000_<level>_<component>_<rest>`. Levels are digits and compared as text, so `05` and `5` differ. A component
/// consists of alphanumeric words joined by single hyphens.
pub fn run_level(file: &str) -> Option<(&str, &str)> {
    let rest = file.strip_prefix("0000_")?;
    let (level, rest) = rest.split_once('_')?;
    let (component, _) = rest.split_once('_')?;
    let digits = !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
    let words = component.split('-').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric()));
    (digits && words).then_some((level, component))
}

#[cfg(test)]
mod tests;
