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
    State::File { content: content.into(), mode, owner }
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
