//! `MachineConfig` and `MachineConfigPool`: what nodes are to be like, and which nodes are brought there together.

use crate::object::condition::ConditionStatus;
use crate::object::null_is_default;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Labels, annotations and taints of this API begin with it.
pub const GROUP: &str = "machineconfiguration.openshift.io";
/// The label by which pools select MachineConfigs; its value is usually the name of a pool.
pub const ROLE_LABEL: &str = "machineconfiguration.openshift.io/role";
/// Annotation of a MachineConfig that a controller has made: the version of that controller. People's have none.
pub const GENERATED_BY: &str = "machineconfiguration.openshift.io/generated-by-controller-version";
/// Annotation of a rendered MachineConfig: the release that it was rendered for.
pub const RELEASE_VERSION: &str = "machineconfiguration.openshift.io/release-image-version";
/// Annotation of a rendered MachineConfig whose operating system is not that of the release.
pub const OS_IMAGE_OVERRIDDEN: &str = "machineconfiguration.openshift.io/os-image-url-overridden";
/// Label of the pools that an update waits for.
pub const REQUIRED_FOR_UPGRADE: &str = "operator.machineconfiguration.openshift.io/required-for-upgrade";

/// Namespace and Deployment of the controller of nodes, and its Lease there.
pub(crate) const CONTROLLER_NAMESPACE: &str = "openshift-machine-config-operator";
pub(crate) const CONTROLLER_DEPLOYMENT: &str = "machine-config-operator";
pub(crate) const LEASE: &str = "machine-config";
/// Field manager of all that the controller writes, and reporter of its events.
pub(crate) const CONTROLLER_MANAGER: &str = "machine-config-controller";
/// Field manager of what the agent of a node writes.
pub(crate) const AGENT_MANAGER: &str = "machine-config-daemon";

/// Annotations of nodes, without the group that they begin with.
pub mod annotation {
    /// The rendered MachineConfig that the node has, by its agent.
    pub const CURRENT_CONFIG: &str = "currentConfig";
    /// The rendered MachineConfig that it should have, by the controller.
    pub const DESIRED_CONFIG: &str = "desiredConfig";
    pub const CURRENT_IMAGE: &str = "currentImage";
    pub const DESIRED_IMAGE: &str = "desiredImage";
    /// How far the agent is: `Done`, `Working`, `Degraded` or `Unreconcilable`.
    pub const STATE: &str = "state";
    /// Why it is Degraded or Unreconcilable.
    pub const REASON: &str = "reason";
    /// What the agent asks for: `drain-<MachineConfig>` or `uncordon-<MachineConfig>`.
    pub const DESIRED_DRAIN: &str = "desiredDrain";
    /// Which request that is: the agent writes another text for each.
    pub const DESIRED_DRAIN_ID: &str = "desiredDrainId";
    /// The request that the controller has fulfilled last.
    pub const LAST_APPLIED_DRAIN: &str = "lastAppliedDrain";
    pub const LAST_APPLIED_DRAIN_ID: &str = "lastAppliedDrainId";
    /// `Rebooting` from just before a restart until the agent is back.
    pub const POST_CONFIG_ACTION: &str = "post-config-action";
    /// When the agent asked for the restart that is under way.
    pub const REBOOT_STARTED: &str = "rebootStarted";
    /// `SingleReplica` where the control plane is one node, so that nobody could take its pods; by the controller.
    pub const CONTROL_PLANE_TOPOLOGY: &str = "controlPlaneTopology";
    /// The controller has cordoned the node, for this MachineConfig.
    pub const CORDONED_FOR: &str = "cordonedFor";
    /// When the node reached its present configuration, by the controller.
    pub const DONE_SINCE: &str = "doneSince";
    /// The claim for which the controller told the node last what it should have.
    pub const TOLD_FOR: &str = "toldFor";
    /// When the drain that is under way began.
    pub const DRAIN_STARTED: &str = "drainStarted";
    /// When its last attempt ended in vain.
    pub const DRAIN_FAILED: &str = "drainFailed";
    /// The rendered MachineConfig that the agent prepares before the node is told to take it; by the controller, where that means
    /// that an operating system or packages are downloaded.
    pub const STAGE_AHEAD: &str = "stageAhead";
    /// The folder whose files the kubelet of the node merges into its configuration, or `none`; by the agent.
    pub const KUBELET_CONFIG_DIR: &str = "kubeletConfigDir";
    /// Which pods keep the node from being drained, once that takes too long.
    pub const DRAIN_BLOCKED: &str = "drainBlocked";
}

/// A part of the configuration of nodes, or, rendered, all of it.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfig",
    plural = "machineconfigs",
    shortname = "mc",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigSpec {
    /// An Ignition configuration, 2.0 to 2.2 or 3.0 to 3.5. Null and `{}` are empty ones.
    #[serde(skip_serializing_if = "Value::is_null")]
    pub config: Value,
    /// The image of the operating system.
    #[serde(rename = "osImageURL", skip_serializing_if = "String::is_empty")]
    pub os_image_url: String,
    #[serde(rename = "baseOSExtensionsContainerImage", skip_serializing_if = "String::is_empty")]
    pub base_os_extensions_container_image: String,
    /// Each may hold several arguments with spaces between them.
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub kernel_arguments: Vec<String>,
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub extensions: Vec<String>,
    #[serde(skip_serializing_if = "is_false")]
    pub fips: bool,
    /// Empty or `default`, `realtime`, `64k-pages`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kernel_type: String,
}

/// Nodes that get the same rendered MachineConfig, a few at a time.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "MachineConfigPool",
    plural = "machineconfigpools",
    shortname = "mcp",
    status = "MachineConfigPoolStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolSpec {
    /// Without one, or with an empty one, no MachineConfig is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_selector: Option<LabelSelector>,
    /// Without one, or with an empty one, no node is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<LabelSelector>,
    /// No further node is begun; rendering goes on.
    #[serde(skip_serializing_if = "is_false")]
    pub paused: bool,
    /// How many nodes may be unavailable: a number, or a percentage such as `10%`; absent and 0 mean 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_unavailable: Option<IntOrString>,
    pub configuration: PoolConfiguration,
}

/// A rendered MachineConfig by its name, and the MachineConfigs that it was made of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolConfiguration {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(deserialize_with = "null_is_default", skip_serializing_if = "Vec::is_empty")]
    pub source: Vec<Reference>,
}

/// An object reference, of which readers use the name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Reference {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub api_version: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub kind: String,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct MachineConfigPoolStatus {
    pub observed_generation: i64,
    /// The last one that all nodes have reached.
    pub configuration: PoolConfiguration,
    pub machine_count: i32,
    pub updated_machine_count: i32,
    pub ready_machine_count: i32,
    pub unavailable_machine_count: i32,
    pub degraded_machine_count: i32,
    #[serde(deserialize_with = "null_is_default")]
    pub conditions: Vec<PoolCondition>,
}

/// Unlike in other APIs no field is required.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PoolCondition {
    #[serde(rename = "type", default)]
    pub type_: String,
    #[serde(default = "unknown")]
    pub status: ConditionStatus,
    #[serde(default)]
    pub last_transition_time: Option<Time>,
    #[serde(default)]
    pub reason: String,
    #[serde(default)]
    pub message: String,
}

fn unknown() -> ConditionStatus {
    ConditionStatus::Unknown
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_false(value: &bool) -> bool {
    !value
}
