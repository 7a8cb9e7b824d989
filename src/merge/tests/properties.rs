//! Properties of any two objects of every kind: merging is idempotent, and what the manifest does not own stays.

use super::foreign::owner;
use super::*;
use proptest::prelude::*;

fn json_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..3).prop_map(Value::from),
        prop_oneof![Just(1.0), Just(0.5), Just(0.0)].prop_map(Value::from),
        prop_oneof![Just(""), Just("a"), Just("1"), Just("1000m"), Just("v1"), Just("TCP"), Just("Recreate")]
            .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Names of fields with rules, and some others.
fn name() -> impl Strategy<Value = String> {
    prop::sample::select(
        &[
            "name",
            "spec",
            "template",
            "containers",
            "env",
            "ports",
            "resources",
            "limits",
            "cpu",
            "selector",
            "data",
            "rules",
            "volumes",
            "tolerations",
            "strategy",
            "type",
            "rollingUpdate",
            "webhooks",
            "clientConfig",
            "caBundle",
            "emptyDir",
            "replicas",
            "names",
            "kind",
            "matchLabels",
            "subjects",
            "apiGroup",
            "completions",
            "parallelism",
            "limited",
            "queuing",
            "updateStrategy",
            "overhead",
            "metrics",
            "exempt",
            "protocol",
            "dnsPolicy",
            "insecureSkipTLSVerify",
            "jobTemplate",
            "other",
            "x",
        ][..],
    )
    .prop_map(str::to_owned)
}

fn body() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(
        prop::sample::select(&["spec", "data", "rules", "webhooks", "subjects", "roleRef", "users", "x"][..]),
        json_value(),
        0..4,
    )
    .prop_map(|map| map.into_iter().map(|(key, value)| (key.to_owned(), value)).collect())
}

fn of_kind(kind: usize, mut body: Value, extra: Value) -> Value {
    let (group, kind) = KINDS.get(kind).map_or(("example.com", "Thing"), |k| (k.group, k.kind));
    let version = if group.is_empty() { "v1".to_owned() } else { format!("{group}/v1") };
    body["apiVersion"] = json!(version);
    body["kind"] = json!(kind);
    body["metadata"] = json!({"name": "n", "labels": extra});
    body
}

/// The kind at this position of the table; beyond its end a kind without an entry.
fn kind_at(position: usize) -> &'static Kind {
    KINDS.get(position).unwrap_or(&GENERIC)
}

/// The path at which `after` lacks something of `before` that neither the manifest nor the rules of its kind own.
fn lost(rule: Rule, before: &Value, after: Option<&Value>, desired: Option<&Value>) -> Option<String> {
    let (Some(after), Some(desired)) = (after, desired.filter(|desired| !desired.is_null())) else {
        return (Some(before) != after).then(String::new);
    };
    let shape = match rule {
        Rule::Never => return (before != after).then(String::new),
        Rule::Within(rule) => return lost(rule(), before, Some(after), Some(desired)),
        Rule::Map(shape) => shape,
        // A selector is owned as a whole: with foreign parts it would select other objects.
        Rule::Deep if super::super::equal::is_selector(before, desired) => return None,
        Rule::Deep => super::super::rule::OPEN,
        // Owned as a whole.
        _ => return None,
    };
    let (Value::Object(before), Value::Object(after), Value::Object(desired)) = (before, after, desired) else {
        return None;
    };
    let stays = |key: &str| shape.field(key).is_none_or(|field| matches!(field.absent, rule::Absent::Leave));
    before.iter().find_map(|(key, value)| {
        let desired_value = desired.get(key);
        let checked = match desired_value {
            // In a map whose keys are data the manifest's null is an empty entry.
            Some(Value::Null) if shape.verbatim => false,
            Some(desired_value) if !desired_value.is_null() => true,
            _ => shape.extra == rule::Extra::Keep && stays(key),
        };
        let lost = if checked { lost(shape.rule(key, desired), value, after.get(key), desired_value) } else { None };
        lost.map(|inner| format!("{key}.{inner}"))
    })
}

/// A live object with fields that other clients may set.
fn with_foreign_fields(mut live: Value) -> Value {
    live["metadata"] = json!({
        "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7", "generation": 3, "generateName": "x",
        "labels": {"foreign": "x"}, "annotations": {"foreign/a": ""}, "finalizers": ["foreign/hold"],
        "managedFields": [{"manager": "m"}], "fieldOfTomorrow": {"a": []},
        "ownerReferences": [{"uid": "o", "kind": "Other", "name": "o", "apiVersion": "v1", "controller": true}],
    });
    live["status"] = json!({"phase": "x", "conditions": [{"type": "Foreign"}]});
    live["topLevelOfTomorrow"] = json!({"a": 0, "b": ""});
    live
}

/// Pointers to all values inside a value.
fn pointers(value: &Value, here: &str, all: &mut Vec<String>) {
    let mut descend = |key: String, value: &Value| {
        let here = format!("{here}/{}", key.replace('~', "~0").replace('/', "~1"));
        pointers(value, &here, all);
        all.push(here);
    };
    match value {
        Value::Object(map) => map.iter().for_each(|(key, value)| descend(key.clone(), value)),
        Value::Array(list) => list.iter().enumerate().for_each(|(index, value)| descend(index.to_string(), value)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn second_merge_changes_nothing(kind in 0..KINDS.len() + 1, live in body(), desired in body(), labels in json_value()) {
        let desired = of_kind(kind, desired, labels);
        let live = of_kind(kind, live, json!({"foreign": "x"}));
        if let Ok(Outcome::Changed { object, fields } | Outcome::Replace { object, fields }) = merge(&live, &desired) {
            prop_assert!(!fields.is_empty());
            prop_assert_eq!(merge(&object, &desired), Ok(Outcome::Same), "{:?}", object);
        }
    }

    #[test]
    fn object_does_not_differ_from_itself(kind in 0..KINDS.len() + 1, desired in body()) {
        let desired = of_kind(kind, desired, json!({"a": "b"}));
        prop_assert_eq!(merge(&desired, &desired), Ok(Outcome::Same));
    }

    #[test]
    fn foreign_fields_stay(kind in 0..KINDS.len() + 1, live in body(), desired in body()) {
        let desired = prepare(of_kind(kind, desired, json!({"a": "b"})), Some(&owner()), false);
        let live = with_foreign_fields(of_kind(kind, live, json!({})));
        match merge(&live, &desired) {
            Ok(Outcome::Changed { object, .. }) => {
                // Owners are matched by uid, labels and annotations by key.
                prop_assert_eq!(lost(Rule::Map(kind_at(kind).shape), &live, Some(&object), Some(&desired)), None, "{}", object);
                for (place, value) in [("/metadata/labels/foreign", json!("x")), ("/metadata/annotations/foreign~1a", json!("")),
                    ("/metadata/finalizers", json!(["foreign/hold"])), ("/metadata/ownerReferences/0/uid", json!("o")),
                    ("/metadata/resourceVersion", json!("7")), ("/metadata/generateName", json!("x"))]
                {
                    prop_assert_eq!(object.pointer(place), Some(&value), "{}", place);
                }
                prop_assert_eq!(&object["status"], &live["status"]);
                prop_assert_eq!(&object["topLevelOfTomorrow"], &live["topLevelOfTomorrow"]);
            }
            Ok(Outcome::Replace { object, .. }) => {
                prop_assert_eq!(&object["metadata"]["labels"], &json!({"foreign": "x", "a": "b"}));
                prop_assert_eq!(&object["metadata"]["annotations"], &json!({"foreign/a": ""}));
                prop_assert_eq!(&object["metadata"]["ownerReferences"][0]["uid"], &json!("o"));
            }
            Ok(Outcome::Same) => prop_assert!(false, "the label of the manifest is missing"),
            Err(MergeError::Immutable { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
        }
    }

    /// Whatever is changed in an object that a real API server made, one write restores it.
    #[test]
    fn any_drift_is_repaired_by_one_write(
        which in any::<prop::sample::Index>(), places in prop::collection::vec((any::<prop::sample::Index>(), json_value()), 1..4),
    ) {
        let pairs = defaulted();
        let (desired, mut live) = which.get(&pairs).clone();
        let desired = prepare(desired, None, false);
        for (place, value) in places {
            let mut all = Vec::new();
            pointers(&live, "", &mut all);
            all.retain(|place| !["/apiVersion", "/kind", "/metadata", "/metadata/name", "/metadata/namespace"].contains(&place.as_str()));
            if let Some(there) = live.pointer_mut(place.get::<String>(&all)) {
                *there = value;
            }
        }
        match merge(&live, &desired) {
            Ok(Outcome::Changed { object, fields }) => {
                prop_assert!(!fields.is_empty());
                prop_assert_eq!(merge(&object, &desired), Ok(Outcome::Same), "{:?}", fields);
            }
            Ok(Outcome::Replace { object, .. }) => prop_assert_eq!(merge(&object, &desired), Ok(Outcome::Same)),
            Ok(Outcome::Same) | Err(MergeError::Immutable { .. }) => {}
            Err(error) => prop_assert!(false, "{}", error),
        }
    }
}
