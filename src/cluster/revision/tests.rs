use super::*;
use serde_json::json;

#[test]
fn text_has_the_revision_of_the_decoded_object() {
    let object = json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 3,
            "labels": {"l": "1"}, "annotations": {"x": "y"}, "ownerReferences": [{"uid": "o"}],
            "deletionTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"manager": "m"}]},
        "spec": {"replicas": 2, "template": {"spec": {}}},
        "status": {"observedGeneration": 3, "conditions": [{"type": "Available", "status": "True"}]},
    });
    let raw = RawValue::from_string(object.to_string()).unwrap();
    assert_eq!(Revision::read(&raw), Revision::of(&object));
    assert_eq!(Revision::read_metadata(&raw), Revision::of(&object));
    let mut other = object.clone();
    other["status"] = json!({});
    assert!(Revision::of(&other).has_content_of(&Revision::of(&object)));
    for key in ["uid", "generation", "labels", "annotations", "ownerReferences", "deletionTimestamp"] {
        let mut other = object.clone();
        other["metadata"][key] = json!(7);
        assert!(!Revision::of(&other).has_content_of(&Revision::of(&object)), "{key}");
    }
}
