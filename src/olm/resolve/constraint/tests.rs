use super::*;
use serde_json::json;

mod scope;

fn gvk() -> Value {
    json!({"gvk": {"group": "example.com", "version": "v1", "kind": "Widget"}})
}

#[test]
fn constraints_of_every_kind_pass() {
    let package =
        json!({"failureMessage": "needs widgets", "package": {"packageName": "widgets", "versionRange": ">=1.0.0"}});
    let cel = json!({"cel": {"rule": "properties.exists(p, p.type == \"certified\")"}});
    let nested = json!({"not": {"constraints": [gvk()]}});
    let all = json!({"all": {"constraints": [gvk(), package, cel, nested]}});
    assert_eq!(Constraint::judge(&json!({"any": {"constraints": [all]}})), Findings::default());
}

#[test]
fn what_resolvers_refuse_is_an_error_with_its_place() {
    for (value, expected) in [
        (json!(null), "value: constraint is empty: what stands beside value"),
        (json!({}), "value: constraint is empty"),
        (json!({"failureMessage": "x"}), "value: constraint is empty"),
        (json!({"gvk": null}), "value: constraint is empty"),
        (json!({"failureMessage": 5, "cel": {"rule": "true"}}), "value.failureMessage: it must be a text"),
        (
            json!({"gvk": {"group": "a", "version": "v1", "kind": "A"}, "cel": {"rule": "true"}}),
            "value: gvk and cel are given",
        ),
        (json!({"labels": {}}), "value.labels: unknown key"),
        (json!({"gvk": {"group": "a", "version": "v1"}}), "value.gvk.kind: it must be set"),
        (json!({"gvk": "a"}), "value.gvk: it must be a mapping"),
        (json!({"package": {"versionRange": "1.0.0"}}), "value.package.packageName: it must be set"),
        (
            json!({"package": {"packageName": "a", "versionRange": "1"}}),
            "value.package.versionRange: \"1\" is no range",
        ),
        (json!({"cel": {"rule": " "}}), "value.cel.rule: it must be set"),
        (json!({"all": {"constraints": []}}), "value.all.constraints: it must be a list"),
        (
            json!({"any": {"constraints": [{"all": {"constraints": [{"x": 1}]}}]}}),
            "value.any.constraints[0].all.constraints[0].x: unknown key",
        ),
    ] {
        let found = Constraint::judge(&value);
        assert!(found.errors.iter().any(|error| error.starts_with(expected)), "{value}: {found:?}");
    }
}

#[test]
fn not_alone_and_the_alias_of_package_name_are_warnings() {
    let found = Constraint::judge(&json!({"not": {"constraints": [gvk()]}}));
    assert!(found.errors.is_empty() && found.warnings[0].starts_with("not alone"), "{found:?}");
    let found = Constraint::judge(&json!({"package": {"name": "a", "versionRange": "1.0.0"}}));
    assert!(found.errors.is_empty() && found.warnings[0].starts_with("value.package.name"), "{found:?}");
}

#[test]
fn kind_in_small_letters_is_a_warning() {
    let found =
        Constraint::judge(&json!({"gvk": {"group": "greens.example.com", "version": "v1alpha1", "kind": "greens"}}));
    assert!(found.errors.is_empty(), "{found:?}");
    assert!(
        found.warnings[0].starts_with("value.gvk.kind: \"greens\": kinds begin with a capital letter"),
        "{found:?}"
    );
}

#[test]
fn size_is_a_warning_and_then_an_error() {
    let of = |bytes: usize| Constraint::judge(&json!({"cel": {"rule": format!("\"{}\" == \"\"", "x".repeat(bytes))}}));
    assert_eq!(of(60_000), Findings::default());
    assert!(of(70_000).warnings[0].contains("65536") && of(70_000).errors.is_empty());
    assert!(of(140_000).errors[0].contains("131072"));
}

#[test]
fn constraint_says_what_it_demands() {
    let gvk = |kind: &str| json!({"gvk": {"group": "g", "version": "v1", "kind": kind}});
    let api = |kind: &str| format!("providing an API with group: g, version: v1, kind: {kind}");
    for (value, expected) in [
        (gvk("A"), api("A")),
        (
            json!({"package": {"name": "etcd", "versionRange": ">3.1.0"}}),
            "with package: etcd and with version in range: >3.1.0".to_owned(),
        ),
        (
            json!({"failureMessage": "certified ones only", "cel": {"rule": "true"}}),
            "with constraint: \"true\" and message: \"certified ones only\"".to_owned(),
        ),
        (json!({"all": {"constraints": [gvk("A"), gvk("B")]}}), format!("{} and {}", api("A"), api("B"))),
        (json!({"any": {"constraints": [gvk("A"), gvk("B")]}}), format!("{} or {}", api("A"), api("B"))),
        (json!({"not": {"constraints": [gvk("A"), gvk("B")]}}), format!("{} and not {}", api("A"), api("B"))),
    ] {
        assert_eq!(Constraint::parse(&value).unwrap().to_string(), expected);
    }
}
