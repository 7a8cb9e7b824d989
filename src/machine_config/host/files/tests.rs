use super::*;
use crate::machine_config::api::machine_config::MachineConfigSpec;
use crate::machine_config::changes::{changes, everything};
use serde_json::{Value, json};
use std::fs;
use std::sync::Arc;
use tempfile::TempDir;

fn disk() -> (TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/passwd"), "root:x:0:0::/root:/bin/sh\ncore:x:1000:1001::/home/core:/bin/bash\n")
        .unwrap();
    fs::write(dir.path().join("etc/group"), "root:x:0:\nwheel:x:10:core\n").unwrap();
    fs::write(dir.path().join("etc/shadow"), "root:*:1:0:99999:7:::\ncore:old:19000:0:99999:7:::\n").unwrap();
    let root = Root::open(dir.path()).unwrap();
    (dir, root)
}

fn spec(config: &Value) -> MachineConfigSpec {
    MachineConfigSpec { config: config.clone(), ..MachineConfigSpec::default() }
}

fn writes_of(root: &Root, old: &Value, new: &Value) -> Result<Writes, FilesError> {
    let changes = changes(&spec(old), &spec(new)).unwrap();
    writes(root, &changes, &Ignition::read(new).unwrap().ignition)
}

fn with_file(file: &Value) -> Value {
    json!({"ignition": {"version": "3.5.0"}, "storage": {"files": [file]}})
}

fn with_user(user: &Value) -> Value {
    json!({"ignition": {"version": "3.5.0"}, "passwd": {"users": [user]}})
}

const EMPTY: Value = Value::Null;

#[test]
fn owners_are_looked_up_on_the_node() {
    let (_dir, root) = disk();
    let owned = |user: &str, group: &str| {
        let file = json!({"path": "/etc/x", "contents": {"source": "data:,x"},
            "user": {"name": user}, "group": {"name": group}});
        writes_of(&root, &EMPTY, &with_file(&file))
    };
    let State::File { owner, mode, .. } = owned("core", "wheel").unwrap().states["/etc/x"].clone() else { panic!() };
    assert_eq!((owner, mode), ((1000, 10), 0o644));
    let error = owned("nobody-here", "wheel").unwrap_err().to_string();
    assert!(error.starts_with("/etc/x: the user \"nobody-here\" does not exist on the node"), "{error}");
}

#[test]
fn keys_get_a_file_that_only_their_user_reads() {
    let (_dir, root) = disk();
    let keys = |keys: &[&str]| with_user(&json!({"name": "core", "sshAuthorizedKeys": keys}));
    let written = writes_of(&root, &EMPTY, &keys(&["ssh-ed25519 A", "ssh-ed25519 B"])).unwrap();
    let content = b"ssh-ed25519 A\nssh-ed25519 B\n".as_slice().into();
    let expected = State::File { content, mode: 0o600, owner: (1000, 1001) };
    assert_eq!(written.states[SSH_KEYS], expected);
    let folders = written.folders.iter().map(|folder| (folder.path, folder.mode, folder.owner));
    assert!(folders.eq(SSH_FOLDERS.map(|path| (path, 0o700, (1000, 1001)))));
    let removed = writes_of(&root, &keys(&["ssh-ed25519 A"]), &EMPTY).unwrap();
    assert_eq!((removed.states[SSH_KEYS].clone(), removed.folders), (State::Absent, Vec::new()));
}

#[test]
fn password_takes_one_field_of_one_line() {
    let (_dir, root) = disk();
    let hash = |hash: &str| with_user(&json!({"name": "core", "passwordHash": hash}));
    let shadow = |old: &Value, new: &Value| match writes_of(&root, old, new).unwrap().states[SHADOW].clone() {
        State::File { content, .. } => String::from_utf8(content.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    let set = shadow(&EMPTY, &hash("$6$new"));
    assert_eq!(set, "root:*:1:0:99999:7:::\ncore:$6$new:19000:0:99999:7:::\n");
    assert!(shadow(&hash("$6$new"), &EMPTY).contains("\ncore:*:19000:"));
    let error = with_password(b"core:x:1\n", "a:b").unwrap_err().to_string();
    assert!(error.contains("colon") && !error.contains("a:b"), "{error}");
    assert!(matches!(with_password(b"root:x:1\n", "a"), Err(FilesError::NoUser)));
}

#[test]
fn passwords_that_others_change_outlive_the_way_back() {
    let file = |text: &str| State::File { content: text.as_bytes().into(), mode: 0o600, owner: (0, 0) };
    let (before, after) = ("ops:old:1::\ncore:mine:2::\n", "ops:new:9::\ncore:theirs:2::\nadded:x:9::\n");
    let merged = restored(SHADOW, file(after), file(before));
    assert_eq!(merged, file("ops:new:9::\ncore:mine:2::\nadded:x:9::\n"));
    assert_eq!(restored("/etc/other", file(after), file(before)), file(before));
    assert_eq!(restored(SHADOW, State::Absent, file(before)), file(before), "somebody has removed it");
    let without = file("ops:new:9::\n");
    assert_eq!(restored(SHADOW, without.clone(), file(before)), without, "the user was removed meanwhile");
}

#[test]
fn certificates_that_are_renewed_are_only_written_first() {
    let (dir, root) = disk();
    let path = RENEWED[0];
    let config = with_file(&json!({"path": path, "contents": {"source": "data:,first"}}));
    assert!(writes_of(&root, &EMPTY, &config).unwrap().states.contains_key(path));
    fs::create_dir_all(dir.path().join("etc/kubernetes")).unwrap();
    fs::write(dir.path().join(&path[1..]), "renewed").unwrap();
    assert_eq!(writes_of(&root, &EMPTY, &config).unwrap(), Writes::default());
    assert_eq!(writes_of(&root, &config, &EMPTY).unwrap(), Writes::default());
}

#[test]
fn file_that_becomes_a_drop_in_of_a_unit_stays() {
    let (_dir, root) = disk();
    let path = "/etc/systemd/system/a.service.d/x.conf";
    let old = with_file(&json!({"path": path, "contents": {"source": "data:,file"}}));
    let units = json!([{"name": "a.service", "dropins": [{"name": "x.conf", "contents": "unit"}]}]);
    let new = json!({"ignition": {"version": "3.5.0"}, "systemd": {"units": units}});
    for (old, new) in [(&old, &new), (&new, &old)] {
        let written = writes_of(&root, old, new).unwrap();
        assert!(matches!(written.states[path], State::File { .. }), "{written:?}");
    }
}

#[test]
fn enablement_follows_what_changes() {
    let (dir, root) = disk();
    fs::create_dir_all(dir.path().join("usr/lib/systemd/system")).unwrap();
    for name in ["there.service", "many@.service", "own.service", "also.service"] {
        fs::write(dir.path().join("usr/lib/systemd/system").join(name), "").unwrap();
    }
    let unit = |fields: Value| -> Option<Unit> { serde_json::from_value(fields).unwrap() };
    let change = |name: &str, old: Value, new: Value| UnitChange { name: name.into(), old: unit(old), new: unit(new) };
    let units = [
        change("there.service", Value::Null, json!({"enabled": true})),
        change("many@1.service", Value::Null, json!({"enabled": true})),
        change("missing.service", Value::Null, json!({"enabled": true})),
        change("brought.service", Value::Null, json!({"enabled": false, "contents": "[Unit]"})),
        change("gone.service", json!({"enabled": true}), Value::Null),
        change("masked.service", json!({"enabled": true}), json!({"enabled": true, "mask": true})),
        change("left.service", json!({"enabled": true, "contents": "a"}), json!({"contents": "a"})),
        change("own.service", json!({"enabled": false}), Value::Null),
        change("also.service", json!({"enabled": true}), Value::Null),
        change("neither.service", json!({"enabled": false}), Value::Null),
    ];
    let expected = Enablement {
        disable_first: vec!["gone.service".into(), "masked.service".into(), "also.service".into()],
        enable: vec!["there.service".into(), "many@1.service".into()],
        disable: vec!["brought.service".into()],
        preset: vec!["left.service".into(), "own.service".into(), "also.service".into()],
    };
    assert_eq!(enablement(&root, &units), expected);
    let back = enablement(&root, &reversed(&units));
    assert_eq!(back.disable_first, ["there.service", "many@1.service", "missing.service"]);
}

/// A configuration may have 64 MiB of files, and the agent is to get by with 256 MiB.
#[test]
fn contents_are_in_memory_once_however_many_steps_look_at_them() {
    let (_dir, root) = disk();
    let file = |path: &str, text: &str| json!({"path": path, "contents": {"source": format!("data:,{text}")}});
    let config = |files: Vec<Value>| json!({"ignition": {"version": "3.5.0"}, "storage": {"files": files}});
    let old = config(vec![file("/etc/gone", "g"), file("/etc/same", "s"), file("/etc/other", "1")]);
    let new = config(vec![file("/etc/same", "s"), file("/etc/other", "2")]);
    let mut all = everything(&spec(&old), &spec(&new)).unwrap();
    let paths = all.files.iter().map(|file| (file.path.as_str(), file.new.is_some()));
    assert!(paths.eq([("/etc/gone", false), ("/etc/other", true), ("/etc/same", true)]));
    let (before, after) = (all.files[2].old.clone().unwrap(), all.files[2].new.clone().unwrap());
    assert!(Arc::ptr_eq(&before.contents, &after.contents), "what is the same in both is decoded once");
    let written = writes(&root, &all, &Ignition::read(&new).unwrap().ignition).unwrap();
    for file in all.files.iter().filter(|file| file.new.is_some()) {
        let State::File { content, .. } = &written.states[&file.path] else { panic!("{}", file.path) };
        assert!(Arc::ptr_eq(content, &file.new.as_ref().unwrap().contents), "{}", file.path);
    }
    drop(written);
    all.drop_contents();
    assert_eq!((Arc::strong_count(&before.contents), all.files.len()), (2, 3), "both are of this test");
}
