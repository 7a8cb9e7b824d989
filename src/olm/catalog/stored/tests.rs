use super::*;
use crate::olm::catalog::builder::tests::{bundle, channel, package};
use crate::olm::catalog::objects::{Icon, description, icon};
use crate::olm::catalog::served::tests::content;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

/// The package `a` with the bundle `a1`, and what these properties say of it.
fn catalog(properties: &[(&str, Value)]) -> Content {
    let mut first = bundle("a", "a1", "1.0.0");
    for (kind, value) in properties {
        first["properties"].as_array_mut().unwrap().push(json!({"type": kind, "value": value}));
    }
    first["relatedImages"] = json!([{"name": "x", "image": "y"}, {"Image": "z"}, {"name": "none", "image": ""}]);
    let mut about = package("a", "x");
    about["description"] = json!("Line\n\"two\"");
    about["icon"] = json!({"Base64Data": "YWJj", "mediatype": "image/png"});
    content(&[
        about,
        channel("a", "x", &["a1"]),
        first,
        package("b", "x"),
        channel("b", "x", &["b1"]),
        bundle("b", "b1", "1.0.0"),
    ])
    .0
}

fn object(manifest: &str) -> (&'static str, Value) {
    ("olm.bundle.object", json!({"data": STANDARD.encode(manifest)}))
}

fn csv_in(content: &Content) -> Csv {
    csv(content, content.index.package("a").unwrap().bundle("a1").unwrap()).unwrap()
}

#[test]
fn description_icon_and_images_are_decoded() {
    let content = catalog(&[]);
    let (a, b) = (content.index.package("a").unwrap(), content.index.package("b").unwrap());
    assert_eq!(description(&content, a).unwrap(), "Line\n\"two\"");
    let expected = Icon { base64data: "YWJj".into(), mediatype: "image/png".into() };
    assert_eq!(icon(&content, a).unwrap(), Some(expected));
    assert_eq!(related_images(&content, a.bundle("a1").unwrap()).unwrap(), ["y", "z"]);
    assert_eq!((description(&content, b).unwrap().as_str(), icon(&content, b).unwrap()), ("", None));
    assert!(related_images(&content, b.bundle("b1").unwrap()).unwrap().is_empty());
}

#[test]
fn whole_cluster_service_version_comes_before_its_metadata() {
    let metadata = ("olm.csv.metadata", json!({"displayName": "A"}));
    assert_eq!(csv_in(&catalog(&[])), Csv::Absent);
    assert_eq!(csv_in(&catalog(std::slice::from_ref(&metadata))), Csv::Metadata("{\"displayName\":\"A\"}".into()));
    let json = r#"{"kind": "ClusterServiceVersion", "spec": {}}"#;
    let other = object(r#"{"kind": "Service"}"#);
    assert_eq!(csv_in(&catalog(&[metadata.clone(), other.clone(), object(json)])), Csv::Object(json.into()));
    assert!(matches!(csv_in(&catalog(&[metadata, other.clone()])), Csv::Metadata(_)));
    assert_eq!(csv_in(&catalog(&[other])), Csv::Absent);
}

#[test]
fn manifest_in_yaml_becomes_json() {
    let yaml = "# text\nkind: ClusterServiceVersion\nspec:\n  mode: 0644\n";
    let expected = r#"{"kind":"ClusterServiceVersion","spec":{"mode":420}}"#;
    assert_eq!(csv_in(&catalog(&[object(yaml)])), Csv::Object(expected.into()));
    assert_eq!(csv_in(&catalog(&[object("kind: Service\n")])), Csv::Absent);
}
