use super::*;
use serde_json::{Value, json};

fn spec(sections: Value) -> MachineConfigSpec {
    let mut config = json!({"ignition": {"version": "3.5.0"}});
    config.as_object_mut().unwrap().extend(sections.as_object().unwrap().clone());
    MachineConfigSpec { config, ..MachineConfigSpec::default() }
}

fn files(files: Value) -> MachineConfigSpec {
    spec(json!({"storage": {"files": files}}))
}

fn of(old: &MachineConfigSpec, new: &MachineConfigSpec) -> Changes {
    changes(old, new).unwrap()
}

fn fields(fields: Value) -> MachineConfigSpec {
    serde_json::from_value(fields).unwrap()
}

#[test]
fn two_ways_of_writing_the_same_are_no_change() {
    let old = json!({
        "storage": {"files": [
            {"path": "/a", "contents": {"source": "data:,hello%20world"}, "mode": 420},
            {"path": "/b", "contents": {"source": "data:;base64,H4sIAAAAAAAC/wMAAAAAAAAAAAA=", "compression": "gzip"}},
            {"path": "/c", "user": {"name": "root"}, "group": {"id": 0}, "overwrite": true},
        ]},
        "systemd": {"units": [
            {"name": "a.service", "mask": false, "dropins": [{"name": "2.conf", "contents": "2"}, {"name": "1.conf"}]},
        ]},
    });
    let new = json!({
        "storage": {"files": [
            {"path": "/c", "user": {"id": 0}},
            {"path": "/b", "contents": {"source": "data:,"}},
            {"path": "/a", "contents": {"source": "data:;base64,aGVsbG8gd29ybGQ="}},
        ]},
        "systemd": {"units": [{"name": "a.service", "dropins": [{"name": "1.conf"}, {"name": "2.conf", "contents": "2"}]}]},
    });
    let (mut old, mut new) = (spec(old), spec(new));
    (old.kernel_type, new.kernel_type) = (String::new(), "default".to_owned());
    (old.kernel_arguments, new.kernel_arguments) = (vec!["a b".to_owned()], vec!["a".to_owned(), "b".to_owned()]);
    (old.extensions, new.extensions) =
        (vec!["ipsec".to_owned(), "usbguard".to_owned()], ["usbguard", "ipsec", "ipsec"].map(str::to_owned).to_vec());
    let changes = of(&old, &new);
    assert!(changes.is_empty(), "{changes:?}");
}

#[test]
fn files_are_written_with_their_new_state_and_removed_without_one() {
    let file = |path: &str, text: &str, mode: u32| json!({"path": path, "contents": {"source": format!("data:,{text}")}, "mode": mode});
    let old = files(json!([
        file("/same", "a", 420),
        file("/text", "a", 420),
        file("/mode", "a", 420),
        file("/old", "a", 420)
    ]));
    let new = files(json!([
        file("/new", "a", 420),
        file("/mode", "a", 384),
        file("/text", "b", 420),
        file("/same", "a", 420)
    ]));
    let state = |text: &str, mode| {
        let owner = Owner { id: Some(0), name: None };
        FileState { contents: text.as_bytes().into(), mode, user: owner.clone(), group: owner }
    };
    let change = |path: &str, old, new| FileChange { path: path.to_owned(), old, new };
    let expected = Changes {
        files: vec![
            change("/mode", Some(state("a", 0o644)), Some(state("a", 0o600))),
            change("/new", None, Some(state("a", 0o644))),
            change("/old", Some(state("a", 0o644)), None),
            change("/text", Some(state("a", 0o644)), Some(state("b", 0o644))),
        ],
        ..Changes::default()
    };
    assert_eq!(of(&old, &new), expected);
    let owner = files(json!([{"path": "/a", "user": {"name": "core"}}]));
    assert_eq!(of(&files(json!([{"path": "/a"}])), &owner).files.len(), 1);
}

#[test]
fn what_is_appended_belongs_to_the_contents() {
    let appended = files(json!([{"path": "/a", "contents": {"source": "data:,a"}, "append": [{"source": "data:,b"}]}]));
    assert!(of(&appended, &files(json!([{"path": "/a", "contents": {"source": "data:,ab"}}]))).is_empty());
    assert!(!of(&appended, &files(json!([{"path": "/a", "contents": {"source": "data:,a"}}]))).is_empty());
}

#[test]
fn contents_of_files_do_not_show_in_debug_output() {
    let changes = of(&files(json!([])), &files(json!([{"path": "/a", "contents": {"source": "data:,secret"}}])));
    let text = format!("{changes:?}");
    assert!(text.contains("6 bytes, mode 644") && !text.contains("secret") && !text.contains("115"), "{text}");
}

#[test]
fn units_are_added_changed_removed_and_enabled() {
    let units = |units: Value| spec(json!({"systemd": {"units": units}}));
    let old = units(json!([
        {"name": "same.service", "contents": "a"},
        {"name": "text.service", "contents": "a", "enabled": true},
        {"name": "off.service", "enabled": true},
        {"name": "mask.service"},
        {"name": "old.service"},
        {"name": "dropin.service", "dropins": [{"name": "a.conf", "contents": "a"}]},
    ]));
    let new = units(json!([
        {"name": "same.service", "contents": "a"},
        {"name": "text.service", "contents": "b", "enabled": true},
        {"name": "off.service", "enabled": false},
        {"name": "mask.service", "mask": true},
        {"name": "new.service"},
        {"name": "dropin.service", "dropins": [{"name": "a.conf", "contents": "b"}]},
    ]));
    let changes = of(&old, &new);
    let found: Vec<_> = changes
        .units
        .iter()
        .map(|unit| (unit.name.as_str(), unit.old.is_some(), unit.new.is_some(), unit.enablement_changes()))
        .collect();
    assert_eq!(
        found,
        [
            ("dropin.service", true, true, false),
            ("mask.service", true, true, false),
            ("new.service", false, true, false),
            ("off.service", true, true, true),
            ("old.service", true, false, false),
            ("text.service", true, true, false),
        ]
    );
    assert_eq!(Changes { units: Vec::new(), ..changes }, Changes::default());
}

#[test]
fn keys_and_passwords_change_apart() {
    let core = |keys: Value, hash: Value| {
        spec(json!({"passwd": {"users": [{"name": "core", "sshAuthorizedKeys": keys, "passwordHash": hash}]}}))
    };
    let old = core(json!(["a"]), Value::Null);
    let keys = of(&old, &core(json!(["a", "b"]), Value::Null));
    let expected = Change { old: vec!["a".to_owned()], new: vec!["a".to_owned(), "b".to_owned()] };
    assert_eq!(keys, Changes { ssh_keys: Some(expected), ..Changes::default() });
    let password = of(&old, &core(json!(["a"]), json!("$6$secret")));
    assert_eq!(password, Changes { password: true, ..Changes::default() });
    assert!(!format!("{password:?}").contains("secret"));
}

#[test]
fn links_can_be_removed() {
    let old = spec(json!({"storage": {"links": [{"path": "/a", "target": "/b"}, {"path": "/c", "target": "/d"}]}}));
    let new = spec(json!({"storage": {"links": [{"path": "/c", "target": "/d"}]}}));
    assert_eq!(of(&old, &new), Changes { links_removed: vec!["/a".to_owned()], ..Changes::default() });
}

#[test]
fn the_operating_system_the_kernel_and_its_arguments_change() {
    let old = fields(json!({
        "osImageURL": "a", "kernelType": "realtime", "kernelArguments": ["a b", "a", "c"], "extensions": ["ipsec"],
    }));
    let new = fields(json!({
        "osImageURL": "b", "kernelArguments": ["c a", "d"], "extensions": ["usbguard"], "fips": true,
    }));
    let list = |removed: &[&str], added: &[&str]| ListChange {
        removed: removed.iter().map(|item| (*item).to_owned()).collect(),
        added: added.iter().map(|item| (*item).to_owned()).collect(),
    };
    let text = |old: &str, new: &str| Some(Change { old: old.to_owned(), new: new.to_owned() });
    assert_eq!(
        of(&old, &new),
        Changes {
            os_image: text("a", "b"),
            kernel_type: text("realtime", "default"),
            kernel_arguments: Some(list(&["b", "a"], &["d"])),
            extensions: Some(list(&["ipsec"], &["usbguard"])),
            fips: Some(Change { old: false, new: true }),
            ..Changes::default()
        }
    );
    let reordered = of(&fields(json!({"kernelArguments": ["a", "b"]})), &fields(json!({"kernelArguments": ["b a"]})));
    assert_eq!(reordered.kernel_arguments, Some(list(&[], &[])));
}

#[test]
fn the_extensions_image_matters_only_to_nodes_with_packages_of_it() {
    let image = |image: &str, other: Value| {
        let mut fields = json!({"baseOSExtensionsContainerImage": image});
        fields.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        self::fields(fields)
    };
    assert!(of(&image("a", json!({})), &image("b", json!({}))).is_empty());
    for other in [json!({"extensions": ["ipsec"]}), json!({"kernelType": "realtime"})] {
        let changes = of(&image("a", other.clone()), &image("b", other));
        assert_eq!(changes.extensions_image, Some(Change { old: "a".to_owned(), new: "b".to_owned() }));
    }
}

#[test]
fn kernel_arguments_are_split_at_spaces_outside_of_quotes() {
    let entries = ["  a=1  b ", "dyndbg=\"file a +p ; file b\" c", "", "\"d e"].map(str::to_owned);
    assert_eq!(kernel_arguments(&entries), ["a=1", "b", "dyndbg=\"file a +p ; file b\"", "c", "\"d e"]);
}

#[test]
fn a_configuration_that_cannot_be_read_is_named() {
    let good = files(json!([]));
    let bad = files(json!([{"path": "a"}]));
    assert!(changes(&bad, &good).unwrap_err().to_string().starts_with(
        "cannot read the old rendered configuration: storage.files[a].path is the path \"a\", which is not absolute"
    ));
    assert!(changes(&good, &bad).unwrap_err().to_string().starts_with("cannot read the new rendered configuration: "));
}

#[test]
fn only_an_operating_system_and_packages_are_large() {
    let of = |image: &str, extensions: &[&str], packages: &str, kernel: &str| {
        fields(json!({
            "osImageURL": image, "extensions": extensions, "baseOSExtensionsContainerImage": packages, "kernelType": kernel,
        }))
    };
    let old = of("os@1", &[], "packages@1", "");
    for (new, expected) in [
        (of("os@1", &[], "packages@1", ""), false),
        (of("os@2", &[], "packages@1", ""), true),
        (of("", &[], "packages@1", ""), false),
        (of("os@1", &[], "packages@2", ""), false),
        (of("os@1", &["usbguard"], "packages@1", ""), true),
        (of("os@1", &[], "packages@1", "realtime"), true),
        (of("os@1", &[], "packages@1", "default"), false),
    ] {
        assert_eq!(downloads(&old, &new), expected, "{new:?}");
    }
    assert!(downloads(&of("os", &["usbguard"], "packages@1", ""), &of("os", &["usbguard"], "packages@2", "")));
}
