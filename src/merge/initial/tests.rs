use super::*;
use crate::merge::Outcome;
use crate::merge::tests::merge;

#[test]
fn required_fields_are_added_and_are_not_a_difference() {
    let table = [
        (json!({"apiVersion": "config.openshift.io/v1", "kind": "ClusterOperator"}), "spec", json!({})),
        (
            json!({"apiVersion": "security.openshift.io/v1", "kind": "SecurityContextConstraints",
                "allowHostPID": true, "allowHostDirVolumePlugin": true}),
            "priority",
            Value::Null,
        ),
    ];
    for (mut desired, field, expected) in table {
        desired["metadata"] = json!({"name": "a"});
        let created = initial(desired.clone());
        assert_eq!(created.get(field), Some(&expected));
        assert_eq!(created.get("allowHostPID"), desired.get("allowHostPID"));
        assert_eq!(merge(&created, &desired), Ok(Outcome::Same), "{field}");
    }
    let other = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    assert_eq!(initial(other.clone()), other);
}
