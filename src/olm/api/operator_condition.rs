//! `OperatorCondition`: what an operator says about itself, and what the administrator says instead.

use crate::object::condition::ConditionStatus;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as MetaCondition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// The only type that has an effect: whether the operator may be replaced now.
pub const UPGRADEABLE: &str = "Upgradeable";

/// It has the name of its ClusterServiceVersion. The API server gives an object of the older version as this one.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v2",
    kind = "OperatorCondition",
    plural = "operatorconditions",
    shortname = "condition",
    category = "olm",
    namespaced,
    status = "OperatorConditionStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorConditionSpec {
    /// Accounts that may write it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub service_accounts: Vec<String>,
    /// Deployments of the operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub deployments: Vec<String>,
    /// By the administrator; come before the conditions.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<Override>,
    /// By the operator.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MetaCondition>,
}

/// A condition that need not say since when.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Override {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: ConditionStatus,
    pub reason: String,
    pub message: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorConditionStatus {
    /// Those of the spec, with the generation that they were read in.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MetaCondition>,
}
