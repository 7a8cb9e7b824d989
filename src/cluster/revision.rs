//! Which version of an object it is, read from its metadata alone.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;
use serde_json::value::RawValue;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Tells two versions of an object apart, and whether anything but the status differs between them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Revision {
    pub resource_version: String,
    /// 0 where it does not count changes of the spec: the kind has no generation, or the object has no status. Some kinds
    /// without a status set a generation once and never raise it.
    generation: i64,
    /// Over uid, labels, annotations, owner references and deletion time, none of which raise the generation. An object that
    /// was deleted and created again may well have the same generation.
    metadata_hash: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Fields {
    metadata: Metadata,
    status: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    resource_version: Value,
    generation: Value,
    uid: Value,
    labels: Value,
    annotations: Value,
    owner_references: Value,
    deletion_timestamp: Value,
}

impl Revision {
    pub(crate) fn of(object: &Value) -> Revision {
        Fields::deserialize(object).unwrap_or_default().revision()
    }

    /// Of an object that has not been decoded.
    pub(crate) fn read(object: &RawValue) -> Revision {
        Fields::read(object).revision()
    }

    /// Of metadata alone, which does not tell whether the object has a status: taken to have one.
    pub(crate) fn read_metadata(object: &RawValue) -> Revision {
        Fields { status: Some(IgnoredAny), ..Fields::read(object) }.revision()
    }

    /// Whether nothing but the status differs.
    pub(crate) fn has_content_of(&self, other: &Revision) -> bool {
        self.generation != 0 && (self.generation, self.metadata_hash) == (other.generation, other.metadata_hash)
    }
}

impl Fields {
    fn read(object: &RawValue) -> Fields {
        serde_json::from_str(object.get()).unwrap_or_else(|error| {
            tracing::warn!(%error, "the metadata of an object cannot be read");
            Fields::default()
        })
    }

    fn revision(self) -> Revision {
        let Metadata { resource_version, generation, uid, labels, annotations, owner_references, deletion_timestamp } =
            self.metadata;
        let mut hasher = DefaultHasher::new();
        [uid, labels, annotations, owner_references, deletion_timestamp].hash(&mut hasher);
        Revision {
            resource_version: resource_version.as_str().unwrap_or_default().to_owned(),
            generation: self.status.and(generation.as_i64()).unwrap_or(0),
            metadata_hash: hasher.finish(),
        }
    }
}

#[cfg(test)]
mod tests;
