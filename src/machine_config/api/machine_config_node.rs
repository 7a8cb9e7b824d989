//! `MachineConfigNode`: how far a node is on its way to its configuration, as an object of its own.

use crate::object::condition::Condition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Stands where something is not known.
pub(crate) const NOT_YET_SET: &str = "not-yet-set";

/// It has the name of its Node.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigNode",
    plural = "machineconfignodes",
    status = "MachineConfigNodeStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigNodeSpec {
    pub node: Named,
    pub pool: Named,
    pub config_version: DesiredVersion,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Named {
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DesiredVersion {
    /// A rendered MachineConfig.
    pub desired: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigNodeStatus {
    pub observed_generation: i64,
    /// `None` before anything is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_version: Option<Versions>,
    pub conditions: Vec<Condition>,
}

/// Rendered MachineConfigs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Versions {
    pub current: String,
    pub desired: String,
}
