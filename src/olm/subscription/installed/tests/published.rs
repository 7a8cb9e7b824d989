//! What is known of ClusterServiceVersions in cases that other resolvers are known by. Where the answer is another one on purpose,
//! the row says by which rule.

use super::*;
use crate::olm::steps::properties_annotation;

const NAME: &str = "operator.v1";

fn with(version: &str, owned: &[[&str; 3]], required: &[[&str; 3]]) -> Csv {
    let all = |apis: &[[&str; 3]]| apis.iter().map(|api| api.map(ToOwned::to_owned)).collect();
    Csv {
        name: NAME.to_owned(),
        version: version.to_owned(),
        owned: all(owned),
        required: all(required),
        ..Csv::default()
    }
}

fn known(csv: &Csv, installed: &[(&str, &str)]) -> Operator {
    operator("ns", csv, installed, &ClusterVersions::default()).unwrap()
}

#[test]
fn package_is_that_of_the_only_subscription_that_has_it_installed() {
    for (name, version, installed, expected) in [
        ("no subscription", "1.2.3", &[][..], ("", None)),
        ("another one", "1.2.3", &[("x", "b")], ("", None)),
        ("one without a package", "1.2.3", &[("", NAME)], ("", None)),
        ("two of them", "1.2.3", &[("x", NAME), ("y", NAME)], ("", None)),
        ("one", "1.2.3", &[("x", NAME)], ("x", Some("1.2.3"))),
        ("one beside others", "1.2.3", &[("x", NAME), ("y", "b"), ("", "c")], ("x", Some("1.2.3"))),
        ("one, and no version", "", &[("x", NAME)], ("x", None)),
    ] {
        let found = known(&with(version, &[], &[]), installed);
        let version = found.version.as_ref().map(ToString::to_string);
        assert_eq!((found.package.as_str(), version.as_deref()), expected, "{name}");
    }
}

#[test]
fn apis_are_those_of_its_spec() {
    let [crd, service] = [["g", "v1", "CRDKind"], ["g", "v1", "APIKind"]];
    let [other, api] = [["g2", "v1", "CRDReqKind"], ["g2", "v1", "APIReqKind"]];
    let required = |kind: &str, group: &str| format!("providing an API with group: {group}, version: v1, kind: {kind}");
    for (name, owned, requires, provided, wanted) in [
        ("neither", &[][..], &[][..], vec![], vec![]),
        ("provided", &[crd, service], &[], vec!["APIKind (g/v1)", "CRDKind (g/v1)"], vec![]),
        ("required", &[], &[crd, service], vec![], vec![required("CRDKind", "g"), required("APIKind", "g")]),
        (
            "both",
            &[crd, service],
            &[other, api],
            vec!["APIKind (g/v1)", "CRDKind (g/v1)"],
            vec![required("CRDReqKind", "g2"), required("APIReqKind", "g2")],
        ),
    ] {
        let found = known(&with("0.1.0-abc", owned, requires), &[]);
        let of: Vec<String> = found.provides.iter().map(ToString::to_string).collect();
        let needs: Vec<String> = found.requires.iter().map(ToString::to_string).collect();
        assert_eq!((of, needs), (provided.into_iter().map(ToOwned::to_owned).collect(), wanted), "{name}");
    }
}

#[test]
fn annotation_is_honored() {
    let text = r#"{"properties":[{"type":"test-type","value":{"test":"value"}}]}"#;
    let csv = Csv { properties: Some(text.to_owned()), ..with("", &[["g", "v1", "K"]], &[]) };
    let found = known(&csv, &[("x", NAME)]);
    assert_eq!(found.properties(), [("test-type".to_owned(), json!({"test": "value"}))]);
    assert_eq!((found.provides.len(), found.package.as_str()), (0, ""));
}

const SEVERAL: &str = r#"{"properties":[{"type":"string","value":"hello"},{"type":"number","value":5},{"type":"array","value":[1,"two",3,"four"]},{"type":"object","value":{"hello":{"worl":"d"}}}]}"#;

fn several() -> Vec<(String, Value)> {
    [
        ("string", json!("hello")),
        ("number", json!(5)),
        ("array", json!([1, "two", 3, "four"])),
        ("object", json!({"hello": {"worl": "d"}})),
    ]
    .map(|(kind, value)| (kind.to_owned(), value))
    .into()
}

#[test]
fn annotation_is_read() {
    let number = vec![("version".to_owned(), json!(4.8))];
    for (name, text, expected) in [
        ("empty", "", None),
        ("no JSON", "]", None),
        ("no properties", "{}", Some(vec![])),
        ("null", r#"{"properties":null}"#, Some(vec![])),
        ("no list", r#"{"properties":5}"#, None),
        ("an element that is no object", r#"{"properties":[42]}"#, None),
        ("empty list", r#"{"properties":[]}"#, Some(vec![])),
        ("several", SEVERAL, Some(several())),
        ("a number", r#"{"properties":[{"type": "version","value": 4.8}]}"#, Some(number)),
        ("no value", r#"{"properties":[{"type": "a"}]}"#, Some(vec![("a".to_owned(), Value::Null)])),
    ] {
        assert_eq!(properties(text).ok(), expected, "{name}");
    }
}

#[test]
fn annotation_is_written() {
    for (name, all, expected) in [
        // Elsewhere it is `{}`, which is read as the same.
        ("none", vec![], r#"{"properties":[]}"#),
        ("several", several(), SEVERAL),
        ("a number", vec![("version".to_owned(), json!(4.8))], r#"{"properties":[{"type":"version","value":4.8}]}"#),
    ] {
        assert_eq!(properties_annotation(&all), expected, "{name}");
        assert_eq!(properties(expected).unwrap(), all, "{name}, read again");
    }
}

#[test]
fn chains_of_replacements_count_as_published() {
    let phase = |text: &str| -> Phase { serde_json::from_value(json!(text)).unwrap() };
    // Each replaces the one before it.
    for (name, phases, forward, expected) in [
        ("one that failed", "Failed", true, Ok("foo-v1")),
        ("one that succeeded", "Succeeded", true, Ok("foo-v1")),
        // Elsewhere all three count, and nothing can be chosen until the first two are gone: what is on its way out is none.
        ("the last one succeeded", "Replacing Replacing Succeeded", true, Ok("foo-v3")),
        ("the last one failed", "Replacing Replacing Failed", true, Ok("foo-v3")),
        (
            "the last one failed, and nobody goes forward",
            "Replacing Replacing Failed",
            false,
            Ok("foo-v1 foo-v2 foo-v3"),
        ),
        (
            "one in the middle failed",
            "Replacing Failed Failed",
            true,
            Err("csv bar/foo-v2 in phase Failed instead of Replacing"),
        ),
    ] {
        let csv = |(at, text): (usize, &str)| {
            let replaces = if at == 0 { String::new() } else { format!("foo-v{at}") };
            super::csv(&format!("foo-v{}", at + 1), phase(text), &replaces)
        };
        let chain: Vec<Arc<Csv>> = phases.split(' ').enumerate().map(csv).collect();
        let found = counting("bar", &chain, forward).map_err(|error| error.to_string());
        let found = found.map(|all| all.into_iter().map(|csv| csv.name.as_str()).collect::<Vec<_>>().join(" "));
        assert_eq!(found, expected.map(ToOwned::to_owned).map_err(ToOwned::to_owned), "{name}");
    }
    // Elsewhere it is an error. Which one is the last is not known, so that each counts.
    let circle =
        [super::csv("foo-v1", phase("Replacing"), "foo-v2"), super::csv("foo-v2", phase("Replacing"), "foo-v1")];
    assert_eq!(counting("bar", &circle, true).unwrap().len(), 2, "a circle");
}
