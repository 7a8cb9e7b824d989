//! The Kubernetes objects this program reads and writes, as serde types without logic beyond accessors.

pub mod cluster_operator;
pub mod cluster_version;
pub mod condition;
pub mod object_meta;
pub mod progress;
#[cfg(test)]
mod tests;

pub use cluster_operator::{ClusterOperator, ClusterOperatorStatus};
pub use cluster_version::{
    Capabilities, ClusterVersion, ClusterVersionSpec, ClusterVersionStatus, ComponentOverride, HistoryEntry,
    HistoryState, Release, Update,
};
pub use condition::{Condition, ConditionStatus};

/// Namespace of the daemon unless `CVO_NAMESPACE` names another.
pub const NAMESPACE: &str = "openshift-cluster-version";
/// Name of the only ClusterVersion unless `CVO_NAME` names another.
pub const NAME: &str = "version";
/// Name of the daemon's own Deployment, and of its container.
pub const OWN_DEPLOYMENT: &str = "cluster-version-operator";
/// Namespace of the verification ConfigMap and of the in-cluster signature store.
pub const MANAGED_NAMESPACE: &str = "openshift-config-managed";
/// Directory on the node and in the daemon's container that holds extracted payloads.
pub const PAYLOAD_STORE: &str = "/etc/cvo/updatepayloads";
