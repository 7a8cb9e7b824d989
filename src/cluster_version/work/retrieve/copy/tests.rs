use super::*;

#[test]
fn copy_is_complete_and_prunes_other_releases() {
    let root = tempfile::tempdir().unwrap();
    let image = root.path().join("image");
    for (file, text) in [
        ("manifests/a.yaml", "a: 1"),
        ("release-manifests/image-references", "{}"),
        ("release-manifests/release-metadata", "{}"),
    ] {
        fs::create_dir_all(image.join(file).parent().unwrap()).unwrap();
        fs::write(image.join(file), text).unwrap();
    }
    std::os::unix::fs::symlink("a.yaml", image.join("manifests/link.yaml")).unwrap();
    let store = root.path().join("store");
    let interrupted = ".sha256-new/manifests";
    for old in ["sha256-old", "sha256-kept", "foreign", ".tag-old", interrupted] {
        fs::create_dir_all(store.join(old)).unwrap();
    }
    fs::write(store.join(interrupted).join("left.yaml"), "a: 1").unwrap();
    let tree = copy(&image, &store.join("sha256-new"), &["sha256-kept".into()]).unwrap();
    assert!(store.join("sha256-new/manifests/a.yaml").exists());
    let linked = fs::read_to_string(store.join("sha256-new/manifests/link.yaml")).unwrap();
    assert_eq!(linked, "a: 1", "a link inside the image becomes the file it leads to");
    assert!(!store.join("sha256-new/manifests/left.yaml").exists());
    assert!(
        !store.join("sha256-old").exists() && !store.join(".tag-old").exists() && !store.join(".sha256-new").exists()
    );
    assert!(store.join("sha256-kept").exists() && store.join("foreign").exists());
    assert_eq!(payload_dir::tree_hash(&store.join("sha256-new")).unwrap(), tree);
    let modified = |store: &Path| store.join("sha256-new").metadata().unwrap().modified().unwrap();
    let before = modified(&store);
    copy(&image, &store.join("sha256-new"), &["sha256-kept".into()]).unwrap();
    assert_eq!(modified(&store), before, "an equal copy stays");
    assert!(!store.join(".sha256-new").exists());
    let error = copy(&root.path().join("nothing"), &store.join("sha256-x"), &[]).unwrap_err().to_string();
    assert!(error.contains("not a usable release image"), "{error}");
    std::os::unix::fs::symlink("/etc/passwd", image.join("manifests/out.yaml")).unwrap();
    let error = copy(&image, &store.join("sha256-x"), &[]).unwrap_err().to_string();
    assert!(error.contains("out.yaml is a link that leads out"), "{error}");
    assert!(!store.join("sha256-x").exists());
}

#[test]
fn copies_into_one_store_are_serialized() {
    let root = tempfile::tempdir().unwrap();
    let image = root.path().join("image");
    for folder in ["manifests", "release-manifests"] {
        fs::create_dir_all(image.join(folder)).unwrap();
    }
    for i in 0..200 {
        fs::write(image.join(format!("manifests/{i}.yaml")), format!("a: {i}")).unwrap();
    }
    for file in ["image-references", "release-metadata"] {
        fs::write(image.join("release-manifests").join(file), "{}").unwrap();
    }
    let to = root.path().join("store/sha256-new");
    std::thread::scope(|scope| {
        let copies: Vec<_> = (0..4)
            .map(|_| {
                let (image, to) = (&image, &to);
                scope.spawn(move || copy(image, to, &[]))
            })
            .collect();
        for copy in copies {
            assert_eq!(copy.join().unwrap().unwrap(), payload_dir::tree_hash(&image).unwrap());
        }
    });
    assert_eq!(payload_dir::tree_hash(&to).unwrap(), payload_dir::tree_hash(&image).unwrap());
}

#[test]
fn a_copy_in_place_of_another_one_is_there_at_every_moment() {
    let root = tempfile::tempdir().unwrap();
    let image = root.path().join("image");
    for folder in ["manifests", "release-manifests"] {
        fs::create_dir_all(image.join(folder)).unwrap();
    }
    for i in 0..50 {
        fs::write(image.join(format!("manifests/{i}.yaml")), format!("a: {i}")).unwrap();
    }
    for file in ["image-references", "release-metadata"] {
        fs::write(image.join("release-manifests").join(file), "{}").unwrap();
    }
    let to = root.path().join("store/sha256-new");
    copy(&image, &to, &[]).unwrap();
    let done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let missing = scope.spawn(|| {
            let complete = || to.join("manifests/0.yaml").exists() && to.join("manifests/49.yaml").exists();
            let mut missing = 0;
            while !done.load(std::sync::atomic::Ordering::SeqCst) {
                missing += usize::from(!complete());
            }
            missing
        });
        for round in 0..50 {
            fs::write(image.join("manifests/1.yaml"), format!("a: another {round}")).unwrap();
            let tree = copy(&image, &to, &[]).unwrap();
            assert_eq!(payload_dir::tree_hash(&to).unwrap(), tree);
        }
        done.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(missing.join().unwrap(), 0, "somebody who looked found none");
    });
    assert_eq!(fs::read_dir(to.parent().unwrap()).unwrap().count(), 2, "the copy and the lock");
}

#[test]
fn lock_is_for_its_owner_and_is_not_waited_for_without_end() {
    let store = tempfile::tempdir().unwrap();
    let path = store.path().join(".lock");
    fs::write(&path, "").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
    let held = lock(store.path(), Duration::ZERO).unwrap();
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600, "as an earlier release has made it");
    let error = lock(store.path(), Duration::from_millis(1)).unwrap_err().to_string();
    assert!(error.contains("another process has kept") && error.contains(path.to_str().unwrap()), "{error}");
    drop(held);
    lock(store.path(), Duration::ZERO).unwrap();
}
