//! What is read of an object that streams by: first only its name, since most are somebody else's; of ours the metadata
//! and what gates look at. Specifications are skipped unread, those of definitions being large.

use super::index::Revision;
use super::kinds::Kind;
use crate::gate;
use crate::payload::ObjectId;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// Whose it is, and where the watch stands.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct Name {
    pub metadata: NameMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NameMeta {
    pub namespace: String,
    pub name: String,
    pub resource_version: String,
}

impl Name {
    /// Empty where the object has no readable metadata: nobody's.
    pub fn read(object: &RawValue) -> Name {
        serde_json::from_str(object.get()).unwrap_or_default()
    }

    pub fn of(object: &Value) -> Name {
        Name::deserialize(object).unwrap_or_default()
    }

    pub fn id(&self, kind: &Kind) -> ObjectId {
        ObjectId::new(&kind.group, &kind.kind, &self.metadata.namespace, &self.metadata.name)
    }
}

/// Metadata without the field managers, and the parts that gates read.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PartialObject {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
    #[serde(skip_serializing_if = "Value::is_null")]
    status: Value,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Metadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    generation: i64,
    #[serde(skip_serializing_if = "Value::is_null")]
    labels: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    annotations: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    owner_references: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    deletion_timestamp: Value,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(skip_serializing_if = "Value::is_null")]
    replicas: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    update_strategy: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    completions: Value,
}

impl PartialObject {
    pub fn read(object: &RawValue) -> PartialObject {
        serde_json::from_str(object.get()).unwrap_or_else(|error| {
            tracing::warn!(%error, "an object streamed by that cannot be read");
            PartialObject::default()
        })
    }

    /// Of a whole object.
    pub fn revision(&self) -> Revision {
        let has_status = (!self.status.is_null()).then_some(true);
        Revision::of(&serde_json::json!({ "metadata": self.metadata, "status": has_status }))
    }

    /// Of metadata alone, which does not tell whether there is a status.
    pub fn metadata_revision(&self) -> Revision {
        Revision::of(&serde_json::json!({ "metadata": self.metadata, "status": true }))
    }

    /// What gates may read; `None` where the kind has no gate.
    pub fn view(&self, id: &ObjectId) -> Option<Value> {
        if !gate::gated(&id.group, &id.kind) {
            return None;
        }
        serde_json::to_value(self).ok().map(|object| gate::view(&object))
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
    fn a_glance_has_the_mark_and_the_view_of_the_whole_object() {
        let object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment",
            "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
                "labels": {"l": "1"}, "annotations": {"x": "y"}, "ownerReferences": [{"uid": "o"}],
                "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "m"}]},
            "spec": {"replicas": 2, "template": {"spec": {}}},
            "status": {"observedGeneration": 3, "conditions": [{"type": "Available", "status": "True"}]},
        });
        let id = ObjectId::new("apps", "Deployment", "n", "a");
        let partial = PartialObject::read(&raw(&object));
        assert_eq!(partial.revision(), Revision::of(&object));
        assert_eq!(partial.view(&id), Some(gate::view(&object)));
        assert_eq!(partial.view(&ObjectId::new("", "ConfigMap", "n", "a")), None);
        let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
        assert_eq!((Name::read(&raw(&object)).id(&kind), Name::of(&object).id(&kind)), (id.clone(), id));
    }

    #[test]
    fn what_cannot_be_read_is_nobodys() {
        let kind = Kind::known("", "v1", "Node", "nodes", false);
        for odd in [json!(null), json!([1]), json!({"metadata": {"name": 7}})] {
            assert_eq!(Name::read(&raw(&odd)).id(&kind).name, "", "{odd}");
        }
    }
}
