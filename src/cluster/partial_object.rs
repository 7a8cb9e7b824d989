//! The name and resourceVersion of an object that streams by. Most objects are not tracked, so nothing else is decoded before
//! the index has been asked.

use super::kinds::Kind;
use crate::object::manifest::ObjectId;
use serde::Deserialize;
use serde_json::Value;
use serde_json::value::RawValue;

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PartialObject {
    pub metadata: PartialMetadata,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct PartialMetadata {
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
}

impl PartialObject {
    /// Without a name, which no object has, where the metadata cannot be read.
    pub(crate) fn read(object: &RawValue) -> PartialObject {
        serde_json::from_str(object.get()).unwrap_or_default()
    }

    pub(crate) fn of(object: &Value) -> PartialObject {
        PartialObject::deserialize(object).unwrap_or_default()
    }

    pub(crate) fn id(&self, kind: &Kind) -> ObjectId {
        ObjectId::new(&kind.group, &kind.kind, &self.metadata.namespace, &self.metadata.name)
    }
}

#[cfg(test)]
mod tests;
