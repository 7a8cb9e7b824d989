//! What holds for all kinds: objects as a real API server returned them are the same, drift is found by its path,
//! merging is idempotent and touches nothing foreign.

mod drift;
mod empty;
mod foreign;
mod laws;
mod payload;
mod server;
mod step;

use super::*;
use serde_json::json;

/// Manifests and what an API server (1.36) made of them, `[{"want": …, "live": …}]`.
const DEFAULTED: &str = include_str!("tests/defaulted.json");

/// The pairs of `DEFAULTED`.
fn defaulted() -> Vec<(Value, Value)> {
    let pairs: Vec<Value> = serde_json::from_str(DEFAULTED).unwrap();
    pairs.into_iter().map(|pair| (pair["want"].clone(), pair["live"].clone())).collect()
}

/// The pair of that kind and name.
fn pair(kind: &str, name: &str) -> (Value, Value) {
    let mut pairs = defaulted().into_iter();
    pairs.find(|(want, _)| want["kind"] == kind && want["metadata"]["name"] == name).unwrap()
}

/// Sets the value at a pointer, making maps on the way and appending to a list for `-`.
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

/// The merged object and the paths that differed, checked to be stable.
fn changed(live: &Value, want: &Value) -> (Value, Vec<String>) {
    match merge(live, want).unwrap() {
        Outcome::Changed { object, fields } => {
            assert!(!fields.is_empty());
            assert_eq!(merge(&object, want), Ok(Outcome::Same), "merging is not idempotent: {fields:?}");
            (object, fields)
        }
        other => panic!("expected a change, not {other:?}"),
    }
}

/// §10.21: nothing to write after creating, kind by kind.
#[test]
fn what_a_server_filled_in_is_no_difference() {
    let pairs = defaulted();
    assert!(pairs.len() >= 34, "{}", pairs.len());
    for (want, live) in pairs {
        let want = prepare(want, None, false);
        assert_eq!(merge(&live, &want), Ok(Outcome::Same), "{} {}", want["kind"], want["metadata"]["name"]);
    }
}

#[test]
fn an_element_of_a_list_has_no_kind() {
    let (want, mut live) = pair("ConfigMap", "settings");
    set(&mut live, "/kind", Value::Null);
    set(&mut live, "/apiVersion", Value::Null);
    assert_eq!(merge(&live, &want), Ok(Outcome::Same));
    set(&mut live, "/data/a", json!("2"));
    let (object, fields) = changed(&live, &want);
    assert_eq!((&object["kind"], &object["apiVersion"]), (&json!("ConfigMap"), &json!("v1")));
    assert_eq!(fields, ["data.a"]);
}

#[test]
fn another_object_is_refused() {
    let (want, live) = pair("ConfigMap", "settings");
    for (pointer, value) in
        [("/metadata/name", "x"), ("/metadata/namespace", "x"), ("/kind", "Secret"), ("/apiVersion", "v2")]
    {
        let mut other = live.clone();
        set(&mut other, pointer, json!(value));
        assert!(matches!(merge(&other, &want), Err(MergeError::OtherObject { .. })), "{pointer}");
    }
    for junk in [json!(null), json!([]), json!({"apiVersion": "v1", "kind": "ConfigMap"}), json!({"metadata": 1})] {
        assert!(matches!(merge(&live, &junk), Err(MergeError::NotAnObject { side: "the manifest", .. })), "{junk}");
        assert!(matches!(merge(&junk, &want), Err(MergeError::NotAnObject { side: "the live object", .. })), "{junk}");
    }
}

#[test]
fn every_kind_stands_once_in_the_table() {
    for (index, kind) in KINDS.iter().enumerate() {
        assert!(!KINDS[..index].iter().any(|k| (k.group, k.kind) == (kind.group, kind.kind)), "{}", kind.kind);
        assert!(kind.shape.base.iter().any(|field| field.name == "status"), "{}", kind.kind);
    }
}
