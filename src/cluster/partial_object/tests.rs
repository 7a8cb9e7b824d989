use super::*;
use serde_json::json;

fn raw(object: &Value) -> Box<RawValue> {
    RawValue::from_string(object.to_string()).unwrap()
}

#[test]
fn text_has_the_identity_of_the_decoded_object() {
    let object = json!({"metadata": {"name": "a", "namespace": "n", "labels": {"l": "1"}}, "spec": {"replicas": 2}});
    let id = ObjectId::new("apps", "Deployment", "n", "a");
    let kind = Kind::known("apps", "v1", "Deployment", "deployments", true);
    assert_eq!(PartialObject::read(&raw(&object)).id(&kind), id);
    assert_eq!(PartialObject::of(&object).id(&kind), id);
}

#[test]
fn unreadable_object_has_no_name() {
    let kind = Kind::known("", "v1", "Node", "nodes", false);
    for odd in [json!(null), json!([1]), json!({"metadata": {"name": 7}})] {
        assert_eq!(PartialObject::read(&raw(&odd)).id(&kind).name, "", "{odd}");
    }
}
