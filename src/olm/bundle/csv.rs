//! What catalogs and checks read of a ClusterServiceVersion. It is decoded from the JSON of the object, which stays as it is.

use crate::error::of_json;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// Absent fields and `null` are empty.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Csv {
    #[serde(deserialize_with = "nullable")]
    pub metadata: Metadata,
    #[serde(deserialize_with = "nullable")]
    pub spec: Spec,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default)]
pub(crate) struct Metadata {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub annotations: BTreeMap<String, String>,
    #[serde(deserialize_with = "nullable")]
    pub labels: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Spec {
    #[serde(deserialize_with = "nullable")]
    pub display_name: String,
    #[serde(deserialize_with = "nullable")]
    pub description: String,
    #[serde(deserialize_with = "nullable")]
    pub version: String,
    #[serde(deserialize_with = "nullable")]
    pub release: String,
    #[serde(deserialize_with = "nullable")]
    pub min_kube_version: String,
    #[serde(deserialize_with = "nullable")]
    pub replaces: String,
    #[serde(deserialize_with = "nullable")]
    pub skips: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub provider: Provider,
    #[serde(deserialize_with = "nullable")]
    pub icon: Vec<Icon>,
    #[serde(deserialize_with = "nullable")]
    pub install_modes: Vec<InstallMode>,
    #[serde(deserialize_with = "nullable")]
    pub install: Install,
    #[serde(rename = "customresourcedefinitions", deserialize_with = "nullable")]
    pub definitions: Apis<DefinitionReference>,
    #[serde(rename = "apiservicedefinitions", deserialize_with = "nullable")]
    pub api_services: Apis<ApiService>,
    #[serde(rename = "webhookdefinitions", deserialize_with = "nullable")]
    pub webhooks: Vec<Webhook>,
    #[serde(deserialize_with = "nullable")]
    pub related_images: Vec<RelatedImage>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Provider {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Icon {
    #[serde(rename = "base64data", deserialize_with = "nullable")]
    pub data: String,
    #[serde(rename = "mediatype", deserialize_with = "nullable")]
    pub media_type: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct InstallMode {
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub supported: bool,
}

/// What an operator brings and what it needs.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, bound = "T: Deserialize<'de>")]
pub(crate) struct Apis<T> {
    #[serde(deserialize_with = "nullable")]
    pub owned: Vec<T>,
    #[serde(deserialize_with = "nullable")]
    pub required: Vec<T>,
}

impl<T> Default for Apis<T> {
    fn default() -> Self {
        Apis { owned: Vec::new(), required: Vec::new() }
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct DefinitionReference {
    /// `<plural>.<group>`
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct ApiService {
    /// Plural of the kind.
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    pub group: String,
    #[serde(deserialize_with = "nullable")]
    pub version: String,
    #[serde(deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub deployment_name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Webhook {
    #[serde(deserialize_with = "nullable")]
    pub generate_name: String,
    #[serde(rename = "type", deserialize_with = "nullable")]
    pub kind: String,
    #[serde(deserialize_with = "nullable")]
    pub deployment_name: String,
    pub container_port: Option<i64>,
    #[serde(rename = "conversionCRDs", deserialize_with = "nullable")]
    pub conversion_crds: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub rules: Vec<Rule>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Rule {
    #[serde(deserialize_with = "nullable")]
    pub api_groups: Vec<String>,
    #[serde(deserialize_with = "nullable")]
    pub resources: Vec<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct RelatedImage {
    #[serde(deserialize_with = "nullable")]
    pub image: String,
    #[serde(deserialize_with = "nullable")]
    pub name: String,
}

/// How the operator is run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Install {
    #[serde(deserialize_with = "nullable")]
    pub strategy: String,
    #[serde(deserialize_with = "nullable")]
    pub spec: Strategy,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Strategy {
    #[serde(deserialize_with = "nullable")]
    pub deployments: Vec<Deployment>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub(crate) struct Deployment {
    #[serde(deserialize_with = "nullable")]
    pub name: String,
    #[serde(deserialize_with = "nullable")]
    spec: DeploymentSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct DeploymentSpec {
    #[serde(deserialize_with = "nullable")]
    template: Template,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Template {
    #[serde(deserialize_with = "nullable")]
    spec: PodSpec,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    #[serde(deserialize_with = "nullable")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "nullable")]
    init_containers: Vec<Container>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
struct Container {
    #[serde(deserialize_with = "nullable")]
    image: String,
}

/// `null` is the default, as programs in Go read it.
pub(crate) fn nullable<'de, D: Deserializer<'de>, T: Default + Deserialize<'de>>(from: D) -> Result<T, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

impl Csv {
    /// From the JSON of the object. An error names the field and its cause.
    pub(crate) fn read(json: &[u8]) -> Result<Csv, String> {
        let mut json = serde_json::Deserializer::from_slice(json);
        serde_path_to_error::deserialize(&mut json).map_err(|error| {
            let path = error.path().to_string();
            format!("{path}: {}", of_json(&error.into_inner()))
        })
    }

    /// The range of versions that this one may follow; empty if it names none.
    pub(crate) fn skip_range(&self) -> &str {
        self.metadata.annotations.get("olm.skipRange").map_or("", String::as_str)
    }

    /// Whether a mode of installation is supported. One that is not named is not.
    pub(crate) fn supports(&self, mode: &str) -> bool {
        self.spec.install_modes.iter().any(|it| it.kind == mode && it.supported)
    }
}

impl Install {
    /// The images of all containers that the operator runs.
    pub(crate) fn images(&self) -> BTreeSet<&str> {
        let pods = self.spec.deployments.iter().map(|deployment| &deployment.spec.template.spec);
        let containers = pods.flat_map(|pod| pod.containers.iter().chain(&pod.init_containers));
        containers.map(|container| container.image.as_str()).filter(|image| !image.is_empty()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absent_fields_and_null_are_empty() {
        let csv = Csv::read(br#"{"metadata": {"name": "a", "annotations": null}, "spec": {"skips": null}}"#).unwrap();
        assert_eq!(csv.metadata.name, "a");
        assert_eq!((csv.spec.skips.len(), csv.skip_range()), (0, ""));
        assert_eq!(Csv::read(br#"{"spec": null}"#), Ok(Csv::default()));
    }

    #[test]
    fn field_of_another_type_is_named() {
        let cause = Csv::read(br#"{"spec": {"customresourcedefinitions": {"owned": [{"name": 5}]}}}"#).unwrap_err();
        assert_eq!(cause, "spec.customresourcedefinitions.owned[0].name: invalid type: integer `5`, expected a string");
    }

    #[test]
    fn images_of_containers_and_init_containers_count_once() {
        let pod = r#"{"containers": [{"image": "b"}, {"image": "a"}, {}], "initContainers": [{"image": "c"}, {"image": "a"}]}"#;
        let csv = format!(
            r#"{{"spec": {{"install": {{"spec": {{"deployments": [{{"spec": {{"template": {{"spec": {pod}}}}}}}]}}}}}}}}"#
        );
        let csv = Csv::read(csv.as_bytes()).unwrap();
        assert_eq!(Vec::from_iter(csv.spec.install.images()), ["a", "b", "c"]);
    }

    #[test]
    fn mode_that_is_not_named_is_not_supported() {
        let modes = r#"[{"type": "OwnNamespace", "supported": true}, {"type": "MultiNamespace", "supported": false}]"#;
        let csv = Csv::read(format!(r#"{{"spec": {{"installModes": {modes}}}}}"#).as_bytes()).unwrap();
        let supported = ["OwnNamespace", "MultiNamespace", "AllNamespaces"].map(|mode| csv.supports(mode));
        assert_eq!(supported, [true, false, false]);
    }
}
