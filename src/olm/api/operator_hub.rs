//! `OperatorHub`: which default catalogs of the release are wanted.

use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Name of the only one that is read.
pub const NAME: &str = "cluster";

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "config.openshift.io",
    version = "v1",
    kind = "OperatorHub",
    plural = "operatorhubs",
    status = "OperatorHubStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct OperatorHubSpec {
    /// Only catalogs that `sources` enables are wanted.
    #[serde(skip_serializing_if = "super::is_false")]
    pub disable_all_default_sources: bool,
    /// Comes before `disable_all_default_sources`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<HubSource>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HubSource {
    /// Of a default catalog.
    pub name: String,
    pub disabled: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct OperatorHubStatus {
    /// All default catalogs, and those that the spec names though there is no such default.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub sources: Vec<HubSourceStatus>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HubSourceStatus {
    pub name: String,
    pub disabled: bool,
    /// `Success` or `Error`.
    pub status: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
}
