//! The shape of an `olm.constraint`: what a resolver would refuse in it, at any depth.

use crate::olm::version_range::VersionRange;
use serde_json::{Map, Value};

/// Bytes of JSON that resolvers take, and those that should be enough.
const MAX_BYTES: usize = 131_072;
const LARGE_BYTES: usize = 65_536;
const KINDS: [&str; 6] = ["gvk", "package", "cel", "all", "any", "not"];

/// What is wrong with a constraint, and what is only strange.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Verdict {
    pub errors: Vec<String>,
    pub warnings: Vec<String>,
}

pub(super) fn judge(value: &Value) -> Verdict {
    let mut verdict = Verdict::default();
    let bytes = value.to_string().len();
    if bytes > MAX_BYTES {
        verdict.errors.push(format!("it has {bytes} bytes, and resolvers take {MAX_BYTES}: split it"));
    } else if bytes > LARGE_BYTES {
        verdict.warnings.push(format!("it has {bytes} bytes, and {LARGE_BYTES} are supported: split it"));
    }
    constraint(value, "value", &mut verdict);
    if value.get("not").is_some() {
        let message = "not alone selects every other bundle there is: use it within all or any, beside what is wanted";
        verdict.warnings.push(message.to_owned());
    }
    verdict
}

fn constraint(value: &Value, place: &str, verdict: &mut Verdict) {
    let Value::Object(map) = value else {
        return verdict.errors.push(format!("{place}: constraint is no mapping: write one such as {{gvk: …}}"));
    };
    for key in map.keys().filter(|key| !KINDS.contains(&key.as_str()) && *key != "failureMessage") {
        verdict.errors.push(format!("{place}.{key}: unknown key: there are failureMessage, {}", KINDS.join(", ")));
    }
    if map.get("failureMessage").is_some_and(|message| !message.is_string() && !message.is_null()) {
        verdict.errors.push(format!("{place}.failureMessage: it must be a text"));
    }
    let kinds: Vec<&str> =
        KINDS.into_iter().filter(|kind| map.get(*kind).is_some_and(|value| !value.is_null())).collect();
    match kinds.as_slice() {
        [] => verdict.errors.push(format!("{place}: constraint is empty: write one of {}", KINDS.join(", "))),
        [kind] => {
            let place = format!("{place}.{kind}");
            match map.get(*kind) {
                Some(Value::Object(inner)) => of_kind(kind, inner, &place, verdict),
                _ => verdict.errors.push(format!("{place}: it must be a mapping")),
            }
        }
        several => verdict.errors.push(format!(
            "{place}: {} are given, and only one may be: combine them with all or any",
            several.join(" and ")
        )),
    }
}

fn of_kind(kind: &str, map: &Map<String, Value>, place: &str, verdict: &mut Verdict) {
    let text = |key: &str| map.get(key).and_then(Value::as_str).unwrap_or_default();
    let known: &[&str] = match kind {
        "gvk" => &["group", "version", "kind"],
        "package" => &["packageName", "name", "versionRange"],
        "cel" => &["rule"],
        _ => &["constraints"],
    };
    for key in map.keys().filter(|key| !known.contains(&key.as_str())) {
        verdict.errors.push(format!("{place}.{key}: unknown key: there are {}", known.join(", ")));
    }
    match kind {
        "gvk" => {
            for key in known.iter().filter(|key| text(key).is_empty()) {
                verdict.errors.push(format!("{place}.{key}: it must be set"));
            }
        }
        "package" => {
            if text("packageName").is_empty() && text("name").is_empty() {
                verdict.errors.push(format!("{place}.packageName: it must be set"));
            } else if text("packageName").is_empty() {
                verdict
                    .warnings
                    .push(format!("{place}.name: others than this program know only packageName: write that"));
            }
            if let Err(error) = VersionRange::parse(text("versionRange")) {
                verdict.errors.push(format!("{place}.versionRange: {:?} is no range: {error}", text("versionRange")));
            }
        }
        "cel" => {
            if text("rule").trim().is_empty() {
                verdict.errors.push(format!("{place}.rule: it must be set"));
            }
        }
        _ => match map.get("constraints") {
            Some(Value::Array(list)) if !list.is_empty() => {
                for (number, inner) in list.iter().enumerate() {
                    constraint(inner, &format!("{place}.constraints[{number}]"), verdict);
                }
            }
            _ => verdict.errors.push(format!("{place}.constraints: it must be a list that is not empty")),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn gvk() -> Value {
        json!({"gvk": {"group": "example.com", "version": "v1", "kind": "Widget"}})
    }

    #[test]
    fn constraints_of_every_kind_pass() {
        let package = json!({"failureMessage": "needs widgets", "package": {"packageName": "widgets", "versionRange": ">=1.0.0"}});
        let cel = json!({"cel": {"rule": "properties.exists(p, p.type == \"certified\")"}});
        let nested = json!({"not": {"constraints": [gvk()]}});
        let all = json!({"all": {"constraints": [gvk(), package, cel, nested]}});
        assert_eq!(judge(&json!({"any": {"constraints": [all]}})), Verdict::default());
    }

    #[test]
    fn what_resolvers_refuse_is_an_error_with_its_place() {
        for (value, expected) in [
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
            let verdict = judge(&value);
            assert!(verdict.errors.iter().any(|error| error.starts_with(expected)), "{value}: {verdict:?}");
        }
    }

    #[test]
    fn not_alone_and_the_alias_of_package_name_are_warnings() {
        let verdict = judge(&json!({"not": {"constraints": [gvk()]}}));
        assert!(verdict.errors.is_empty() && verdict.warnings[0].starts_with("not alone"), "{verdict:?}");
        let verdict = judge(&json!({"package": {"name": "a", "versionRange": "1.0.0"}}));
        assert!(verdict.errors.is_empty() && verdict.warnings[0].starts_with("value.package.name"), "{verdict:?}");
    }

    #[test]
    fn size_is_a_warning_and_then_an_error() {
        let of = |bytes: usize| judge(&json!({"cel": {"rule": "x".repeat(bytes)}}));
        assert_eq!(of(60_000), Verdict::default());
        assert!(of(70_000).warnings[0].contains("65536") && of(70_000).errors.is_empty());
        assert!(of(140_000).errors[0].contains("131072"));
    }
}
