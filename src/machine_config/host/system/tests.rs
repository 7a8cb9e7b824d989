use super::*;
use crate::machine_config::changes::changes;
use crate::machine_config::host::root::Root;
use serde_json::{Value, json};
use std::fs;

fn spec(fields: Value) -> MachineConfigSpec {
    serde_json::from_value(fields).unwrap()
}

fn refused(system: System, old: Value, new: Value) -> Option<String> {
    let (old, new) = (spec(old), spec(new));
    system.refusal(&changes(&old, &new).unwrap(), &new)
}

#[test]
fn operating_system_is_known_by_what_is_booted_and_installed() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    let put = |path: &str| {
        fs::create_dir_all(dir.path().join(path).parent().unwrap()).unwrap();
        fs::write(dir.path().join(path), "").unwrap();
    };
    put("usr/bin/bootc");
    put("usr/bin/rpm-ostree");
    assert_eq!(System::detect(&root), System::Plain, "installed, and not what was booted");
    put("run/ostree-booted");
    assert_eq!(System::detect(&root), System::RpmOstree);
    fs::remove_file(dir.path().join("usr/bin/rpm-ostree")).unwrap();
    assert_eq!(System::detect(&root), System::Bootc);
    fs::remove_file(dir.path().join("usr/bin/bootc")).unwrap();
    assert_eq!(System::detect(&root), System::Plain);
}

#[test]
fn change_that_the_operating_system_cannot_make_names_its_fields() {
    let all = json!({
        "osImageURL": "r/os@sha256:1", "kernelArguments": ["quiet"], "kernelType": "realtime",
        "extensions": ["usbguard"], "baseOSExtensionsContainerImage": "r/ext@sha256:2",
    });
    let fields = "osImageURL, baseOSExtensionsContainerImage, kernelArguments, kernelType, extensions";
    let plain = refused(System::Plain, json!({}), all.clone()).unwrap();
    assert!(plain.starts_with(&format!("the MachineConfig changes {fields}, and")), "{plain}");
    let bootc = refused(System::Bootc, json!({}), all.clone()).unwrap();
    let fields = "baseOSExtensionsContainerImage, kernelArguments, kernelType, extensions";
    assert!(bootc.starts_with(&format!("the MachineConfig changes {fields}, and bootc")), "{bootc}");
    assert_eq!(refused(System::RpmOstree, json!({}), all), None);
    assert_eq!(refused(System::Bootc, json!({}), json!({"osImageURL": "r/os@sha256:1"})), None);
    for system in [System::Plain, System::RpmOstree, System::Bootc] {
        assert_eq!(refused(system, json!({}), json!({})), None);
        let fips = refused(system, json!({}), json!({"fips": true})).unwrap();
        assert!(fips.starts_with("the MachineConfig changes fips, and"), "{fips}");
    }
    let gone = refused(System::RpmOstree, json!({"osImageURL": "r/os"}), json!({})).unwrap();
    assert!(gone.contains("no longer has an osImageURL"), "{gone}");
}

#[test]
fn image_is_known_by_its_name_or_its_digest() {
    assert!(is_image("r/os:1", "r/os:1", None));
    assert!(!is_image("r/os:1", "r/os:2", Some("sha256:1")));
    assert!(is_image("r/os@sha256:1", "mirror/os@sha256:1", None), "from a mirror");
    assert!(is_image("r/os@sha256:1", "mirror/os:latest", Some("sha256:1")));
    assert!(!is_image("r/os@sha256:1", "r/os@sha256:11", Some("sha256:11")));
}
