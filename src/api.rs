//! The Kubernetes objects this program reads and writes, as serde types without logic beyond accessors.

pub(crate) mod cluster_operator;
pub(crate) mod cluster_version;
pub(crate) mod condition;
pub(crate) mod machine_config;
pub(crate) mod machine_config_node;
pub(crate) mod node_config;
pub(crate) mod object_meta;
pub(crate) mod progress;
pub(crate) mod release;

pub(crate) use cluster_operator::ClusterOperator;
pub(crate) use cluster_version::{
    ClusterVersion, ClusterVersionSpec, ClusterVersionStatus, HistoryEntry, HistoryState,
};
pub(crate) use condition::{Condition, ConditionStatus};
pub(crate) use release::{ComponentOverride, Release};

/// Namespace of the daemon unless `CVO_NAMESPACE` names another.
pub const NAMESPACE: &str = "openshift-cluster-version";
/// Name of the only ClusterVersion unless `CVO_NAME` names another.
pub const NAME: &str = "version";
/// Name of the daemon's own Deployment, and of its container.
pub const OWN_DEPLOYMENT: &str = "cluster-version-operator";
/// Field manager of all that the daemon writes, and reporter of its events.
pub const FIELD_MANAGER: &str = "cluster-version-operator";
/// Namespace of the verification ConfigMap and of the in-cluster signature store.
pub const MANAGED_NAMESPACE: &str = "openshift-config-managed";

/// Audience of tokens that give access to the metrics and to nothing else: the API server does not take them.
pub(crate) const METRICS_AUDIENCE: &str = "cluster-version-operator-metrics";
/// Directory on the node and in the daemon's container that holds extracted payloads.
pub(crate) const PAYLOAD_STORE: &str = "/etc/cvo/updatepayloads";
/// Annotation of a Lease: how many seconds pass between two renewals, which its spec does not say.
pub(crate) const RENEWED_EVERY: &str = "release.openshift.io/renewed-every-seconds";
/// Annotation of a Lease: since when its holder cannot write what it does, and why. It is renewed all the same.
pub(crate) const NOT_WRITTEN: &str = "release.openshift.io/not-written";

#[cfg(test)]
mod tests;
