//! `KubeletConfig` and `ContainerRuntimeConfig`: settings of nodes from which the controller makes MachineConfigs.

use super::machine_config::PoolCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

/// Settings of the kubelets of pools.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "KubeletConfig",
    plural = "kubeletconfigs",
    status = "NodeConfigStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct KubeletConfigSpec {
    /// Without one, or with an empty one, no pool is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
    /// Fields of the kubelet's own `KubeletConfiguration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kubelet_config: Option<Map<String, Value>>,
    /// 0 to 10.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auto_sizing_reserved: Option<bool>,
    /// As in the cluster's APIServer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls_security_profile: Option<Value>,
}

/// Settings of the container runtimes (CRI-O) of pools.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "machineconfiguration.openshift.io",
    version = "v1",
    kind = "ContainerRuntimeConfig",
    plural = "containerruntimeconfigs",
    shortname = "ctrcfg",
    status = "NodeConfigStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRuntimeConfigSpec {
    /// Without one, or with an empty one, no pool is selected.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine_config_pool_selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_runtime_config: Option<ContainerRuntimeConfiguration>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ContainerRuntimeConfiguration {
    /// Most processes of a container; 0 and -1 mean any number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pids_limit: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_level: Option<String>,
    /// Most bytes of a container's log, as a quantity; a negative one means any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub log_size_max: Option<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overlay_size: Option<Value>,
    /// `crun` or `runc`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default_runtime: Option<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_image_stores: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_artifact_stores: Vec<Value>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_layer_stores: Vec<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NodeConfigStatus {
    pub observed_generation: i64,
    /// The last one counts: `Success` or `Failure`.
    pub conditions: Vec<PoolCondition>,
}
