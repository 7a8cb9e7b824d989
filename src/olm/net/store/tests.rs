use super::*;
use crate::olm::catalog::record::StoredKind;
use std::collections::BTreeSet;
use std::time::Duration;

const CATALOG: &str = r#"{"schema": "olm.package", "name": "NAME", "defaultChannel": "stable", "description": "TEXT"}
{"schema": "olm.channel", "package": "NAME", "name": "stable", "entries": [{"name": "NAME.v1.0.0"}]}
{"schema": "olm.bundle", "package": "NAME", "name": "NAME.v1.0.0", "image": "quay.io/a/NAME:1", "properties":
 [{"type": "olm.package", "value": {"packageName": "NAME", "version": "1.0.0"}},
  {"type": "olm.csv.metadata", "value": {"displayName": "TEXT"}}]}"#;

fn key(name: &str) -> Key {
    Key::of(&content::Content::of_image("a.example/b:1", &format!("sha256:{}", name.repeat(64)), ""))
}

/// Keeps a catalog with one package of this name.
fn keep(store: &Store, key: &Key, package: &str) -> Stored {
    let aside = store.aside().unwrap();
    let files = aside.files();
    fs::create_dir(&files).unwrap();
    let text = CATALOG.replace("NAME", package).replace("TEXT", &"long ".repeat(1000));
    fs::write(files.join("catalog.json"), text).unwrap();
    store.keep(key, &files, aside, Rules::Files, Vec::new()).unwrap()
}

fn packages(stored: &Stored) -> Vec<String> {
    stored.content.index.packages().map(|package| package.name().to_owned()).collect()
}

/// What is in the folder, without the lock.
fn names(root: &Path) -> BTreeSet<String> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    entries.filter(|name| name != LOCK).collect()
}

#[test]
fn content_is_there_again_when_the_process_begins_anew() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), 1 << 30).unwrap();
    assert!(store.get(&key("a")).is_none());
    let stored = keep(&store, &key("a"), "one");
    assert_eq!(packages(&stored), ["one"]);
    drop((stored, store));
    let store = Store::open(root.path(), 1 << 30).unwrap();
    let again = store.get(&key("a")).unwrap();
    assert_eq!(packages(&again), ["one"]);
    let head = again.content.index.bundles().next().unwrap();
    let metadata = head.stored(StoredKind::Metadata).next().map(|part| again.content.json(part).unwrap());
    assert!(metadata.unwrap().contains("long long"), "the data is read from the disk");
    assert!(store.get(&key("b")).is_none());
}

#[test]
fn equal_contents_are_one_in_memory() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), 0).unwrap();
    let stored = keep(&store, &key("a"), "one");
    assert!(Arc::ptr_eq(&stored.content, &store.get(&key("a")).unwrap().content));
    // The same image read from another folder is another content, and its name does not matter.
    let digest = format!("sha256:{}", "a".repeat(64));
    let of = |image: &str, folder: &str| Key::of(&content::Content::of_image(image, &digest, folder));
    assert_eq!(of("a.example/b:1", ""), of("mirror.example/c:2", ""));
    assert_ne!(of("a.example/b:1", ""), of("a.example/b:1", "/other"));
}

#[test]
fn what_a_killed_process_has_left_is_removed() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), 1 << 30).unwrap();
    keep(&store, &key("a"), "one");
    let aside = store.aside().unwrap();
    fs::create_dir_all(aside.files().join("configs")).unwrap();
    // It is killed, so that nothing is dropped.
    std::mem::forget(aside);
    assert_eq!(names(root.path()).len(), 2);
    drop(store);
    Store::open(root.path(), 1 << 30).unwrap();
    assert_eq!(names(root.path()), BTreeSet::from([key("a").0]));
}

#[test]
fn damaged_content_is_not_served_and_is_read_anew() {
    for (name, damage) in [
        (INDEX, (|path| fs::write(path, b"cvo catalog 0001 and no more").unwrap()) as fn(&Path)),
        (INDEX, |path| fs::write(path, b"").unwrap()),
        (DATA, |path| File::options().write(true).open(path).unwrap().set_len(10).unwrap()),
        (DATA, |path| fs::remove_file(path).unwrap()),
        (FOUND, |path| fs::write(path, b"{").unwrap()),
    ] {
        let root = tempfile::tempdir().unwrap();
        let store = Store::open(root.path(), 1 << 30).unwrap();
        drop(keep(&store, &key("a"), "one"));
        damage(&root.path().join(&key("a").0).join(name));
        assert!(store.get(&key("a")).is_none(), "{name}");
        assert_eq!(names(root.path()), BTreeSet::new(), "{name}");
        assert_eq!(packages(&keep(&store, &key("a"), "one")), ["one"]);
    }
}

#[test]
fn what_nobody_uses_goes_first_the_oldest_first_and_what_is_used_stays() {
    let root = tempfile::tempdir().unwrap();
    let size = {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path(), 1 << 30).unwrap();
        drop(keep(&store, &key("a"), "one"));
        measure(&folder.path().join(&key("a").0)).1
    };
    let store = Store::open(root.path(), size * 2 + size / 2).unwrap();
    let used = keep(&store, &key("a"), "one");
    let aged = |name: &str, ago: u64| {
        let index = File::open(root.path().join(&key(name).0).join(INDEX)).unwrap();
        index.set_modified(SystemTime::now() - Duration::from_secs(ago)).unwrap();
    };
    drop((keep(&store, &key("b"), "two"), aged("a", 300)));
    aged("b", 100);
    assert_eq!(names(root.path()).len(), 2, "there is room for two");
    drop(keep(&store, &key("c"), "ten"));
    assert_eq!(names(root.path()), BTreeSet::from([key("a").0, key("c").0]), "the oldest is used");
    assert_eq!(packages(&used), ["one"]);
    drop(used);
    drop(keep(&store, &key("d"), "six"));
    assert_eq!(names(root.path()), BTreeSet::from([key("c").0, key("d").0]), "nobody uses it any more");
}

#[test]
fn content_is_read_as_long_as_somebody_has_it_although_its_folder_is_gone() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), 1 << 30).unwrap();
    let stored = keep(&store, &key("a"), "one");
    fs::remove_dir_all(root.path().join(&key("a").0)).unwrap();
    let bundle = stored.content.index.bundles().next().unwrap();
    let part = bundle.stored(StoredKind::Metadata).next().unwrap();
    assert!(stored.content.json(part).unwrap().contains("long long"));
}

#[test]
fn two_processes_do_not_use_one_folder() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), 0).unwrap();
    let error = Store::open(root.path(), 0).unwrap_err().to_string();
    assert!(error.contains("another process") && error.contains("--catalog-cache-dir"), "{error}");
    drop(store);
    Store::open(root.path(), 0).unwrap();
}

#[test]
fn errors_name_place_cause_and_way_out() {
    let root = tempfile::tempdir().unwrap();
    let file = root.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("below"), 0).unwrap_err().to_string();
    assert!(error.contains("/file/below") && error.contains("--catalog-cache-dir"), "{error}");
    let full = StoreError::write(Path::new("/var/cache/olm/x"), ErrorKind::StorageFull.into());
    assert!(!full.is_of_content());
    let full = full.to_string();
    assert!(full.contains("/var/cache/olm/x") && full.contains("make room"), "{full}");
    // A folder that is no catalog at all.
    let store = Store::open(&root.path().join("store"), 0).unwrap();
    let aside = store.aside().unwrap();
    let error = store.keep(&key("a"), &aside.files(), aside, Rules::Files, Vec::new()).unwrap_err();
    assert!(error.to_string().contains("files"), "{error}");
    assert_eq!(names(&root.path().join("store")), BTreeSet::new(), "nothing is left of it");
}

#[test]
fn findings_are_kept_with_the_content() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), 1 << 30).unwrap();
    let aside = store.aside().unwrap();
    let files = aside.files();
    fs::create_dir(&files).unwrap();
    fs::write(files.join("a.json"), CATALOG.replace("NAME", "one")).unwrap();
    fs::write(files.join("b.json"), CATALOG.replace("NAME", "two").replace("\"stable\", \"desc", "\"none\", \"desc"))
        .unwrap();
    let stored = store.keep(&key("a"), &files, aside, Rules::Files, vec!["found before".to_owned()]).unwrap();
    let found = (*stored.found).clone();
    assert_eq!((found.packages, found.sick.as_slice(), found.sick_count), (1, ["two".to_owned()].as_slice(), 1));
    assert_eq!(found.faults[0], "found before");
    assert!(found.faults[1].starts_with("b.json, line 1: olm.package two: "), "{:?}", found.faults);
    drop((stored, store));
    let store = Store::open(root.path(), 1 << 30).unwrap();
    assert_eq!(*store.get(&key("a")).unwrap().found, found);
}

/// There is room for none, so that what nobody uses is removed at once.
#[test]
fn content_that_is_being_kept_is_not_removed_because_nobody_uses_it_yet() {
    let root = tempfile::tempdir().unwrap();
    let store = Store::open(root.path(), 0).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                store.trim();
            }
        });
        let kept = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            (0..50).for_each(|_| assert_eq!(packages(&keep(&store, &key("a"), "one")), ["one"]));
        }));
        done.store(true, Ordering::Relaxed);
        kept.unwrap();
    });
}
