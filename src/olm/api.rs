//! The objects of operator lifecycle as serde types. Enumerations keep a text that they do not know, so that what is read can be
//! reported, and written back unchanged.

pub mod catalog_source;
pub mod cluster_service_version;
pub mod condition;
pub mod install_plan;
pub mod keys;
pub mod olm_config;
pub mod operator;
pub mod operator_condition;
pub mod operator_group;
pub mod operator_hub;
pub mod package_manifest;
pub mod subscription;

/// The group of all kinds here but PackageManifest and OperatorHub.
pub const GROUP: &str = "operators.coreos.com";
/// Of the kinds whose only version this is.
pub(crate) const API_VERSION: &str = "operators.coreos.com/v1alpha1";

/// Namespace of the process, of its Deployment and Lease. Installations elsewhere say so by flags.
pub const NAMESPACE: &str = "openshift-operator-lifecycle-manager";
/// Its catalogs are visible in all namespaces.
pub const GLOBAL_CATALOG_NAMESPACE: &str = "openshift-marketplace";
/// Name of the Deployment, and of its container.
pub const DEPLOYMENT: &str = "olm-operator";
/// Name of its Lease.
pub(crate) const LEASE: &str = "olm-operator";
/// The field manager of what it writes.
pub(crate) const MANAGER: &str = "operator-lifecycle-manager";
/// Service of the aggregated API of packages.
pub const PACKAGE_SERVICE: &str = "packageserver-service";
/// What the process reports to the update of the cluster.
pub mod cluster_operator {
    /// The controller of operators.
    pub const LIFECYCLE: &str = "operator-lifecycle-manager";
    /// The controller of catalogs, Subscriptions and InstallPlans.
    pub const CATALOG: &str = "operator-lifecycle-manager-catalog";
    /// The aggregated API of packages.
    pub const PACKAGE_SERVER: &str = "operator-lifecycle-manager-packageserver";
    /// The default catalogs.
    pub const MARKETPLACE: &str = "marketplace";
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}

#[cfg(test)]
mod tests;
