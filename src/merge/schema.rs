//! The defaults that the API server fills into the objects of a kind. Inside of an atomic list or map managedFields do not say
//! who set a field, so the defaults say which fields are there without anybody having set them.

use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

/// The defaults in the schema of one version of a kind, and the way to them. The rest of the schema, which is far larger,
/// is not kept.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(crate) struct Schema {
    default: Option<Value>,
    properties: BTreeMap<String, Schema>,
    items: Option<Box<Schema>>,
    additional_properties: Additional,
}

/// What other properties may be: `false`, `true`, or a schema.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
enum Additional {
    Allowed(bool),
    Schema(Box<Schema>),
}

impl Default for Additional {
    fn default() -> Self {
        Additional::Allowed(false)
    }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Definition {
    spec: Spec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Spec {
    versions: Vec<Version>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Version {
    name: String,
    schema: Validation,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Validation {
    #[serde(rename = "openAPIV3Schema")]
    open_api: Schema,
}

/// Kinds of Kubernetes whose atomic lists and maps have defaults inside, and kinds whose have none.
const BUILT_IN: &[(&str, &str, &str)] = &[
    ("admissionregistration.k8s.io", "ValidatingAdmissionPolicy", ADMISSION_POLICY),
    ("admissionregistration.k8s.io", "MutatingAdmissionPolicy", ADMISSION_POLICY),
    ("flowcontrol.apiserver.k8s.io", "FlowSchema", "{}"),
    ("scheduling.k8s.io", "PriorityClass", "{}"),
];

const ADMISSION_POLICY: &str = r#"{"properties": {"spec": {"properties": {"matchConstraints": {"properties": {
    "matchPolicy": {"default": "Equivalent"},
    "namespaceSelector": {"default": {}},
    "objectSelector": {"default": {}},
    "resourceRules": {"items": {"properties": {"scope": {"default": "*"}}}},
    "excludeResourceRules": {"items": {"properties": {"scope": {"default": "*"}}}}
}}}}}}"#;

impl Schema {
    /// That of a kind of Kubernetes; `None` if its defaults are not known.
    pub(crate) fn built_in(group: &str, kind: &str) -> Option<Schema> {
        let (_, _, text) = BUILT_IN.iter().find(|(of, name, _)| *of == group && *name == kind)?;
        serde_json::from_str(text).ok()
    }

    /// That of a version in the JSON of a CustomResourceDefinition; `None` if it cannot be read or has no such version.
    pub(crate) fn of_definition(definition: &[u8], version: &str) -> Option<Schema> {
        let definition: Definition = serde_json::from_slice(definition).ok()?;
        let found = definition.spec.versions.into_iter().find(|candidate| candidate.name == version)?;
        let mut schema = found.schema.open_api;
        schema.forget_what_has_no_default();
        Some(schema)
    }

    /// Returns whether there is a default in it.
    fn forget_what_has_no_default(&mut self) -> bool {
        self.properties.retain(|_, schema| schema.forget_what_has_no_default());
        if self.items.as_mut().is_some_and(|items| !items.forget_what_has_no_default()) {
            self.items = None;
        }
        if let Additional::Schema(schema) = &mut self.additional_properties
            && !schema.forget_what_has_no_default()
        {
            self.additional_properties = Additional::Allowed(true);
        }
        let below = !self.properties.is_empty() || self.items.is_some();
        below || self.default.is_some() || matches!(self.additional_properties, Additional::Schema(_))
    }

    /// Fills the defaults into a value as the API server does.
    pub(crate) fn fill(&self, value: &mut Value) {
        match value {
            Value::Object(map) => {
                for (name, schema) in &self.properties {
                    if let Some(default) = &schema.default
                        && map.get(name).is_none_or(Value::is_null)
                    {
                        map.insert(name.clone(), default.clone());
                    }
                    map.get_mut(name).into_iter().for_each(|value| schema.fill(value));
                }
                if let Additional::Schema(schema) = &self.additional_properties {
                    let others = map.iter_mut().filter(|(name, _)| !self.properties.contains_key(*name));
                    others.for_each(|(_, value)| schema.fill(value));
                }
            }
            Value::Array(list) => {
                self.items.iter().for_each(|items| list.iter_mut().for_each(|value| items.fill(value)));
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
