//! Packages to objects, row by row.

use super::*;
use crate::olm::packages::metadata::{OTHER_CATALOGS, STALE_SINCE};
use serde_json::json;

fn shown(package: &Package) -> Value {
    written(&catalog(), package, "", &[])
}

#[test]
fn status_says_where_the_package_is_from() {
    let object = shown(&widgets());
    assert_eq!(
        (&object["apiVersion"], &object["kind"]),
        (&json!("packages.operators.coreos.com/v1"), &json!("PackageManifest"))
    );
    assert_eq!(object["spec"], json!({}));
    let mut status = object["status"].clone();
    status.as_object_mut().unwrap().remove("channels");
    assert_eq!(
        status,
        json!({
            "catalogSource": "example", "catalogSourceDisplayName": "Example Operators", "catalogSourcePublisher": "Example",
            "catalogSourceNamespace": "openshift-marketplace", "provider": {"name": "Example", "url": "https://example.com"},
            "packageName": "widgets", "defaultChannel": "stable",
        })
    );
    assert_eq!(object["metadata"]["name"], "widgets");
}

#[test]
fn namespace_is_the_one_that_was_asked_for_and_the_age_that_of_the_catalog() {
    let metadata = |namespace: &str| written(&catalog(), &widgets(), namespace, &[])["metadata"].clone();
    assert_eq!(metadata("team")["namespace"], "team");
    assert_eq!(metadata("")["namespace"], "openshift-marketplace");
    assert_eq!(metadata("team")["creationTimestamp"], "2026-01-02T03:04:05Z");
}

#[test]
fn description_has_what_metadata_have() {
    let channels = shown(&widgets())["status"]["channels"].clone();
    assert_eq!((&channels[1]["name"], &channels[1]["currentCSV"]), (&json!("stable"), &json!("widgets.v1.2.0")));
    assert_eq!(
        channels[1]["currentCSVDesc"],
        json!({
            "displayName": "Widget Operator", "version": "1.2.0", "provider": {"name": "Example", "url": "https://example.com"},
            "annotations": {"categories": "Developer Tools"}, "keywords": ["widget"],
            "links": [{"name": "Source", "url": "https://example.com"}],
            "maintainers": [{"name": "Widget Team", "email": "widgets@example.com"}], "maturity": "stable",
            "description": "Makes widgets.", "installModes": [{"type": "OwnNamespace", "supported": true}],
            "customresourcedefinitions": {
                "owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget", "displayName": "Widget", "description": "A widget."}],
                "required": [{"name": "gears.example.com", "version": "v1", "kind": "Gear"}],
            },
            "apiservicedefinitions": {"owned": [{"name": "reports", "group": "apis.example.com", "version": "v2", "kind": "Report"}]},
            "nativeApis": [{"group": "", "version": "v1", "kind": "Pod"}], "minKubeVersion": "1.25.0", "relatedImages": ["y", "z"],
        })
    );
}

#[test]
fn description_has_what_a_whole_cluster_service_version_has_without_its_icon() {
    let channel = shown(&widgets())["status"]["channels"][0].clone();
    assert_eq!(channel["currentCSV"], "widgets.v0.9.0");
    assert_eq!(
        channel["currentCSVDesc"],
        json!({
            "displayName": "Old Widgets", "version": "0.9.0", "provider": {"name": "Older"}, "annotations": {"a": "b"},
            "customresourcedefinitions": {}, "apiservicedefinitions": {}, "relatedImages": ["a", "b", "c", "d"],
        })
    );
}

#[test]
fn text_of_the_package_stands_in_for_that_of_the_version() {
    let text = |csv: &'static [u8]| {
        let package =
            Package { description: "Of the package.", ..package(vec![channel("stable", CsvSource::Metadata(csv))]) };
        shown(&package)["status"]["channels"][0]["currentCSVDesc"]["description"].clone()
    };
    assert_eq!(text(b"{}"), "Of the package.");
    assert_eq!(text(br#"{"description": ""}"#), "Of the package.");
    assert_eq!(text(br#"{"description": "Its own."}"#), "Its own.");
}

#[test]
fn labels_are_those_of_the_catalog_then_of_the_default_channels_head() {
    let catalog = catalog();
    assert_eq!(
        written(&catalog, &widgets(), "", &[])["metadata"]["labels"],
        json!({
            "catalog": "example", "catalog-namespace": "openshift-marketplace", "own": "yes", "shared": "of the version", "tier": "gold",
            "provider": "Example", "provider-url": "https://example.com",
            "operatorframework.io/os.linux": "supported", "operatorframework.io/arch.amd64": "supported",
        })
    );
    // The catalog keeps its own.
    assert_eq!(catalog, super::catalog());
}

#[test]
fn defaults_are_added_only_where_no_label_says_anything() {
    for (given, os, arch) in [
        (r#"{"labels": {"operatorframework.io/arch.arm64": "supported"}}"#, true, false),
        (r#"{"labels": {"operatorframework.io/arch.amd64": "unsupported"}}"#, true, false),
        (r#"{"labels": {"operatorframework.io/os.windows": "supported"}}"#, false, true),
        (r#"{"labels": {"operatorframework.io/os": "x", "operatorframework.io/archive": "x"}}"#, false, false),
        (r#"{}"#, true, true),
    ] {
        let labels =
            shown(&package(vec![channel("stable", CsvSource::Metadata(given.as_bytes()))]))["metadata"]["labels"]
                .clone();
        let default = |key: &str| labels.get(key).is_some_and(|value| value == "supported");
        let found = (default("operatorframework.io/os.linux"), default("operatorframework.io/arch.amd64"));
        assert_eq!(found, (os, arch), "{given}");
    }
}

#[test]
fn entries_are_listed_by_version_descending() {
    let entries = [
        entry("c", "1.2.0"),
        entry("d", "1.10.0"),
        entry("a", "1.2.0-rc.1"),
        entry("none", ""),
        entry("b", "1.2.0+build"),
        Entry { release: "2", ..entry("r2", "1.2.0") },
        Entry { release: "10", ..entry("r10", "1.2.0") },
    ];
    let package =
        package(vec![Channel { entries: entries.into(), ..channel("stable", CsvSource::Metadata(METADATA)) }]);
    let entries = shown(&package)["status"]["channels"][0]["entries"].clone();
    let names: Vec<&str> = entries.as_array().unwrap().iter().map(|it| it["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["d", "r10", "r2", "b", "c", "a", "none"]);
    assert_eq!((&entries[0], &entries[6]), (&json!({"name": "d", "version": "1.10.0"}), &json!({"name": "none"})));
}

#[test]
fn deprecations_stand_at_package_channel_and_entry() {
    let entries = vec![Entry { deprecation: Some("broken"), ..entry("a", "1.0.0") }, entry("b", "2.0.0")];
    let stable = Channel { deprecation: Some("use fast"), entries, ..channel("stable", CsvSource::Metadata(METADATA)) };
    let status = shown(&Package { deprecation: Some("use gadgets"), ..package(vec![stable]) })["status"].clone();
    assert_eq!(status["deprecation"], json!({"message": "use gadgets"}));
    assert_eq!(status["channels"][0]["deprecation"], json!({"message": "use fast"}));
    let entries = json!([{"name": "b", "version": "2.0.0"}, {"name": "a", "version": "1.0.0", "deprecation": {"message": "broken"}}]);
    assert_eq!(status["channels"][0]["entries"], entries);
}

#[test]
fn withdrawn_bundles_are_not_listed_as_entries() {
    let entries = vec![Entry { is_withdrawn: true, ..entry("a", "1.0.0") }, entry("b", "2.0.0")];
    let package = package(vec![Channel { entries, ..channel("stable", CsvSource::Metadata(METADATA)) }]);
    assert_eq!(shown(&package)["status"]["channels"][0]["entries"], json!([{"name": "b", "version": "2.0.0"}]));
}

#[test]
fn channel_whose_head_cannot_be_read_is_left_out_and_the_first_other_becomes_default() {
    for (csv, expected) in [
        (CsvSource::Metadata(b"{"), "cannot be read"),
        (CsvSource::Object(br#"{"spec": 1}"#), "cannot be read"),
        (CsvSource::Metadata(br#"{"displayName": 1}"#), "displayName of its ClusterServiceVersion is no text"),
        (CsvSource::Metadata(br#"{"keywords": {}}"#), "keywords of its ClusterServiceVersion is no list"),
        (CsvSource::Metadata(br#"{"annotations": []}"#), "annotations of its ClusterServiceVersion is no mapping"),
        (CsvSource::Metadata(br#"{"labels": {"a": 1}}"#), "cannot be read"),
        (
            CsvSource::Metadata(br#"{"crdDescriptions": {"owned": [{"kind": 1}]}}"#),
            "an API of its ClusterServiceVersion is no text",
        ),
        (CsvSource::Metadata(b"\xff"), "cannot be read"),
        (CsvSource::Absent, "has no ClusterServiceVersion"),
    ] {
        let catalog = catalog();
        let channels = ["fast", "slow"].map(|name| channel(name, CsvSource::Metadata(METADATA)));
        let package = package([channel("stable", csv)].into_iter().chain(channels).collect());
        let manifest = PackageManifest::of(&catalog, &package).unwrap();
        let [(name, error)] = manifest.left_out.as_slice() else { panic!("{csv:?}: {:?}", manifest.left_out) };
        assert!(*name == "stable" && error.to_string().contains(expected), "{error}");
        let status = shown(&package)["status"].clone();
        assert_eq!((&status["defaultChannel"], status["channels"].as_array().unwrap().len()), (&json!("fast"), 2));
    }
}

#[test]
fn default_channel_stays_if_another_one_is_left_out() {
    let status = shown(&package(vec![
        channel("a", CsvSource::Absent),
        channel("stable", CsvSource::Metadata(METADATA)),
    ]))["status"]
        .clone();
    assert_eq!(status["defaultChannel"], "stable");
}

#[test]
fn default_channel_that_is_no_channel_stays_and_the_first_one_gives_the_labels() {
    let object =
        shown(&package(vec![channel("a", CsvSource::Metadata(METADATA)), channel("b", CsvSource::Object(OBJECT))]));
    assert_eq!(
        (&object["status"]["defaultChannel"], &object["metadata"]["labels"]["tier"]),
        (&json!("stable"), &json!("gold"))
    );
}

#[test]
fn package_without_channels_is_left_out() {
    assert!(PackageManifest::of(&catalog(), &package(vec![])).unwrap_err().is_empty());
    let package = package(vec![channel("stable", CsvSource::Absent)]);
    assert_eq!(PackageManifest::of(&catalog(), &package).unwrap_err()[0].0, "stable");
}

#[test]
fn other_catalogs_and_stale_content_are_annotations() {
    let stale = Catalog { stale_since: Some("2026-02-03T04:05:06Z".parse().unwrap()), ..catalog() };
    let other = Catalog { name: "other".into(), ..catalog() };
    let metadata = written(&stale, &widgets(), "team", &[&other, &other])["metadata"].clone();
    assert_eq!(
        metadata["annotations"],
        json!({
            OTHER_CATALOGS: "openshift-marketplace/other,openshift-marketplace/other", STALE_SINCE: "2026-02-03T04:05:06Z",
        })
    );
    assert_eq!(shown(&widgets())["metadata"].get("annotations"), None);
}

#[test]
fn one_package_gives_the_same_bytes_each_time() {
    let write = || {
        let (mut out, catalog, package) = (Vec::new(), catalog(), widgets());
        PackageManifest::of(&catalog, &package).unwrap().write("team", &[], &mut out).unwrap();
        out
    };
    assert_eq!(write(), write());
}
