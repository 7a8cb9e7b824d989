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

#[test]
fn object_is_written_once_more_when_asked() {
    let (keeps, id, index) = (ServerKeeps::default(), ObjectId::new("", "ConfigMap", "ns", "a"), Index::default());
    let object = json!({"data": {"a": "as the server likes it"}});
    assert!(!keeps.remember(&id, 1, &object, &["data.a".into()]), "it is new");
    keeps.ask_again(&index, |id| id.kind == "Secret");
    assert!(keeps.is_known(&id, 1, &object));
    keeps.ask_again(&index, |id| id.kind == "ConfigMap");
    assert!(!keeps.is_known(&id, 1, &object));
    assert_eq!(keeps.kept(), [(id.clone(), vec!["data.a".to_owned()])], "still reported");
    assert!(keeps.remember(&id, 1, &object, &["data.a".into()]), "written in vain");
    assert!(keeps.is_known(&id, 1, &object));
    keeps.retain(|_| false);
    assert!(keeps.is_empty());
}
