//! Objects as the API server has them: what is newer than this program stays.

use crate::object::writers;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Of any kind: whoever follows objects asks them for their metadata alone.
#[derive(Resource, Clone, Debug, Deserialize)]
#[resource(inherit = Deployment)]
pub(crate) struct Whole {
    pub metadata: ObjectMeta,
    #[serde(flatten)]
    pub rest: Map<String, Value>,
}

impl Whole {
    /// Whether its replicas were set by its scale, as autoscalers and `kubectl scale` do.
    pub(crate) fn is_scaled(&self) -> bool {
        let replicas = |fields: &Value| fields.pointer("/f:spec/f:replicas").is_some();
        let mut managed = self.metadata.managed_fields.iter().flatten();
        managed.any(|it| {
            it.subresource.as_deref() == Some("scale") && it.fields_v1.as_ref().is_some_and(|it| replicas(&it.0))
        })
    }

    /// Who has written which fields.
    pub(crate) fn writers(&self) -> writers::Text {
        let entries = self.metadata.managed_fields.iter().flatten().filter(|it| it.subresource.is_none());
        writers::Text::of(&entries.collect::<Vec<_>>())
    }

    /// A field; its default where it is missing or has another form.
    pub(crate) fn field<T: DeserializeOwned + Default>(&self, name: &str) -> T {
        self.rest.get(name).and_then(|value| T::deserialize(value).ok()).unwrap_or_default()
    }

    /// The object without what only tells who has written it. `of`: its apiVersion and kind, which elements of lists do not have.
    pub(crate) fn into_value(mut self, of: (&str, &str)) -> Value {
        self.metadata.managed_fields = None;
        let mut object = self.rest;
        object.insert("metadata".to_owned(), serde_json::to_value(self.metadata).unwrap_or_default());
        object.entry("apiVersion").or_insert_with(|| of.0.into());
        object.entry("kind").or_insert_with(|| of.1.into());
        Value::Object(object)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn who_scales_a_deployment_is_told_apart_from_who_writes_it() {
        let entry = |subresource: Value| {
            json!({"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "subresource": subresource,
                "fieldsV1": {"f:spec": {"f:replicas": {}}}})
        };
        for (subresource, scaled) in [(json!("scale"), true), (Value::Null, false), (json!("status"), false)] {
            let object = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2, "new": [1]},
                "metadata": {"name": "a", "managedFields": [entry(subresource.clone())]}});
            let whole: Whole = serde_json::from_value(object).unwrap();
            assert_eq!(whole.is_scaled(), scaled);
            assert_eq!(whole.writers().read().len(), usize::from(subresource.is_null()));
            assert_eq!(whole.field::<Map<String, Value>>("spec")["replicas"], 2);
            assert_eq!(whole.field::<Vec<Value>>("spec"), Vec::<Value>::new());
            let object = whole.into_value(("apps/v1", "Deployment"));
            assert_eq!(object["spec"]["new"], json!([1]));
            assert_eq!(object["metadata"], json!({"name": "a"}), "who has written it is kept apart");
        }
    }
}
