//! The kind that a CustomResourceDefinition defines.

use super::manifest::Manifest;
use serde::Deserialize;
use serde_json::Value;
use std::sync::Arc;

/// Names, scope and versions. Fields that the definition lacks are empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DefinedKind {
    pub group: String,
    pub kind: String,
    pub plural: String,
    pub namespaced: bool,
    /// Names of the served versions, in the order of the definition.
    pub served: Vec<String>,
}

/// Schemas are not decoded, since they are many times larger than the rest.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Definition {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    group: Value,
    scope: Value,
    names: Value,
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: Value,
    served: Value,
}

/// The group of the kinds that a CustomResourceDefinition of this name brings: it is named `<plural>.<group>`, and neither is empty.
pub(crate) fn defined_group(name: &str) -> Option<&str> {
    let (plural, group) = name.split_once('.')?;
    (!plural.is_empty() && !group.is_empty()).then_some(group)
}

impl DefinedKind {
    pub fn of_manifest(definition: &Manifest) -> serde_json::Result<DefinedKind> {
        DefinedKind::read(&definition.raw.bytes())
    }

    /// From the JSON of the definition.
    pub(crate) fn read(definition: &[u8]) -> serde_json::Result<DefinedKind> {
        let Spec { group, scope, names, versions } = serde_json::from_slice::<Definition>(definition)?.spec;
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let name = |key: &str| names.get(key).map(text).unwrap_or_default();
        let served = versions.iter().filter(|version| version.served == true && version.name.is_string());
        Ok(DefinedKind {
            group: text(&group),
            kind: name("kind"),
            plural: name("plural"),
            namespaced: scope == "Namespaced",
            served: served.map(|version| text(&version.name)).collect(),
        })
    }
}

/// What the CustomResourceDefinitions among these manifests define.
pub(crate) fn definitions(manifests: &[Arc<Manifest>]) -> impl Iterator<Item = DefinedKind> {
    let created = manifests.iter().filter(|m| m.id.kind == "CustomResourceDefinition" && m.delete() == Ok(false));
    created.filter_map(|m| DefinedKind::of_manifest(m).ok())
}

#[cfg(test)]
mod tests;
