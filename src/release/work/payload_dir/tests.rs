use super::*;
use std::os::unix::fs::symlink;

fn folder() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir_all(dir.path().join("manifests/sub.yaml")).unwrap();
    fs::create_dir(dir.path().join("release-manifests")).unwrap();
    for (path, text) in [
        ("manifests/a.yaml", "a: 1\n"),
        ("manifests/notes.txt", "no"),
        ("manifests/sub.yaml/x.yaml", "x"),
        ("release-manifests/b.json", "{}"),
        ("release-manifests/release-metadata", "{}"),
        ("release-manifests/image-references", "{}"),
    ] {
        fs::write(dir.path().join(path), text).unwrap();
    }
    dir
}

fn names(files: &[SourceFile]) -> Vec<&str> {
    let mut names: Vec<_> = files.iter().map(|f| f.name.as_str()).collect();
    names.sort_unstable();
    names
}

#[test]
fn both_folders_are_read_without_other_files() {
    let dir = folder();
    let files = read(dir.path()).unwrap();
    assert_eq!(names(&files.own), ["a.yaml"]);
    assert_eq!(files.own[0].bytes, b"a: 1\n");
    assert_eq!(names(&files.release), ["b.json", "image-references", "release-metadata"]);
    assert_eq!(files.place, dir.path().display().to_string());
}

#[test]
fn missing_path_is_named() {
    let required =
        ["manifests", "release-manifests", "release-manifests/release-metadata", "release-manifests/image-references"];
    for missing in required {
        let dir = folder();
        let path = dir.path().join(missing);
        if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) }.unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains(&format!("not a release payload: {missing} is missing")), "{error}");
    }
}

#[test]
fn link_is_followed_inside_and_refused_outside() {
    let dir = folder();
    symlink("../manifests/a.yaml", dir.path().join("release-manifests/in.yaml")).unwrap();
    assert_eq!(read(dir.path()).unwrap().release.len(), 4);
    // A file next to the two folders is outside too.
    fs::write(dir.path().join("beside"), "a: 1").unwrap();
    symlink("../beside", dir.path().join("manifests/out.yaml")).unwrap();
    symlink("nowhere.yaml", dir.path().join("manifests/dangling.yaml")).unwrap();
    let unreadable = read(dir.path()).unwrap().unreadable;
    assert_eq!(unreadable.len(), 2, "{unreadable:?}");
    for words in ["dangling.yaml: ", "out.yaml is a link that leads out"] {
        assert!(unreadable.iter().any(|error| error.contains(words)), "{unreadable:?}");
    }

    let (dir, elsewhere) = (folder(), folder());
    fs::remove_dir_all(dir.path().join("manifests")).unwrap();
    symlink(elsewhere.path().join("manifests"), dir.path().join("manifests")).unwrap();
    assert!(matches!(read(dir.path()), Err(PayloadDirError::LinkOut { .. })));
}

#[test]
fn name_that_is_not_utf8_is_an_error_for_manifests_only() {
    use std::ffi::OsStr;
    let dir = folder();
    let odd = |name: &[u8]| fs::write(dir.path().join("manifests").join(OsStr::from_bytes(name)), "a: 1").unwrap();
    odd(b"\xff.txt");
    assert_eq!(read(dir.path()).unwrap().unreadable, Vec::<String>::new());
    odd(b"\xff.yaml");
    let unreadable = read(dir.path()).unwrap().unreadable;
    assert!(unreadable[0].contains("is not UTF-8"), "{unreadable:?}");
}

#[test]
fn large_and_special_files_are_refused() {
    let dir = folder();
    let large = dir.path().join("manifests/large.yaml");
    File::create(&large).unwrap().set_len(MAX_FILE + 1).unwrap();
    let place = large.display().to_string();
    let unreadable = |dir: &tempfile::TempDir| read(dir.path()).unwrap().unreadable.join("\n");
    assert!(unreadable(&dir).starts_with(&format!("{place} is larger than the")), "{}", unreadable(&dir));
    fs::remove_file(&large).unwrap();
    for number in 0..9 {
        let path = dir.path().join(format!("manifests/{number}.yaml"));
        File::create(path).unwrap().set_len(MAX_FILE - 1).unwrap();
    }
    let error = read(dir.path()).unwrap_err().to_string();
    assert!(error.contains("larger than the 33554432 bytes that a payload may have together"), "{error}");

    let dir = folder();
    for number in 0..MAX_ENTRIES {
        fs::write(dir.path().join(format!("manifests/{number}.txt")), "").unwrap();
    }
    for error in [read(dir.path()).map(drop), tree_hash(dir.path()).map(drop)].map(Result::unwrap_err) {
        assert!(error.to_string().contains("more than the 10000 entries"), "{error}");
    }

    let dir = folder();
    File::create(dir.path().join("manifests/a.bin")).unwrap().set_len(MAX_TOTAL).unwrap();
    assert!(matches!(tree_hash(dir.path()), Err(PayloadDirError::TotalTooLarge { .. })));

    let dir = folder();
    let socket = dir.path().join("manifests/s.yaml");
    let _listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    assert!(unreadable(&dir).contains("s.yaml is neither a file nor a folder"), "{}", unreadable(&dir));
    assert!(matches!(tree_hash(dir.path()), Err(PayloadDirError::Special { path }) if path == socket));
}

#[test]
fn tree_hash_changes_with_the_payload_only() {
    let (one, two) = (folder(), folder());
    let hash = |dir: &tempfile::TempDir| tree_hash(dir.path()).unwrap();
    let clean = hash(&one);
    assert_eq!(clean.len(), 64);
    assert_eq!(clean, hash(&two));
    fs::write(two.path().join("marker"), "x").unwrap();
    assert_eq!(clean, hash(&two));
    let changes: [fn(&Path); 5] = [
        |dir| fs::write(dir.join("manifests/a.yaml"), "a: 2\n").unwrap(),
        |dir| fs::write(dir.join("manifests/sub.yaml/y.yaml"), "").unwrap(),
        |dir| fs::rename(dir.join("manifests/a.yaml"), dir.join("manifests/A.yaml")).unwrap(),
        |dir| fs::create_dir(dir.join("release-manifests/empty")).unwrap(),
        |dir| symlink("b.json", dir.join("release-manifests/link")).unwrap(),
    ];
    let mut seen = vec![clean];
    for change in changes {
        let dir = folder();
        change(dir.path());
        let changed = hash(&dir);
        assert!(!seen.contains(&changed));
        seen.push(changed);
    }
    let error = tree_hash(Path::new("/nonexistent")).unwrap_err();
    let text = format!("{:#}", anyhow::Error::from(error));
    assert!(text.starts_with("cannot look at /nonexistent/manifests: "), "{text}");
    assert_eq!(text.matches("os error 2").count(), 1, "{text}");
}
