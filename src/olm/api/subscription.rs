//! `Subscription`: a package that is to be installed and kept up to date.

use crate::object::condition::ConditionStatus;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Types of `status.conditions`.
pub mod condition {
    pub const CATALOG_SOURCES_UNHEALTHY: &str = "CatalogSourcesUnhealthy";
    pub const RESOLUTION_FAILED: &str = "ResolutionFailed";
    pub const BUNDLE_UNPACKING: &str = "BundleUnpacking";
    pub const BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
    pub const INSTALL_PLAN_PENDING: &str = "InstallPlanPending";
    pub const INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
    pub const INSTALL_PLAN_MISSING: &str = "InstallPlanMissing";
    /// The three after it together.
    pub const DEPRECATED: &str = "Deprecated";
    pub const PACKAGE_DEPRECATED: &str = "PackageDeprecated";
    pub const CHANNEL_DEPRECATED: &str = "ChannelDeprecated";
    pub const BUNDLE_DEPRECATED: &str = "BundleDeprecated";
}

/// Reasons of `status.conditions`. `InstallPlanPending` may have the phase of the plan instead, and `InstallPlanFailed` the reason of
/// the plan's condition.
pub mod reason {
    pub const UNHEALTHY_CATALOG_SOURCE_FOUND: &str = "UnhealthyCatalogSourceFound";
    pub const ALL_CATALOG_SOURCES_HEALTHY: &str = "AllCatalogSourcesHealthy";
    pub const NO_CATALOG_SOURCES_FOUND: &str = "NoCatalogSourcesFound";
    pub const CATALOG_SOURCES_ADDED: &str = "CatalogSourcesAdded";
    pub const CATALOG_SOURCES_DELETED: &str = "CatalogSourcesDeleted";
    pub const CATALOG_SOURCES_UPDATED: &str = "CatalogSourcesUpdated";
    pub const CONSTRAINTS_NOT_SATISFIABLE: &str = "ConstraintsNotSatisfiable";
    pub const ERROR_PREVENTED_RESOLUTION: &str = "ErrorPreventedResolution";
    pub const UNPACKING_IN_PROGRESS: &str = "UnpackingInProgress";
    pub const BUNDLE_UNPACK_FAILED: &str = "BundleUnpackFailed";
    pub const ERROR_PREVENTED_UNPACKING: &str = "ErrorPreventedUnpacking";
    pub const ENSURE_INSTALL_PLAN_FAILED: &str = "EnsureInstallPlanFailed";
    pub const INSTALL_PLAN_NOT_YET_RECONCILED: &str = "InstallPlanNotYetReconciled";
    pub const INSTALL_PLAN_FAILED: &str = "InstallPlanFailed";
    pub const REFERENCED_INSTALL_PLAN_NOT_FOUND: &str = "ReferencedInstallPlanNotFound";
}

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "Subscription",
    plural = "subscriptions",
    shortname = "sub",
    shortname = "subs",
    category = "olm",
    namespaced,
    status = "SubscriptionStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionSpec {
    /// The CatalogSource, which has to be in the same namespace or in the global one.
    pub source: String,
    pub source_namespace: String,
    /// The package.
    pub name: String,
    /// Empty: any, the default channel first.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channel: String,
    /// The version to begin with; without effect once there is one.
    #[serde(rename = "startingCSV", skip_serializing_if = "String::is_empty")]
    pub starting_csv: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub install_plan_approval: Option<Approval>,
    /// Changes the Deployments of the operator.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config: Option<SubscriptionConfig>,
}

/// Whether somebody has to approve InstallPlans. Only the exact word asks for it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Approval {
    #[default]
    Automatic,
    Manual,
    /// Counts as automatic.
    #[serde(untagged)]
    Other(String),
}

/// What the Deployments of an operator get. Parts of pods stay as they are written, so that none is lost which is newer than this
/// program.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct SubscriptionConfig {
    /// Has no effect; objects may have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resources: Option<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env_from: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volumes: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionStatus {
    /// The newest ClusterServiceVersion that was chosen; perhaps not installed yet.
    #[serde(rename = "currentCSV", default, skip_serializing_if = "String::is_empty")]
    pub current_csv: String,
    /// The one that is on the cluster.
    #[serde(rename = "installedCSV", default, skip_serializing_if = "String::is_empty")]
    pub installed_csv: String,
    /// The latest InstallPlan, in an older shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub installplan: Option<InstallPlanReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_ref: Option<ObjectReference>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub install_plan_generation: Option<i64>,
    #[serde(default, skip_serializing_if = "State::is_none")]
    pub state: State,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    pub last_updated: Time,
    /// One entry for each visible catalog.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub catalog_health: Vec<CatalogHealth>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<SubscriptionCondition>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    #[default]
    #[serde(rename = "")]
    None,
    /// Nobody writes it any more.
    UpgradeAvailable,
    UpgradePending,
    AtLatestKnown,
    /// Only where an operator that failed may be replaced.
    UpgradeFailed,
    #[serde(untagged)]
    Other(String),
}

impl State {
    fn is_none(&self) -> bool {
        *self == State::None
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanReference {
    pub api_version: String,
    pub kind: String,
    pub name: String,
    pub uuid: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CatalogHealth {
    pub catalog_source_ref: ObjectReference,
    pub last_updated: Time,
    pub healthy: bool,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SubscriptionCondition {
    #[serde(rename = "type")]
    pub type_: String,
    pub status: ConditionStatus,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When it was last looked at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// When `status` last changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}
