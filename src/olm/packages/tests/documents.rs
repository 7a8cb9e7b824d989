//! What clients learn of the API.

use super::*;
use crate::olm::packages::request::Discovery;
use crate::olm::packages::{discovery, openapi};
use crate::olm::subscription::review;
use serde_json::json;

#[test]
fn discovery_names_packages_to_get_and_list_and_questions_to_create() {
    assert_eq!(discovery::groups()["groups"][0]["name"], "packages.operators.coreos.com");
    assert_eq!(discovery::groups()["groups"][0].get("kind"), None);
    assert_eq!(discovery::group()["preferredVersion"]["groupVersion"], "packages.operators.coreos.com/v1");
    let resources = discovery::resources(false);
    let resource = |name: &str, singular: &str, verbs: &[&str]| json!({"name": name, "singularName": singular, "namespaced": true, "kind": "PackageManifest", "verbs": verbs});
    assert_eq!(
        resources["resources"],
        json!([
            resource("packagemanifests", "packagemanifest", &["get", "list"]),
            resource("packagemanifests/icon", "", &["get"]),
            {"name": "subscriptionreviews", "singularName": "subscriptionreview", "namespaced": true,
                "kind": "SubscriptionReview", "verbs": ["create"]},
        ])
    );
}

#[test]
fn cluster_service_versions_are_found_to_get_and_list_where_they_are_served() {
    let expected = json!({"name": "clusterserviceversions", "singularName": "clusterserviceversion", "namespaced": true,
        "kind": "ClusterServiceVersion", "verbs": ["get", "list"]});
    let (without, with) = (discovery::resources(false), discovery::resources(true));
    let names = |resources: &Value| resources["resources"].as_array().unwrap().len();
    assert_eq!((names(&without), names(&with), &with["resources"][3]), (3, 4, &expected));
    for version in [Discovery::V2, Discovery::V2Beta1] {
        let resources =
            |has_csvs: bool| discovery::aggregated(version, has_csvs)["items"][0]["versions"][0]["resources"].clone();
        assert_eq!(resources(false).as_array().unwrap().len(), 2);
        let found = &resources(true)[2];
        assert_eq!((&found["resource"], &found["verbs"]), (&json!("clusterserviceversions"), &json!(["get", "list"])));
    }
    let schemas = openapi::v3(true)["components"]["schemas"].clone();
    let schema = &schemas["com.coreos.operators.packages.v1.ClusterServiceVersion"];
    assert!(schema["description"].as_str().unwrap().contains("works for the namespace"), "{schema}");
}

#[test]
fn aggregated_discovery_says_the_same_in_both_versions() {
    for (version, name) in [(Discovery::V2, "v2"), (Discovery::V2Beta1, "v2beta1")] {
        let document = discovery::aggregated(version, false);
        assert_eq!(document["apiVersion"], format!("apidiscovery.k8s.io/{name}"));
        let of_version = &document["items"][0]["versions"][0];
        assert_eq!((&of_version["version"], &of_version["freshness"]), (&json!("v1"), &json!("Current")));
        let resource = &of_version["resources"][0];
        assert_eq!((&resource["resource"], &resource["verbs"]), (&json!("packagemanifests"), &json!(["get", "list"])));
        assert_eq!(resource["subresources"][0]["subresource"], "icon");
        let question = &of_version["resources"][1];
        assert_eq!((&question["resource"], &question["verbs"]), (&json!("subscriptionreviews"), &json!(["create"])));
        assert_eq!(
            discovery::media_type(version),
            format!("application/json;g=apidiscovery.k8s.io;v={name};as=APIGroupDiscoveryList")
        );
    }
}

/// Fields of an object that a schema does not have.
fn unknown(object: &Value, schema: &Value, path: &str, found: &mut Vec<String>) {
    match object {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = format!("{path}.{name}");
                let known = schema["properties"].get(name).or(schema.get("additionalProperties"));
                match known {
                    Some(known) => unknown(value, known, &path, found),
                    None if schema.get("properties").is_none() && path.starts_with(".metadata") => {}
                    None => found.push(path),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| unknown(item, &schema["items"], path, found)),
        _ => {}
    }
}

#[test]
fn schemas_have_each_field_that_is_written() {
    let entries = vec![Entry { deprecation: Some("x"), ..entry("a", "1.0.0") }];
    let mut package = widgets();
    package.deprecation = Some("x");
    package.channels[1].deprecation = Some("x");
    package.channels[1].entries = entries;
    let object = written(&catalog(), &package, "", &[]);
    for schemas in [openapi::v2(false)["definitions"].clone(), openapi::v3(false)["components"]["schemas"].clone()] {
        let schema = &schemas["com.coreos.operators.packages.v1.PackageManifest"];
        let mut found = Vec::new();
        unknown(&object, schema, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
        assert!(schema["properties"]["status"]["properties"].get("channels").is_some());
    }
}

#[test]
fn schema_of_questions_has_each_field_of_question_and_answer() {
    let spec = json!({"subscribe": [{"name": "a", "channel": "c", "source": "s", "sourceNamespace": "n", "startingCSV": "v"}],
        "remove": ["b"], "catalogs": [{"name": "s", "content": "x"}], "toHead": true,
        "whyNot": {"subscription": "a", "clusterServiceVersion": "v"}});
    let body = json!({"apiVersion": "packages.operators.coreos.com/v1", "kind": "SubscriptionReview", "spec": spec});
    let read = review::read(body.to_string().as_bytes(), "ns").unwrap();
    assert_eq!(read.subscribe[0].starting_csv, "v", "the schema and the program name the same fields");
    for schemas in [openapi::v2(false)["definitions"].clone(), openapi::v3(false)["components"]["schemas"].clone()] {
        let schema = &schemas["com.coreos.operators.packages.v1.SubscriptionReview"];
        let mut found = Vec::new();
        unknown(&body, schema, "", &mut found);
        assert_eq!(found, Vec::<String>::new());
    }
}

/// All values of `$ref`.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => fields.iter().for_each(|(name, value)| match value {
            Value::String(place) if name == "$ref" => found.push(place.clone()),
            value => references(value, found),
        }),
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn documents_of_both_versions_refer_to_what_they_have() {
    let without = [openapi::v2(false), openapi::v3(false)].map(|document| (document, 6, 5));
    let with = [openapi::v2(true), openapi::v3(true)].map(|document| (document, 10, 8));
    for (document, count, addresses) in without.into_iter().chain(with) {
        let mut found = Vec::new();
        references(&document, &mut found);
        assert_eq!(found.len(), count, "{found:?}");
        for place in found {
            assert!(document.pointer(place.trim_start_matches('#')).is_some(), "{place}");
        }
        let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
        let group = "/apis/packages.operators.coreos.com/v1";
        assert_eq!(paths.len(), addresses);
        assert!(paths.iter().all(|path| path.starts_with(group)), "{paths:?}");
    }
    let paths = openapi::v3_paths("ABC");
    let document = &paths["paths"]["apis/packages.operators.coreos.com/v1"];
    assert_eq!(document["serverRelativeURL"], "/openapi/v3/apis/packages.operators.coreos.com/v1?hash=ABC");
}
