//! `InstallPlan`: the objects that an installation or update of operators creates, in their order.

use super::condition::UpdatedCondition;
use super::subscription::Approval;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Types of `status.conditions`, and of the conditions of bundle lookups.
pub mod condition {
    pub const RESOLVED: &str = "Resolved";
    pub const INSTALLED: &str = "Installed";
    pub const BUNDLE_LOOKUP_NOT_PERSISTED: &str = "BundleLookupNotPersisted";
    pub const BUNDLE_LOOKUP_PENDING: &str = "BundleLookupPending";
    pub const BUNDLE_LOOKUP_FAILED: &str = "BundleLookupFailed";
}

/// Reasons of these conditions.
pub mod reason {
    pub const PLAN_UNKNOWN: &str = "PlanUnknown";
    pub const INSTALL_CHECK_FAILED: &str = "InstallCheckFailed";
    pub const DEPENDENCIES_CONFLICT: &str = "DependenciesConflict";
    pub const INSTALL_COMPONENT_FAILED: &str = "InstallComponentFailed";
    pub const JOB_NOT_STARTED: &str = "JobNotStarted";
    pub const JOB_INCOMPLETE: &str = "JobIncomplete";
    pub const CATALOG_SOURCE_MISSING: &str = "CatalogSourceMissing";
    pub const BUNDLE_NOT_UNPACKED: &str = "BundleNotUnpacked";
}

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "InstallPlan",
    plural = "installplans",
    shortname = "ip",
    category = "olm",
    namespaced,
    status = "InstallPlanStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanSpec {
    pub cluster_service_version_names: Vec<String>,
    pub approval: Approval,
    /// Nothing happens before.
    pub approved: bool,
    /// Counts the plans of the namespace.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub generation: Option<i64>,
    /// Older plans name their catalog here.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub source_namespace: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanStatus {
    pub phase: InstallPlanPhase,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<InstallPlanCondition>,
    pub catalog_sources: Vec<String>,
    /// In the order in which they are carried out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub plan: Vec<Step>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bundle_lookups: Vec<BundleLookup>,
    /// Whose rights are used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attenuated_service_account_ref: Option<ObjectReference>,
    /// When the first step was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstallPlanPhase {
    #[default]
    #[serde(rename = "")]
    None,
    /// Of older plans.
    Planning,
    RequiresApproval,
    Installing,
    Complete,
    Failed,
    #[serde(untagged)]
    Other(String),
}

/// Unlike that of a lookup it may lack everything.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct InstallPlanCondition {
    #[serde(rename = "type", skip_serializing_if = "String::is_empty")]
    pub type_: String,
    /// `True`, `False` or `Unknown`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub status: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}

/// An object to be created.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Step {
    /// The ClusterServiceVersion that it belongs to.
    pub resolving: String,
    pub resource: StepResource,
    #[serde(skip_serializing_if = "super::is_false")]
    pub optional: bool,
    pub status: StepStatus,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StepResource {
    /// The catalog that it comes from.
    pub source_name: String,
    pub source_namespace: String,
    pub group: String,
    pub version: String,
    /// `BundleSecret` stands for a Secret that the bundle holds.
    pub kind: String,
    pub name: String,
    /// The object as JSON text, or, in the same form, a reference to where it is found.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub manifest: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum StepStatus {
    #[default]
    Unknown,
    NotPresent,
    Present,
    Created,
    NotCreated,
    WaitingForApi,
    UnsupportedResource,
    #[serde(untagged)]
    Other(String),
}

/// A bundle whose content was, or is to be, fetched for the plan.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct BundleLookup {
    /// Its image.
    pub path: String,
    /// Name of its ClusterServiceVersion.
    pub identifier: String,
    pub replaces: String,
    pub catalog_source_ref: ObjectReference,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<UpdatedCondition>,
    /// As JSON text, in the form of the annotation of ClusterServiceVersions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub properties: String,
}
