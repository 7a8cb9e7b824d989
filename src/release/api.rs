//! Releases, and what decides which of their manifests are applied and which of them are offered, as the ClusterVersion has them.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition as MetaCondition;
use serde::{Deserialize, Serialize};

/// A release as it appears in status.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Release {
    pub version: String,
    pub image: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub channels: Vec<String>,
    /// `Multi` or empty.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub architecture: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CapabilitiesSpec {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub baseline_capability_set: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub additional_enabled_capabilities: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ComponentOverride {
    pub kind: String,
    pub group: String,
    pub namespace: String,
    pub name: String,
    pub unmanaged: bool,
}

/// An update that is recommended only to clusters to which its risks do not apply.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionalUpdate {
    pub release: Release,
    pub risks: Vec<ConditionalUpdateRisk>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MetaCondition>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risk_names: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionalUpdateRisk {
    pub url: String,
    pub name: String,
    pub message: String,
    pub matching_rules: Vec<MatchingRule>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MetaCondition>,
}

/// `Always` or `PromQL`. The schema refuses other types, so they must be dropped before status is written.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MatchingRule {
    #[serde(rename = "type")]
    pub type_: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub promql: Option<PromQl>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PromQl {
    pub promql: String,
}
