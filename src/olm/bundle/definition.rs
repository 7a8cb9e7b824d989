//! What catalogs and checks read of the CustomResourceDefinitions of a bundle.

use super::Object;
use super::csv::nullable;
use super::finding::{Check, Finding};
use crate::error::of_json;
use serde::Deserialize;
use std::sync::Arc;

pub(crate) const KIND: (&str, &str) = ("apiextensions.k8s.io", "CustomResourceDefinition");
pub(crate) const API_VERSION: &str = "apiextensions.k8s.io/v1";

/// A definition without its schemas, which are many times larger than the rest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Definition {
    pub file: Arc<str>,
    pub line: usize,
    /// `<plural>.<group>`
    pub name: String,
    pub group: String,
    pub kind: String,
    pub plural: String,
    /// All versions, each with whether it is served.
    pub versions: Vec<(String, bool)>,
    /// Whether the server keeps fields that no schema knows, which a conversion webhook does not allow.
    pub preserves_unknown_fields: bool,
}

impl Definition {
    /// The versions that somebody can use.
    pub(crate) fn served(&self) -> impl Iterator<Item = &str> {
        self.versions.iter().filter(|(_, served)| *served).map(|(name, _)| name.as_str())
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Raw {
    #[serde(deserialize_with = "nullable")]
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Spec {
    #[serde(deserialize_with = "nullable")]
    group: String,
    #[serde(deserialize_with = "nullable")]
    names: Names,
    #[serde(deserialize_with = "nullable")]
    versions: Vec<Version>,
    /// Of definitions before `v1`.
    #[serde(deserialize_with = "nullable")]
    version: String,
    #[serde(deserialize_with = "nullable")]
    preserve_unknown_fields: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Names {
    #[serde(deserialize_with = "nullable")]
    kind: String,
    #[serde(deserialize_with = "nullable")]
    plural: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    #[serde(deserialize_with = "nullable")]
    name: String,
    #[serde(deserialize_with = "nullable")]
    served: bool,
}

/// The definitions among objects. One that cannot be read is an error in `findings`.
pub(crate) fn definitions(objects: &[Object], findings: &mut Vec<Finding>) -> Vec<Definition> {
    let mut found = Vec::new();
    for object in objects.iter().filter(|object| object.is(KIND)) {
        match serde_json::from_slice::<Raw>(&object.raw.bytes()) {
            Ok(Raw { spec }) => found.push(definition(object, spec)),
            Err(error) => {
                let message = format!("the definition cannot be read: {}; correct the field", of_json(&error));
                findings.push(Finding::error(Check::Definition, (&object.file, object.line), &object.id.name, message));
            }
        }
    }
    found
}

fn definition(object: &Object, spec: Spec) -> Definition {
    let mut versions: Vec<(String, bool)> = spec.versions.into_iter().map(|it| (it.name, it.served)).collect();
    if !spec.version.is_empty() && versions.iter().all(|(name, _)| *name != spec.version) {
        versions.push((spec.version, true));
    }
    Definition {
        file: object.file.clone(),
        line: object.line,
        name: object.id.name.clone(),
        group: spec.group,
        kind: spec.names.kind,
        plural: spec.names.plural,
        versions,
        preserves_unknown_fields: spec.preserve_unknown_fields,
    }
}
