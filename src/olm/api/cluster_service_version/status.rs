//! What the controller of operators says of a ClusterServiceVersion.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use serde::{Deserialize, Serialize};

/// Why it is in its phase.
pub mod reason {
    pub const REQUIREMENTS_UNKNOWN: &str = "RequirementsUnknown";
    pub const REQUIREMENTS_NOT_MET: &str = "RequirementsNotMet";
    pub const REQUIREMENTS_MET: &str = "AllRequirementsMet";
    pub const OWNER_CONFLICT: &str = "OwnerConflict";
    pub const COMPONENT_FAILED: &str = "InstallComponentFailed";
    /// Only a change of rights, accounts or OperatorGroups helps.
    pub const COMPONENT_FAILED_NO_RETRY: &str = "InstallComponentFailedNoRetry";
    pub const INVALID_STRATEGY: &str = "InvalidInstallStrategy";
    pub const WAITING: &str = "InstallWaiting";
    pub const INSTALL_SUCCESSFUL: &str = "InstallSucceeded";
    pub const INSTALL_CHECK_FAILED: &str = "InstallCheckFailed";
    pub const COMPONENT_UNHEALTHY: &str = "ComponentUnhealthy";
    pub const BEING_REPLACED: &str = "BeingReplaced";
    pub const REPLACED: &str = "Replaced";
    pub const NEEDS_REINSTALL: &str = "NeedsReinstall";
    pub const NEEDS_CERT_ROTATION: &str = "NeedsCertRotation";
    pub const API_SERVICE_RESOURCE_ISSUE: &str = "APIServiceResourceIssue";
    pub const API_SERVICE_RESOURCES_NEED_REINSTALL: &str = "APIServiceResourcesNeedReinstall";
    pub const API_SERVICE_INSTALL_FAILED: &str = "APIServiceInstallFailed";
    pub const COPIED: &str = "Copied";
    pub const INVALID_INSTALL_MODES: &str = "InvalidInstallModes";
    pub const NO_TARGET_NAMESPACES: &str = "NoTargetNamespaces";
    pub const UNSUPPORTED_OPERATOR_GROUP: &str = "UnsupportedOperatorGroup";
    pub const NO_OPERATOR_GROUP: &str = "NoOperatorGroup";
    pub const TOO_MANY_OPERATOR_GROUPS: &str = "TooManyOperatorGroups";
    pub const INTER_OPERATOR_GROUP_OWNER_CONFLICT: &str = "InterOperatorGroupOwnerConflict";
    pub const CANNOT_MODIFY_STATIC_OPERATOR_GROUP: &str = "CannotModifyStaticOperatorGroupProvidedAPIs";
    pub const DETECTED_CLUSTER_CHANGE: &str = "DetectedClusterChange";
    pub const INVALID_WEBHOOK_DESCRIPTION: &str = "InvalidWebhookDescription";
    pub const OPERATOR_CONDITION_NOT_UPGRADEABLE: &str = "OperatorConditionNotUpgradeable";
    pub const WAITING_ON_CLEANUP: &str = "WaitingOnCleanup";
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionStatus {
    #[serde(skip_serializing_if = "Phase::is_none")]
    pub phase: Phase,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Earlier phases and reasons, oldest first.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<ClusterServiceVersionCondition>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub requirement_status: Vec<RequirementStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_last_updated: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub certs_rotate_at: Option<Time>,
    /// Has no effect; objects may have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<Cleanup>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Phase {
    #[default]
    #[serde(rename = "")]
    None,
    Pending,
    InstallReady,
    Installing,
    Succeeded,
    Failed,
    Unknown,
    Replacing,
    Deleting,
    #[serde(untagged)]
    Other(String),
}

impl Phase {
    pub(crate) fn is_none(&self) -> bool {
        *self == Phase::None
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionCondition {
    #[serde(skip_serializing_if = "Phase::is_none")]
    pub phase: Phase,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
}

/// Something that has to exist, and whether it does.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RequirementStatus {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub name: String,
    pub status: Requirement,
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dependents: Vec<DependentStatus>,
}

/// Of a requirement, and the last two of its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Requirement {
    Present,
    #[default]
    NotPresent,
    PresentNotSatisfied,
    PresentNotAvailable,
    DeploymentFound,
    DeploymentNotFound,
    Satisfied,
    NotSatisfied,
    #[serde(untagged)]
    Other(String),
}

/// A part of a requirement, such as a right of an account.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DependentStatus {
    pub group: String,
    pub version: String,
    pub kind: String,
    pub status: Requirement,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uuid: String,
}

/// Objects that are yet to be deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Cleanup {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pending_deletion: Vec<PendingDeletion>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PendingDeletion {
    pub group: String,
    pub kind: String,
    pub instances: Vec<Instance>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Instance {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub namespace: String,
    pub name: String,
}
