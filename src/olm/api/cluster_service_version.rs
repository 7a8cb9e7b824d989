//! `ClusterServiceVersion`: one version of an operator, with what it needs, provides and consists of. Its status is in
//! `cluster_service_version::status`.
//!
//! Authors write it, so a file of theirs may have `null` where the API server has nothing: whoever reads files removes it first.

mod status;

pub use status::{
    Cleanup, ClusterServiceVersionCondition, ClusterServiceVersionStatus, DependentStatus, Instance, PendingDeletion,
    Phase, Requirement, RequirementStatus, reason,
};

use super::catalog_source::Icon;
use super::keys::{annotation, label};
use crate::olm::names;
use k8s_openapi::api::admissionregistration::v1::RuleWithOperations;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// The only install strategy.
pub const STRATEGY_DEPLOYMENT: &str = "deployment";

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "operators.coreos.com",
    version = "v1alpha1",
    kind = "ClusterServiceVersion",
    plural = "clusterserviceversions",
    shortname = "csv",
    shortname = "csvs",
    category = "olm",
    namespaced,
    status = "ClusterServiceVersionStatus",
    schema = "disabled"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterServiceVersionSpec {
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub keywords: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub maintainers: Vec<Maintainer>,
    #[serde(skip_serializing_if = "Link::is_empty")]
    pub provider: Link,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub links: Vec<Link>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub icon: Vec<Icon>,
    /// Of resources of the operator, as are the next two; without effect.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub maturity: String,
    /// A semantic version, perhaps with `v` before it or without its last numbers.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub version: String,
    /// Tells rebuilds of a version apart: identifiers with dots between them.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub release: String,
    /// The lowest version of Kubernetes.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub min_kube_version: String,
    /// The ClusterServiceVersion that is replaced by it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub replaces: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<String>,
    pub install: InstallStrategy,
    #[serde(skip_serializing_if = "CustomResourceDefinitions::is_empty")]
    #[serde(rename = "customresourcedefinitions")]
    pub custom_resource_definitions: CustomResourceDefinitions,
    #[serde(skip_serializing_if = "ApiServiceDefinitions::is_empty")]
    #[serde(rename = "apiservicedefinitions")]
    pub api_service_definitions: ApiServiceDefinitions,
    #[serde(rename = "webhookdefinitions", skip_serializing_if = "Vec::is_empty")]
    pub webhook_definitions: Vec<WebhookDescription>,
    /// Kinds that the API server has to serve, whoever defines them.
    #[serde(rename = "nativeAPIs", skip_serializing_if = "Vec::is_empty")]
    pub native_apis: Vec<NativeApi>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub install_modes: Vec<InstallMode>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub related_images: Vec<RelatedImage>,
    /// Has no effect; objects may have it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cleanup: Option<CleanupSpec>,
}

impl ClusterServiceVersion {
    /// Whether it is the copy of one of another namespace, whose operator works here too, and so no operator.
    pub fn is_copy(&self) -> bool {
        self.has_copy_label() || self.unlabelled_copy_of().is_some()
    }

    fn has_copy_label(&self) -> bool {
        self.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(label::COPIED_FROM))
    }

    /// The namespace of the original of a copy that lacks the label, as earlier programs have written some, or whose label somebody has
    /// removed; `None` for everything else.
    ///
    /// The annotation with the namespace of the OperatorGroup and the reason `Copied` tell it together. The annotation of an original is its
    /// own namespace, and comes back when somebody changes it; a manifest from another namespace that somebody applies has that of the
    /// other one, but its status is its own. Whoever may write a status could have an original deleted by the reason alone.
    pub fn unlabelled_copy_of(&self) -> Option<&str> {
        let metadata = &self.metadata;
        let (own, annotations) = (metadata.namespace.as_deref()?, metadata.annotations.as_ref()?);
        let of = annotations.get(annotation::OPERATOR_NAMESPACE)?.as_str();
        let is_told = self.status.as_ref().is_some_and(|status| status.reason == reason::COPIED);
        (of != own && is_told && names::is_label(of) && !self.has_copy_label()).then_some(of)
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Maintainer {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub email: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    #[serde(skip_serializing_if = "String::is_empty")]
    pub name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub url: String,
}

impl Link {
    fn is_empty(&self) -> bool {
        *self == Link::default()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstallStrategy {
    pub strategy: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub spec: Option<StrategyDetails>,
}

/// What the operator consists of.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyDetails {
    pub deployments: Vec<StrategyDeployment>,
    /// In the target namespaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<StrategyPermissions>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cluster_permissions: Vec<StrategyPermissions>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StrategyDeployment {
    pub name: String,
    /// Labels of the Deployment.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub label: BTreeMap<String, String>,
    /// A DeploymentSpec as it is written, so that nothing is lost which is newer than this program.
    pub spec: Value,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct StrategyPermissions {
    pub service_account_name: String,
    pub rules: Vec<PolicyRule>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CustomResourceDefinitions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<CrdDescription>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<CrdDescription>,
}

impl CustomResourceDefinitions {
    fn is_empty(&self) -> bool {
        self.owned.is_empty() && self.required.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CrdDescription {
    /// `<plural>.<group>`.
    pub name: String,
    pub version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(flatten)]
    pub descriptors: Descriptors,
}

impl CrdDescription {
    pub(crate) fn group(&self) -> &str {
        self.name.split_once('.').map_or("", |(_, group)| group)
    }
}

/// Hints for consoles.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptors {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<ResourceReference>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spec_descriptors: Vec<Descriptor>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub status_descriptors: Vec<Descriptor>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub action_descriptors: Vec<Descriptor>,
}

/// A kind of objects that the operator makes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ResourceReference {
    pub name: String,
    pub kind: String,
    pub version: String,
}

/// How a field is shown.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Descriptor {
    pub path: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(rename = "x-descriptors", skip_serializing_if = "Vec::is_empty")]
    pub x_descriptors: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub value: Option<Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ApiServiceDefinitions {
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub owned: Vec<ApiServiceDescription>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub required: Vec<ApiServiceDescription>,
}

impl ApiServiceDefinitions {
    fn is_empty(&self) -> bool {
        self.owned.is_empty() && self.required.is_empty()
    }
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ApiServiceDescription {
    /// Plural of the kind.
    pub name: String,
    pub group: String,
    pub version: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment_name: String,
    /// 443 if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub display_name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub description: String,
    #[serde(flatten)]
    pub descriptors: Descriptors,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct WebhookDescription {
    pub generate_name: String,
    #[serde(rename = "type")]
    pub type_: WebhookType,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub deployment_name: String,
    /// 443 if it is not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container_port: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_port: Option<IntOrString>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rules: Vec<RuleWithOperations>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub match_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub object_selector: Option<LabelSelector>,
    pub side_effects: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    pub admission_review_versions: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reinvocation_policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub webhook_path: Option<String>,
    /// CustomResourceDefinitions by name.
    #[serde(rename = "conversionCRDs", skip_serializing_if = "Vec::is_empty")]
    pub conversion_crds: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum WebhookType {
    #[serde(rename = "ValidatingAdmissionWebhook")]
    Validating,
    #[serde(rename = "MutatingAdmissionWebhook")]
    Mutating,
    #[serde(rename = "ConversionWebhook")]
    Conversion,
    /// Nothing that is known, perhaps empty.
    #[serde(untagged)]
    Other(String),
}

impl Default for WebhookType {
    fn default() -> Self {
        WebhookType::Other(String::new())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct NativeApi {
    pub group: String,
    pub version: String,
    pub kind: String,
}

/// Whether the operator can work for such a set of namespaces. One that is not named is not supported.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct InstallMode {
    #[serde(rename = "type")]
    pub type_: InstallModeType,
    pub supported: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InstallModeType {
    OwnNamespace,
    SingleNamespace,
    MultiNamespace,
    AllNamespaces,
    /// Nothing that is known, perhaps empty.
    #[serde(untagged)]
    Other(String),
}

impl Default for InstallModeType {
    fn default() -> Self {
        InstallModeType::Other(String::new())
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RelatedImage {
    pub name: String,
    pub image: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CleanupSpec {
    pub enabled: bool,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn csv(labels: Value, annotations: Value, reason: &str) -> ClusterServiceVersion {
        let metadata = json!({"name": "a", "namespace": "mall", "labels": labels, "annotations": annotations});
        let status = json!({"phase": "Succeeded", "reason": reason});
        serde_json::from_value(json!({"metadata": metadata, "spec": {}, "status": status})).unwrap()
    }

    #[test]
    fn copy_without_the_label_is_known_by_the_namespace_of_its_operator() {
        let of = |annotations: Value, reason: &str| {
            let csv = csv(json!({}), annotations, reason);
            assert_eq!(csv.is_copy(), csv.unlabelled_copy_of().is_some());
            csv.unlabelled_copy_of().map(str::to_owned)
        };
        let (other, shop) = (json!({"olm.operatorNamespace": "shop"}), Some("shop".to_owned()));
        // What somebody has applied elsewhere is an original, unless it says that it is none.
        assert_eq!([of(other.clone(), "Copied"), of(other, "")], [shop.clone(), None]);
        let applied = json!({"olm.operatorNamespace": "shop", "olm.targetNamespaces": ""});
        assert_eq!([of(applied.clone(), ""), of(applied, "Copied")], [None, shop]);
        // Whoever writes the status makes no copy of an original, and no text that names no namespace does.
        for annotations in [
            json!({}),
            json!({"olm.operatorNamespace": "mall"}),
            json!({"olm.operatorNamespace": "mall", "olm.targetNamespaces": ""}),
            json!({"olm.operatorNamespace": ""}),
            json!({"olm.operatorNamespace": "Not a namespace"}),
        ] {
            assert_eq!(of(annotations.clone(), "Copied"), None, "{annotations}");
        }
    }

    #[test]
    fn copy_with_the_label_is_one_and_lacks_nothing() {
        let csv = csv(json!({"olm.copiedFrom": "shop"}), json!({"olm.operatorNamespace": "shop"}), "Copied");
        assert_eq!((csv.is_copy(), csv.unlabelled_copy_of()), (true, None));
    }
}
