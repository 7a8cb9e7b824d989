//! Folders to findings and exit codes.

use super::*;
use clap::Parser;
use std::fs;
use tempfile::TempDir;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/olm/bundle/tests/widgets");

#[derive(Parser)]
struct Line {
    #[command(subcommand)]
    command: BundleCommand,
}

fn validated(arguments: &[&str]) -> anyhow::Result<Exit> {
    futures::executor::block_on(run(Line::parse_from(["bundle", "validate"].iter().chain(arguments)).command))
}

/// A copy of the example without one file.
fn without(name: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in files(Path::new(EXAMPLE)).unwrap().into_iter().filter(|file| file.path != name) {
        let path = dir.path().join(file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, file.bytes).unwrap();
    }
    dir
}

#[test]
fn exit_code_says_whether_something_was_found() {
    assert_eq!(validated(&[EXAMPLE]).unwrap(), Exit::Success);
    let no_definition = without("manifests/widgets.crd.yaml");
    for output in ["text", "json"] {
        assert_eq!(validated(&[no_definition.path().to_str().unwrap(), "-o", output]).unwrap(), Exit::Found);
    }
    let no_annotations = without("metadata/annotations.yaml");
    let path = no_annotations.path().to_str().unwrap();
    assert_eq!(validated(&[path]).unwrap(), Exit::Success);
    assert_eq!(validated(&[path, "--strict"]).unwrap(), Exit::Found);
}

#[test]
fn folder_that_is_no_bundle_is_a_failure_with_the_way_out() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("README.md"), "nothing").unwrap();
    let error = validated(&[dir.path().to_str().unwrap()]).unwrap_err().to_string();
    assert!(error.contains("is no bundle: DIR must have manifests/"), "{error}");
    assert!(validated(&["/does/not/exist"]).is_err());
}

#[test]
fn folder_of_the_format_before_bundles_is_checked() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["widget-operator.clusterserviceversion.yaml", "widgets.crd.yaml"] {
        fs::create_dir_all(dir.path().join("1.2.0")).unwrap();
        fs::copy(format!("{EXAMPLE}/manifests/{name}"), dir.path().join("1.2.0").join(name)).unwrap();
    }
    let package = "packageName: widget-operator\nchannels: [{name: stable, currentCSV: widget-operator.v1.2.0}]\n";
    fs::write(dir.path().join("widget-operator.package.yaml"), package).unwrap();
    assert_eq!(check(dir.path()).unwrap(), []);
    fs::write(dir.path().join("widget-operator.package.yaml"), package.replace("v1.2.0", "v9")).unwrap();
    let found = check(dir.path()).unwrap();
    assert!(found[1].message.contains("no ClusterServiceVersion \"widget-operator.v9\""), "{found:?}");
}

#[test]
fn finding_is_one_line_with_its_place() {
    let found = check(without("manifests/widgets.crd.yaml").path()).unwrap();
    let line = line(&found[0]);
    let place = "manifests/widget-operator.clusterserviceversion.yaml:1: spec.customresourcedefinitions.owned[0]";
    assert!(
        line.starts_with(&format!("error: {place}: the bundle has no definition of widgets.example.com")),
        "{line}"
    );
    assert!(line.ends_with(" (Definition)\n"), "{line}");
}
