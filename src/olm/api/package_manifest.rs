//! `PackageManifest`: what a catalog offers, one object a package. It is made when it is asked for and cannot be written.

use super::catalog_source::Icon;
use super::cluster_service_version::{InstallMode, Link, Maintainer, NativeApi};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

pub const GROUP: &str = "packages.operators.coreos.com";
pub const VERSION: &str = "v1";
pub const PLURAL: &str = "packagemanifests";

/// Clients expect it, empty as it is.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "packages.operators.coreos.com",
    version = "v1",
    kind = "PackageManifest",
    plural = "packagemanifests",
    namespaced,
    status = "PackageManifestStatus",
    schema = "disabled"
)]
pub struct PackageManifestSpec {}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageManifestStatus {
    pub catalog_source: String,
    pub catalog_source_display_name: String,
    pub catalog_source_publisher: String,
    pub catalog_source_namespace: String,
    pub provider: Link,
    pub package_name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
    pub channels: Vec<PackageChannel>,
    pub default_channel: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Deprecation {
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PackageChannel {
    pub name: String,
    /// The head of the channel.
    #[serde(rename = "currentCSV")]
    pub current_csv: String,
    #[serde(rename = "currentCSVDesc")]
    pub current_csv_desc: CsvDescription,
    /// The highest version first.
    pub entries: Vec<ChannelEntry>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ChannelEntry {
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deprecation: Option<Deprecation>,
}

/// What a ClusterServiceVersion says about itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CsvDescription {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    /// Without its data, which a subresource gives.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub icon: Vec<Icon>,
    pub version: String,
    pub provider: Link,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub maturity: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<InstallMode>,
    #[serde(rename = "customresourcedefinitions")]
    pub custom_resource_definitions: Apis<CrdSummary>,
    #[serde(rename = "apiservicedefinitions")]
    pub api_service_definitions: Apis<ApiServiceSummary>,
    /// With this spelling.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub native_apis: Vec<NativeApi>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_kube_version: String,
    /// Images alone, sorted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_images: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Apis<T> {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<T>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<T>,
}

/// What is told of a CustomResourceDefinition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdSummary {
    /// `<plural>.<group>`.
    pub name: String,
    pub version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}

/// What is told of an APIService.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceSummary {
    /// Plural of the kind.
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
}
