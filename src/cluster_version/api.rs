//! `ClusterVersion`: what the administrator asks for, and the status that the daemon reports.

use crate::object::condition::Condition;
use crate::release::api::ComponentOverride;
pub(crate) use crate::release::api::{CapabilitiesSpec, ConditionalUpdate, ConditionalUpdateRisk, Release};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Namespace of the daemon unless `CVO_NAMESPACE` names another.
pub const NAMESPACE: &str = "openshift-cluster-version";
/// Name of the only ClusterVersion unless `CVO_NAME` names another.
pub const NAME: &str = "version";
/// Name of the daemon's own Deployment, and of its container.
pub const OWN_DEPLOYMENT: &str = "cluster-version-operator";
/// Field manager of all that the daemon writes, and reporter of its events.
pub const FIELD_MANAGER: &str = "cluster-version-operator";
/// Directory on the node and in the daemon's container that holds extracted payloads.
pub(crate) const PAYLOAD_STORE: &str = "/etc/cvo/updatepayloads";

/// What the administrator asks for.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "ClusterVersion",
    plural = "clusterversions",
    status = "ClusterVersionStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterVersionSpec {
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub desired_update: Option<Update>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub upstream: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub channel: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capabilities: Option<CapabilitiesSpec>,
    /// If unset, the payload's stores are asked. A non-empty list replaces them; an empty list is an error.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub signature_stores: Option<Vec<SignatureStore>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<ComponentOverride>,
}

/// `spec.desiredUpdate`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Update {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub force: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub accept_risks: Vec<AcceptRisk>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mode: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AcceptRisk {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SignatureStore {
    pub url: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca: Option<ConfigMapName>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ConfigMapName {
    pub name: String,
}

/// What the daemon reports. The schema requires `desired`, `observedGeneration`, `versionHash` and `availableUpdates`, so
/// they are always written; `availableUpdates` is `null` while the updates are not known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterVersionStatus {
    pub desired: Release,
    /// Newest first.
    pub history: Vec<HistoryEntry>,
    pub observed_generation: i64,
    pub version_hash: String,
    #[serde(skip_serializing_if = "Capabilities::is_empty")]
    pub capabilities: Capabilities,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    pub available_updates: Option<Vec<Release>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditional_updates: Vec<ConditionalUpdate>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditional_update_risks: Vec<ConditionalUpdateRisk>,
}

/// One entry of `status.history`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    pub state: HistoryState,
    pub started_time: Time,
    /// The schema requires the key, so it is written as `null` until the entry is closed.
    #[serde(default)]
    pub completion_time: Option<Time>,
    #[serde(default)]
    pub version: String,
    pub image: String,
    #[serde(default)]
    pub verified: bool,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub accepted_risks: String,
}

/// The schema allows any text. An entry counts as applied only if it says so, hence all but `Completed` reads as `Partial`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum HistoryState {
    Completed,
    #[serde(other)]
    Partial,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Capabilities {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub enabled_capabilities: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub known_capabilities: Vec<String>,
}

impl Capabilities {
    pub fn is_empty(&self) -> bool {
        self.enabled_capabilities.is_empty() && self.known_capabilities.is_empty()
    }
}

#[cfg(test)]
mod tests;
