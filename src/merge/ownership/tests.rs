use super::*;
use crate::merge::tests::{US as MANAGER, merge};
use crate::merge::{Outcome, merge_with};
use proptest::prelude::*;
use serde_json::json;

fn object(spec: Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Thing", "metadata": {"name": "a", "namespace": "b"}, "spec": spec})
}

/// An object whose spec these managers own: manager, operation, field set.
fn live(spec: Value, owners: &[(&str, &str, Value)]) -> Value {
    let mut object = object(spec);
    let entry = |(manager, operation, set): &(&str, &str, Value)| {
        json!({"manager": manager, "operation": operation, "apiVersion": "example.com/v1",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": set}})
    };
    object["metadata"]["managedFields"] = owners.iter().map(entry).collect();
    object
}

fn fields(live: &Value, desired: Value, schema: Option<Value>) -> Vec<String> {
    let schema = schema.map(|schema| Arc::new(serde_json::from_value::<Schema>(schema).unwrap()));
    match merge_with(live, &object(desired), MANAGER, &|| schema.clone()).unwrap() {
        Outcome::Same => Vec::new(),
        Outcome::Changed { fields, .. } => fields,
        other => panic!("{other:?}"),
    }
}

const US: &str = MANAGER.name;

#[test]
fn only_what_nobody_else_owns_is_dropped() {
    let ours = json!({"f:a": {}, "f:b": {"f:c": {}, "f:d": {}}, "f:e.e": {}, "f:gone": {}});
    let spec = json!({"a": 1, "b": {"c": 1, "d": 1, "default": 1}, "e.e": 1, "foreign": 1});
    let alone = live(spec.clone(), &[(US, "Apply", ours.clone())]);
    assert_eq!(fields(&alone, spec.clone(), None), Vec::<String>::new());
    assert_eq!(fields(&alone, json!({}), None), ["spec.a", "spec.b.c", "spec.b.d", "spec[e.e]"]);
    assert_eq!(fields(&alone, json!({"a": null, "b": {"c": 1}}), None), ["spec.a", "spec.b.d", "spec[e.e]"]);
    // Whichever operation made us its owner.
    let updated = live(spec.clone(), &[(US, "Update", json!({"f:a": {}}))]);
    assert_eq!(fields(&updated, json!({}), None), ["spec.a"]);
    let shared =
        live(spec.clone(), &[(US, "Apply", ours), ("other", "Update", json!({"f:a": {}, "f:b": {"f:d": {}}}))]);
    assert_eq!(fields(&shared, json!({}), None), ["spec.b.c", "spec[e.e]"]);
    let foreign = live(spec.clone(), &[("other", "Apply", json!({"f:a": {}}))]);
    assert_eq!(fields(&foreign, json!({}), None), Vec::<String>::new());
    // Of an object without managedFields nothing is known.
    assert_eq!(fields(&object(spec), json!({}), None), Vec::<String>::new());
}

#[test]
fn of_metadata_labels_and_annotations_are_dropped() {
    let mut live = live(json!({}), &[]);
    live["metadata"]["labels"] = json!({"mine": "1", "theirs": "1"});
    live["metadata"]["annotations"] = json!({"example.com/mine": "1"});
    live["metadata"]["finalizers"] = json!(["mine"]);
    live["status"] = json!({"x": 1});
    let set = json!({"f:metadata": {"f:labels": {".": {}, "f:mine": {}}, "f:annotations": {"f:example.com/mine": {}},
        "f:finalizers": {"v:\"mine\"": {}}}, "f:status": {"f:x": {}}});
    live["metadata"]["managedFields"] = json!([{"manager": US, "operation": "Apply", "fieldsV1": set}]);
    assert_eq!(fields(&live, json!({}), None), ["metadata.labels.mine", "metadata.annotations[example.com/mine]"]);
    // What a controller reports is not what a manifest sets.
    live["metadata"]["managedFields"][0]["subresource"] = json!("status");
    assert_eq!(fields(&live, json!({}), None), Vec::<String>::new());
}

/// Another process wrote annotations of its own under our name: no manifest has set them.
#[test]
fn annotations_that_another_process_has_written_under_our_name_are_not_dropped() {
    let mut live = live(json!({}), &[]);
    live["metadata"]["annotations"] = json!({"others.example.com/claimed": "1", "example.com/mine": "1"});
    let set = json!({"f:metadata": {"f:annotations":
        {".": {}, "f:others.example.com/claimed": {}, "f:example.com/mine": {}}}});
    let entry = |operation: &str, set: &Value| json!({"manager": US, "operation": operation, "fieldsV1": set});
    live["metadata"]["managedFields"] = json!([entry("Update", &set)]);
    assert_eq!(fields(&live, json!({}), None), ["metadata.annotations[example.com/mine]"]);
    // A former manifest had it.
    live["metadata"]["managedFields"] = json!([entry("Update", &set), entry("Apply", &set)]);
    let both = ["metadata.annotations[example.com/mine]", "metadata.annotations[others.example.com/claimed]"];
    assert_eq!(fields(&live, json!({}), None), both);
}

/// Another process wrote a field of its own under our name, in a kind that manifests bring.
#[test]
fn field_that_another_process_has_written_under_our_name_is_not_dropped() {
    let set = json!({".": {}, "f:chosen": {".": {}, "f:name": {}}, "f:mine": {}});
    let spec = json!({"chosen": {"name": "x"}, "mine": 1});
    let updated = live(spec.clone(), &[(US, "Update", set.clone())]);
    assert_eq!(fields(&updated, json!({}), None), ["spec.mine"]);
    let mut another = updated.clone();
    another["kind"] = json!("Other");
    let desired =
        |kind: &str| json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": "a", "namespace": "b"}});
    assert!(
        matches!(merge(&another, &desired("Other")).unwrap(), Outcome::Changed { fields, .. } if fields == ["spec.chosen.name", "spec.mine"])
    );
    // A former manifest had it.
    let both = live(spec, &[(US, "Update", set.clone()), (US, "Apply", set)]);
    assert_eq!(fields(&both, json!({}), None), ["spec.chosen.name", "spec.mine"]);
}

#[test]
fn elements_of_keyed_lists_are_dropped_one_by_one() {
    let list = json!([{"name": "a", "port": 1, "note": "n"}, {"name": "b", "port": 1}, {"name": "c", "port": 1}]);
    let live_spec = json!({"list": list, "set": ["a", "b", "c"]});
    let element = |name: &str| format!(r#"k:{{"name":"{name}","port":1}}"#);
    let ours = json!({"f:list": {element("a"): {".": {}, "f:name": {}, "f:port": {}, "f:note": {}}, element("b"): {".": {}, "f:name": {}, "f:port": {}}},
        "f:set": {"v:\"a\"": {}, "v:\"b\"": {}}});
    let theirs = json!({"f:list": {element("c"): {".": {}, "f:name": {}, "f:port": {}}}, "f:set": {"v:\"c\"": {}}});
    let live = live(live_spec, &[(US, "Apply", ours), ("other", "Apply", theirs)]);
    // A key field that has a default may be missing in the manifest, and the order is that of the live object.
    let same = json!({"list": [{"name": "b"}, {"name": "a", "note": "n"}], "set": ["b", "a"]});
    assert_eq!(fields(&live, same, None), Vec::<String>::new());
    let fewer = fields(&live, json!({"list": [{"name": "a"}], "set": ["a"]}), None);
    for path in ["spec.list", "spec.list[a,1].note", "spec.list[b,1].name", "spec.set", "spec.set[b]"] {
        assert!(fewer.contains(&path.to_owned()), "{path} is not in {fewer:?}");
    }
    let Ok(Outcome::Changed { object, .. }) = merge(&live, &object(json!({"list": [{"name": "a"}], "set": ["a"]})))
    else {
        panic!("nothing differs")
    };
    assert_eq!(object["spec"]["set"], json!(["a", "c"]), "an element of another manager stays");
    assert_eq!(object["spec"]["list"][1]["name"], "c");
}

/// The inside of an atomic list is in no field set.
#[test]
fn atomic_list_that_only_we_own_is_as_in_the_manifest_but_for_defaults() {
    let schema = || json!({"properties": {"spec": {"properties": {"rules": {"items": {"properties": {"action": {"default": "replace"}}}}}}}});
    let spec = json!({"rules": [{"alert": "A", "action": "replace", "for": "5m"}]});
    let mine = live(spec.clone(), &[(US, "Apply", json!({"f:rules": {}}))]);
    let with = |fields: &[&str]| {
        let mut rule = json!({"alert": "A", "for": "5m"});
        fields.iter().for_each(|field| drop(rule.as_object_mut().unwrap().remove(*field)));
        json!({"rules": [rule]})
    };
    assert_eq!(fields(&mine, with(&[]), Some(schema())), Vec::<String>::new());
    assert_eq!(fields(&mine, with(&["for"]), Some(schema())), ["spec.rules"]);
    // Without a schema any field may be a default.
    assert_eq!(fields(&mine, with(&["for"]), None), Vec::<String>::new());
    let shared = live(spec, &[(US, "Apply", json!({"f:rules": {}})), ("other", "Update", json!({"f:rules": {}}))]);
    assert_eq!(fields(&shared, with(&["for"]), Some(schema())), Vec::<String>::new());
}

#[test]
fn default_that_an_update_made_ours_is_not_dropped() {
    let schema = json!({"properties": {"spec": {"properties": {"colour": {"default": "blue"}}}}});
    let set = json!({".": {}, "f:colour": {}, "f:size": {}});
    let by_update = |colour: &str| live(json!({"colour": colour, "size": 1}), &[(US, "Update", set.clone())]);
    assert_eq!(fields(&by_update("blue"), json!({"size": 1}), Some(schema.clone())), Vec::<String>::new());
    assert_eq!(fields(&by_update("red"), json!({"size": 1}), Some(schema)), ["spec.colour"]);
    assert_eq!(fields(&by_update("blue"), json!({"size": 1}), None), ["spec.colour"], "it is taken over to find out");
}

#[test]
fn list_of_another_manager_is_applied_as_it_is() {
    let theirs = json!([{"alert": "A", "for": "5m"}]);
    let live = live(
        json!({"groups": [{"name": "g", "rules": theirs}]}),
        &[(
            "other",
            "Update",
            json!({"f:groups": {".": {}, "k:{\"name\":\"g\"}": {".": {}, "f:name": {}, "f:rules": {}}}}),
        )],
    );
    let applied = |alert: &str| {
        let mut desired = object(json!({"groups": [{"name": "g", "rules": [{"alert": alert}]}]}));
        keep_lists_of_others(&live, &mut desired, MANAGER, false);
        desired["spec"]["groups"][0]["rules"].clone()
    };
    assert_eq!(applied("A"), theirs);
    assert_eq!(applied("B"), json!([{"alert": "B"}]), "what the manifest sets is enforced");
}

/// The API server's field set of a value without keyed lists.
fn set_of(value: &Value) -> Value {
    let map = value.as_object().into_iter().flatten();
    map.map(|(name, value)| (format!("f:{name}"), set_of(value))).collect::<Map<_, _>>().into()
}

/// What the API server makes of an object with these defaults when `new` is applied after `old`.
fn apply(live: &mut Value, old: &Value, new: &Value) {
    let (Some(live_map), Some(new_map)) = (live.as_object_mut(), new.as_object()) else {
        return *live = new.clone();
    };
    for (name, old) in old.as_object().into_iter().flatten().filter(|(name, _)| !new_map.contains_key(*name)) {
        if let Some(live) = live_map.get_mut(name)
            && live.is_object()
            && old.as_object().is_some_and(|map| !map.is_empty())
        {
            apply(live, old, &json!({}));
        } else {
            live_map.remove(name);
        }
    }
    for (name, new) in new_map {
        apply(live_map.entry(name).or_insert_with(|| json!({})), old.get(name).unwrap_or(&Value::Null), new);
    }
}

fn add_defaults(value: &mut Value) {
    for value in value.as_object_mut().into_iter().flat_map(|map| map.values_mut()) {
        add_defaults(value);
    }
    if let Some(map) = value.as_object_mut().filter(|map| !map.is_empty()) {
        map.insert("default".into(), json!("d"));
    }
}

fn spec() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        (1_i64..3).prop_map(Value::from),
        Just(json!("a")),
        Just(json!([{"x": 1}])),
        Just(json!(["a", "b"])),
        Just(json!({})),
    ];
    let tree = leaf.prop_recursive(3, 16, 3, |inner| {
        prop::collection::btree_map("[a-d]", inner, 0..4).prop_map(|map| Value::Object(map.into_iter().collect()))
    });
    prop::collection::btree_map("[a-d]", tree, 0..5).prop_map(|map| Value::Object(map.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// What was applied needs no further write, and one apply leads from any manifest to any other.
    #[test]
    fn one_apply_drops_what_the_manifest_drops(first in spec(), second in spec()) {
        let mut applied = first.clone();
        add_defaults(&mut applied);
        let before = live(applied.clone(), &[(US, "Apply", set_of(&first))]);
        prop_assert_eq!(merge(&before, &object(first.clone())), Ok(Outcome::Same));
        let set = |value: &Value| serde_json::to_string(&set_of(value)).unwrap();
        let changes = merge(&before, &object(second.clone())).unwrap() != Outcome::Same;
        prop_assert!(changes || set(&first) == set(&second) || first != second, "{} {}", first, second);
        for name in first.as_object().unwrap().keys().filter(|name| second.get(name.as_str()).is_none()) {
            prop_assert!(changes, "{} is dropped", name);
        }
        apply(&mut applied, &first, &second);
        let after = live(applied, &[(US, "Apply", set_of(&second))]);
        prop_assert_eq!(merge(&after, &object(second)), Ok(Outcome::Same));
    }
}
