//! What a CustomResourceDefinition says of the kind it defines.

use serde_json::Value;

/// Group, kind and versions, as far as the definition names them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Defined<'a> {
    pub group: &'a str,
    pub kind: &'a str,
    pub plural: &'a str,
    pub namespaced: bool,
    /// Names of the versions that are served, in the order of the definition.
    pub served: Vec<&'a str>,
}

/// Reads a definition, whole or as [`super::Manifest::outline`] leaves it.
pub fn defined(crd: &Value) -> Defined<'_> {
    let text = |pointer: &str| crd.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let versions = crd.pointer("/spec/versions").and_then(Value::as_array).into_iter().flatten();
    let served = versions.filter(|version| version.get("served").and_then(Value::as_bool) == Some(true));
    Defined {
        group: text("/spec/group"),
        kind: text("/spec/names/kind"),
        plural: text("/spec/names/plural"),
        namespaced: text("/spec/scope") == "Namespaced",
        served: served.filter_map(|version| version.get("name").and_then(Value::as_str)).collect(),
    }
}
