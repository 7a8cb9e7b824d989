use super::*;
use serde_json::json;

fn faults(schema: Value, object: Value) -> Vec<String> {
    Schema::new(schema).faults(&object)
}

fn of_field(schema: Value, value: Value) -> Vec<String> {
    faults(
        json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {"a": schema}}}}),
        json!({"apiVersion": "example.com/v1", "kind": "A", "metadata": {"name": "x"}, "spec": {"a": value}}),
    )
}

/// A schema, what fits it, what does not, and why.
#[track_caller]
fn check(all: Vec<(Value, Value, Value, &str)>) {
    for (schema, good, bad, why) in all {
        assert_eq!(of_field(schema.clone(), good), Vec::<String>::new(), "{schema}");
        assert_eq!(of_field(schema.clone(), bad), [why], "{schema}");
    }
}

#[test]
fn each_rule_for_single_values_counts() {
    check(vec![
        (json!({"type": "integer"}), json!(1), json!("1"), "spec.a: must be integer"),
        (json!({"type": "integer"}), json!(2.0), json!(2.5), "spec.a: must be integer"),
        (json!({"type": "number"}), json!(2.5), json!(true), "spec.a: must be number"),
        (json!({"type": "string"}), json!(""), json!(["x"]), "spec.a: must be string"),
        (json!({"type": "boolean"}), json!(true), json!("true"), "spec.a: must be boolean"),
        (json!({"x-kubernetes-int-or-string": true}), json!("50%"), json!({}), "spec.a: must be integer or string"),
        (json!({"type": "string", "nullable": true}), json!(null), json!(1), "spec.a: must be string"),
        (json!({"type": "string", "enum": ["x", "y"]}), json!("x"), json!("z"), r#"spec.a: must be one of "x", "y""#),
        (json!({"type": "string", "pattern": "^a+$"}), json!("aa"), json!("ab"), "spec.a: must match ^a+$"),
        (
            json!({"type": "string", "maxLength": 2}),
            json!("éé"),
            json!("abc"),
            "spec.a: must have at most 2 characters",
        ),
        (json!({"type": "string", "minLength": 1}), json!("a"), json!(""), "spec.a: must have at least 1 characters"),
        (json!({"type": "integer", "minimum": 3}), json!(3), json!(2), "spec.a: must be at least 3"),
        (json!({"minimum": 3, "exclusiveMinimum": true}), json!(4), json!(3), "spec.a: must be more than 3"),
        (json!({"maximum": 3}), json!(3), json!(4), "spec.a: must be at most 3"),
        (json!({"maximum": 3, "exclusiveMaximum": true}), json!(2), json!(3), "spec.a: must be less than 3"),
        (json!({"multipleOf": 0.1}), json!(0.3), json!(0.25), "spec.a: must be a multiple of 0.1"),
    ]);
}

#[test]
fn each_rule_for_lists_members_and_alternatives_counts() {
    check(vec![
        (json!({"type": "array", "minItems": 1}), json!([1]), json!([]), "spec.a: must have at least 1 elements"),
        (json!({"type": "array", "maxItems": 1}), json!([1]), json!([1, 2]), "spec.a: must have at most 1 elements"),
        (
            json!({"type": "array", "uniqueItems": true}),
            json!([1, 2]),
            json!([1, 1]),
            "spec.a: has the same element twice",
        ),
        (
            json!({"type": "array", "items": {"type": "integer"}}),
            json!([1]),
            json!([1, "x"]),
            "spec.a[1]: must be integer",
        ),
        (json!({"required": ["b"]}), json!({"b": 1}), json!({}), "spec.a.b: is required"),
        (
            json!({"additionalProperties": {"type": "integer"}}),
            json!({"b": 1}),
            json!({"b": ""}),
            "spec.a.b: must be integer",
        ),
        (json!({"maxProperties": 1}), json!({"b": 1}), json!({"b": 1, "c": 1}), "spec.a: must have at most 1 members"),
        (json!({"allOf": [{"minimum": 3}]}), json!(3), json!(1), "spec.a: must be at least 3"),
        (
            json!({"anyOf": [{"minimum": 3}, {"maximum": 1}]}),
            json!(1),
            json!(2),
            "spec.a: fits none of the schemas of anyOf",
        ),
        (
            json!({"oneOf": [{"minimum": 3}, {"minimum": 5}]}),
            json!(4),
            json!(6),
            "spec.a: does not fit exactly one of the schemas of oneOf",
        ),
        (json!({"not": {"required": ["b"]}}), json!({}), json!({"b": 1}), "spec.a: fits the schema of not"),
    ]);
}

#[test]
fn what_the_server_fills_in_or_drops_is_no_fault() {
    let schema = json!({"type": "object", "required": ["spec"], "properties": {"spec": {"type": "object",
        "required": ["size"], "properties": {"size": {"type": "integer", "default": 1}}}}});
    let object = json!({"apiVersion": "v1", "kind": "A", "metadata": {"labels": {}}, "spec": {"unknown": []}});
    assert_eq!(faults(schema, object), Vec::<String>::new());
    // A pattern in another dialect is no verdict.
    assert_eq!(of_field(json!({"pattern": "(?=a)b"}), json!("x")), Vec::<String>::new());
    // A schema that is nonsense says nothing.
    for schema in [json!(null), json!([]), json!({"type": 3, "enum": "x", "required": {}, "minimum": "y"})] {
        assert_eq!(of_field(schema, json!({})), Vec::<String>::new());
    }
}
