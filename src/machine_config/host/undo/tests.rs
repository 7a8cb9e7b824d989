use super::*;
use crate::machine_config::host::tree::Tree;
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const FOLDER: &str = "/var/lib/undo";

/// All below except for what belongs to the undo.
fn tree(root: &Path) -> Tree {
    crate::machine_config::host::tree::tree(root, |name| name.starts_with("var"))
}

fn state() -> impl Strategy<Value = State> {
    let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    let file = (prop::collection::vec(any::<u8>(), 0..20), prop::sample::select(vec![0o600, 0o644, 0o755, 0o400]));
    prop_oneof![
        Just(State::Absent),
        Just(State::Link { to: b"/dev/null".to_vec() }),
        file.prop_map(move |(content, mode)| State::File { content: content.into(), mode, owner }),
    ]
}

/// Paths of which some are below folders that do not exist.
fn path() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["/a", "/etc/b", "/etc/c", "/etc/d/e", "/etc/d/f", "/new/g", "/new/deep/h"])
        .prop_map(Into::into)
}

proptest! {
    /// `until`: after so many changes the process is killed, or one fails.
    #[test]
    fn tree_is_the_same_after_a_change_that_was_interrupted_anywhere(
        before in prop::collection::btree_map(path(), state(), 0..7),
        after in prop::collection::btree_map(path(), state(), 1..7),
        until in 0..7_usize,
        restored_twice: bool,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        fs::create_dir(dir.path().join("etc")).unwrap();
        for (path, state) in &before {
            root.put(path, state).unwrap();
        }
        let found = tree(dir.path());
        let paths: Vec<String> = after.keys().cloned().collect();
        save(&root, FOLDER, &paths).unwrap();
        for (path, state) in after.iter().take(until) {
            root.put(path, state).unwrap();
        }
        if let Some(path) = after.keys().nth(until) {
            // Killed in the middle of this one.
            let (folder, name) = path.rsplit_once('/').unwrap();
            let folder = dir.path().join(folder.trim_start_matches('/'));
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join(format!(".{name}.cvo-new")), "half").unwrap();
        }
        restore(&root, FOLDER).unwrap();
        if restored_twice {
            restore(&root, FOLDER).unwrap();
        }
        prop_assert_eq!(tree(dir.path()), found);
        discard(&root, FOLDER).unwrap();
        prop_assert!(!dir.path().join("var/lib/undo").exists());
        restore(&root, FOLDER).unwrap();
    }
}

#[test]
fn folder_that_others_use_meanwhile_stays() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    save(&root, FOLDER, &["/new/a".into()]).unwrap();
    root.put("/new/a", &State::Link { to: b"x".to_vec() }).unwrap();
    fs::write(dir.path().join("new/other"), "theirs").unwrap();
    restore(&root, FOLDER).unwrap();
    assert_eq!(tree(dir.path()).keys().collect::<Vec<_>>(), ["new", "new/other"]);
}

#[test]
fn what_is_saved_is_read_by_its_owner_alone_and_a_half_saved_one_is_never_restored() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    fs::write(dir.path().join("key"), "secret").unwrap();
    fs::set_permissions(dir.path().join("key"), fs::Permissions::from_mode(0o600)).unwrap();
    save(&root, FOLDER, &["/key".into()]).unwrap();
    let stored = dir.path().join("var/lib/undo/0.saved");
    assert_eq!(fs::metadata(&stored).unwrap().permissions().mode() & 0o777, 0o600);
    fs::write(dir.path().join("key"), "new").unwrap();
    fs::remove_file(dir.path().join("var/lib/undo/index.json")).unwrap();
    restore(&root, FOLDER).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("key")).unwrap(), "new");
    save(&root, FOLDER, &["/other".into()]).unwrap();
    assert!(!stored.exists(), "what was left of the other one");
}

#[test]
fn index_or_content_that_was_tampered_with_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    fs::write(dir.path().join("a"), "a").unwrap();
    save(&root, FOLDER, &["/a".into()]).unwrap();
    fs::remove_file(dir.path().join("var/lib/undo/0.saved")).unwrap();
    let error = restore(&root, FOLDER).unwrap_err().to_string();
    assert!(error.contains("/var/lib/undo/0.saved") && error.contains("it is gone"), "{error}");
    fs::write(dir.path().join("var/lib/undo/index.json"), "{").unwrap();
    let error = restore(&root, FOLDER).unwrap_err().to_string();
    assert!(error.contains("/var/lib/undo/index.json of what was saved cannot be read"), "{error}");
}
