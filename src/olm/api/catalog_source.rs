//! `CatalogSource`: where a catalog of operators comes from, and how it is.

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as MetaCondition, Time};
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// What `status.reason` says besides nothing.
pub mod reason {
    pub const SPEC_INVALID: &str = "SpecInvalidError";
    pub const CONFIG_MAP: &str = "ConfigMapError";
    pub const REGISTRY_SERVER: &str = "RegistryServerError";
    pub const INVALID_INTERVAL: &str = "InvalidIntervalError";
}

/// Types and reasons of `status.conditions`.
pub mod condition {
    /// Whether all variables of the template have values.
    pub const TEMPLATES_HAVE_RESOLVED: &str = "TemplatesHaveResolved";
    /// The image that the template stands for, as the message.
    pub const RESOLVED_IMAGE: &str = "ResolvedImage";
    pub const ALL_TEMPLATES_RESOLVED: &str = "AllTemplatesResolved";
    pub const UNABLE_TO_RESOLVE: &str = "UnableToResolve";
    /// Which content is served, so that all replicas serve the same one: its pull spec with the digest, as the message.
    pub const CONTENT_LOADED: &str = "ContentLoaded";
    pub const LOADED: &str = "Loaded";
    pub const LOADING: &str = "Loading";
    pub const FAILED: &str = "Failed";
}

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "CatalogSource",
    plural = "catalogsources",
    shortname = "catsrc",
    category = "olm",
    namespaced,
    status = "CatalogSourceStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogSourceSpec {
    pub source_type: SourceType,
    /// Of several catalogs that have what is asked for, the one with the highest number is taken.
    #[serde(skip_serializing_if = "is_zero")]
    pub priority: i64,
    /// `grpc`: the image with the catalog. It comes before `address`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub image: String,
    /// `grpc`: `host:port` of a server that runs already.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// `configmap` and `internal`: name of the ConfigMap with the catalog, in the same namespace.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub config_map: String,
    /// How a pod that serves the catalog is to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grpc_pod_config: Option<GrpcPodConfig>,
    /// When another content of the image is looked for; never if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub update_strategy: Option<UpdateStrategy>,
    /// Names of Secrets with credentials for the image and for the bundles of the catalog, in the same namespace.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub secrets: Vec<String>,
    /// Has no effect; objects may have it.
    #[serde(skip_serializing_if = "super::is_false")]
    pub run_as_root: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub publisher: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub icon: Option<Icon>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the signature that serde asks for")]
fn is_zero(value: &i64) -> bool {
    *value == 0
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum SourceType {
    #[serde(rename = "grpc")]
    Grpc,
    #[serde(rename = "configmap")]
    ConfigMap,
    /// An older word for `configmap`.
    #[serde(rename = "internal")]
    Internal,
    /// Nothing that is known, perhaps empty.
    #[serde(untagged)]
    Other(String),
}

impl Default for SourceType {
    fn default() -> Self {
        SourceType::Other(String::new())
    }
}

/// How the pod of a catalog is to be. What the API server knows better is not decoded.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct GrpcPodConfig {
    /// Replaces `kubernetes.io/os: linux`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_selector: Option<BTreeMap<String, String>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Value>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Value>,
    /// An empty name means that the pod has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Without it the pod security label of the namespace decides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub security_context_config: Option<SecurityConfig>,
    /// Memory that is requested for the server, and which it tries not to exceed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_target: Option<Quantity>,
    /// Take the catalog out of the image and let our own server serve it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub extract_content: Option<ExtractContent>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum SecurityConfig {
    Legacy,
    Restricted,
}

/// Folders of the image.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ExtractContent {
    pub catalog_dir: String,
    /// What its own server has made of the catalog.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub cache_dir: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdateStrategy {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_poll: Option<RegistryPoll>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RegistryPoll {
    /// A duration as Go writes it, such as `30m0s`. The API server takes any text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub interval: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Icon {
    pub base64data: String,
    /// Such as `image/svg+xml`.
    pub mediatype: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CatalogSourceStatus {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// One of `reason`, or nothing.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub latest_image_registry_poll: Option<Time>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub config_map_reference: Option<ConfigMapReference>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub registry_service: Option<RegistryService>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection_state: Option<ConnectionState>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<MetaCondition>,
}

/// The ConfigMap whose content is served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConfigMapReference {
    pub name: String,
    pub namespace: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub uid: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub resource_version: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
}

/// The Service by which other programs ask for the catalog.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RegistryService {
    /// `grpc`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub protocol: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub service_namespace: String,
    /// A number as text.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub port: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created_at: Option<Time>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ConnectionState {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    pub last_observed_state: Connection,
    /// When the state last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_connect: Option<Time>,
}

/// States of a gRPC channel.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Connection {
    #[default]
    Idle,
    Connecting,
    Ready,
    TransientFailure,
    Shutdown,
    #[serde(untagged)]
    Other(String),
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// An object that cannot be decoded would keep all others from being followed.
    #[test]
    fn memory_target_may_be_a_number() {
        let target = |config: Value| serde_json::from_value::<GrpcPodConfig>(config).map(|config| config.memory_target);
        for (written, expected) in [
            (json!({"memoryTarget": 104_857_600}), Some("104857600")),
            (json!({"memoryTarget": "100Mi"}), Some("100Mi")),
            (json!({"memoryTarget": null}), None),
            (json!({}), None),
        ] {
            let expected = expected.map(|text| Quantity(text.to_owned()));
            assert_eq!(target(written.clone()).unwrap(), expected, "{written}");
        }
        assert!(target(json!({"memoryTarget": {}})).is_err());
    }
}
