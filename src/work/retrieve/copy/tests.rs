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
