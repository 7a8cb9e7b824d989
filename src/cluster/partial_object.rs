//! The name and resourceVersion of an object that streams by. Most objects are not tracked, so nothing else is decoded before
//! the index has been asked.

use super::kinds::Kind;
use crate::payload::ObjectId;
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
mod tests {
    use super::*;
    use serde_json::json;

    fn raw(object: &Value) -> Box<RawValue> {
        RawValue::from_string(object.to_string()).unwrap()
    }

    #[test]
    fn text_has_the_identity_of_the_decoded_object() {
        let object =
            json!({"metadata": {"name": "a", "namespace": "n", "labels": {"l": "1"}}, "spec": {"replicas": 2}});
        let id = ObjectId::new("apps", "Deployment", "n", "a");
        let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
        assert_eq!(PartialObject::read(&raw(&object)).id(&kind), id);
        assert_eq!(PartialObject::of(&object).id(&kind), id);
    }

    #[test]
    fn unreadable_object_has_no_name() {
        let kind = Kind::known("", "v1", "Node", "nodes", false);
        for odd in [json!(null), json!([1]), json!({"metadata": {"name": 7}})] {
            assert_eq!(PartialObject::read(&raw(&odd)).id(&kind).name, "", "{odd}");
        }
    }
}
