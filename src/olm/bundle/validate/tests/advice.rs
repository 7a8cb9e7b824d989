//! Dependencies and properties.

use super::*;

#[test]
fn authors_are_advised_on_dependencies() {
    let package =
        |range: &str| format!("- {{type: olm.package, value: {{packageName: prometheus, version: \"{range}\"}}}}\n");
    let gvk = "- {type: olm.gvk, value: {group: a.example.com, version: v1, kind: A}}\n";
    for (text, weight, check, expected) in [
        (package("1"), Error, Check::Dependency, "\"1\" is no range"),
        (package(">0.27.0"), Warning, Check::Advice, "depend on the API by olm.gvk"),
        (package(">0.27.0") + gvk, Warning, Check::Advice, "two dependencies, which two different operators may meet"),
        (package(">1.0.0 <1.5.0"), Warning, Check::Advice, "ends with <1.5.0"),
        (package("1.2.3"), Warning, Check::Advice, "ends with 1.2.3"),
        (
            "- {type: olm.constraint, value: {not: {constraints: [{cel: {rule: \"true\"}}]}}}".into(),
            Warning,
            Check::Advice,
            "not alone",
        ),
        ("- {type: olm.constraint, value: {}}".into(), Error, Check::Dependency, "constraint is empty"),
    ] {
        let all = found(&with(DEPENDENCIES, &format!("dependencies:\n{text}")));
        let hit = all.iter().find(|it| it.message.contains(expected));
        assert!(hit.is_some_and(|it| it.weight == weight && it.check == check), "{text}: {all:?}");
        assert_eq!((&*hit.unwrap().file, &*hit.unwrap().place), (DEPENDENCIES, "dependencies[0]"));
    }
    assert_eq!(found(&with(DEPENDENCIES, &format!("dependencies:\n{gvk}"))), []);
}

#[test]
fn properties_must_not_contradict_the_bundle() {
    let property = |text: &str| found(&with(PROPERTIES, &format!("properties:\n{text}")));
    let [other] = property("- {type: olm.package, value: {packageName: other, version: 1.2.0}}").try_into().unwrap();
    assert!(other.check == Check::Property && other.message.contains("\"other\" in version \"1.2.0\""), "{other:?}");
    let same = "- {type: olm.package, value: {packageName: widget-operator, version: 1.2.0}}\n";
    assert_eq!(property(same), []);
    assert_eq!(property(&same.repeat(2))[0].place, "properties[1]");
    let [twice] = property("- {type: olm.maxOpenShiftVersion, value: \"4.9\"}").try_into().unwrap();
    assert!(twice.message.contains("there twice"), "{twice:?}");
}

#[test]
fn last_version_of_the_cluster_is_a_minor_version() {
    for (value, valid) in [
        ("\"4.9\"", true),
        ("\"4.9.0\"", true),
        ("\"4.9+build\"", true),
        ("\"4.9.1\"", false),
        ("\"4.9.0-rc\"", false),
        ("\"4\"", false),
        ("\"\"", false),
        ("4.9", false),
    ] {
        let given = format!("\"value\": {}", value.replace('\\', ""));
        let all = found(&replaced(CSV_FILE, "\"value\": \"4.9\"", &given));
        assert_eq!(all.is_empty(), valid, "{value}: {all:?}");
    }
}
