//! `ClusterOperator`: what a component's operator reports about itself.

use super::condition::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The spec is empty, but the API server refuses to create an object without it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterOperator",
    plural = "clusteroperators",
    shortname = "co",
    status = "ClusterOperatorStatus",
    schema = "disabled"
)]
pub struct ClusterOperatorSpec {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterOperatorStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Versions reached, by operand name. `operator` is the release version, which the operator reports only once all its
    /// operands are rolled out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub versions: Vec<OperandVersion>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_objects: Vec<RelatedObject>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extension: Option<serde_json::Value>,
}

/// What a ClusterOperator reports, without its related objects and extension.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct OperatorReport {
    pub generation: i64,
    pub conditions: Vec<Condition>,
    pub versions: Vec<OperandVersion>,
}

impl OperatorReport {
    /// The version of this operand; that of `operator` is the release that the operator has reached.
    pub(crate) fn version(&self, operand: &str) -> Option<&str> {
        self.versions.iter().find(|version| version.name == operand).map(|version| version.version.as_str())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OperandVersion {
    pub name: String,
    pub version: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelatedObject {
    pub group: String,
    pub resource: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}
