//! Constraints: as they are read, as rules, and what they choose.

use crate::olm::resolve::constraint::Constraint;
use crate::olm::resolve::rule::{ClusterVersions, Properties, Rule};
use crate::olm::resolve::tests::written::{Row, check, fails, installs};
use serde_json::{Value, json};

const CHOSEN: [Row; 7] = [
    installs(
        "all: one operator has to be everything",
        r#"catalog main
         bar.v1.0.0 stable
         constraint {"failureMessage": "all constraint", "all": {"constraints": [{"package": {"packageName": "foo", "versionRange": ">=1.0.0"}}, {"gvk": {"group": "g", "version": "v1", "kind": "K1"}}, {"gvk": {"group": "g", "version": "v1", "kind": "K2"}}]}}
         foo.v0.99.0 stable provides K1,K2,K3
         foo.v1.0.0 stable replaces foo.v0.99.0 provides K2,K3
         foo.v1.0.1 stable replaces foo.v1.0.0 provides K1,K2,K3
         sub bar/stable"#,
        "bar.v1.0.0 foo.v1.0.1",
    ),
    installs(
        "any: the most preferred of those that are something of it",
        r#"catalog main
         bar.v1.0.0 stable
         constraint {"failureMessage": "any constraint", "any": {"constraints": [{"gvk": {"group": "g", "version": "v1", "kind": "K1"}}, {"gvk": {"group": "g", "version": "v1", "kind": "K2"}}]}}
         foo.v0.99.0 stable provides K0
         foo.v1.0.0 stable replaces foo.v0.99.0 provides K1,K2
         foo.v1.0.1 stable replaces foo.v1.0.0 provides K1,K2,K3
         sub bar/stable"#,
        "bar.v1.0.0 foo.v1.0.1",
    ),
    installs(
        "not: who is any of it is left out",
        r#"catalog main
         bar.v1.0.0 stable
         constraint {"failureMessage": "compound not constraint", "all": {"constraints": [{"gvk": {"group": "g", "version": "v1", "kind": "K0"}}, {"not": {"constraints": [{"gvk": {"group": "g", "version": "v1", "kind": "K1"}}, {"gvk": {"group": "g", "version": "v1", "kind": "K2"}}]}}]}}
         foo.v0.99.0 stable provides K0
         foo.v1.0.0 stable replaces foo.v0.99.0 provides K0,K1,K2
         foo.v1.0.1 stable replaces foo.v1.0.0 provides K0,K1,K2,K3
         sub bar/stable"#,
        "bar.v1.0.0 foo.v0.99.0",
    ),
    fails(
        // Elsewhere it stops its namespace. Here its candidate is out and the others stay.
        "unknown key: the candidate is out",
        r#"catalog main
         bar.v1.0.0 stable
         constraint {"failureMessage": "unknown constraint", "unknown": {"foo": "bar"}}
         sub bar/stable"#,
        "bundle main/ns/stable/bar.v1.0.0 cannot be installed: parse olm.constraint (properties[1]): value.unknown: unknown key",
    ),
    installs(
        "rule about an api",
        "catalog main
         a.v1.0.0 stable
         rule properties.exists(p, p.type == 'olm.gvk' && p.value == {'group': 'g', 'version': 'v1', 'kind': 'k'})
         n.v1.0.0 stable provides k
         sub a/stable",
        "a.v1.0.0 n.v1.0.0",
    ),
    fails(
        "rule that nobody meets is told with its message",
        r#"catalog main
         a.v1.0.0 stable
         constraint {"failureMessage": "gvk2-constraint", "cel": {"rule": "properties.exists(p, p.type == 'olm.gvk' && p.value == {'group': 'g2', 'version': 'v1', 'kind': 'k'})"}}
         n.v1.0.0 stable provides k
         sub a/stable"#,
        "gvk2-constraint",
    ),
    installs(
        "rule about package and version",
        "catalog main
         a.v1.0.0 stable
         rule properties.exists(p, p.type == 'olm.package' && p.value.packageName == 'n' && (semver_compare(p.value.version, '1.0.1') == 0))
         n.v1.0.0 stable
         n.v1.0.1 stable replaces n.v1.0.0
         n.v1.0.2 stable replaces n.v1.0.1
         sub a/stable",
        "a.v1.0.0 n.v1.0.1",
    ),
];

#[test]
fn constraints_choose_as_published() {
    check(&CHOSEN);
}

fn package(name: &str) -> Value {
    json!({"package": {"packageName": name, "versionRange": ">=1.0.0"}})
}

fn gvk(kind: &str, version: &str) -> Value {
    json!({"gvk": {"group": format!("{}s.example.com", kind.to_lowercase()), "version": version, "kind": kind}})
}

fn with_message(mut value: Value, message: &str) -> Value {
    value["failureMessage"] = json!(message);
    value
}

#[test]
fn constraints_are_read_as_published() {
    let compound =
        |kind: &str| with_message(json!({kind: {"constraints": [with_message(package("fuz"), "blah blah")]}}), "blah");
    let foo = |version: &str| format!("providing an API with group: foos.example.com, version: {version}, kind: Foo");
    let versioned = |name: &str| format!("with package: {name} and with version in range: >=1.0.0");
    let complex = json!({"failureMessage": "blah", "all": {"constraints": [
        package("fuz"),
        gvk("Fal", "v1"),
        with_message(json!({"all": {"constraints": [package("foo"), package("buf"), gvk("Foo", "v1")]}}), "stable ones"),
        with_message(json!({"any": {"constraints": [gvk("Foo", "v1beta1"), gvk("Foo", "v1beta2"), gvk("Foo", "v1")]}}), "blah"),
        {"not": {"constraints": [gvk("Baz", "v1alpha1")]}}]}});
    let fal = "providing an API with group: fals.example.com, version: v1, kind: Fal";
    let baz = "providing an API with group: bazs.example.com, version: v1alpha1, kind: Baz";
    let of_complex = [&versioned("fuz"), fal, &versioned("foo"), &versioned("buf"), &foo("v1")].join(" and ");
    let of_any = [foo("v1beta1"), foo("v1beta2"), foo("v1")].join(" or ");
    for (name, value, expected) in [
        ("api", with_message(gvk("Foo", "v1"), "blah"), Ok(foo("v1"))),
        ("package", with_message(package("foo"), "blah"), Ok(versioned("foo"))),
        ("all", compound("all"), Ok(versioned("fuz"))),
        ("any", compound("any"), Ok(versioned("fuz"))),
        ("not", compound("not"), Ok(versioned("fuz"))),
        ("complex", complex, Ok(format!("{of_complex} and {of_any} and {baz}"))),
        ("too large", json!({"cel": {"rule": "x".repeat(131_072)}}), Err("resolvers take 131072")),
        (
            "unknown field",
            json!({"failureMessage": "something", "arbitrary": {"key": "value"}}),
            Err("value.arbitrary: unknown key"),
        ),
    ] {
        match (Constraint::parse(&value), expected) {
            (Ok(found), Ok(expected)) => {
                assert_eq!(found.to_string(), expected, "{name}");
                let message = value.get("failureMessage").and_then(Value::as_str);
                assert_eq!(found.failure_message.as_deref(), message, "{name}");
            }
            (Err(errors), Err(expected)) => {
                assert!(errors.iter().any(|it| it.contains(expected)), "{name}: {errors:?}")
            }
            (found, expected) => panic!("{name}: {found:?} instead of {expected:?}"),
        }
    }
}

#[test]
fn rules_are_judged_as_published() {
    let value = json!("1.0.0");
    let properties = Properties::new([("olm.test", &value)], &ClusterVersions::default());
    let of = |comparison: &str| format!("properties.exists(p, p.type == 'olm.test' && ({comparison}))");
    for (name, rule, expected) in [
        ("equal", of("semver_compare(p.value, '1.0.0') == 0"), Some(true)),
        ("not equal", of("semver_compare(p.value, '1.0.1') == 0"), Some(false)),
        ("not less", of("semver_compare(p.value, '1.0.0') < 0"), Some(false)),
        ("not larger", of("semver_compare(p.value, '1.0.0') > 0"), Some(false)),
        ("function that does not exist", of("doesnt_exist(p.value, '1.0.0') == 0"), None),
        ("no bool", "1".to_owned(), None),
    ] {
        let found = Rule::compile(&rule).ok().and_then(|rule| rule.holds(&properties).ok());
        assert_eq!(found, expected, "{name}");
    }
}
