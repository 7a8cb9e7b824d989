//! Published catalogs, where there are some beside the project: each bundle as the head of a channel.

use super::*;
use crate::object::yaml;
use serde_json::value::RawValue;
use std::collections::BTreeMap;

/// The documents of a catalog: its parts between separators, each within the limits of the loader.
fn documents(text: &str) -> Vec<Value> {
    text.split("\n---").filter_map(|part| yaml::documents(part.as_bytes()).unwrap().pop()).map(|it| it.value).collect()
}

#[test]
fn heads_of_published_catalogs_are_shown() {
    let shared = std::env::var("CVO_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").to_owned());
    let Ok(folders) = std::fs::read_dir(format!("{shared}/catalogs/v4.21")) else {
        println!("skipped: no catalogs beside the project; CVO_SHARED_DATA names the folder that holds catalogs/v4.21");
        return;
    };
    let (mut packages, mut heads) = (0, 0);
    for folder in folders {
        let text = std::fs::read_to_string(folder.unwrap().path().join("catalog.yaml")).unwrap();
        let blobs = documents(&text);
        let text = |blob: &Value, key: &str| blob[key].as_str().unwrap_or_default().to_owned();
        let bundles: BTreeMap<String, (String, Vec<String>)> = blobs
            .iter()
            .filter(|blob| blob["schema"] == "olm.bundle")
            .map(|blob| {
                let metadata =
                    blob["properties"].as_array().unwrap().iter().find(|it| it["type"] == "olm.csv.metadata").unwrap();
                let images = blob["relatedImages"].as_array().unwrap().iter().map(|it| text(it, "image"));
                (text(blob, "name"), (metadata["value"].to_string(), images.collect()))
            })
            .collect();
        let package = blobs.iter().find(|blob| blob["schema"] == "olm.package").unwrap();
        let (name, default) = (text(package, "name"), text(package, "defaultChannel"));
        let head = |(name, (json, images)): (&'_ String, &'_ (String, Vec<String>))| Channel {
            head: Head {
                name: String::leak(name.clone()),
                version: "1.0.0",
                related_images: images.iter().map(|image| &*String::leak(image.clone())).collect(),
                csv: CsvSource::Metadata(String::leak(json.clone()).as_bytes()),
            },
            name: String::leak(name.clone()),
            ..Channel::default()
        };
        let channels: Vec<Channel> = bundles.iter().map(head).collect();
        heads += channels.len();
        let package = Package { name: &name, default_channel: &default, channels, ..Package::default() };
        let catalog = catalog();
        let manifest = PackageManifest::of(&catalog, &package).unwrap();
        assert_eq!(manifest.left_out, [], "{name}");
        let mut out = Vec::new();
        manifest.write("team", &[], &mut out).unwrap();
        let _json: &RawValue = serde_json::from_slice(&out).unwrap();
        packages += 1;
    }
    assert!(packages > 0 && heads > packages);
    println!("{packages} packages, {heads} heads");
}
