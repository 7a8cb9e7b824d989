//! Bundles to blobs of a catalog.

use super::*;
use crate::olm::bundle::render::{Form, blob};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

const IMAGE: &str =
    "registry.example.com/widget-bundle@sha256:2222222222222222222222222222222222222222222222222222222222222222";

fn rendered(form: Form) -> Value {
    serde_json::from_str(&blob(&bundle(&example()), IMAGE, form).unwrap()).unwrap()
}

fn of_type<'a>(blob: &'a Value, kind: &str) -> Vec<&'a Value> {
    let properties = blob["properties"].as_array().unwrap().iter();
    properties.filter(|it| it["type"] == kind).map(|it| &it["value"]).collect()
}

#[test]
fn blob_has_its_keys_in_one_order_and_is_the_same_each_time() {
    let text = blob(&bundle(&example()), IMAGE, Form::Metadata).unwrap();
    let mut reversed = example();
    reversed.reverse();
    assert_eq!(blob(&bundle(&reversed), IMAGE, Form::Metadata).unwrap(), text);
    let start = format!(
        r#"{{"schema":"olm.bundle","name":"widget-operator.v1.2.0","package":"widget-operator","image":"{IMAGE}","properties":[{{"type":"color","value":"blue"}},"#
    );
    assert!(text.starts_with(&start), "{text}");
    assert!(!text.contains('\n'));
}

#[test]
fn images_are_those_of_the_operator_its_containers_and_the_bundle() {
    let widget = format!("registry.example.com/widget@sha256:{}", "1".repeat(64));
    assert_eq!(
        rendered(Form::Metadata)["relatedImages"],
        json!([
            {"image": "registry.example.com/prepare:1.2.0", "name": ""},
            {"image": IMAGE, "name": ""},
            {"image": "registry.example.com/widget-operator:1.2.0", "name": ""},
            {"image": widget, "name": "widget"},
        ])
    );
}

#[test]
fn metadata_is_the_cluster_service_version_without_how_it_is_installed() {
    let blob = rendered(Form::Metadata);
    assert_eq!(blob["properties"].as_array().unwrap().last().unwrap()["type"], "olm.csv.metadata");
    let [metadata] = of_type(&blob, "olm.csv.metadata").try_into().unwrap();
    let keys: Vec<&String> = metadata.as_object().unwrap().keys().collect();
    assert_eq!(
        keys,
        [
            "annotations",
            "crdDescriptions",
            "description",
            "displayName",
            "installModes",
            "keywords",
            "labels",
            "links",
            "maintainers",
            "maturity",
            "minKubeVersion",
            "provider"
        ]
    );
    assert_eq!(metadata["annotations"]["categories"], "Developer Tools");
    assert_eq!(metadata["labels"], json!({"operatorframework.io/arch.arm64": "supported"}));
    assert_eq!(metadata["crdDescriptions"]["owned"][0]["specDescriptors"][0]["path"], "size");
    assert!(of_type(&blob, "olm.bundle.object").is_empty());
}

#[test]
fn objects_are_all_manifests_in_base64() {
    let blob = rendered(Form::Objects);
    assert!(of_type(&blob, "olm.csv.metadata").is_empty());
    let objects: Vec<Value> = of_type(&blob, "olm.bundle.object")
        .iter()
        .map(|it| serde_json::from_slice(&STANDARD.decode(it["data"].as_str().unwrap()).unwrap()).unwrap())
        .collect();
    let kinds: Vec<&str> = objects.iter().map(|object| object["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["Service", "PodDisruptionBudget", "ClusterServiceVersion", "CustomResourceDefinition"]);
    assert_eq!(objects[2]["spec"]["install"]["strategy"], "deployment");
}

#[test]
fn bundle_without_a_package_or_with_unusable_dependencies_is_not_rendered() {
    let error =
        blob(&bundle(&replaced(ANNOTATIONS_FILE, "package.v1: widget-operator", "x: y")), IMAGE, Form::Metadata);
    assert_eq!(error, Err(BundleError::NoPackage));
    let error = blob(&bundle(&with(DEPENDENCIES_FILE, "dependencies: [{type: x, value: 1}]")), IMAGE, Form::Metadata);
    let error = error.unwrap_err().to_string();
    assert!(
        error.starts_with("metadata/dependencies.yaml:1: dependencies[0]: \"x\" is no type of a dependency"),
        "{error}"
    );
}
