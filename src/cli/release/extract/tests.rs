use super::*;

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn folder_is_written_completely_or_not_at_all() {
    let root = tempfile::tempdir().unwrap();
    let dir = root.path().join("out");
    let bad = [("a/b".to_string(), b"1".to_vec()), ("../c".to_string(), b"2".to_vec())];
    assert!(write_folder(&dir, bad).unwrap_err().to_string().contains("../c"));
    assert!(names(root.path()).is_empty(), "nothing may be left behind");

    let good = [("a/b".to_string(), b"1".to_vec()), ("a/c".to_string(), b"2".to_vec())];
    write_folder(&dir, good.clone()).unwrap();
    assert_eq!(names(&dir.join("a")), ["b", "c"]);
    assert_eq!(names(root.path()), ["out"]);
    let message = write_folder(&dir, good.clone()).unwrap_err().to_string();
    assert!(message.contains("not empty"), "{message}");

    let empty = root.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    write_folder(&empty, good).unwrap();
    assert_eq!(names(&empty), ["a"]);
}

#[test]
fn failed_write_leaves_nothing_behind() {
    let root = tempfile::tempdir().unwrap();
    let files = [("a".to_string(), Vec::new()), ("a/b".to_string(), Vec::new())];
    assert!(write_folder(&root.path().join("out"), files).is_err());
    assert!(names(root.path()).is_empty());
}

#[test]
fn folder_without_a_name_is_refused_before_any_work() {
    for dir in [".", "/", "..", "a/.."] {
        let message = check_target(Path::new(dir)).unwrap_err().to_string();
        assert!(message.contains("is not the name of a folder"), "{dir}: {message}");
    }
    check_target(Path::new("does-not-exist/here")).unwrap();
}
