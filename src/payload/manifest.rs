//! One manifest: its identity, its annotations, and its bytes as compact JSON (payload-and-apply §1.8-§1.11).

use super::packed::Packed;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Whether a file of this name in a release is a manifest.
pub fn is_manifest(file: &str) -> bool {
    [".yaml", ".yml", ".json"].iter().any(|suffix| file.ends_with(suffix))
}

/// Identity of an object: group, kind, namespace, name. The version takes no part in it (§1.9).
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ObjectId {
    /// Empty for the core group.
    pub group: String,
    pub kind: String,
    /// Empty if the manifest names none.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}

impl ObjectId {
    pub fn new(group: &str, kind: &str, namespace: &str, name: &str) -> Self {
        ObjectId { group: group.into(), kind: kind.into(), namespace: namespace.into(), name: name.into() }
    }
}

/// `deployment.apps "ns/name"`, the form in which errors name an object.
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

/// Which of the two folders of the release a manifest came from (§1.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// `manifests/`: the orchestrator's own, templated.
    Own,
    /// `release-manifests/`: everybody else's, never templated.
    Release,
}

/// A manifest that takes part in the release. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Manifest {
    pub origin: Origin,
    /// Base name of the file it came from.
    pub file: Arc<str>,
    /// Position in that file, from 0, counting only documents that are manifests.
    pub index_in_file: usize,
    pub id: ObjectId,
    /// `group/version`, or `version` for the core group.
    pub api_version: String,
    pub annotations: BTreeMap<String, String>,
    /// The object as compact JSON, keys sorted.
    pub raw: Packed,
}

impl Manifest {
    /// The decoded object. Cannot fail for a manifest that was loaded, since `raw` was written from a value.
    pub fn object(&self) -> Result<Value, serde_json::Error> {
        serde_json::from_slice(&self.raw.bytes())
    }

    /// The annotation's value, if it is there.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.annotations.get(key).map(String::as_str)
    }

    /// `release.openshift.io/create-only`: case-insensitive `true` (§2.1).
    pub fn create_only(&self) -> bool {
        self.annotation("release.openshift.io/create-only").is_some_and(|v| v.eq_ignore_ascii_case("true"))
    }

    /// `release.openshift.io/delete`: `Ok(true)` for exactly `true`, an error naming the value for any other (§2.1).
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

    /// Level and component from the file name (§1.11); `None` makes the file an ordering barrier in updates.
    pub fn run_level(&self) -> Option<(&str, &str)> {
        run_level(&self.file)
    }
}

/// Splits `0000_<level>_<component>_<rest>` (§1.11). Levels are digits compared as strings; a component is an
/// alphanumeric run with single inner hyphens, followed by an underscore.
pub fn run_level(file: &str) -> Option<(&str, &str)> {
    let rest = file.strip_prefix("0000_")?;
    let (level, rest) = rest.split_once('_')?;
    let (component, _) = rest.split_once('_')?;
    let digits = !level.is_empty() && level.bytes().all(|b| b.is_ascii_digit());
    let words = component.split('-').all(|w| !w.is_empty() && w.bytes().all(|b| b.is_ascii_alphanumeric()));
    (digits && words).then_some((level, component))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_name_grammar() {
        let table = [
            ("0000_10_a_b_c.yaml", Some(("10", "a"))),
            ("0000_5_x-y_z.yaml", Some(("5", "x-y"))),
            ("0000_50_foo.yaml", None),
            ("0000_10_a--b_c.yaml", None),
            ("0000_30_a-_b.yaml", None),
            ("0000_10_-a_b.yaml", None),
            ("0000_70_dns.operator_00.yaml", None),
            ("99_ingress-operator_01.yaml", None),
            ("0001_10_a_b.yaml", None),
            ("0000__a_b.yaml", None),
        ];
        for (file, expected) in table {
            assert_eq!(run_level(file), expected, "{file}");
        }
    }
}
