//! Fields that the API server requires although manifests omit them, since clients with Go types always send them.

use super::metadata::group;
use crate::object::manifest::Manifest;
use serde_json::{Value, json};

/// Adds the missing required fields to an object that is written. They are not added for comparing, since the payload does
/// not own a field that its manifest omits.
pub fn initial(mut desired: Value) -> Value {
    let text = |key: &str| desired.get(key).and_then(Value::as_str).unwrap_or_default();
    let required: &[Initial] = match (group(text("apiVersion")), text("kind")) {
        ("config.openshift.io", "ClusterOperator") => &[("spec", || json!({}))],
        ("security.openshift.io", "SecurityContextConstraints") => CONSTRAINTS,
        _ => &[],
    };
    if let Some(object) = desired.as_object_mut() {
        for (field, value) in required {
            object.entry(*field).or_insert_with(value);
        }
    }
    desired
}

/// The status that a new object gets before its controller writes one, if any: the related objects of a ClusterOperator, for
/// which tools look that collect data for support.
pub(crate) fn initial_status(manifest: &Manifest) -> Option<Value> {
    let id = &manifest.id;
    let operator = (id.group.as_str(), id.kind.as_str()) == ("config.openshift.io", "ClusterOperator");
    let object = operator.then(|| manifest.object().ok())??;
    object.pointer("/status/relatedObjects").map(|related| json!({ "relatedObjects": related }))
}

/// A field and its initial value.
type Initial = (&'static str, fn() -> Value);

/// Nothing is allowed unless the manifest allows it. With `null` the API server chooses the list.
const CONSTRAINTS: &[Initial] = &[
    ("allowHostDirVolumePlugin", || json!(false)),
    ("allowHostIPC", || json!(false)),
    ("allowHostNetwork", || json!(false)),
    ("allowHostPID", || json!(false)),
    ("allowHostPorts", || json!(false)),
    ("allowPrivilegedContainer", || json!(false)),
    ("allowedCapabilities", || Value::Null),
    ("defaultAddCapabilities", || Value::Null),
    ("priority", || Value::Null),
    ("readOnlyRootFilesystem", || json!(false)),
    ("requiredDropCapabilities", || Value::Null),
    ("volumes", || Value::Null),
];

#[cfg(test)]
mod tests;
