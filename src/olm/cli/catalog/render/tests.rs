//! Folders to streams of blobs, and the way back.

use super::*;
use crate::cli::release::{ImageSource, RegistryArgs};
use serde_json::{Value, json};
use std::fs;
use std::path::Path;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/olm/bundle/tests/widgets");

fn source() -> ImageSource {
    ImageSource { architecture: "amd64".to_owned(), registry: RegistryArgs::default() }
}

async fn rendered(inputs: &[&Path], syntax: Syntax) -> anyhow::Result<(String, Vec<Finding>)> {
    let mut stream = Stream::default();
    for given in inputs.iter().map(|path| path.to_str().unwrap()) {
        stream.add(input::open(given, &source()).await?, given)?;
    }
    Ok((stream.written(syntax), stream.findings))
}

fn schemas(json: &str) -> Vec<String> {
    let blobs = serde_json::Deserializer::from_str(json).into_iter::<Value>();
    blobs.map(|blob| blob.unwrap()["schema"].as_str().unwrap().to_owned()).collect()
}

/// A channel in YAML, its package and bundle in JSON, in two files.
fn catalog(dir: &Path) {
    let yaml = "schema: olm.channel\npackage: a\nname: stable\nentries:\n- name: a.v1\n---\nschema: x\nvalue: 1\n";
    fs::write(dir.join("a.yaml"), yaml).unwrap();
    let identity = json!({"type": "olm.package", "value": {"version": "1.0.0", "packageName": "a"}});
    let bundle =
        json!({"schema": "olm.bundle", "package": "a", "name": "a.v1", "image": "r/a", "properties": [identity]});
    let package = json!({"schema": "olm.package", "name": "a", "defaultChannel": "stable"});
    fs::write(dir.join("b.json"), format!("{bundle}\n{package}")).unwrap();
}

#[tokio::test]
async fn what_was_rendered_renders_to_itself_in_both_forms() {
    let dir = tempfile::tempdir().unwrap();
    catalog(dir.path());
    let (json, _) = rendered(&[dir.path()], Syntax::Json).await.unwrap();
    assert_eq!(schemas(&json), ["olm.package", "olm.channel", "olm.bundle", "x"]);
    let (yaml, _) = rendered(&[dir.path()], Syntax::Yaml).await.unwrap();
    for (name, text) in [("all.json", &json), ("all.yaml", &yaml)] {
        let again = tempfile::tempdir().unwrap();
        fs::write(again.path().join(name), text).unwrap();
        assert_eq!(rendered(&[again.path()], Syntax::Json).await.unwrap().0, json, "{name}");
        assert_eq!(rendered(&[&again.path().join(name)], Syntax::Yaml).await.unwrap().0, yaml, "{name}");
    }
}

#[tokio::test]
async fn bundle_in_a_folder_is_a_blob_with_all_manifests_beside_those_of_a_catalog() {
    let dir = tempfile::tempdir().unwrap();
    catalog(dir.path());
    let (json, _) = rendered(&[Path::new(EXAMPLE), dir.path()], Syntax::Json).await.unwrap();
    assert_eq!(schemas(&json), ["olm.package", "olm.channel", "olm.bundle", "olm.bundle", "x"]);
    assert_eq!(json.matches("\"olm.bundle.object\"").count(), 4);
}

#[tokio::test]
async fn folder_of_the_format_before_bundles_becomes_a_package_and_what_is_left_out_is_told() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("1.2.0")).unwrap();
    for name in ["widget-operator.clusterserviceversion.yaml", "widgets.crd.yaml"] {
        fs::copy(format!("{EXAMPLE}/manifests/{name}"), dir.path().join("1.2.0").join(name)).unwrap();
    }
    let package = "packageName: widget-operator\nchannels:\n- {name: stable, currentCSV: widget-operator.v1.2.0}\n- {name: x, currentCSV: gone}\n";
    fs::write(dir.path().join("widget-operator.package.yaml"), package).unwrap();
    let (json, findings) = rendered(&[dir.path()], Syntax::Json).await.unwrap();
    assert_eq!(schemas(&json), ["olm.package", "olm.channel", "olm.bundle"]);
    assert!(
        findings.iter().any(|finding| finding.message.contains("no ClusterServiceVersion \"gone\"")),
        "{findings:?}"
    );
    fs::write(dir.path().join("widget-operator.package.yaml"), "packageName: [a]\n").unwrap();
    let (json, findings) = rendered(&[dir.path()], Syntax::Json).await.unwrap();
    assert!(json.is_empty() && findings.iter().any(|it| it.message.starts_with("packageName: ")), "{findings:?}");
}

#[tokio::test]
async fn blob_that_nobody_understands_is_told_with_file_and_line() {
    let dir = tempfile::tempdir().unwrap();
    catalog(dir.path());
    fs::write(dir.path().join("c.yaml"), "---\nschema: x\n---\nname: b\n").unwrap();
    let error = rendered(&[dir.path()], Syntax::Json).await.unwrap_err().to_string();
    assert_eq!(error, "c.yaml, line 4: the key schema is missing; write one, such as olm.bundle");
    let empty = tempfile::tempdir().unwrap();
    let error = rendered(&[empty.path()], Syntax::Json).await.unwrap_err().to_string();
    assert!(error.contains("is no catalog: it has no blob"), "{error}");
    let error = rendered(&[Path::new("nowhere/at:all")], Syntax::Json).await.unwrap_err().to_string();
    assert!(error.contains("there is no folder nowhere/at:all, and an image is named as"), "{error}");
}
