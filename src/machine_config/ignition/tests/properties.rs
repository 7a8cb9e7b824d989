//! Properties of any configurations.

use super::*;
use proptest::prelude::*;

fn text() -> impl Strategy<Value = String> {
    prop::sample::select(&["a", "b", "c"][..]).prop_map(str::to_owned)
}

fn maybe<T: std::fmt::Debug + Into<Value>>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Value> {
    prop::option::of(value).prop_map(|value| value.map_or(Value::Null, Into::into))
}

/// Each name once.
fn once(entries: impl Strategy<Value = Value>, key: &'static str) -> impl Strategy<Value = Vec<Value>> {
    prop::collection::vec(entries, 0..4).prop_map(move |mut entries| {
        let mut seen = Vec::new();
        entries.retain(|entry| {
            let is_new = !seen.contains(&entry[key]);
            seen.push(entry[key].clone());
            is_new
        });
        entries
    })
}

fn nodes() -> impl Strategy<Value = Value> {
    let node = (text(), 0_usize..3, maybe(0_i64..512), maybe(text()), maybe(any::<bool>()));
    prop::collection::vec(node, 0..6).prop_map(|nodes| {
        let (mut lists, mut seen) = ([json!([]), json!([]), json!([])], Vec::new());
        for (name, kind, mode, contents, overwrite) in nodes {
            if seen.contains(&name) {
                continue;
            }
            let path = format!("/etc/{name}");
            let source = contents.as_str().map(|contents| format!("data:,{contents}"));
            let entry = match kind {
                0 => json!({"path": path, "mode": mode, "overwrite": overwrite, "contents": {"source": source}}),
                1 => json!({"path": path, "mode": mode}),
                _ => json!({"path": path, "target": "/x", "overwrite": overwrite}),
            };
            lists[kind].as_array_mut().unwrap().push(entry);
            seen.push(name);
        }
        let [files, directories, links] = lists;
        json!({"files": files, "directories": directories, "links": links})
    })
}

fn units() -> impl Strategy<Value = Vec<Value>> {
    let dropin = (text(), maybe(text()))
        .prop_map(|(name, contents)| json!({"name": format!("{name}.conf"), "contents": contents}));
    let unit = (text(), maybe(text()), maybe(any::<bool>()), once(dropin, "name")).prop_map(
        |(name, contents, enabled, dropins)| {
            json!({"name": format!("{name}.service"), "contents": contents, "enabled": enabled, "dropins": dropins})
        },
    );
    once(unit, "name")
}

pub(super) fn any_config() -> impl Strategy<Value = Value> {
    let keys = prop::collection::vec(text(), 0..4);
    let groups = once(text().prop_map(|name| json!({"name": name})), "name");
    (nodes(), units(), keys, groups).prop_map(|(storage, units, keys, groups)| {
        config(json!({
            "storage": storage,
            "systemd": {"units": units},
            "passwd": {"users": [{"name": "core", "sshAuthorizedKeys": keys}], "groups": groups},
        }))
    })
}

/// Names of fields.
const NAMES: &[&str] = &[
    "storage",
    "files",
    "directories",
    "links",
    "path",
    "mode",
    "contents",
    "source",
    "append",
    "systemd",
    "units",
    "name",
    "dropins",
    "enable",
    "passwd",
    "users",
    "sshAuthorizedKeys",
    "kernelArguments",
    "shouldExist",
    "filesystem",
];

/// Any JSON, with the names of fields in it.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop_oneof![Just("/etc/a"), Just("a.service"), Just("core"), Just("data:,a"), Just("%")].prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 32, 4, |inner| {
        let name = prop::sample::select(NAMES).prop_map(str::to_owned);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name, inner, 0..5).prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn merging_with_an_empty_configuration_changes_nothing(value in any_config()) {
        let any = Ignition::read(&value).unwrap().ignition;
        prop_assert_eq!(&any.merge(&Ignition::empty()).unwrap(), &any);
        prop_assert_eq!(&Ignition::empty().merge(&any).unwrap(), &any);
    }

    #[test]
    fn merging_is_deterministic_and_the_same_again_changes_nothing(parent in any_config(), child in any_config()) {
        let (parent, child) = (Ignition::read(&parent).unwrap().ignition, Ignition::read(&child).unwrap().ignition);
        let merged = parent.merge(&child).unwrap();
        prop_assert_eq!(&parent.merge(&child).unwrap(), &merged);
        prop_assert_eq!(&merged.merge(&child).unwrap(), &merged);
    }

    #[test]
    fn what_was_read_is_read_again_as_the_same(value in any_config()) {
        let any = Ignition::read(&value).unwrap().ignition;
        let again = Ignition::read(any.value()).unwrap();
        prop_assert_eq!(again.ignition, any);
        prop_assert_eq!(again.warnings, Vec::<String>::new());
    }

    #[test]
    fn any_json_is_read_or_refused(value in any_json(), version in prop_oneof![Just("2.2.0"), Just("3.5.0")]) {
        let mut value = match value {
            Value::Object(fields) => Value::Object(fields),
            other => json!({"storage": other}),
        };
        value["ignition"] = json!({"version": version});
        match Ignition::read(&value) {
            Ok(read) => prop_assert_eq!(read.ignition.value().pointer("/ignition/version"), Some(&json!("3.5.0"))),
            Err(error) => prop_assert!(error.to_string().contains([' ', ';'])),
        }
    }
}
