//! Published bundles, where there are some beside the project: every folder below `bundles/` that has manifests/. Those that
//! `catalogs/` has as well must become the same blobs.

use super::*;
use crate::object::yaml;
use crate::olm::bundle::render::{Form, blob};
use crate::olm::bundle::validate::validate;
use std::path::PathBuf;

fn shared() -> PathBuf {
    std::env::var_os("CVO_SHARED_DATA")
        .map_or(Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data"), PathBuf::from)
}

/// The folders of bundles, sorted.
fn folders() -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![shared().join("bundles")]);
    while let Some(folder) = folders.pop() {
        if folder.join("manifests").is_dir() {
            found.push(folder);
            continue;
        }
        let below = std::fs::read_dir(&folder).into_iter().flatten().filter_map(|entry| Some(entry.ok()?.path()));
        folders.extend(below.filter(|path| path.is_dir()));
    }
    found.sort();
    found
}

/// The blobs of a published catalog by name.
fn published(package: &str) -> BTreeMap<String, Value> {
    let path = shared().join("catalogs/v4.21").join(package).join("catalog.yaml");
    let text = std::fs::read_to_string(path).unwrap_or_default();
    let documents = text.split("\n---").filter_map(|part| yaml::documents(part.as_bytes()).unwrap().pop());
    let bundles = documents.map(|it| it.value).filter(|blob| blob["schema"] == "olm.bundle");
    bundles.map(|blob| (blob["name"].as_str().unwrap().to_owned(), blob)).collect()
}

#[test]
fn published_bundles_are_read_and_become_the_published_blobs() {
    let (mut read, mut equal, mut told) = (0, 0, BTreeMap::<String, usize>::new());
    let mut catalogs: BTreeMap<String, BTreeMap<String, Value>> = BTreeMap::new();
    let mut differ = Vec::new();
    for folder in folders() {
        let contents = contents(&files(&folder));
        for finding in validate(&contents) {
            *told.entry(format!("{:?} {:?}", finding.weight, finding.check)).or_default() += 1;
        }
        let bundle = contents.bundle().unwrap_or_else(|error| panic!("{folder:?}: {error}"));
        read += 1;
        let package = bundle.annotations.package().to_owned();
        let catalog = catalogs.entry(package.clone()).or_insert_with(|| published(&package));
        let Some(expected) = catalog.get(&bundle.csv.metadata.name) else { continue };
        let rendered = blob(&bundle, expected["image"].as_str().unwrap(), Form::Metadata);
        let rendered: Value =
            serde_json::from_str(&rendered.unwrap_or_else(|error| panic!("{folder:?}: {error}"))).unwrap();
        if comparable(&rendered) == comparable(expected) { equal += 1 } else { differ.push(folder.clone()) }
    }
    if read == 0 {
        println!("skipped: no bundles beside the project; CVO_SHARED_DATA names the folder that holds bundles/");
    }
    println!("{read} bundles, {equal} as published, {} not: {differ:?}; {told:#?}", differ.len());
    assert!(
        differ.len() * 50 <= equal + differ.len(),
        "bundles may have changed since they were published, but not so many"
    );
}

/// Members of a kind that everybody writes. Published catalogs lack others, and have defaults for some.
const OF_KIND: [&str; 5] = ["name", "version", "kind", "displayName", "description"];

/// Without members that are empty, which some write and others leave out.
fn comparable(value: &Value) -> Value {
    let empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        Value::Object(map) => map.is_empty(),
        Value::String(text) => text.is_empty(),
        _ => false,
    };
    let kind = |value: &Value| {
        let members = value.as_object().into_iter().flatten().filter(|(key, _)| OF_KIND.contains(&key.as_str()));
        Value::Object(members.map(|(key, value)| (key.clone(), value.clone())).collect())
    };
    match value {
        Value::Object(map) => {
            let members = map.iter().map(|(key, value)| match (key.as_str(), value) {
                ("owned" | "required", Value::Array(kinds)) => (key.clone(), kinds.iter().map(kind).collect()),
                _ => (key.clone(), comparable(value)),
            });
            members.filter(|(_, value)| !empty(value)).collect()
        }
        Value::Array(list) => list.iter().map(comparable).collect(),
        other => other.clone(),
    }
}
