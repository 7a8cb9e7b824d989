//! From the blobs of a catalog to objects.

use super::*;
use crate::olm::catalog::served::Content;
use crate::olm::catalog::served::tests::{broken, content};
use crate::olm::packages::from_catalog::{Labels, Part, Read};
use crate::olm::packages::icon::Icon;
use serde_json::json;
use std::sync::atomic::Ordering;

/// A package with two channels: `fast` and, by default, `stable`. Bundles are as in `properties`, by name.
pub(super) fn blobs(name: &str, properties: &[(&str, Value)]) -> Vec<Value> {
    let entry = |name: &str, replaces: &str| json!({"name": name, "replaces": replaces});
    let mut blobs = vec![
        json!({"schema": "olm.package", "name": name, "defaultChannel": "stable", "description": "Of the package.",
            "icon": {"base64data": "AAEC", "mediatype": "image/png"}}),
        json!({"schema": "olm.channel", "package": name, "name": "stable",
            "entries": [entry(&format!("{name}.v2"), &format!("{name}.v1")), {"name": format!("{name}.v1")}]}),
        json!({"schema": "olm.channel", "package": name, "name": "fast",
            "entries": [entry(&format!("{name}.v3"), &format!("{name}.v2")), {"name": format!("{name}.v2")}]}),
    ];
    for version in ["v1", "v2", "v3"] {
        let number = version.replace('v', "") + ".0.0";
        let mut own = vec![json!({"type": "olm.package", "value": {"packageName": name, "version": number}})];
        let given = properties.iter().filter(|(of, _)| *of == version);
        own.extend(given.map(|(_, property)| property.clone()));
        blobs.push(json!({"schema": "olm.bundle", "package": name, "name": format!("{name}.{version}"), "image": "a/b", "properties": own,
            "relatedImages": [{"name": "", "image": format!("r/{version}")}]}));
    }
    blobs
}

pub(super) fn metadata(json: &[u8]) -> Value {
    json!({"type": "olm.csv.metadata", "value": serde_json::from_slice::<Value>(json).unwrap()})
}

fn healthy() -> Vec<Value> {
    let withdrawn = json!({"type": "olm.deprecated", "value": {}});
    let mut blobs = blobs(
        "widgets",
        &[("v1", withdrawn), ("v2", metadata(METADATA)), ("v3", metadata(br#"{"displayName": "Next"}"#))],
    );
    let message = |schema: &str, name: &str| json!({"reference": {"schema": schema, "name": name}, "message": format!("no {name}")});
    blobs.push(json!({"schema": "olm.deprecations", "package": "widgets", "entries": [
        message("olm.package", ""), message("olm.channel", "fast"), message("olm.bundle", "widgets.v2")]}));
    blobs
}

fn object(content: &Content, name: &str) -> Value {
    let read = Read::of(content, content.index.package(name).unwrap(), Part::Channels).unwrap();
    written(&catalog(), &read.view(), "", &[])
}

#[test]
fn object_says_what_the_blobs_of_its_package_say() {
    let object = object(&content(&healthy()).0, "widgets");
    let status = &object["status"];
    assert_eq!((&status["packageName"], &status["defaultChannel"]), (&json!("widgets"), &json!("stable")));
    assert_eq!(status["deprecation"], json!({"message": "no "}));
    let [fast, stable] = status["channels"].as_array().unwrap().as_slice() else { panic!("{status}") };
    assert_eq!((&fast["name"], &fast["currentCSV"]), (&json!("fast"), &json!("widgets.v3")));
    assert_eq!(fast["deprecation"], json!({"message": "no fast"}));
    let description = &fast["currentCSVDesc"];
    assert_eq!((&description["displayName"], &description["version"]), (&json!("Next"), &json!("3.0.0")));
    assert_eq!(description["description"], "Of the package.");
    assert_eq!(description["relatedImages"], json!(["r/v3"]));
    assert_eq!((&stable["name"], &stable["currentCSV"]), (&json!("stable"), &json!("widgets.v2")));
    assert_eq!(stable["currentCSVDesc"]["displayName"], "Widget Operator");
    // The bundle that nobody can install any more is no entry.
    let entry = json!({"name": "widgets.v2", "version": "2.0.0", "deprecation": {"message": "no widgets.v2"}});
    assert_eq!(stable["entries"], json!([entry]));
    assert_eq!(fast["entries"], json!([{"name": "widgets.v3", "version": "3.0.0"}, entry]));
    assert_eq!(object["metadata"]["labels"]["tier"], "gold");
}

#[test]
fn icon_is_that_of_the_package() {
    let (content, _) = content(&healthy());
    let package = content.index.package("widgets").unwrap();
    let (read, catalog) = (Read::of(&content, package, Part::All).unwrap(), catalog());
    let view = read.view();
    let icon = Icon::of(&PackageManifest::of(&catalog, &view).unwrap());
    assert_eq!((&*icon.bytes, &*icon.media_type), (&[0, 1, 2][..], "image/png"));
    assert_eq!(icon.etag, "\"widgets.stable.widgets.v2\"");
}

#[test]
fn labels_are_read_of_the_default_channel_alone() {
    let (content, reads) = content(&healthy());
    let labels = Labels::of(&content);
    assert_eq!((labels.packages.len(), labels.hidden), (1, 0));
    assert_eq!(labels.packages[0].name, "widgets");
    // Description, metadata and images of one version.
    assert_eq!(reads.load(Ordering::SeqCst), 3);
    let labels = labels.packages[0].labels(&catalog());
    assert_eq!(json!(labels), object(&content, "widgets")["metadata"]["labels"]);
}

#[test]
fn labels_are_those_of_the_first_other_channel_where_the_default_one_is_left_out() {
    let bad = metadata(br#"{"displayName": 1}"#);
    let next = metadata(br#"{"labels": {"from": "fast"}}"#);
    let (content, _) = content(&blobs("widgets", &[("v2", bad), ("v3", next)]));
    let labels = Labels::of(&content);
    assert_eq!(labels.packages[0].labels(&catalog())["from"], "fast");
    let object = object(&content, "widgets");
    assert_eq!(
        (&object["status"]["defaultChannel"], &object["metadata"]["labels"]["from"]),
        (&json!("fast"), &json!("fast"))
    );
}

#[test]
fn package_that_cannot_be_shown_is_left_out_and_says_why() {
    let mut blobs = blobs("sick", &[("v2", metadata(br#"{"keywords": {}}"#))]);
    blobs.extend(healthy());
    let labels = Labels::of(&content(&blobs).0);
    assert_eq!(labels.packages.iter().map(|it| it.name.as_str()).collect::<Vec<_>>(), ["widgets"]);
    let [cause] = labels.causes.as_slice() else { panic!("{:?}", labels.causes) };
    assert!(labels.hidden == 1 && cause.starts_with("sick: the head of its channel fast"), "{cause}");
}

#[test]
fn data_that_is_gone_is_an_error_and_hides_the_package() {
    let content = broken(&healthy());
    let package = content.index.package("widgets").unwrap();
    assert!(Read::of(&content, package, Part::Channels).is_err());
    assert_eq!((Labels::of(&content).packages.len(), Labels::of(&content).hidden), (0, 1));
}
