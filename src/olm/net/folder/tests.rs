use super::*;
use crate::olm::catalog::index::Package;
use std::os::unix::fs::symlink;
use tempfile::TempDir;

/// A folder with these files.
fn folder(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    dir
}

/// A package without faults.
fn package(name: &str) -> String {
    format!(
        "---\nschema: olm.package\nname: {name}\ndefaultChannel: x\n---\n{{\"schema\": \"olm.channel\", \"package\": \"{name}\", \
         \"name\": \"x\", \"entries\": [{{\"name\": \"{name}.v1\"}}]}}\n---\nschema: olm.bundle\npackage: {name}\nname: {name}.v1\n\
         image: a/b\nproperties:\n- type: olm.package\n  value: {{packageName: {name}, version: 1.0.0}}\n"
    )
}

/// Packages and faults.
fn found(dir: &Path) -> Vec<String> {
    let catalog = read(dir, Vec::new()).unwrap();
    let served = catalog.index.packages().map(|it| Package::name(it).to_owned());
    let faults = catalog.faults.iter().map(|it| format!("{}:{} {}", it.file, it.line, it.reason));
    served.chain(faults).collect()
}

#[test]
fn every_file_of_every_folder_is_read_whatever_its_name() {
    let texts = ["a", "b", "c", "d"].map(package);
    let names = ["a.yaml", "b/b.yml", "b/c/c.json", "d"];
    let files: Vec<_> = names.into_iter().zip(texts.iter().map(String::as_str)).collect();
    assert_eq!(found(folder(&files).path()), ["a", "b", "c", "d"]);
}

#[test]
fn files_that_are_excluded_are_not_read() {
    let (a, b) = (package("a"), package("b"));
    let dir = folder(&[
        (".indexignore", "*.md\n/docs\nold/*\n!old/b.yaml\n"),
        ("a.yaml", &a),
        ("README.md", "- no blob"),
        ("docs/x.yaml", "- no blob"),
        ("old/x.yaml", "- no blob"),
        ("old/b.yaml", &b),
        ("sub/.indexignore", "x.yaml\n"),
        ("sub/x.yaml", "- no blob"),
        ("sub/deep/x.yaml", "- no blob"),
    ]);
    assert_eq!(found(dir.path()), ["a", "b"]);
}

#[test]
fn line_of_patterns_may_end_with_a_carriage_return_also_the_last_one() {
    let dir = folder(&[
        (".indexignore", "x.md\r\n!z\r\ny.md\r"),
        ("a", &package("a")),
        ("x.md", "- no blob"),
        ("y.md", "- no blob"),
        ("z", &package("z")),
    ]);
    assert_eq!(found(dir.path()), ["a", "z"]);
}

/// Of folders that are left out nothing is read, also not their patterns.
#[test]
fn patterns_of_a_folder_that_is_excluded_do_not_count() {
    let dir =
        folder(&[(".indexignore", "old\n"), ("old/.indexignore", "{\n"), ("old/x", "- no blob"), ("a", &package("a"))]);
    assert_eq!(found(dir.path()), ["a"]);
}

#[test]
fn files_that_only_other_tools_exclude_are_read() {
    let dir = folder(&[(".gitignore", "schema: x\n"), (".ignore", "schema: x\n"), (".hidden/a", &package("a"))]);
    fs::create_dir(dir.path().join(".git")).unwrap();
    assert_eq!(found(dir.path()), ["a"]);
}

#[test]
fn exclusions_above_the_catalog_do_not_count() {
    let dir = folder(&[(".indexignore", "*"), ("catalog/a", &package("a"))]);
    assert_eq!(found(&dir.path().join("catalog")), ["a"]);
}

#[test]
fn patterns_that_cannot_be_read_are_a_fault() {
    let dir = folder(&[("a/.indexignore", "{\n"), ("a/a", &package("a")), ("b/b", &package("b"))]);
    let found = found(dir.path());
    assert_eq!(found.len(), 3, "{found:?}");
    let fault = "a/.indexignore:0 its patterns cannot be read: line 1: ";
    assert!(found[0] == "b" && found[1].starts_with(fault), "{found:?}");
}

/// Others of the same file count.
#[test]
fn pattern_that_is_no_text_is_a_fault_of_its_line() {
    let dir = folder(&[("a/x", &package("a")), ("b/b", &package("b"))]);
    fs::write(dir.path().join("a/.indexignore"), b"x\n\xff\n").unwrap();
    let found = found(dir.path());
    let fault = "a/.indexignore:0 its patterns cannot be read: line 2: it is not UTF-8 text";
    assert!(found.len() == 2 && found[0] == "b" && found[1].starts_with(fault), "{found:?}");
}

#[test]
fn patterns_that_would_take_much_memory_are_not_compiled() {
    let patterns = |number: usize| format!("**/a*{number}*[b-z]?*\n");
    let many: String = (0..1000).map(patterns).collect();
    assert!(many.len() > MAX_PATTERNS / 2 && many.len() < MAX_PATTERNS);
    let one = folder(&[("a/.indexignore", &many), ("b/b", &package("b"))]);
    assert_eq!(found(one.path()), ["b"]);
    let two = folder(&[("a/.indexignore", &many), ("b/.indexignore", &many), ("b/b", &package("b"))]);
    let found = found(two.path());
    assert!(found.len() == 1 && found[0].contains("/.indexignore:0 with it the patterns"), "{found:?}");
}

#[test]
fn links_are_followed_inside_the_catalog_only() {
    let outside = folder(&[("a", &package("a"))]);
    let dir = folder(&[("b/b", &package("b")), ("c/c", &package("c"))]);
    let link = |to: &Path, name: &str| symlink(to, dir.path().join(name)).unwrap();
    link(&outside.path().join("a"), "out");
    link(outside.path(), "folder-out");
    link(&dir.path().join("b"), "folder-in");
    link(&dir.path().join("nothing"), "gone");
    fs::write(dir.path().join(".indexignore"), "/c\n").unwrap();
    fs::create_dir(dir.path().join("d")).unwrap();
    link(&dir.path().join("c/c"), "d/in");
    let found = found(dir.path());
    assert_eq!(found[..2], ["b", "c"]);
    assert_eq!(found.len(), 6, "{found:#?}");
    assert!(found[2].starts_with("folder-in:0 it is a link to a folder"), "{found:#?}");
    assert!(found[3].starts_with("folder-out:0 it is a link that leads out"), "{found:#?}");
    assert!(found[4].starts_with("gone:0 it cannot be read: No such file"), "{found:#?}");
    assert!(found[5].starts_with("out:0 it is a link that leads out"), "{found:#?}");
}

#[test]
fn link_that_is_excluded_is_no_fault() {
    let dir = folder(&[("a", &package("a")), (".indexignore", "out\n")]);
    symlink("/etc/passwd", dir.path().join("out")).unwrap();
    assert_eq!(found(dir.path()), ["a"]);
}

#[test]
fn what_is_no_file_is_a_fault() {
    let dir = folder(&[("a/a", &package("a"))]);
    let _listener = std::os::unix::net::UnixListener::bind(dir.path().join("socket")).unwrap();
    assert_eq!(
        found(dir.path()),
        ["a", "socket:0 it is neither a file nor a folder; remove it, or name it in .indexignore"]
    );
}

#[test]
fn no_more_files_are_listed_than_a_catalog_may_have() {
    let dir = folder(&[("a", ""), ("b", ""), ("c/d", ""), ("c/e", ""), ("f", "")]);
    assert_eq!([2, 4, 5].map(|limit| files(dir.path(), limit).len()), [3, 5, 5]);
}

#[test]
fn one_file_may_be_the_catalog() {
    let dir = folder(&[("a", &package("a")), ("b", "- no blob")]);
    assert_eq!(found(&dir.path().join("a")), ["a"]);
    let found = found(&dir.path().join("b"));
    assert!(found[0].starts_with("b:1 a blob must be an object"), "{found:?}");
}

#[test]
fn folder_that_is_missing_is_an_error() {
    let error = read(Path::new("/nowhere/at/all"), Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with("cannot read the catalog /nowhere/at/all: No such file"), "{error}");
}

#[test]
fn data_that_cannot_be_written_ends_both_threads() {
    #[derive(Debug)]
    struct Full;
    impl Write for Full {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(io::Error::other("full"))
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let dir = folder(&[("a", &"{\"schema\": \"x\"}\n".repeat(1000))]);
    let error = read(dir.path(), Full).unwrap_err().to_string();
    assert!(error.ends_with("cannot write the data of the catalog: full"), "{error}");
}

#[test]
fn two_threads_make_the_index_that_one_makes() {
    let texts: Vec<(String, String)> =
        (0..60).map(|number| (format!("{number}/x"), package(&format!("p{number}")))).collect();
    let files: Vec<(&str, &str)> = texts.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    let dir = folder(&files);
    let first = read(dir.path(), Vec::new()).unwrap();
    assert_eq!(first.index.counts().packages, 60);
    for _ in 0..5 {
        assert_eq!(read(dir.path(), Vec::new()).unwrap().index, first.index);
    }
}

/// Published catalogs, where there are some.
#[test]
fn published_catalogs_are_read_without_a_fault() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").to_owned();
    let folder = Path::new(&std::env::var("CVO_SHARED_DATA").unwrap_or(folder)).join("catalogs");
    if !folder.is_dir() {
        println!("skipped: no {}; CVO_SHARED_DATA names the folder that holds catalogs", folder.display());
        return;
    }
    let catalog = read(&folder, Vec::new()).unwrap();
    let counts = catalog.index.counts();
    println!("{counts:?}, {} bytes of index, {} of data", catalog.index.size(), catalog.data.len());
    assert_eq!(catalog.faults, []);
    assert_eq!((counts.packages, counts.channels, counts.bundles), (33, 78, 745));
    for bundle in catalog.index.bundles() {
        let metadata = bundle.stored(crate::olm::catalog::record::StoredKind::Metadata).next().unwrap();
        let start = usize::try_from(metadata.offset()).unwrap();
        assert!(metadata.json(&catalog.data[start..start + metadata.length()]).unwrap().starts_with('{'));
    }
}
