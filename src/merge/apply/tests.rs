use super::*;
use crate::merge::tests::US;

#[test]
fn configuration_has_what_the_manifest_sets_and_a_precondition() {
    let owner = json!({"uid": "o", "controller": true});
    let desired = json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"a": null, "list": [{"b": null, "c": 1}]},
        "metadata": {"name": "a", "creationTimestamp": null, "generateName": "x", "labels": {"l": "1"}, "ownerReferences": [owner]}});
    let new = configuration(None, desired.clone(), US);
    let expected = json!({"apiVersion": "example.com/v1", "kind": "Thing", "spec": {"list": [{"c": 1}]},
        "metadata": {"name": "a", "resourceVersion": "1", "labels": {"l": "1"}, "ownerReferences": [owner]}});
    assert_eq!(new, expected);
    let live = json!({"metadata": {"name": "a", "resourceVersion": "7", "uid": "u", "labels": {"foreign": "1"},
        "ownerReferences": [{"uid": "other", "controller": true}]}});
    let changed = configuration(Some(&live), desired, US);
    assert_eq!((&changed["metadata"]["resourceVersion"], &changed["metadata"]["uid"]), (&json!("7"), &json!("u")));
    assert_eq!(changed["metadata"]["labels"], json!({"l": "1"}), "only its own");
    assert_eq!(changed["metadata"]["ownerReferences"], json!([{"uid": "o"}]), "there is one controller");
}

fn entry(operation: &str, version: &str, set: Value) -> Value {
    json!({"manager": US.name, "operation": operation, "apiVersion": version, "fieldsV1": set})
}

fn object(entries: &[Value]) -> Value {
    json!({"metadata": {"name": "a", "managedFields": entries}, "spec": {"a": 1}})
}

#[test]
fn what_updates_own_is_owned_by_apply_after_the_takeover() {
    let other =
        json!({"manager": "other", "operation": "Update", "apiVersion": "v1", "fieldsV1": {"f:spec": {"f:c": {}}}});
    let mut status = entry("Update", "v1", json!({"f:status": {"f:x": {}}}));
    status["subresource"] = json!("status");
    let updated = entry(
        "Update",
        "v1",
        json!({"f:spec": {".": {}, "f:a": {}, "f:b": {"f:c": {}}}, "f:status": {},
        "f:metadata": {"f:labels": {"f:l": {}}, "f:finalizers": {}}}),
    );
    let applied = entry("Apply", "v1", json!({"f:spec": {"f:a": {}, "f:b": {"f:d": {}}}}));
    let united = json!({"f:spec": {".": {}, "f:a": {}, "f:b": {"f:c": {}, "f:d": {}}}});
    let labels = json!({"f:labels": {"f:l": {}}});

    let taken = taken_over(&object(&[other.clone(), updated.clone(), status.clone()]), US).unwrap();
    let mut alone = updated["fieldsV1"].clone();
    alone.as_object_mut().unwrap().remove("f:status");
    alone["f:metadata"] = labels.clone();
    assert_eq!(taken, object(&[other.clone(), status.clone(), entry("Apply", "v1", alone)]));

    let taken = taken_over(&object(&[applied.clone(), other.clone(), updated]), US).unwrap();
    let mut set = united;
    set["f:metadata"] = labels;
    assert_eq!(taken, object(&[other.clone(), entry("Apply", "v1", set)]));

    for nothing in [vec![], vec![other.clone(), status], vec![applied.clone(), other]] {
        assert_eq!(taken_over(&object(&nothing), US), None);
    }
    let of_old_version = entry("Update", "v1beta1", json!({"f:spec": {"f:z": {}}}));
    assert_eq!(taken_over(&object(&[applied, of_old_version]), US), None, "sets of two versions are not united");
}

#[test]
fn what_another_process_has_written_under_our_name_is_not_taken_over() {
    let annotations = |keys: &[&str]| {
        let keys: Map<String, Value> = keys.iter().map(|key| (format!("f:{key}"), json!({}))).collect();
        json!({"f:metadata": {"f:annotations": keys}})
    };
    let (claimed, mine) = ("others.example.com/claimed", "example.com/mine");
    let (theirs, ours) = (entry("Update", "v1", annotations(&[claimed])), entry("Apply", "v1", annotations(&[mine])));
    let both = object(&[entry("Update", "v1", annotations(&[claimed, mine]))]);
    assert_eq!(taken_over(&both, US).unwrap(), object(&[ours.clone(), theirs.clone()]));
    assert_eq!(taken_over(&object(&[ours, theirs.clone()]), US), None, "there is nothing more to take over");
    assert_eq!(taken_over(&object(&[theirs]), US), None);
}

#[test]
fn field_that_another_process_has_written_under_our_name_is_not_taken_over() {
    let thing = |entries: &[Value]| {
        let mut thing = object(entries);
        thing["apiVersion"] = json!("example.com/v1");
        thing["kind"] = json!("Thing");
        thing
    };
    let chosen = json!({"f:spec": {"f:chosen": {".": {}, "f:name": {}}}});
    let theirs = entry("Update", "v1", chosen.clone());
    let ours = entry("Apply", "v1", json!({"f:spec": {"f:a": {}}}));
    let mut both = chosen;
    both["f:spec"]["f:a"] = json!({});
    let both = [entry("Update", "v1", both)];
    assert_eq!(taken_over(&thing(&both), US).unwrap(), thing(&[ours.clone(), theirs.clone()]));
    assert_eq!(taken_over(&thing(&[ours, theirs]), US), None, "there is nothing more to take over");
    assert_eq!(taken_over(&object(&both), US).unwrap()["metadata"]["managedFields"].as_array().unwrap().len(), 1);
}
