//! The manifests of a real release, if one is at hand.

use super::*;
use serde::Deserialize;
use std::path::Path;

/// All documents of the folder that parse; `None` without the folder.
fn documents() -> Option<Vec<Value>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared/data/payload-5.0");
    let folder = std::env::var_os("CVO_SHARED_DATA").map_or(folder, |data| Path::new(&data).join("payload-5.0"));
    let mut files: Vec<_> = std::fs::read_dir(folder).ok()?.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "yaml"));
    files.sort();
    let mut documents = Vec::new();
    for file in files {
        for document in serde_yaml::Deserializer::from_str(&std::fs::read_to_string(file).unwrap()) {
            match Value::deserialize(document) {
                Ok(value @ Value::Object(_)) => documents.push(value),
                Ok(_) => {}
                // After an error the rest of the file cannot be decoded.
                Err(_) => break,
            }
        }
    }
    Some(documents)
}

#[test]
fn created_objects_of_a_real_release_do_not_differ() {
    let Some(documents) = documents() else {
        println!("skipped: no payload beside the project; CVO_SHARED_DATA names the folder that holds payload-5.0");
        return;
    };
    assert!(documents.len() > 700, "{}", documents.len());
    let owner = crate::cluster_version::rollout::owner("version", "1-2-3");
    for document in documents {
        let desired = prepare(document, Some(&owner), false);
        let mut live = desired.clone();
        for (key, value) in [
            ("uid", json!("a-b-c")),
            ("resourceVersion", json!("7")),
            ("generation", json!(1)),
            ("creationTimestamp", json!("2026-01-01T00:00:00Z")),
            ("managedFields", json!([{"manager": "x", "operation": "Update"}])),
        ] {
            live["metadata"][key] = value;
        }
        live["status"] = json!({"phase": "x"});
        let name = format!("{} {}", desired["kind"], desired["metadata"]["name"]);
        assert_eq!(merge(&live, &desired), Ok(Outcome::Same), "{name}");
        live["metadata"]["ownerReferences"] = json!([]);
        let Ok(Outcome::Changed { object, fields }) = merge(&live, &desired) else { panic!("{name}") };
        assert_eq!(fields, ["metadata.ownerReferences[1-2-3]"], "{name}");
        assert_eq!(object["metadata"]["uid"], "a-b-c");
    }
}
