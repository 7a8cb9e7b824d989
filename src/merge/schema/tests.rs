use super::*;
use serde_json::json;

fn definition() -> Value {
    let rule = json!({"type": "object", "description": "long", "properties": {
        "for": {"type": "string"}, "action": {"type": "string", "default": "replace"}}});
    let properties = json!({
        "colour": {"type": "string", "default": "blue"},
        "nested": {"type": "object", "default": {}, "properties": {"b": {"type": "integer", "default": 7}}},
        "optional": {"type": "object", "properties": {"c": {"type": "boolean", "default": true}}},
        "rules": {"type": "array", "items": rule},
        "byName": {"type": "object", "additionalProperties": rule},
        "anything": {"type": "object", "additionalProperties": true},
        "plain": {"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"}}}},
    });
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}});
    json!({"spec": {"versions": [{"name": "v0", "schema": {}}, {"name": "v1", "schema": schema}]}})
}

#[test]
fn defaults_are_filled_in_at_every_depth() {
    let schema = Schema::of_definition(definition().to_string().as_bytes(), "v1").unwrap();
    let mut object = json!({"spec": {"colour": null, "rules": [{"for": "5m"}, {"action": "keep"}],
        "byName": {"x": {}}, "anything": {"x": {}}}});
    schema.fill(&mut object);
    let expected = json!({"spec": {
        "colour": "blue",
        "nested": {"b": 7},
        "rules": [{"action": "replace", "for": "5m"}, {"action": "keep"}],
        "byName": {"x": {"action": "replace"}},
        "anything": {"x": {}},
    }});
    assert_eq!(object, expected);
}

#[test]
fn schema_without_defaults_is_not_kept() {
    let schema = Schema::of_definition(definition().to_string().as_bytes(), "v1").unwrap();
    let spec = &schema.properties["spec"];
    let names: Vec<&str> = spec.properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["byName", "colour", "nested", "optional", "rules"]);
    assert_eq!(Schema::of_definition(definition().to_string().as_bytes(), "v0"), Some(Schema::default()));
    assert_eq!(Schema::of_definition(definition().to_string().as_bytes(), "v2"), None);
    assert_eq!(Schema::of_definition(b"{", "v1"), None);
}

#[test]
fn every_built_in_schema_can_be_read() {
    for (group, kind, _) in BUILT_IN {
        assert!(Schema::built_in(group, kind).is_some(), "{kind}");
    }
    assert_eq!(Schema::built_in("", "Pod"), None);
}
