//! PackageManifests of packages that are written here.

mod documents;
mod from_catalog;
mod icons;
mod lists;
mod manifests;
mod real;
mod requests;

use super::manifest::PackageManifest;
use super::view::{Catalog, Channel, CsvSource, Entry, Head, Package};
use serde_json::Value;

const METADATA: &[u8] = br#"{
    "annotations": {"categories": "Developer Tools"},
    "crdDescriptions": {
        "owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget", "displayName": "Widget", "description": "A widget.",
                   "specDescriptors": [{"path": "size"}], "resources": []}],
        "required": [{"name": "gears.example.com", "version": "v1", "kind": "Gear", "displayName": null}]
    },
    "apiServiceDefinitions": {"owned": [{"name": "reports", "group": "apis.example.com", "version": "v2", "kind": "Report", "deploymentName": "x"}]},
    "description": "Makes widgets.", "displayName": "Widget Operator",
    "installModes": [{"type": "OwnNamespace", "supported": true}], "keywords": ["widget"],
    "labels": {"tier": "gold", "shared": "of the version"}, "links": [{"name": "Source", "url": "https://example.com"}],
    "maintainers": [{"name": "Widget Team", "email": "widgets@example.com"}], "maturity": "stable", "minKubeVersion": "1.25.0",
    "nativeAPIs": [{"group": "", "version": "v1", "kind": "Pod"}], "provider": {"name": "Example", "url": "https://example.com"}
}"#;

const OBJECT: &[u8] = br#"{
    "metadata": {"name": "widgets.v0.9.0", "annotations": {"a": "b"}, "labels": {"tier": "bronze"}},
    "spec": {
        "displayName": "Old Widgets", "version": "0.9.0", "provider": {"name": "Older"}, "labels": {"not": "shown"},
        "annotations": {"not": "shown"},
        "icon": [{"base64data": "AAEC", "mediatype": "image/png"}, {"base64data": "", "mediatype": "image/gif"}],
        "relatedImages": [{"name": "b", "image": "b"}, {"name": "a", "image": "a"}],
        "install": {"strategy": "deployment", "spec": {"deployments": [{"name": "x", "spec": {"template": {"spec": {
            "initContainers": [{"image": "d"}], "containers": [{"image": "c"}, {"image": "a"}, {"image": ""}]}}}}]}}
    }
}"#;

fn catalog() -> Catalog {
    Catalog {
        namespace: "openshift-marketplace".into(),
        name: "example".into(),
        display_name: "Example Operators".into(),
        publisher: "Example".into(),
        labels: [("shared", "of the catalog"), ("own", "yes")]
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
        created: Some("2026-01-02T03:04:05Z".parse().unwrap()),
        ..Catalog::default()
    }
}

fn channel<'a>(name: &'a str, csv: CsvSource<'a>) -> Channel<'a> {
    let head = Head { name: "widgets.v1.2.0", version: "1.2.0", related_images: vec!["z", "y", "z"], csv };
    Channel { name, head, ..Channel::default() }
}

fn package<'a>(channels: Vec<Channel<'a>>) -> Package<'a> {
    Package { name: "widgets", default_channel: "stable", channels, ..Package::default() }
}

/// The package of most tests: its default channel has metadata at the head, the other one a whole ClusterServiceVersion.
fn widgets() -> Package<'static> {
    package(vec![channel("old", CsvSource::Object(OBJECT)), channel("stable", CsvSource::Metadata(METADATA))])
}

fn entry<'a>(name: &'a str, version: &'a str) -> Entry<'a> {
    Entry { name, version, ..Entry::default() }
}

/// As it is sent for a namespace.
fn written(catalog: &Catalog, package: &Package, namespace: &str, others: &[&Catalog]) -> Value {
    let mut out = Vec::new();
    PackageManifest::of(catalog, package).unwrap().write(namespace, others, &mut out).unwrap();
    serde_json::from_slice(&out).unwrap()
}

/// The blobs of a package with two channels, a picture, and a ClusterServiceVersion of which only metadata are known.
pub(crate) fn blobs(name: &str) -> Vec<Value> {
    let metadata = from_catalog::metadata(METADATA);
    from_catalog::blobs(name, &[("v2", metadata.clone()), ("v3", metadata)])
}
