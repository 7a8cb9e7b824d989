//! The last minor version of the cluster that operators support.

use super::*;
use crate::olm::operator::compatibility::{Installed, Minor, hindrance, maximum};

fn annotation(values: &[Value]) -> String {
    let all: Vec<Value> = values.iter().map(|it| json!({"type": "olm.maxOpenShiftVersion", "value": it})).collect();
    json!({"properties": all}).to_string()
}

/// Which of the operators, each with its maximum, hold a cluster of this release.
fn held<'a>(release: &str, operators: &[(&'a str, &str)]) -> Vec<&'a str> {
    let texts: Vec<String> = operators.iter().map(|(_, maximum)| annotation(&[json!(maximum)])).collect();
    let installed = operators.iter().zip(&texts);
    let installed =
        installed.map(|((name, _), text)| Installed { namespace: "n", name, properties: Some(text.as_str()) });
    let told = hindrance(Ok(release), installed).map(|it| it.message).unwrap_or_default();
    operators.iter().map(|(name, _)| *name).filter(|name| told.contains(&format!("n/{name} "))).collect()
}

#[test]
fn operators_hold_the_cluster_as_published() {
    let three = [("a", "4.23"), ("b", "5.0"), ("c", "5.1")];
    for (name, release, operators, expected) in [
        ("all fit", "1.0.0", &[("a", "1.1.0"), ("b", "1.1.0+build"), ("c", "2.0.0")][..], vec![]),
        (
            "none fits",
            "1.0.0",
            &[("a", "1.0.0"), ("b", "1.0.0+build"), ("c", "1.1.0-pre"), ("d", "1.1.0-pre+build"), ("e", "0.1.0")],
            vec!["a", "b", "c", "d", "e"],
        ),
        ("some fit", "1.0.0", &[("a", "1.1.0"), ("b", "1.0.0"), ("c", "1.0")], vec!["b", "c"]),
        ("one says nothing", "1.0.0", &[("a", "1.1.0"), ("b", "1.0.0"), ("c", "bad_version")], vec!["b", "c"]),
        ("the release has a patch", "1.0.1", &[("a", "1.1")], vec![]),
        ("the release comes before a minor version", "1.1.0-pre", &[("a", "1.1.0")], vec!["a"]),
        ("the next release has two names", "4.22.0", &three, vec![]),
        ("the release has two names", "4.23.0", &three, vec!["a", "b"]),
        ("the release goes by its other name", "5.0.0", &three, vec!["a", "b"]),
        ("the release follows the one with two names", "5.1.0", &three, vec!["a", "b", "c"]),
    ] {
        assert_eq!(held(release, operators), expected, "{name}");
    }
    let told = hindrance(Ok(""), []).unwrap();
    assert_eq!(told.reason, "ErrorCheckingOperatorCompatibility", "a release that is not known");
}

#[test]
fn maximum_of_an_operator_is_read_as_published() {
    for (name, values, expected) in [
        ("there is none", vec![], Some(None)),
        ("it is empty", vec![json!("")], None),
        ("it is no version", vec![json!("bad_version")], None),
        ("it has all numbers", vec![json!("1.0.0")], Some(Some(Minor(1, 0)))),
        ("there are two", vec![json!("1.0.0"), json!("2.0.0")], None),
        ("it is a number", vec![json!(4.8)], Some(Some(Minor(4, 8)))),
    ] {
        assert_eq!(maximum(Some(&annotation(&values))).ok(), expected, "{name}");
    }
}

/// Elsewhere 4.24 follows 4.23 before names are compared: here the release goes by its later name from the beginning.
#[test]
fn minor_versions_follow_each_other_as_published() {
    for (version, next) in [
        (Minor(4, 16), Minor(4, 17)),
        (Minor(4, 22), Minor(5, 0)),
        (Minor(4, 23), Minor(5, 1)),
        (Minor(5, 0), Minor(5, 1)),
    ] {
        assert_eq!(version.next(), next, "{version}");
    }
    let same = |one: Minor, other: Minor| one.reaches(other) && other.reaches(one);
    assert!(same(Minor(4, 23), Minor(5, 0)));
    for (lower, higher) in [
        (Minor(4, 22), Minor(4, 23)),
        (Minor(4, 22), Minor(5, 0)),
        (Minor(5, 0), Minor(5, 1)),
        (Minor(4, 23), Minor(5, 1)),
    ] {
        assert!(higher.reaches(lower) && !lower.reaches(higher), "{lower} {higher}");
    }
}
