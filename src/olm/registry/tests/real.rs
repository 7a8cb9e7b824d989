//! Catalogs of others, where there are any.

use super::*;
use crate::olm::net::folder;
use std::path::Path;

fn real() -> Option<Content> {
    let shared = std::env::var("CVO_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").to_owned());
    let dir = Path::new(&shared).join("catalogs/v4.21");
    if !dir.is_dir() {
        println!("skipped: no catalogs beside the project; CVO_SHARED_DATA names the folder that holds catalogs/v4.21");
        return None;
    }
    let catalog = folder::read(&dir, Vec::new()).unwrap();
    Some(Content::new(catalog.index, Box::new(InMemory(catalog.data))))
}

#[test]
fn every_entry_of_real_channels_has_at_most_one_answer_to_what_replaces_it() {
    let Some(content) = real() else { return };
    let (mut replaced, mut entries) = (0, 0);
    for entry in content.index.entries_from(0) {
        let channel = entry.channel().unwrap();
        let request = get_replacement(channel.package().unwrap().name(), channel.name(), entry.name());
        let is_head = channel.head().is_some_and(|head| head.name() == entry.name());
        match ask(request, &content) {
            Ok(answer) => {
                assert_eq!(answer.len(), 1);
                replaced += 1;
            }
            Err(_) => assert!(is_head, "{}", entry.name()),
        }
        entries += 1;
    }
    assert!(replaced > 0 && replaced < entries, "{replaced} of {entries}");
}

#[test]
fn every_bundle_of_real_catalogs_has_a_cluster_service_version() {
    let Some(content) = real() else { return };
    for entry in content.index.entries_from(0) {
        let channel = entry.channel().unwrap();
        let request = get_bundle(channel.package().unwrap().name(), channel.name(), entry.name());
        let told = ask(request, &content).unwrap().pop().unwrap();
        let csv: Value = serde_json::from_str(&told.csv_json).unwrap();
        assert_eq!((&csv["metadata"]["name"], &csv["spec"]["version"]), (&json!(entry.name()), &json!(told.version)));
    }
}
