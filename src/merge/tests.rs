//! Tests for all kinds: an object that an API server returned does not differ from its manifest, drift is found by its path,
//! merging is idempotent, and what others own stays.

mod absent;
mod drift;
mod empty;
mod foreign;
mod payload;
mod properties;
mod server;
mod step;

use super::metadata::prepare;
use super::*;
use serde_json::json;

/// Under whose name the tests write.
pub(super) const US: Manager = Manager {
    name: "us",
    of_others: &[
        OfOthers::Annotations("others.example.com"),
        OfOthers::Field { group: "example.com", kind: "Thing", path: &["f:spec", "f:chosen"] },
    ],
};

/// As [`super::merge`], by us.
pub(super) fn merge(live: &Value, desired: &Value) -> Result<Outcome, MergeError> {
    super::merge(live, desired, US)
}

/// Manifests and the objects that an API server (1.36) made of them, `[{"desired": …, "live": …}]`.
const DEFAULTED: &str = include_str!("tests/defaulted.json");

/// The pairs of `DEFAULTED`.
fn defaulted() -> Vec<(Value, Value)> {
    let pairs: Vec<Value> = serde_json::from_str(DEFAULTED).unwrap();
    pairs.into_iter().map(|pair| (pair["desired"].clone(), pair["live"].clone())).collect()
}

/// The pair of this kind and name.
fn pair(kind: &str, name: &str) -> (Value, Value) {
    let mut pairs = defaulted().into_iter();
    pairs.find(|(desired, _)| desired["kind"] == kind && desired["metadata"]["name"] == name).unwrap()
}

/// Sets the value at a pointer. Null removes it, and `-` appends to a list.
fn set(object: &mut Value, pointer: &str, value: Value) {
    let (parent, key) = pointer.rsplit_once('/').unwrap();
    let key = key.replace("~1", "/");
    match object.pointer_mut(parent).unwrap_or_else(|| panic!("nothing at {parent}")) {
        Value::Object(map) if value.is_null() => drop(map.remove(&key).unwrap_or_else(|| panic!("no {pointer}"))),
        Value::Object(map) => drop(map.insert(key, value)),
        Value::Array(list) if key == "-" => list.push(value),
        Value::Array(list) if value.is_null() => drop(list.remove(key.parse().unwrap())),
        Value::Array(list) => list[key.parse::<usize>().unwrap()] = value,
        other => panic!("{parent} is {other}"),
    }
}

/// The merged object and the paths that differed. Merging again must give no difference.
fn changed(live: &Value, desired: &Value) -> (Value, Vec<String>) {
    match merge(live, desired).unwrap() {
        Outcome::Changed { object, fields } => {
            assert!(!fields.is_empty());
            assert_eq!(merge(&object, desired), Ok(Outcome::Same), "merging is not idempotent: {fields:?}");
            (object, fields)
        }
        other => panic!("expected a change, not {other:?}"),
    }
}

#[test]
fn defaults_of_the_api_server_are_not_a_difference() {
    let pairs = defaulted();
    assert!(pairs.len() >= 34, "{}", pairs.len());
    for (desired, live) in pairs {
        let desired = prepare(desired, None, false);
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{} {}", desired["kind"], desired["metadata"]["name"]);
    }
}

#[test]
fn element_of_a_list_gets_its_kind() {
    let (desired, mut live) = pair("ConfigMap", "settings");
    set(&mut live, "/kind", Value::Null);
    set(&mut live, "/apiVersion", Value::Null);
    assert_eq!(merge(&live, &desired), Ok(Outcome::Same));
    set(&mut live, "/data/a", json!("2"));
    let (object, fields) = changed(&live, &desired);
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(fields, ["data.a"]);
}

#[test]
fn different_object_is_refused() {
    let (desired, live) = pair("ConfigMap", "settings");
    for (pointer, value) in
        [("/metadata/name", "x"), ("/metadata/namespace", "x"), ("/kind", "Secret"), ("/apiVersion", "v2")]
    {
        let mut other = live.clone();
        set(&mut other, pointer, json!(value));
        assert!(matches!(merge(&other, &desired), Err(MergeError::OtherObject { .. })), "{pointer}");
    }
    for junk in [json!(null), json!([]), json!({"apiVersion": "v1", "kind": "ConfigMap"}), json!({"metadata": 1})] {
        assert!(matches!(merge(&live, &junk), Err(MergeError::NotAnObject { side: "the manifest", .. })), "{junk}");
        assert!(
            matches!(merge(&junk, &desired), Err(MergeError::NotAnObject { side: "the live object", .. })),
            "{junk}"
        );
    }
}

#[test]
fn every_kind_is_in_the_table_once() {
    for (index, kind) in KINDS.iter().enumerate() {
        assert!(!KINDS[..index].iter().any(|k| (k.group, k.kind) == (kind.group, kind.kind)), "{}", kind.kind);
        assert!(kind.shape.base.iter().any(|field| field.name == "status"), "{}", kind.kind);
    }
}
