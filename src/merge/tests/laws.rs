//! Laws that hold for any two objects: idempotent, and nothing foreign is touched.

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

/// Names that some rule knows, and some that none does.
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

/// Every value of `before` is still in `after`, with maps grown at most; lists as they were unless `want` names them.
fn untouched(before: &Value, after: &Value, want: Option<&Value>) -> bool {
    match (before, after, want) {
        (_, _, None) => before == after,
        (Value::Object(before), Value::Object(after), Some(Value::Object(want))) => {
            before.iter().all(|(key, value)| after.get(key).is_some_and(|after| untouched(value, after, want.get(key))))
        }
        // Named by the manifest, and of another shape: its own.
        _ => true,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: ProptestConfig::default().cases.max(1500), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_twice_is_merging_once(kind in 0..KINDS.len() + 1, live in body(), want in body(), labels in json_value()) {
        let want = of_kind(kind, want, labels);
        let live = of_kind(kind, live, json!({"foreign": "x"}));
        if let Ok(Outcome::Changed { object, fields }) = merge(&live, &want) {
            prop_assert!(!fields.is_empty());
            prop_assert_eq!(merge(&object, &want), Ok(Outcome::Same), "{:?}", object);
        }
    }

    #[test]
    fn an_object_is_the_same_as_itself(kind in 0..KINDS.len() + 1, want in body()) {
        let want = of_kind(kind, want, json!({"a": "b"}));
        prop_assert_eq!(merge(&want, &want), Ok(Outcome::Same));
    }

    #[test]
    fn a_key_that_the_manifest_does_not_name_is_not_touched(live in body(), want in body()) {
        let want = of_kind(KINDS.len(), want, json!({"a": "b"}));
        let live = of_kind(KINDS.len(), live, json!({"foreign": "x"}));
        if let Ok(Outcome::Changed { object, .. }) = merge(&live, &want) {
            prop_assert!(untouched(&live, &object, Some(&want)), "{:?}", object);
        }
    }
}
