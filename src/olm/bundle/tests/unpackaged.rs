//! ConfigMap catalogs, and the format before bundles.

use super::*;
use crate::olm::bundle::config_map::{self, ConfigMapError};
use crate::olm::bundle::unpackaged::{Blobs, MAX_OF_FOLDER, blobs, read_folder};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

fn csv(name: &str, version: &str, replaces: &str, owned: &str) -> Value {
    json!({
        "apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion", "metadata": {"name": name},
        "spec": {
            "version": version, "replaces": replaces,
            "customresourcedefinitions": {"owned": [{"name": format!("{owned}.example.com"), "version": "v1", "kind": owned}]},
        },
    })
}

fn crd(plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "names": {"kind": plural, "plural": plural}, "versions": [{"name": "v1", "served": true}],
        },
    })
}

fn package() -> Value {
    let channels = json!([{"name": "stable", "currentCSV": "a.v2"}, {"name": "old", "currentCSV": "a.v1"}]);
    json!({"packageName": "a", "channels": channels, "defaultChannel": "stable"})
}

fn data(csvs: &[Value], crds: &[Value], packages: &[Value]) -> BTreeMap<String, String> {
    let parts = [("clusterServiceVersions", csvs), ("customResourceDefinitions", crds), ("packages", packages)];
    parts.map(|(key, list)| (key.to_owned(), serde_yaml::to_string(list).unwrap())).into()
}

fn map() -> BTreeMap<String, String> {
    data(
        &[csv("a.v2", "2.0.0", "a.v1", "gears"), csv("a.v1", "1.0.0", "a.v0", "gears")],
        &[crd("gears"), crd("others")],
        &[package()],
    )
}

fn lines(blobs: &Blobs) -> Vec<Value> {
    blobs.json.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn names(blobs: &Blobs) -> Vec<String> {
    lines(blobs)
        .iter()
        .map(|it| format!("{} {}", it["schema"].as_str().unwrap(), it["name"].as_str().unwrap()))
        .collect()
}

#[test]
fn config_map_becomes_the_blobs_of_a_catalog() {
    let blobs = config_map::read(&map()).unwrap();
    assert_eq!(blobs.findings, []);
    assert_eq!(
        names(&blobs),
        ["olm.package a", "olm.channel stable", "olm.channel old", "olm.bundle a.v1", "olm.bundle a.v2"]
    );
    let [package, stable, old, _, bundle] = lines(&blobs).try_into().unwrap();
    assert_eq!(package, json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable"}));
    let entries = json!([{"name": "a.v2", "replaces": "a.v1"}, {"name": "a.v1", "replaces": "a.v0"}]);
    assert_eq!(stable, json!({"schema": "olm.channel", "package": "a", "name": "stable", "entries": entries}));
    assert_eq!(old["entries"], json!([{"name": "a.v1", "replaces": "a.v0"}]));
    assert_eq!((&bundle["package"], bundle.get("image")), (&json!("a"), None));
    let types: Vec<&str> =
        bundle["properties"].as_array().unwrap().iter().map(|it| it["type"].as_str().unwrap()).collect();
    assert_eq!(types, ["olm.gvk", "olm.package", "olm.bundle.object", "olm.bundle.object"]);
}

#[test]
fn what_is_wrong_in_a_config_map_is_left_out_and_told() {
    let broken = json!({"apiVersion": "operators.coreos.com/v1alpha1", "kind": "ClusterServiceVersion",
        "metadata": {"name": "bad"}, "spec": {"version": []}});
    let csvs =
        [csv("a.v1", "1.0.0", "", "gears"), csv("a.v1", "9.0.0", "", "gears"), csv("lost", "1.0.0", "", "x"), broken];
    let without_head = json!({"packageName": "b", "channels": [{"name": "stable", "currentCSV": "gone"}]});
    let blobs = config_map::read(&data(&csvs, &[], &[package(), without_head, json!({"packageName": ""})])).unwrap();
    assert_eq!(names(&blobs), ["olm.package a", "olm.channel old", "olm.bundle a.v1"]);
    let told = told(&blobs.findings);
    for expected in [
        "packages:1: packageName is empty",
        "clusterServiceVersions:1: bad: left out: clusterServiceVersions, line 1: the ClusterServiceVersion cannot be read: spec.version",
        "clusterServiceVersions:1: a.v1: left out, as another one has the same name",
        "packages: a/stable: the channel is left out, as there is no ClusterServiceVersion \"a.v2\"",
        "packages: b/stable: the channel is left out",
        "packages: b: the package is left out, as it has no channels",
        "clusterServiceVersions:1: lost: left out, as no channel leads to it",
    ] {
        assert!(told.iter().any(|it| it.starts_with(expected)), "{expected} is not in {told:#?}");
    }
    assert_eq!(told.len(), 7, "{told:#?}");
}

/// Lists that are written one after the other name a package once for each of its versions.
#[test]
fn package_that_is_named_several_times_has_the_channels_of_all() {
    let named =
        |channels: Value, default: Value| json!({"packageName": "a", "channels": channels, "defaultChannel": default});
    let packages = [
        named(json!([{"name": "stable", "currentCSV": "a.v1"}, {"name": "old", "currentCSV": "a.v1"}]), json!("old")),
        json!({"packageName": "b", "channels": [{"name": "stable", "currentCSV": "b.v1"}]}),
        named(
            json!([{"name": "stable", "currentCSV": "a.v2"}, {"name": "new", "currentCSV": "a.v2"}]),
            json!("stable"),
        ),
        named(json!([{"name": "new", "currentCSV": "a.v2"}]), Value::Null),
    ];
    let csvs =
        [csv("a.v2", "2.0.0", "a.v1", "gears"), csv("a.v1", "1.0.0", "", "gears"), csv("b.v1", "1.0.0", "", "x")];
    let blobs = config_map::read(&data(&csvs, &[], &packages)).unwrap();
    let heads: Vec<(Value, Value)> = lines(&blobs)
        .into_iter()
        .filter(|it| it["schema"] == "olm.channel" && it["package"] == "a")
        .map(|it| (it["name"].clone(), it["entries"][0]["name"].clone()))
        .collect();
    let expected =
        [("old", "a.v1"), ("stable", "a.v2"), ("new", "a.v2")].map(|(name, head)| (json!(name), json!(head)));
    assert_eq!(heads, expected);
    let packages: Vec<Value> = lines(&blobs).into_iter().filter(|it| it["schema"] == "olm.package").collect();
    assert_eq!(packages.iter().map(|it| &it["name"]).collect::<Vec<_>>(), ["a", "b"]);
    assert_eq!(packages[0]["defaultChannel"], "new");
    assert_eq!(
        told(&blobs.findings),
        ["packages: a: the package is named more than once; all its channels are taken: name it once"]
    );
}

#[test]
fn config_map_that_is_no_catalog_is_refused_with_the_key() {
    let error = |data: BTreeMap<String, String>| config_map::read(&data).unwrap_err();
    let with = |key: &str, text: &str| {
        let mut data = map();
        data.insert(key.to_owned(), text.to_owned());
        data
    };
    assert_eq!(error(BTreeMap::new()), ConfigMapError::NoKey("clusterServiceVersions"));
    assert!(matches!(error(with("packages", "a: [")), ConfigMapError::Yaml { key: "packages", .. }));
    assert_eq!(error(with("packages", "\na: 1")), ConfigMapError::NoList { key: "packages", line: 2 });
}

/// A definition may change from version to version, and the list has all of them.
#[test]
fn each_version_in_a_config_map_brings_the_definition_that_has_the_versions_which_it_owns() {
    let with = |served: &[&str]| {
        let mut crd = crd("gears");
        crd["spec"]["versions"] = served.iter().map(|it| json!({"name": it, "served": true})).collect();
        crd
    };
    let csv = |name: &str, owned: &[&str]| {
        let mut csv = csv(name, &format!("{}.0.0", &name[3..]), "", "gears");
        let owned = owned.iter().map(|it| json!({"name": "gears.example.com", "version": it, "kind": "gears"}));
        csv["spec"]["customresourcedefinitions"]["owned"] = owned.collect();
        csv
    };
    let csvs = [csv("a.v1", &["v1"]), csv("a.v2", &["v1", "v2"]), csv("a.v3", &["v3"])];
    let channels: Vec<Value> =
        ["a.v1", "a.v2", "a.v3"].iter().map(|it| json!({"name": it[2..], "currentCSV": it})).collect();
    let packages = [json!({"packageName": "a", "channels": channels, "defaultChannel": "v1"})];
    let blobs =
        config_map::read(&data(&csvs, &[with(&["v1"]), with(&["v2", "v1"]), with(&["v0"])], &packages)).unwrap();
    let brought = |bundle: &Value| {
        let objects = bundle["properties"].as_array().unwrap().iter().filter(|it| it["type"] == "olm.bundle.object");
        let objects = objects.map(|it| STANDARD.decode(it["value"]["data"].as_str().unwrap()).unwrap());
        let objects: Vec<Value> = objects.map(|it| serde_json::from_slice(&it).unwrap()).collect();
        let crds = objects.iter().filter(|it| it["kind"] == "CustomResourceDefinition");
        crds.map(|it| it["spec"]["versions"][0]["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let bundles: Vec<_> = lines(&blobs).iter().filter(|it| it["schema"] == "olm.bundle").map(brought).collect();
    // Of those with `v1` the last one; and the last one of all, where none has it.
    assert_eq!(bundles, [["v2"], ["v2"], ["v0"]], "{:?}", blobs.findings);
}

#[test]
fn config_map_needs_no_definitions() {
    let mut data = map();
    data.remove("customResourceDefinitions");
    let blobs = config_map::read(&data).unwrap();
    assert_eq!(
        lines(&blobs)[4]["properties"][0],
        json!({"type": "olm.gvk", "value": {"group": "example.com", "version": "v1", "kind": "gears"}})
    );
}

fn folder(files: &[(&str, Value)]) -> Vec<SourceFile> {
    let file =
        |(path, value): &(&str, Value)| SourceFile { path: (*path).to_owned(), bytes: value.to_string().into_bytes() };
    files.iter().map(file).collect()
}

#[test]
fn folder_of_the_format_before_bundles_becomes_blobs() {
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
    let mut files = folder(&[
        ("a.package.yaml", package()),
        ("2.0.0/a.csv.yaml", csv("a.v2", "2.0.0", "a.v1", "gears")),
        ("2.0.0/gears.crd.yaml", crd("gears")),
        ("2.0.0/service.yaml", service),
        ("1.0.0/a.csv.yaml", csv("a.v1", "1.0.0", "", "gears")),
        ("1.0.0/gears.crd.yaml", crd("gears")),
    ]);
    files.push(SourceFile { path: "README.md".into(), bytes: b"# a [".to_vec() });
    let blobs = blobs(read_folder(&files).unwrap(), MAX_OF_FOLDER).unwrap();
    assert_eq!(blobs.findings, []);
    assert_eq!(names(&blobs)[3..], ["olm.bundle a.v1", "olm.bundle a.v2"]);
    let objects = |bundle: &Value| {
        bundle["properties"].as_array().unwrap().iter().filter(|it| it["type"] == "olm.bundle.object").count()
    };
    assert_eq!(lines(&blobs)[3..].iter().map(objects).collect::<Vec<_>>(), [2, 3]);
}

#[test]
fn several_versions_in_one_folder_get_the_definitions_that_they_own() {
    let files = folder(&[
        ("package.yaml", package()),
        ("a.v2.yaml", csv("a.v2", "2.0.0", "a.v1", "gears")),
        ("a.v1.yaml", csv("a.v1", "1.0.0", "", "others")),
        ("gears.yaml", crd("gears")),
        ("others.yaml", crd("others")),
    ]);
    let read = read_folder(&files).unwrap();
    let names = |contents: &Contents| contents.objects.iter().map(|it| it.id.name.clone()).collect::<Vec<_>>();
    assert_eq!(
        read.bundles.iter().map(names).collect::<Vec<_>>(),
        [["a.v1", "others.example.com"], ["a.v2", "gears.example.com"]]
    );
}

/// A ConfigMap has a megabyte at most. Each version has the definitions that it owns, and each channel all of its versions.
#[test]
fn config_map_that_becomes_much_larger_as_a_catalog_is_refused() {
    let version = |number: usize| format!("a.v{number}");
    let chain = |count: usize| -> Vec<Value> {
        (0..count).map(|it| csv(&version(it), &format!("{it}.0.0"), &version(it.wrapping_sub(1)), "gears")).collect()
    };
    let mut definition = crd("gears");
    definition["spec"]["description"] = "x".repeat(256 << 10).into();
    let package = |heads: Vec<usize>| {
        let channel = |(number, head): (usize, usize)| json!({"name": number.to_string(), "currentCSV": version(head)});
        json!({"packageName": "a", "channels": heads.into_iter().enumerate().map(channel).collect::<Vec<_>>()})
    };
    let large = |versions: usize, channels: usize, definitions: &[Value]| {
        let heads = (0..channels).map(|_| versions - 1).collect();
        config_map::read(&data(&chain(versions), definitions, &[package(heads)]))
    };
    for (versions, channels, definitions) in [(100, 1, vec![definition.clone()]), (700, 700, Vec::new())] {
        let error = large(versions, channels, &definitions).unwrap_err();
        assert!(error.to_string().contains("more than 16777216 bytes"), "{error}");
    }
    assert!(large(20, 1, &[definition]).unwrap().json.len() > 20 * (256 << 10));
}
