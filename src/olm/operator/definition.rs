//! A CustomResourceDefinition without its schemas, which are many times larger than the rest.

use super::requirements;
use crate::object::condition::ConditionStatus;
use crate::object::null_is_default;
use crate::olm::api::condition::UpdatedCondition;
use crate::olm::api::keys::annotation::INSTALLED_ALONGSIDE;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Definition {
    pub metadata: ObjectMeta,
    #[serde(default)]
    spec: Spec,
    #[serde(default)]
    status: Status,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Spec {
    versions: Vec<Version>,
    conversion: Value,
    #[serde(rename = "preserveUnknownFields")]
    keeps_unknown_fields: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    served: bool,
}

/// One that is new has `null` for its conditions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Status {
    #[serde(deserialize_with = "null_is_default")]
    conditions: Vec<UpdatedCondition>,
}

impl k8s_openapi::Resource for Definition {
    const API_VERSION: &'static str = <CustomResourceDefinition as k8s_openapi::Resource>::API_VERSION;
    const GROUP: &'static str = <CustomResourceDefinition as k8s_openapi::Resource>::GROUP;
    const KIND: &'static str = <CustomResourceDefinition as k8s_openapi::Resource>::KIND;
    const VERSION: &'static str = <CustomResourceDefinition as k8s_openapi::Resource>::VERSION;
    const URL_PATH_SEGMENT: &'static str = <CustomResourceDefinition as k8s_openapi::Resource>::URL_PATH_SEGMENT;
    type Scope = <CustomResourceDefinition as k8s_openapi::Resource>::Scope;
}

impl k8s_openapi::Metadata for Definition {
    type Ty = ObjectMeta;

    fn metadata(&self) -> &ObjectMeta {
        &self.metadata
    }

    fn metadata_mut(&mut self) -> &mut ObjectMeta {
        &mut self.metadata
    }
}

impl Definition {
    pub(crate) fn condition(&self, type_: &str) -> Option<&UpdatedCondition> {
        self.status.conditions.iter().find(|it| it.type_ == type_)
    }

    pub(crate) fn conditions(&self) -> &[UpdatedCondition] {
        &self.status.conditions
    }

    /// Whether its kind can be used: it is established, and its names are accepted.
    pub(crate) fn is_available(&self) -> bool {
        let is = |type_: &str| self.condition(type_).is_some_and(|it| it.status == ConditionStatus::True);
        is("Established") && is("NamesAccepted")
    }

    /// Whether the server has said anything of it yet.
    pub(crate) fn is_judged(&self) -> bool {
        !self.status.conditions.is_empty()
    }

    /// As requirements know it.
    pub(crate) fn required(&self) -> requirements::Definition {
        let annotations = self.metadata.annotations.iter().flatten();
        let alongside = annotations.filter(|(key, _)| key.starts_with(INSTALLED_ALONGSIDE));
        let id = |(_, value): (&String, &String)| {
            value.split_once('/').map(|(namespace, name)| (namespace.to_owned(), name.to_owned()))
        };
        requirements::Definition {
            uid: self.metadata.uid.clone().unwrap_or_default(),
            version: self.metadata.resource_version.clone().unwrap_or_default(),
            conversion: self.spec.conversion.clone(),
            keeps_unknown_fields: self.spec.keeps_unknown_fields,
            is_available: self.is_available(),
            alongside: alongside.filter_map(id).collect(),
            served: self.served().map(ToOwned::to_owned).collect(),
        }
    }

    /// Names of the versions that are served.
    pub(crate) fn served(&self) -> impl Iterator<Item = &str> {
        self.spec.versions.iter().filter(|it| it.served).map(|it| it.name.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn definition_that_is_new_is_not_available_and_can_be_read() {
        let of = |conditions: Value| -> Definition {
            let versions = json!([{"name": "v1", "served": true, "schema": {}}, {"name": "v2", "served": false}]);
            serde_json::from_value(json!({"metadata": {"name": "widgets.example.com"}, "spec": {"versions": versions},
                "status": {"conditions": conditions}}))
            .unwrap()
        };
        assert!(!of(Value::Null).is_available());
        assert_eq!(of(Value::Null).served().collect::<Vec<_>>(), ["v1"]);
        let condition = |type_: &str, status: &str| json!({"type": type_, "status": status, "message": "taken"});
        assert!(of(json!([condition("Established", "True"), condition("NamesAccepted", "True")])).is_available());
        let refused = of(json!([condition("Established", "True"), condition("NamesAccepted", "False")]));
        assert!(!refused.is_available());
        assert_eq!(refused.condition("NamesAccepted").map(|it| it.message.as_str()), Some("taken"));
    }
}
