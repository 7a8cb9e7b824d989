use super::*;
use clap::Parser;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// A package `a` with two versions, deprecated in part, and a package `b` with a fault.
pub(super) fn catalog() -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let bundle = |name: &str, version: &str| {
        let identity = json!({"type": "olm.package", "value": {"packageName": "a", "version": version}});
        let api = json!({"type": "olm.gvk", "value": {"group": "g", "version": "v1", "kind": "K"}});
        json!({"schema": "olm.bundle", "package": "a", "name": name, "image": "r/a", "properties": [identity, api]})
    };
    let entries =
        json!([{"name": "a.v1"}, {"name": "a.v2", "replaces": "a.v1", "skips": ["a.v0"], "skipRange": "<2.0.0"}]);
    let gone = json!([{"reference": {"schema": "olm.bundle", "name": "a.v1"}, "message": "too old"}]);
    let blobs = [
        json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable"}),
        json!({"schema": "olm.channel", "package": "a", "name": "stable", "entries": entries}),
        bundle("a.v1", "1.0.0"),
        bundle("a.v2", "2.0.0"),
        json!({"schema": "olm.deprecations", "package": "a", "entries": gone}),
        json!({"schema": "olm.package", "name": "b", "defaultChannel": "x"}),
    ];
    fs::write(dir.path().join("all.json"), blobs.iter().map(|blob| format!("{blob}\n")).collect::<String>()).unwrap();
    dir
}

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: CatalogCommand,
}

pub(super) fn exit(dir: &Path, arguments: &[&str]) -> anyhow::Result<Exit> {
    let line = ["cvo", arguments[0], dir.to_str().unwrap()];
    let command = Line::parse_from(line.iter().chain(&arguments[1..])).command;
    futures::executor::block_on(run(&command, CancellationToken::new()))
}

#[test]
fn faults_are_found_and_one_package_is_still_shown() {
    let dir = catalog();
    assert_eq!(exit(dir.path(), &["validate"]).unwrap(), Exit::Found);
    assert_eq!(exit(dir.path(), &["validate", "-o", "json"]).unwrap(), Exit::Found);
    assert_eq!(exit(dir.path(), &["show"]).unwrap(), Exit::Success);
    assert_eq!(exit(dir.path(), &["show", "a", "-o", "json"]).unwrap(), Exit::Success);
    let refused = |package: &str| exit(dir.path(), &["show", package]).unwrap_err().to_string();
    assert!(refused("b").contains("the package b has 1 fault: cvo catalog validate"), "{}", refused("b"));
    assert!(refused("c").contains("has no package c"), "{}", refused("c"));
    let empty = tempfile::tempdir().unwrap();
    let error = exit(empty.path(), &["validate"]).unwrap_err().to_string();
    assert!(error.contains("is no catalog: it has 0 files, and no olm.package"), "{error}");
    assert!(exit(&empty.path().join("gone"), &["validate"]).is_err());
}

fn page() -> crate::cli::layout::Page {
    crate::cli::layout::Page { width: 100, colours: false, now: jiff::Timestamp::UNIX_EPOCH }
}

#[test]
fn verdict_for_people_names_package_place_and_reason() {
    let dir = catalog();
    let text = validate::text(&read(dir.path()).unwrap(), &page());
    let expected = "b: not served, 1 fault\n  all.json:6: olm.package b: it has no channels\n\
                    1 of 2 packages can be served, 1 cannot: 1 fault in 1 file\n";
    assert_eq!(text, expected);
}

#[test]
fn verdict_without_faults_is_one_line() {
    let dir = catalog();
    let text = fs::read_to_string(dir.path().join("all.json")).unwrap();
    fs::write(dir.path().join("all.json"), text.replace("\"name\":\"b\"", "\"name\":\"b\",\"x\":1")).unwrap();
    let lines: String = text.lines().take(5).map(|line| format!("{line}\n")).collect();
    fs::write(dir.path().join("all.json"), lines).unwrap();
    let text = validate::text(&read(dir.path()).unwrap(), &page());
    assert_eq!(text, "1 package, 1 channel and 2 bundles in 1 file: nothing found\n");
}

#[test]
fn verdict_for_programs_has_each_package_and_each_fault() {
    let dir = catalog();
    let value = serde_json::to_value(validate::Verdict::of(&read(dir.path()).unwrap())).unwrap();
    assert_eq!(
        value,
        json!({
            "schema": 1, "files": 1, "sickPackages": 1, "faultCount": 1,
            "packages": [
                {"name": "a", "served": true, "channels": 1, "bundles": 2, "faults": 0},
                {"name": "b", "served": false, "faults": 1},
            ],
            "faults": [{"file": "all.json", "line": 6, "blob": "olm.package b", "package": "b", "message": "it has no channels"}],
        })
    );
}

#[test]
fn packages_are_listed_with_their_default_channel_and_its_head() {
    let dir = catalog();
    let catalog = read(dir.path()).unwrap();
    let text = show::list(&catalog.index.packages().collect::<Vec<_>>(), &page());
    let expected = "PACKAGE  DEFAULT CHANNEL  HEAD  VERSION  CHANNELS  BUNDLES\na        stable           a.v2  2.0.0    1         2\n";
    assert_eq!(text, expected);
}

#[test]
fn package_is_shown_from_its_heads_down() {
    let dir = catalog();
    let catalog = read(dir.path()).unwrap();
    let text = show::text(catalog.index.package("a").unwrap(), &page());
    let expected = "channel stable (default)\n  NAME  VERSION  REPLACES  SKIPS\n  a.v2  2.0.0    a.v1      a.v0, <2.0.0\n  \
                    a.v1  1.0.0                            deprecated: too old\n  provides K.v1.g\n";
    assert_eq!(text, expected);
}

#[test]
fn package_is_shown_to_programs_with_properties_of_its_bundles() {
    let dir = catalog();
    let catalog = read(dir.path()).unwrap();
    let value = serde_json::to_value(show::Shown::of(catalog.index.package("a").unwrap(), true)).unwrap();
    assert_eq!((&value["defaultChannel"], &value["channels"][0]["head"]), (&json!("stable"), &json!("a.v2")));
    let entries = &value["channels"][0]["entries"];
    assert_eq!(entries[0]["skipRange"], "<2.0.0");
    assert_eq!(entries[1], json!({"name": "a.v1", "version": "1.0.0"}));
    assert_eq!(value["bundles"][0]["deprecation"], "too old");
    assert_eq!(value["bundles"][0]["properties"][1]["value"]["kind"], "K");
    let list = serde_json::to_value(show::Shown::of(catalog.index.package("a").unwrap(), false)).unwrap();
    assert_eq!(list["bundles"], Value::Null);
}
