use super::*;
use crate::olm::catalog::served::Content;
use crate::olm::registry::messages::{Channel, Dependency, ListBundlesRequest, ListPackageRequest};
use crate::olm::registry::messages::{GetBundleRequest, GetPackageRequest};
use crate::olm::registry::query::{Query, part};
use crate::olm::registry::tests::{content, widgets};

const LIMIT: usize = 1 << 20;

/// All messages of an answer.
fn ask<Q: Query>(query: Q, of: &Content) -> Vec<Q::Answer> {
    let (mut all, mut next) = (Vec::new(), Some(0));
    while let Some(from) = next {
        let part = part(&query, of, from).unwrap();
        all.extend(part.messages);
        next = part.next;
    }
    all
}

/// What a server of this catalog tells, as blobs, and the digest.
fn told(of: &Content, reverse: bool) -> (Vec<Value>, String) {
    let (mut blobs, mut lines) = (Blobs::new(LIMIT), Vec::new());
    for name in ask(ListPackageRequest {}, of) {
        blobs.package(ask(GetPackageRequest { name: name.name }, of).remove(0)).unwrap();
    }
    let mut bundles = ask(ListBundlesRequest {}, of);
    if reverse {
        bundles.reverse();
    }
    for bundle in bundles {
        lines.extend(blobs.listed(bundle).unwrap());
    }
    for bundle in blobs.take_bare() {
        let query = GetBundleRequest {
            pkg_name: bundle.package_name.clone(),
            channel_name: bundle.channel_name.clone(),
            csv_name: bundle.csv_name.clone(),
        };
        let whole = ask(query, of).pop();
        lines.push(blobs.head(bundle, whole));
    }
    while let Some(line) = blobs.next() {
        lines.push(line);
    }
    let values =
        lines.iter().flat_map(|line| serde_json::Deserializer::from_str(line).into_iter::<Value>().collect::<Vec<_>>());
    (values.map(Result::unwrap).collect(), blobs.digest())
}

#[test]
fn catalog_that_is_told_and_read_again_tells_the_same() {
    let first = content(&widgets());
    let (blobs, digest) = told(&first, false);
    let second = content(&blobs);
    let sorted = |of: &Content| {
        let mut all = ask(ListBundlesRequest {}, of);
        // Manifests of heads are asked for, and so are in the catalog.
        all.iter_mut().for_each(|bundle| (bundle.csv_json, bundle.object) = Default::default());
        all.sort_by_key(|bundle| (bundle.channel_name.clone(), bundle.csv_name.clone()));
        all
    };
    assert_eq!(sorted(&first), sorted(&second));
    for name in ask(ListPackageRequest {}, &first) {
        let query = || GetPackageRequest { name: name.name.clone() };
        assert_eq!(ask(query(), &first), ask(query(), &second));
    }
    assert_eq!(told(&first, true).1, digest, "the order in which it is told does not count");
    let other: Vec<Value> = widgets().into_iter().filter(|blob| blob["schema"] != "olm.deprecations").collect();
    assert_ne!(told(&content(&other), false).1, digest);
}

fn listed(name: &str) -> Bundle {
    Bundle {
        csv_name: name.to_owned(),
        package_name: "a".to_owned(),
        channel_name: "x".to_owned(),
        version: "1.0.0".to_owned(),
        bundle_path: "r.example/a:1".to_owned(),
        ..Bundle::default()
    }
}

fn heads() -> Blobs {
    let mut blobs = Blobs::new(LIMIT);
    let channel = Channel { name: "x".to_owned(), csv_name: "a.v2".to_owned(), deprecation: None };
    let package = Package { name: "a".to_owned(), channels: vec![channel], ..Package::default() };
    blobs.package(package).unwrap();
    blobs
}

#[test]
fn manifests_are_asked_for_at_heads_of_channels_and_nowhere_else() {
    let mut blobs = heads();
    assert!(blobs.listed(listed("a.v1")).unwrap().is_some());
    assert_eq!(blobs.listed(listed("a.v2")).unwrap(), None);
    assert_eq!(blobs.listed(listed("a.v2")).unwrap(), None, "it is in another channel as well");
    let bare = blobs.take_bare();
    assert_eq!(bare.iter().map(|bundle| bundle.csv_name.as_str()).collect::<Vec<_>>(), ["a.v2"]);
    let csv = r#"{"kind": "ClusterServiceVersion"}"#;
    let whole = Bundle { csv_json: csv.to_owned(), object: vec![csv.to_owned(), "{}".to_owned()], ..listed("a.v2") };
    let blob: Value = serde_json::from_str(&blobs.head(bare[0].clone(), Some(whole))).unwrap();
    let objects: Vec<&Value> =
        blob["properties"].as_array().unwrap().iter().filter(|it| it["type"] == "olm.bundle.object").collect();
    assert_eq!(objects.len(), 2, "the ClusterServiceVersion is one of the manifests");
    assert_eq!(objects[0]["value"]["data"], json!(STANDARD.encode(csv)));
    assert_eq!(blob["image"], "r.example/a:1");
}

#[test]
fn what_servers_told_before_there_were_properties_becomes_properties() {
    let api = |kind: &str| GroupVersionKind {
        group: "g".to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: "ks".to_owned(),
    };
    let dependency = |kind: &str, value: &str| Dependency { r#type: kind.to_owned(), value: value.to_owned() };
    let bundle = Bundle {
        provided_apis: vec![api("A")],
        required_apis: vec![api("B")],
        dependencies: vec![
            dependency("olm.package", r#"{"packageName": "b", "version": ">1.0.0"}"#),
            dependency("olm.gvk", r#"{"group": "g", "version": "v1", "kind": "B"}"#),
        ],
        ..listed("a.v1")
    };
    let properties = |bundle: &Bundle| serde_json::from_str::<Value>(&blob(bundle)).unwrap()["properties"].clone();
    let expected = json!([
        {"type": "olm.package", "value": {"packageName": "a", "version": "1.0.0"}},
        {"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "A"}},
        {"type": "olm.gvk.required", "value": {"group": "g", "version": "v1", "kind": "B"}},
        {"type": "olm.package.required", "value": {"packageName": "b", "versionRange": ">1.0.0"}},
    ]);
    assert_eq!(properties(&bundle), expected);
    let told = |kind: &str, value: &str| Property { r#type: kind.to_owned(), value: value.to_owned() };
    let with = Bundle {
        properties: expected
            .as_array()
            .unwrap()
            .iter()
            .map(|it| told(it["type"].as_str().unwrap(), &it["value"].to_string()))
            .chain([told("color", "no json"), told("lines", "{\n\"a\":\n1}")])
            .collect(),
        ..bundle
    };
    let mut all = expected.as_array().unwrap().clone();
    all.extend([json!({"type": "color", "value": "no json"}), json!({"type": "lines", "value": {"a": 1}})]);
    assert_eq!(properties(&with), Value::Array(all), "nothing is told twice");
    assert!(!blob(&with).contains('\n'));
}

/// Cases that other resolvers are known by.
#[test]
fn bundle_provides_and_requires_what_its_server_tells_of_it() {
    let api = |group: &str, kind: &str| GroupVersionKind {
        group: group.to_owned(),
        version: "v1".to_owned(),
        kind: kind.to_owned(),
        plural: format!("{}s", kind.to_lowercase()),
    };
    let gvk = |group: &str, kind: &str| json!({"group": group, "version": "v1", "kind": kind}).to_string();
    let dependency = |kind: &str, value: String| Dependency { r#type: kind.to_owned(), value };
    let property = |kind: &str, value: String| Property { r#type: kind.to_owned(), value };
    let csv =
        json!({"kind": "ClusterServiceVersion", "metadata": {"name": "a.v1"}, "spec": {"customresourcedefinitions": {
        "owned": [{"name": "owneds.crd.group.com", "version": "v1", "kind": "OwnedCRD"}]}}})
        .to_string();
    let provided = vec![api("crd.group.com", "OwnedCRD"), api("apis.group.com", "OwnedAPI")];
    let required = vec![api("crd.group.com", "RequiredCRD"), api("apis.group.com", "RequiredAPI")];
    let both = [
        ("olm.gvk", gvk("crd.group.com", "OwnedCRD")),
        ("olm.gvk", gvk("apis.group.com", "OwnedAPI")),
        ("olm.gvk.required", gvk("crd.group.com", "RequiredCRD")),
        ("olm.gvk.required", gvk("apis.group.com", "RequiredAPI")),
    ];
    let properties = vec![property(both[0].0, both[0].1.clone()), property(both[1].0, both[1].1.clone())];
    let dependencies = vec![dependency("olm.gvk", both[2].1.clone()), dependency("olm.gvk", both[3].1.clone())];
    let of = |kind: &str, value: Value| (kind.to_owned(), value.to_string());
    for (name, bundle, expected) in [
        ("no APIs", listed("a.v1"), &both[..0]),
        ("APIs", Bundle { provided_apis: provided, required_apis: required, ..listed("a.v1") }, &both),
        (
            "manifests are not looked into",
            Bundle { csv_json: csv.clone(), object: vec![csv], ..listed("a.v1") },
            &both[..0],
        ),
        ("properties and dependencies", Bundle { properties, dependencies, ..listed("a.v1") }, &both),
    ] {
        let blob: Value = serde_json::from_str(&blob(&bundle)).unwrap();
        let all = blob["properties"].as_array().unwrap().iter();
        let apis = all.filter(|it| it["type"].as_str().unwrap().starts_with("olm.gvk"));
        let found: Vec<_> = apis.map(|it| of(it["type"].as_str().unwrap(), it["value"].clone())).collect();
        let expected: Vec<_> =
            expected.iter().map(|(kind, value)| of(kind, serde_json::from_str(value).unwrap())).collect();
        assert_eq!(found, expected, "{name}");
    }
    let others = vec![
        dependency("olm.label", r#"{"label": "lts"}"#.to_owned()),
        dependency("olm.constraint", r#"{"cel": {"rule": "true"}}"#.to_owned()),
        dependency("unknown", "{}".to_owned()),
    ];
    let blob: Value = serde_json::from_str(&blob(&Bundle { dependencies: others, ..listed("a.v1") })).unwrap();
    let expected = json!([{"type": "olm.label.required", "value": {"label": "lts"}},
        {"type": "olm.constraint", "value": {"cel": {"rule": "true"}}}]);
    assert_eq!(blob["properties"].as_array().unwrap()[1..], expected.as_array().unwrap()[..]);
}

#[test]
fn more_than_may_be_in_memory_is_refused() {
    let long = "x".repeat(LIMIT / 4);
    let mut blobs = heads();
    let mut all = (0..8).map(|number| Bundle { replaces: long.clone(), ..listed(&format!("b{number}")) });
    assert_eq!(all.find_map(|bundle| blobs.listed(bundle).err()), Some(TooMuch));
    let mut blobs = heads();
    let mut skips = (0..1000).map(|number| Bundle { skips: vec![String::new(); 1000], ..listed(&number.to_string()) });
    assert_eq!(skips.find_map(|bundle| blobs.listed(bundle).err()), Some(TooMuch), "empty texts need memory as well");
    let mut blobs = Blobs::new(LIMIT);
    let mut packages = (0..8).map(|at| Package { name: format!("{at}{long}"), ..Package::default() });
    assert_eq!(packages.find_map(|package| blobs.package(package).err()), Some(TooMuch));
    let mut blobs = heads();
    let property = Property { r#type: "a".to_owned(), value: "x".repeat(2 * LIMIT) };
    let head = Bundle { properties: vec![property], ..listed("a.v2") };
    assert_eq!(blobs.listed(head), Err(TooMuch), "a head waits in memory");
}
