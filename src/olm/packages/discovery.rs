//! What clients learn of the API before they use it: its group, version and resources.

use super::request::{Discovery, ICON};
use super::{API_VERSION, KIND, csvs};
use crate::olm::api::package_manifest::{GROUP, PLURAL, VERSION};
use crate::olm::subscription::review;
use serde_json::{Value, json};

const SINGULAR: &str = "packagemanifest";

/// All groups: there is one.
pub(crate) fn groups() -> Value {
    let mut group = group();
    if let Some(group) = group.as_object_mut() {
        group.retain(|key, _| !["kind", "apiVersion"].contains(&key.as_str()));
    }
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": [group]})
}

/// The group and its versions.
pub(crate) fn group() -> Value {
    let version = json!({"groupVersion": API_VERSION, "version": VERSION});
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": GROUP, "versions": [version], "preferredVersion": version})
}

/// The resources of the version. `has_csvs`: ClusterServiceVersions are among them.
pub(crate) fn resources(has_csvs: bool) -> Value {
    let resource = |name: &str, singular: &str, verbs: &[&str]| json!({"name": name, "singularName": singular, "namespaced": true, "kind": KIND, "verbs": verbs});
    let question = json!({"name": review::PLURAL, "singularName": review::SINGULAR, "namespaced": true, "kind": review::KIND,
        "verbs": ["create"]});
    let csvs = has_csvs.then(|| {
        json!({"name": csvs::PLURAL, "singularName": csvs::SINGULAR, "namespaced": true, "kind": csvs::KIND,
            "verbs": ["get", "list"]})
    });
    let packages = [resource(PLURAL, SINGULAR, &["get", "list"]), resource(&format!("{PLURAL}/{ICON}"), "", &["get"])];
    let resources: Vec<Value> = packages.into_iter().chain([question]).chain(csvs).collect();
    json!({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": API_VERSION, "resources": resources})
}

/// Groups, versions and resources in one document. `has_csvs`: ClusterServiceVersions are among them.
pub(crate) fn aggregated(version: Discovery, has_csvs: bool) -> Value {
    let kind = json!({"group": GROUP, "version": VERSION, "kind": KIND});
    let resource = json!({
        "resource": PLURAL, "responseKind": kind, "scope": "Namespaced", "singularResource": SINGULAR, "verbs": ["get", "list"],
        "subresources": [{"subresource": ICON, "responseKind": kind, "verbs": ["get"]}],
    });
    let kind = json!({"group": GROUP, "version": VERSION, "kind": review::KIND});
    let question = json!({"resource": review::PLURAL, "responseKind": kind, "scope": "Namespaced",
        "singularResource": review::SINGULAR, "verbs": ["create"]});
    let csvs = has_csvs.then(|| {
        let kind = json!({"group": GROUP, "version": VERSION, "kind": csvs::KIND});
        json!({"resource": csvs::PLURAL, "responseKind": kind, "scope": "Namespaced", "singularResource": csvs::SINGULAR,
            "verbs": ["get", "list"]})
    });
    let resources: Vec<Value> = [resource, question].into_iter().chain(csvs).collect();
    let of_version = json!({"version": VERSION, "resources": resources, "freshness": "Current"});
    json!({
        "kind": "APIGroupDiscoveryList", "apiVersion": format!("apidiscovery.k8s.io/{}", name(version)), "metadata": {},
        "items": [{"metadata": {"name": GROUP, "creationTimestamp": null}, "versions": [of_version]}],
    })
}

/// Its media type, by which clients tell it from the list of groups.
pub(crate) fn media_type(version: Discovery) -> String {
    format!("application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList", name(version))
}

fn name(version: Discovery) -> &'static str {
    match version {
        Discovery::V2 => "v2",
        Discovery::V2Beta1 => "v2beta1",
    }
}
