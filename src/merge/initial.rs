//! What an object must say when it is created although its manifest leaves it out: fields that a kind requires and that
//! clients with Go types always send (payload-and-apply §5.1, apis §2).

use serde_json::{Value, json};

/// Adds the required fields that are missing. For creating only: compared, a field left out is not owned.
pub fn initial(mut want: Value) -> Value {
    let text = |key: &str| want.get(key).and_then(Value::as_str).unwrap_or_default();
    let required: &[Initial] = match (super::group(text("apiVersion")), text("kind")) {
        ("config.openshift.io", "ClusterOperator") => &[("spec", || json!({}))],
        ("security.openshift.io", "SecurityContextConstraints") => CONSTRAINTS,
        _ => &[],
    };
    if let Some(object) = want.as_object_mut() {
        for (field, value) in required {
            object.entry(*field).or_insert_with(value);
        }
    }
    want
}

/// A field and the value it begins with.
type Initial = (&'static str, fn() -> Value);

/// Nothing is allowed unless the manifest says so; `null` leaves a list to the server.
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
mod tests {
    use super::*;
    use crate::merge::{Outcome, merge};

    #[test]
    fn what_a_kind_requires_is_sent_and_is_no_difference_afterwards() {
        let table = [
            (json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator"}), "spec", json!({})),
            (
                json!({"apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
                    "allowHostPID": true, "allowHostDirVolumePlugin": true}),
                "priority",
                Value::Null,
            ),
        ];
        for (mut want, field, expected) in table {
            want["metadata"] = json!({"name": "a"});
            let created = initial(want.clone());
            assert_eq!(created.get(field), Some(&expected));
            assert_eq!(created.get("allowHostPID"), want.get("allowHostPID"));
            assert_eq!(merge(&created, &want), Ok(Outcome::Same), "{field}");
        }
        let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        assert_eq!(initial(other.clone()), other);
    }
}
