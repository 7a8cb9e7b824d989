//! `Operator`: everything that belongs to an operator, in one place.

use super::condition::UpdatedCondition;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// It is named `<package>.<namespace>`, and has nothing to be configured.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "Operator",
    plural = "operators",
    category = "olm",
    status = "OperatorStatus",
    schema = "disabled"
)]
pub struct OperatorSpec {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorStatus {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub components: Option<Components>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Components {
    /// By which they are found.
    pub label_selector: LabelSelector,
    /// By kind, apiVersion, namespace and name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refs: Vec<Component>,
}

/// An object, with what its status says.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Component {
    #[serde(flatten)]
    pub reference: ObjectReference,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<UpdatedCondition>,
}
