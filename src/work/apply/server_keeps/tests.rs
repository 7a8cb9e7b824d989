use super::*;
use serde_json::json;

#[test]
fn answer_counts_until_the_object_or_the_desired_content_changes() {
    let (keeps, id) = (ServerKeeps::default(), ObjectId::new("", "ConfigMap", "ns", "a"));
    let object = |version: &str, label: &str, phase: &str| {
        json!({"metadata": {"resourceVersion": version, "labels": {"l": label}, "managedFields": [version]},
            "data": {"a": "as the server likes it"}, "status": {"phase": phase}})
    };
    assert!(!keeps.is_known(&id, 1, &object("1", "x", "new")));
    keeps.remember(&id, 1, &object("1", "x", "new"), &["data.a".into()]);
    assert!(keeps.is_known(&id, 1, &object("2", "x", "old")), "only what changes with every write differs");
    assert!(!keeps.is_known(&id, 2, &object("1", "x", "new")), "other content is desired");
    assert!(!keeps.is_known(&id, 1, &object("1", "y", "new")), "another client changed the object");
    keeps.forget(&id);
    assert!(!keeps.is_known(&id, 1, &object("1", "x", "new")));
}
