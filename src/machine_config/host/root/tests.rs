use super::*;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};

fn root() -> (tempfile::TempDir, Root) {
    let dir = tempfile::tempdir().unwrap();
    let root = Root::open(dir.path()).unwrap();
    (dir, root)
}

fn file(content: &str, mode: u32) -> State {
    let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    State::File { content: content.as_bytes().into(), mode, owner }
}

#[test]
fn what_is_put_is_there_with_its_mode_and_its_folders() {
    let (dir, root) = root();
    for state in
        [file("a", 0o640), file("", 0o600), State::Link { to: b"/dev/null".to_vec() }, file("b", 0o755), State::Absent]
    {
        root.put("/etc/deep/er/conf", &state).unwrap();
        assert_eq!(root.state("/etc/deep/er/conf").unwrap(), state);
        let names: Vec<_> =
            fs::read_dir(dir.path().join("etc/deep/er")).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names.len(), usize::from(state != State::Absent), "{names:?}");
    }
    assert_eq!(fs::metadata(dir.path().join("etc/deep")).unwrap().permissions().mode() & 0o7777, 0o755);
    root.put("/none/of/these", &State::Absent).unwrap();
    assert!(!dir.path().join("none").exists());
}

#[test]
fn what_is_so_already_is_not_written() {
    let (dir, root) = root();
    root.put("/a", &file("a", 0o644)).unwrap();
    let inode = || fs::metadata(dir.path().join("a")).unwrap().ino();
    let before = inode();
    root.put("/a", &file("a", 0o644)).unwrap();
    assert_eq!(inode(), before);
    root.put("/a", &file("a", 0o600)).unwrap();
    assert_ne!(inode(), before, "replaced as a whole");
}

#[test]
fn links_on_the_way_are_followed_inside_the_root_and_the_last_one_is_replaced() {
    let (dir, root) = root();
    fs::create_dir_all(dir.path().join("run/x")).unwrap();
    fs::create_dir(dir.path().join("var")).unwrap();
    symlink("/run", dir.path().join("var/run")).unwrap();
    symlink("../../../../..", dir.path().join("up")).unwrap();
    root.put("/var/run/x/a", &file("a", 0o644)).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("run/x/a")).unwrap(), "a");
    root.put("/up/escaped", &file("a", 0o644)).unwrap();
    assert!(dir.path().join("escaped").exists(), "as for a process whose root it is");
    fs::write(dir.path().join("kept"), "kept").unwrap();
    symlink("kept", dir.path().join("link")).unwrap();
    root.put("/link", &file("new", 0o644)).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("kept")).unwrap(), "kept");
}

#[test]
fn path_that_leads_elsewhere_is_refused() {
    let (_dir, root) = root();
    for path in ["", "/", "a", "a/b", "/a/", "/..", "/a/../b", "/a/.", "/a\0b"] {
        assert!(matches!(root.put(path, &file("a", 0o644)), Err(HostError::Path(named)) if named == path), "{path:?}");
    }
}

#[test]
fn what_cannot_be_written_is_named_and_leaves_nothing() {
    let (dir, root) = root();
    fs::write(dir.path().join("file"), "").unwrap();
    let error = root.put("/file/below", &file("a", 0o644)).unwrap_err().to_string();
    assert_eq!(error, "cannot open the folder of /file/below: Not a directory (os error 20)");
    fs::create_dir_all(dir.path().join("folder/inner")).unwrap();
    let error = root.put("/folder", &file("a", 0o644)).unwrap_err().to_string();
    assert_eq!(error, "/folder is neither a file nor a symbolic link");
    rustix::fs::mknodat(rustix::fs::CWD, dir.path().join("fifo"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)
        .unwrap();
    assert!(matches!(root.state("/fifo"), Err(HostError::Kind(_))), "it would block whoever reads it");
    let large = fs::File::create(dir.path().join("large")).unwrap();
    large.set_len(MAX_FILE_BYTES + 1).unwrap();
    assert!(matches!(root.state("/large"), Err(HostError::Large(_))));
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 4);
}

#[test]
fn what_an_interrupted_write_has_left_is_replaced() {
    let (dir, root) = root();
    fs::write(dir.path().join(".a.cvo-new"), "half").unwrap();
    root.put("/a", &file("whole", 0o644)).unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    fs::write(dir.path().join(".a.cvo-new"), "half").unwrap();
    root.remove_temporary("/a").unwrap();
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
}

/// A home, of which anything may be a link that its user has made.
fn home() -> (tempfile::TempDir, Root) {
    let (dir, root) = root();
    fs::create_dir_all(dir.path().join("var/home/core")).unwrap();
    symlink("var/home", dir.path().join("home")).unwrap();
    fs::create_dir_all(dir.path().join("etc/bash_completion.d")).unwrap();
    (dir, root)
}

fn is_empty(dir: &tempfile::TempDir, folder: &str) -> bool {
    fs::read_dir(dir.path().join(folder)).unwrap().next().is_none()
}

#[test]
fn links_that_a_user_makes_at_home_lead_nowhere() {
    let (dir, root) = home();
    let key = "/home/core/.ssh/authorized_keys.d/ignition";
    root.put(key, &file("key", 0o600)).unwrap();
    assert_eq!(fs::read_to_string(dir.path().join("var/home/core/.ssh/authorized_keys.d/ignition")).unwrap(), "key");
    root.put(key, &State::Absent).unwrap();
    let folder = dir.path().join("var/home/core/.ssh/authorized_keys.d");
    fs::remove_dir(&folder).unwrap();
    symlink("/etc/bash_completion.d", &folder).unwrap();
    fs::write(dir.path().join("etc/bash_completion.d/ignition"), "theirs").unwrap();
    for home in ["/home/core", "/var/home/core"] {
        let key = format!("{home}/.ssh/authorized_keys.d/ignition");
        let refused = |result: Result<(), HostError>| {
            assert!(matches!(&result, Err(HostError::LinkInHome(path)) if *path == key), "{result:?}");
        };
        refused(root.put(&key, &file("key", 0o600)));
        refused(root.put(&key, &State::Absent));
        refused(root.state(&key).map(drop));
        refused(root.missing_folders(&key).map(drop));
        refused(root.room(&key).map(drop));
        refused(root.remove_temporary(&key));
        assert_eq!(root.stamp(&key), None);
        root.make_folder(&format!("{home}/.ssh/authorized_keys.d"), 0o700, (0, 0)).unwrap_err();
    }
    assert_eq!(fs::read_to_string(dir.path().join("etc/bash_completion.d/ignition")).unwrap(), "theirs");
    // Whoever administers the node may have put the homes elsewhere.
    root.put("/home/core/.bashrc", &file("a", 0o644)).unwrap();
    assert!(dir.path().join("var/home/core/.bashrc").exists());
}

/// The user of the folder around is faster than the next call of this process.
#[test]
fn folder_that_is_exchanged_for_a_link_is_given_to_nobody() {
    let (dir, root) = home();
    let target = dir.path().join("etc/bash_completion.d");
    fs::set_permissions(&target, fs::Permissions::from_mode(0o711)).unwrap();
    let mode = || fs::metadata(&target).unwrap().permissions().mode() & 0o7777;
    let owner = (rustix::process::getuid().as_raw(), rustix::process::getgid().as_raw());
    for link in ["/etc/bash_completion.d".into(), target.clone()] {
        root.faults.exchange_for_link(link);
        root.make_folder("/home/core/.ssh", 0o700, owner).unwrap_err();
        fs::remove_file(dir.path().join("var/home/core/.ssh")).unwrap();
    }
    // The same of a folder above a file.
    root.faults.exchange_for_link("/etc/bash_completion.d".into());
    root.put("/srv/a/file", &file("a", 0o644)).unwrap_err();
    assert_eq!((mode(), is_empty(&dir, "etc/bash_completion.d")), (0o711, true));
    root.make_folder("/home/core/.ssh", 0o700, owner).unwrap();
    root.make_folder("/home/core/.ssh", 0o755, owner).unwrap();
    let made = fs::metadata(dir.path().join("var/home/core/.ssh")).unwrap();
    assert_eq!(made.permissions().mode() & 0o7777, 0o700, "one that exists stays as it is");
}
