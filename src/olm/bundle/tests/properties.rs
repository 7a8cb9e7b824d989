//! The properties of a bundle, row by row.

use super::*;
use serde_json::json;

fn gvk(group: &str, version: &str, kind: &str) -> Value {
    json!({"group": group, "version": version, "kind": kind})
}

/// The bundle with this file, and what was said of it.
fn noted(file: &str, text: &str) -> (Bundle, Vec<String>) {
    let bundle = bundle(&with(file, text));
    let told = told(&bundle.notes);
    (bundle, told)
}

#[test]
fn package_and_version_are_one_property() {
    let expected = [json!({"packageName": "widget-operator", "version": "1.2.0"})];
    assert_eq!(values(&bundle(&example()), "olm.package"), expected);
    let released = bundle(&replaced(CSV_FILE, "version: 1.2.0", "version: 1.2.0\n  release: \"2\""));
    assert_eq!(
        values(&released, "olm.package"),
        [json!({"packageName": "widget-operator", "version": "1.2.0", "release": "2"})]
    );
    let (own, _) =
        noted(PROPERTIES_FILE, "properties: [{type: olm.package, value: {packageName: other, version: 9.0.0}}]");
    assert_eq!(values(&own, "olm.package"), [json!({"packageName": "other", "version": "9.0.0"})]);
}

#[test]
fn owned_versions_that_are_served_are_provided() {
    assert_eq!(values(&bundle(&example()), "olm.gvk"), [gvk("example.com", "v1", "Widget")]);
    let served = bundle(&replaced(CRD_FILE, "served: false", "served: true"));
    assert_eq!(values(&served, "olm.gvk"), ["v1", "v1alpha1"].map(|version| gvk("example.com", version, "Widget")));
    // Without the definition the ClusterServiceVersion is believed.
    assert_eq!(values(&bundle(&without(CRD_FILE)), "olm.gvk"), [gvk("example.com", "v1", "Widget")]);
}

#[test]
fn api_services_are_provided_and_required() {
    let service = |kind: &str| format!("[{{name: x, group: apis.example.com, version: v2, kind: {kind}}}]");
    let added = format!(
        "spec:\n  apiservicedefinitions: {{owned: {}, required: {}}}\n  displayName",
        service("Report"),
        service("Query")
    );
    let bundle = bundle(&replaced(CSV_FILE, "spec:\n  displayName", &added));
    assert!(values(&bundle, "olm.gvk").contains(&gvk("apis.example.com", "v2", "Report")));
    assert!(values(&bundle, "olm.gvk.required").contains(&gvk("apis.example.com", "v2", "Query")));
}

#[test]
fn required_definitions_and_dependencies_on_apis_are_required() {
    assert_eq!(
        values(&bundle(&example()), "olm.gvk.required"),
        [gvk("etcd.database.coreos.com", "v1beta2", "EtcdCluster"), gvk("example.com", "v1", "Gear"),]
    );
}

#[test]
fn dependency_on_a_package_has_a_range() {
    let text = "dependencies: [{type: olm.package, value: {packageName: prometheus, version: \">0.27.0\"}}]";
    let (bundle, told) = noted(DEPENDENCIES_FILE, text);
    assert_eq!(told, Vec::<String>::new());
    assert_eq!(
        values(&bundle, "olm.package.required"),
        [json!({"packageName": "prometheus", "versionRange": ">0.27.0"})]
    );
}

#[test]
fn dependency_on_a_label_is_required() {
    assert_eq!(values(&bundle(&example()), "olm.label.required"), [json!({"label": "certified"})]);
    let (bundle, _) = noted(PROPERTIES_FILE, "properties: [{type: olm.label, value: {label: certified}}]");
    assert_eq!(values(&bundle, "olm.label"), [json!({"label": "certified"})]);
}

#[test]
fn constraint_is_kept_as_it_is() {
    let [constraint] = values(&bundle(&example()), "olm.constraint").try_into().unwrap();
    assert_eq!(constraint["failureMessage"], "needs a prometheus of its time");
    assert_eq!(constraint["all"]["constraints"][0]["package"]["versionRange"], ">0.27.0");
}

#[test]
fn last_version_of_the_cluster_is_read_of_the_annotation_and_of_the_file() {
    assert_eq!(values(&bundle(&example()), "olm.maxOpenShiftVersion"), [json!("4.9")]);
    let (bundle, _) = noted(PROPERTIES_FILE, "properties: [{type: olm.maxOpenShiftVersion, value: \"4.10\"}]");
    assert_eq!(values(&bundle, "olm.maxOpenShiftVersion"), [json!("4.10"), json!("4.9")]);
}

#[test]
fn other_properties_are_kept_with_any_value() {
    let bundle = bundle(&example());
    assert_eq!(values(&bundle, "olm.kubeversion"), [json!({"version": "1.16.0"})]);
    assert_eq!(values(&bundle, "color"), [json!("blue")]);
    let (bundle, _) =
        noted(PROPERTIES_FILE, "properties: [{type: olm.deprecated, value: {}}, {type: count, value: 1}]");
    assert_eq!((values(&bundle, "olm.deprecated"), values(&bundle, "count")), (vec![json!({})], vec![json!(1)]));
}

#[test]
fn nested_property_is_taken_for_what_it_means_with_a_warning() {
    let (bundle, told) =
        noted(PROPERTIES_FILE, "properties:\n- property: {type: olm.kubeversion, value: {version: \"1.16.0\"}}\n");
    assert_eq!(values(&bundle, "olm.kubeversion"), [json!({"version": "1.16.0"})]);
    assert_eq!(
        told,
        [
            "metadata/properties.yaml:1: properties[0]: type and value stand below the key \"property\": write them without it, as \
         `- type: …`"
        ]
    );
    assert_eq!(bundle.check_declared(), Ok(()));
}

#[test]
fn mapping_within_a_text_is_taken_for_what_it_means_with_a_warning() {
    let text = "dependencies:\n- type: olm.gvk\n  value: '{\"group\": \"a.example.com\", \"version\": \"v1\", \"kind\": \"A\"}'\n";
    let (bundle, told) = noted(DEPENDENCIES_FILE, text);
    assert!(values(&bundle, "olm.gvk.required").contains(&gvk("a.example.com", "v1", "A")));
    assert!(
        told[0].starts_with("metadata/dependencies.yaml:1: dependencies[0]: the value is a mapping within a text"),
        "{told:?}"
    );
}

#[test]
fn dependency_that_cannot_be_used_is_an_error() {
    for (value, expected) in [
        ("{type: olm.gvk, value: {group: a, version: v1}}", "value.kind must be set"),
        ("{type: olm.package, value: {packageName: a}}", "value.version must be set"),
        ("{type: olm.label, value: {label: \"\"}}", "value.label must be set"),
        ("{type: olm.constraint, value: text}", "the constraint must be a mapping"),
        (
            "{type: olm.gvk.required, value: {group: a, version: v1, kind: A}}",
            "\"olm.gvk.required\" is no type of a dependency",
        ),
    ] {
        let (bundle, told) = noted(DEPENDENCIES_FILE, &format!("dependencies: [{value}]"));
        assert!(told[0].contains(expected), "{value}: {told:?}");
        assert!(matches!(bundle.check_declared(), Err(BundleError::Declared { .. })), "{value}");
    }
}

#[test]
fn property_that_resolvers_read_must_have_its_parts() {
    for value in [
        "{type: olm.package, value: {packageName: a}}",
        "{type: olm.gvk, value: {group: a}}",
        "{type: olm.constraint, value: 1}",
        "{type: olm.bundle.object, value: {data: e30=}}",
        "{type: olm.csv.metadata, value: {}}",
    ] {
        let (bundle, told) = noted(PROPERTIES_FILE, &format!("properties: [{value}]"));
        assert!(told[0].starts_with("metadata/properties.yaml:1: properties[0]: "), "{value}: {told:?}");
        assert!(bundle.check_declared().is_err(), "{value}");
    }
}

#[test]
fn constraint_that_stands_beside_its_value_is_an_error_that_says_how_it_is_meant() {
    let text = "properties:\n- type: olm.constraint\n  value:\n  failureMessage: x\n  all: {constraints: []}\n";
    let (_, told) = noted(PROPERTIES_FILE, text);
    let expected = "its value is empty, and all, failureMessage beside it does not count: indent that below value, as \
                    `value: {all: …, failureMessage: …}`";
    assert!(told.iter().any(|message| message.contains(expected)), "{told:?}");
}

#[test]
fn annotation_with_properties_that_is_no_list_is_an_error() {
    let bundle = bundle(&replaced(CSV_FILE, "'[{\"type\": \"olm.maxOpenShiftVersion\", \"value\": \"4.9\"}]'", "'{}'"));
    assert!(
        told(&bundle.notes)[0].contains("metadata.annotations.olm.properties: it is no JSON list"),
        "{:?}",
        bundle.notes
    );
}

#[test]
fn properties_are_sorted_and_none_is_there_twice() {
    let text =
        "properties: [{type: b, value: 2}, {type: a, value: {z: 1, x: 2}}, {type: b, value: 1}, {type: b, value: 2}]";
    let all = noted(PROPERTIES_FILE, text).0.all_properties();
    let own: Vec<String> = all.iter().filter(|it| it.kind.len() == 1).map(|it| it.value.to_string()).collect();
    assert_eq!(own, [r#"{"x":2,"z":1}"#, "1", "2"]);
    assert!(all.is_sorted_by_key(|it| (it.kind.clone(), it.value.to_string())));
}
