use super::*;
use crate::cli::folder::tests::{filters, release};
use crate::object::yaml;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

fn lines(dir: &Path, flags: &[&str], objects: bool) -> Vec<u8> {
    let folder = folder::open(dir, folder::NO_IMAGE, &filters(flags)).unwrap();
    let mut out = Vec::new();
    for document in &folder.documents {
        json(document, objects, &mut out).unwrap();
    }
    out
}

fn values(lines: &[u8]) -> Vec<Value> {
    std::str::from_utf8(lines).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn json_has_one_object_per_line_with_all_fields() {
    let dir = release();
    let plain = values(&lines(dir.path(), &[], false));
    assert_eq!(plain.len(), 11);
    assert_eq!(
        plain[4],
        json!({
            "file": "0000_10_net_01.yaml", "index": 1, "apiVersion": "v1", "kind": "ConfigMap", "namespace": "x",
            "name": "second", "included": false,
            "reason": "include.release.openshift.io/self-managed-high-availability is not \"true\"",
        })
    );
    let operator = &plain[7];
    assert_eq!(
        (&operator["namespace"], &operator["included"], &operator["reason"]),
        (&json!(""), &json!(true), &json!(""))
    );
    assert_eq!(plain.iter().filter(|line| line["included"] == false).count(), 4);

    let mut whole = values(&lines(dir.path(), &[], true));
    assert_eq!(whole[5]["object"]["metadata"]["annotations"]["capability.openshift.io/name"], "Console+Storage");
    for (line, plain) in whole.iter_mut().zip(&plain) {
        let object = line.as_object_mut().unwrap().remove("object").unwrap();
        assert_eq!((&object["kind"], &object["metadata"]["name"]), (&line["kind"], &line["name"]));
        assert_eq!(line, plain);
    }
}

#[test]
fn text_is_a_table_with_totals() {
    let dir = release();
    let mut out = Vec::new();
    text(&folder::open(dir.path(), folder::NO_IMAGE, &filters(&[])).unwrap(), &mut out).unwrap();
    let out = String::from_utf8(out).unwrap();
    let lines: Vec<&str> = out.lines().collect();
    assert_eq!(lines.len(), 1 + 11 + 2, "{out}");
    let column = lines[0].find("INCLUDED").unwrap();
    let row = |name: &str| *lines.iter().find(|line| line.contains(name)).unwrap();
    assert_eq!(row(" x/last ").get(column..), Some("yes"), "{out}");
    assert_eq!(row("Secret  ").get(column..), Some("no: it has no annotations"), "{out}");
    assert!(row(" net ").contains("0000_10_net_09.yaml"), "{out}");
    assert!(row(" net ").contains(" ClusterOperator.config.openshift.io "), "{out}");
    assert_eq!(lines[13], "release 1.0.0: 11 manifests, 7 included, 4 excluded");
}

#[test]
fn control_characters_in_names_are_replaced() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.yaml"), "apiVersion: v1\nkind: A\nmetadata: {name: \"a\\e[2Jb\"}\n").unwrap();
    let mut out = Vec::new();
    text(&folder::open(dir.path(), folder::NO_IMAGE, &filters(&[])).unwrap(), &mut out).unwrap();
    assert!(!out.contains(&0x1b) && String::from_utf8_lossy(&out).contains("a [2Jb"));
}

/// A real payload, if it is available: each document of each file is listed once, as it was loaded, and with the same bytes
/// each time.
#[test]
fn real_payload_is_listed_completely() {
    let shared = std::env::var("CVO_SHARED_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").into());
    let dir = Path::new(&shared).join("payload-5.0");
    if !dir.is_dir() {
        println!("skipped: {} does not exist", dir.display());
        return;
    }
    let first = lines(&dir, &[], true);
    assert!(first == lines(&dir, &[], true), "different bytes the second time");
    let mut listed: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    let mut included = 0;
    for line in values(&first) {
        assert_eq!(line["included"] == true, line["reason"] == "", "{line}");
        included += usize::from(line["included"] == true);
        listed.entry(line["file"].as_str().unwrap().to_owned()).or_default().push(line);
    }
    assert!(included > 700 && listed.len() > 700, "{included} of {} files", listed.len());
    for entry in std::fs::read_dir(&dir).unwrap().map(Result::unwrap) {
        let name = entry.file_name().into_string().unwrap();
        if ![".yaml", ".yml", ".json"].iter().any(|suffix| name.ends_with(suffix)) {
            continue;
        }
        let documents = yaml::documents(&std::fs::read(entry.path()).unwrap()).unwrap();
        let lines = listed.remove(&name).unwrap_or_default();
        assert_eq!(lines.len(), documents.len(), "{name}");
        // Templates change what is in a document, not how many there are.
        let templated = name.contains("_cluster-version-operator_");
        for (position, (line, document)) in lines.iter().zip(documents).enumerate() {
            assert_eq!(line["index"], position, "{name}");
            assert!(templated || line["object"] == document.value, "{name} {position}");
        }
    }
    assert!(listed.is_empty(), "{:?}", listed.keys());
}
