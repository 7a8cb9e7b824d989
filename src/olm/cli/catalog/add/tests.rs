//! Bundles added to folders, and what stays of their files.

use super::super::tests::exit;
use super::*;
use tempfile::TempDir;

const EXAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/olm/bundle/tests/widgets");
const CATALOG: &str = "# The widgets.
---
schema: olm.package
name: widget-operator
defaultChannel: stable
---
schema: olm.channel # of all
package: widget-operator
name: stable
entries:
- name: widget-operator.v1.1.0
---
# Stays.
schema: olm.bundle
package: widget-operator
name: widget-operator.v1.1.0
image: registry.example.com/widgets:1.1.0
properties:
- type: olm.package
  value: {packageName: widget-operator, version: 1.1.0}";

fn catalog(text: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("configs")).unwrap();
    fs::write(dir.path().join("configs/all.yaml"), text).unwrap();
    dir
}

/// A bundle with another version, so that it has another name.
fn bundle(version: &str) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for file in crate::olm::net::bundle::files(Path::new(EXAMPLE)).unwrap() {
        let path = dir.path().join(file.path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let text = String::from_utf8(file.bytes).unwrap();
        fs::write(
            path,
            text.replace("name: widget-operator.v1.2.0", &format!("name: widget-operator.v{version}"))
                .replace("version: 1.2.0", &format!("version: {version}")),
        )
        .unwrap();
    }
    dir
}

fn added(dir: &Path, bundle: &str, flags: &[&str]) -> anyhow::Result<Exit> {
    let folder = dir.join("configs");
    let image = "--image=registry.example.com/widgets:new";
    exit(&folder, &[&["add", bundle, "--channel=stable", image], flags].concat())
}

fn read(dir: &Path) -> String {
    fs::read_to_string(dir.join("configs/all.yaml")).unwrap()
}

#[test]
fn entry_and_bundle_are_added_and_all_else_stays_as_it_is() {
    let dir = catalog(CATALOG);
    assert_eq!(added(dir.path(), EXAMPLE, &["--dry-run"]).unwrap(), Exit::Success);
    assert_eq!(read(dir.path()), CATALOG);
    assert_eq!(added(dir.path(), EXAMPLE, &[]).unwrap(), Exit::Success);
    let text = read(dir.path());
    let expected = CATALOG.replace("schema: olm.channel # of all\npackage: widget-operator\nname: stable", "schema: olm.channel\nname: stable\npackage: widget-operator")
        .replace("v1.1.0\n---\n#", "v1.1.0\n- name: widget-operator.v1.2.0\n  replaces: widget-operator.v1.1.0\n  skipRange: '>=1.0.0 <1.2.0'\n---\n#");
    assert!(
        text.starts_with(&format!("{expected}\n---\nschema: olm.bundle\nname: widget-operator.v1.2.0\n")),
        "{text}"
    );
    assert!(!text.contains("olm.bundle.object"), "{text}");
    assert_eq!(exit(&dir.path().join("configs"), &["validate"]).unwrap(), Exit::Success);
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing is left beside it");
    // Once more.
    assert_eq!(added(dir.path(), EXAMPLE, &[]).unwrap(), Exit::Refused);
    assert_eq!(read(dir.path()), text);
    let next = bundle("1.2.1");
    assert_eq!(added(dir.path(), next.path().to_str().unwrap(), &["--z-stream"]).unwrap(), Exit::Success);
    let last =
        "- name: widget-operator.v1.2.1\n  replaces: widget-operator.v1.1.0\n  skips:\n  - widget-operator.v1.2.0\n";
    assert!(read(dir.path()).contains(last), "{}", read(dir.path()));
}

#[test]
fn file_of_json_stays_one() {
    let dir = catalog("");
    let package = json!({"schema": "olm.package", "name": "widget-operator", "defaultChannel": "fast"});
    let channel = json!({"Schema": "olm.channel", "package": "widget-operator", "name": "fast", "Entries": [{"name": "widget-operator.v1.1.0"}]});
    let identity = json!({"type": "olm.package", "value": {"packageName": "widget-operator", "version": "1.1.0"}});
    let old = json!({"schema": "olm.bundle", "package": "widget-operator", "name": "widget-operator.v1.1.0", "image": "r/a", "properties": [identity]});
    fs::write(dir.path().join("configs/all.yaml"), format!("{package}{channel}{old}")).unwrap();
    let folder = dir.path().join("configs");
    // In a channel that exists, and the same bundle in one that does not.
    assert_eq!(exit(&folder, &["add", EXAMPLE, "--channel=fast"]).unwrap(), Exit::Success);
    assert_eq!(exit(&folder, &["add", EXAMPLE, "--channel=stable", "-o", "json"]).unwrap(), Exit::Success);
    let blobs: Vec<Value> =
        serde_json::Deserializer::from_str(&read(dir.path())).into_iter().map(Result::unwrap).collect();
    let names: Vec<&str> = blobs.iter().map(|blob| blob["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["widget-operator", "fast", "widget-operator.v1.1.0", "widget-operator.v1.2.0", "stable"]);
    assert_eq!(blobs[1]["entries"][1]["replaces"], "widget-operator.v1.1.0");
    assert_eq!(exit(&folder, &["validate"]).unwrap(), Exit::Success);
    let error = exit(&folder, &["add", EXAMPLE, "--channel=x", "--image=r.io/other:1"]).unwrap_err().to_string();
    assert!(error.contains("all.yaml, line 16: there is another olm.bundle widget-operator.v1.2.0, without an image and not with r.io/other:1"), "{error}");
}

#[test]
fn first_bundle_makes_package_and_channel() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(added(dir.path(), EXAMPLE, &["--dry-run"]).unwrap(), Exit::Success);
    assert_eq!(added(dir.path(), EXAMPLE, &[]).unwrap(), Exit::Success);
    let folder = dir.path().join("configs");
    let text = fs::read_to_string(folder.join("widget-operator/catalog.yaml")).unwrap();
    assert!(text.contains("  replaces: widget-operator.v1.1.0\n"), "as the ClusterServiceVersion says: {text}");
    assert_eq!(exit(&folder, &["validate"]).unwrap(), Exit::Success);
    assert_eq!(exit(&folder, &["show", "widget-operator"]).unwrap(), Exit::Success);
}

#[test]
fn refusal_changes_nothing() {
    let two = CATALOG.replace(
        "- name: widget-operator.v1.1.0\n---",
        "- name: widget-operator.v1.1.0\n  skips: [widget-operator.v1.0.0]\n---",
    );
    let dir = catalog(&two);
    assert_eq!(added(dir.path(), EXAMPLE, &["--replaces=widget-operator.v1.0.0"]).unwrap(), Exit::Refused);
    assert_eq!(added(dir.path(), EXAMPLE, &["--skip=widget-operator.v0"]).unwrap(), Exit::Refused);
    // Another one of that version.
    let twin = bundle("1.1.0-x");
    let path = twin.path().join("manifests/widget-operator.clusterserviceversion.yaml");
    let text = fs::read_to_string(&path).unwrap();
    fs::write(&path, text.replace("version: 1.1.0-x", "version: 1.1.0")).unwrap();
    let error = added(dir.path(), twin.path().to_str().unwrap(), &[]).unwrap_err().to_string();
    assert!(
        error.contains("with it the package widget-operator would have 1 fault, and nothing is changed: all.yaml:"),
        "{error}"
    );
    assert_eq!(read(dir.path()), two);
    fs::write(dir.path().join("configs/all.yaml"), two.replace("defaultChannel: stable", "defaultChannel: x")).unwrap();
    let error = added(dir.path(), EXAMPLE, &[]).unwrap_err().to_string();
    assert!(error.contains("the package widget-operator has faults: cvo catalog validate"), "{error}");
}
