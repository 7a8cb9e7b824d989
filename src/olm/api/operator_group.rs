//! `OperatorGroup`: which namespaces the operators of a namespace work for.

use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as MetaCondition, LabelSelector, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Types and reasons of `status.conditions`.
pub mod condition {
    pub const SERVICE_ACCOUNT: &str = "OperatorGroupServiceAccount";
    pub const SERVICE_ACCOUNT_NOT_FOUND: &str = "ServiceAccountNotFound";
    pub const MULTIPLE: &str = "MultipleOperatorGroup";
    pub const MULTIPLE_FOUND: &str = "MultipleOperatorGroupsFound";
}

/// Without targets and selector: all namespaces. The API server gives an object of the older version as this one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OperatorGroup",
    plural = "operatorgroups",
    shortname = "og",
    category = "olm",
    namespaced,
    status = "OperatorGroupStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorGroupSpec {
    /// Come before the selector. None of them is empty.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub target_namespaces: Vec<String>,
    /// Labels of namespaces. An empty one counts as none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<NamespaceSelector>,
    /// With whose rights operators are installed.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_account_name: String,
    /// Older tools write it. It has no meaning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service_account: Option<Value>,
    /// The annotation with the provided APIs is kept as it is.
    #[serde(rename = "staticProvidedAPIs", skip_serializing_if = "super::is_false")]
    pub static_provided_apis: bool,
    #[serde(skip_serializing_if = "UpgradeStrategy::is_default")]
    pub upgrade_strategy: UpgradeStrategy,
}

/// A label selector. Documentation shows labels directly in it, which count as if they were below `matchLabels`: were they dropped, an empty
/// selector would remain, which means all namespaces.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct NamespaceSelector {
    #[serde(flatten)]
    pub selector: LabelSelector,
    #[serde(flatten)]
    pub labels: BTreeMap<String, Value>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum UpgradeStrategy {
    #[default]
    Default,
    /// An operator that failed is replaced by a later one.
    TechPreviewUnsafeFailForward,
}

impl UpgradeStrategy {
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
    fn is_default(&self) -> bool {
        *self == UpgradeStrategy::Default
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OperatorGroupStatus {
    /// The targets; an empty name alone means all namespaces.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub namespaces: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_ref: Option<ObjectReference>,
    pub last_updated: Time,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MetaCondition>,
}
