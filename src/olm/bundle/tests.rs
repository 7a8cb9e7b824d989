//! Bundles, read from a small one of our own that is changed for each test.

mod channels;
mod fuzz;
mod properties;
mod reading;
mod real;
mod rendering;
mod unpackaged;

use super::*;
use serde_json::Value;
use std::path::Path;

const CSV_FILE: &str = "manifests/widget-operator.clusterserviceversion.yaml";
const CRD_FILE: &str = "manifests/widgets.crd.yaml";
const ANNOTATIONS_FILE: &str = "metadata/annotations.yaml";
const DEPENDENCIES_FILE: &str = "metadata/dependencies.yaml";
const PROPERTIES_FILE: &str = "metadata/properties.yaml";

/// The files of the example, sorted.
pub(crate) fn example() -> Vec<SourceFile> {
    files(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/olm/bundle/tests/widgets"))
}

/// All files of a folder, by their paths below it.
pub(crate) fn files(root: &Path) -> Vec<SourceFile> {
    let (mut found, mut folders) = (Vec::new(), vec![root.to_owned()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
                found.push(SourceFile { path: name, bytes: std::fs::read(path).unwrap() });
            }
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found
}

/// The example with one file in place of another, or besides the others.
pub(crate) fn with(path: &str, text: &str) -> Vec<SourceFile> {
    let mut files = example();
    files.retain(|file| file.path != path);
    files.push(SourceFile { path: path.to_owned(), bytes: text.as_bytes().to_vec() });
    files
}

pub(crate) fn without(path: &str) -> Vec<SourceFile> {
    let mut files = example();
    files.retain(|file| file.path != path);
    files
}

/// The example with a text in one of its files replaced.
pub(crate) fn replaced(path: &str, from: &str, to: &str) -> Vec<SourceFile> {
    let file = example().into_iter().find(|file| file.path == path).unwrap();
    let text = String::from_utf8(file.bytes).unwrap();
    assert!(text.contains(from), "{from:?} is not in {path}");
    with(path, &text.replace(from, to))
}

pub(crate) fn contents(files: &[SourceFile]) -> Contents {
    read::read(files, &BTreeMap::new()).unwrap()
}

pub(crate) fn bundle(files: &[SourceFile]) -> Bundle {
    contents(files).bundle().unwrap()
}

/// The values of the properties of a type.
fn values(bundle: &Bundle, kind: &str) -> Vec<Value> {
    bundle.all_properties().into_iter().filter(|it| it.kind == kind).map(|it| it.value).collect()
}

/// The findings as `file:line: place: message`.
fn told(findings: &[Finding]) -> Vec<String> {
    findings.iter().map(|it| format!("{}: {}", it.location(), it.message)).collect()
}
