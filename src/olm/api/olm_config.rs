//! `OLMConfig`: settings of operator lifecycle for the whole cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as MetaCondition;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Name of the only one that is read.
pub const NAME: &str = "cluster";
/// The type of its condition: whether operators are no longer copied to their target namespaces.
pub const DISABLED_COPIED_CSVS: &str = "DisabledCopiedCSVs";

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1",
    kind = "OLMConfig",
    plural = "olmconfigs",
    category = "olm",
    status = "OLMConfigStatus",
    schema = "disabled"
)]
#[serde(default)]
pub struct OLMConfigSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub features: Option<Features>,
}

impl OLMConfigSpec {
    /// Whether operators for all namespaces are not to be copied.
    pub(crate) fn disables_copies(&self) -> bool {
        self.features.as_ref().and_then(|features| features.disable_copied_csvs).unwrap_or_default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Features {
    /// Operators that watch all namespaces are not copied there.
    #[serde(rename = "disableCopiedCSVs", skip_serializing_if = "Option::is_none")]
    pub disable_copied_csvs: Option<bool>,
    /// Numbers with `s`, `m` or `h`, such as `12h`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub package_server_sync_interval: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OLMConfigStatus {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MetaCondition>,
}
