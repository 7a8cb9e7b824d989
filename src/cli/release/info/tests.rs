use super::*;

fn files(extra: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    let usual = [
        (
            "release-metadata",
            r#"{"kind": "cincinnati-metadata-v0", "version": "1.0.0", "previous": ["0.9.0"], "metadata": {"url": "https://x"}}"#,
        ),
        (
            "image-references",
            r#"{"kind": "ImageStream", "apiVersion": "image.openshift.io/v1", "metadata": {"name": "1.0.0"}, "spec": {"tags": [{"name": "net", "from": {"kind": "DockerImage", "name": "r/net@sha256:1"}}]}}"#,
        ),
    ];
    usual.iter().chain(extra).map(|(n, b)| (format!("{RELEASE_MANIFESTS}{n}"), b.as_bytes().to_vec())).collect()
}

#[test]
fn release_is_shown_as_text() {
    let mut info = of_files(&files(&[("a.yaml", ""), ("b.json", ""), ("README", "")])).unwrap();
    info.place = "r/x@sha256:2".into();
    info.digest = "sha256:2".into();
    info.config = json!({"created": "2026-01-01T00:00:00Z", "os": "linux", "architecture": "amd64",
                         "config": {"Labels": {BASE_DIGEST_LABEL: "sha256:3", RELEASE_LABEL: "2.0.0"}}});
    let text = text(&info).unwrap();
    for line in [
        "Version:    1.0.0",
        "Digest:     sha256:2",
        "Manifests:  2",
        "Previous:   0.9.0",
        "  url: https://x",
        "Base:       sha256:3",
        "  net  r/net@sha256:1",
        "label io.openshift.release says 2.0.0",
        "OS/Arch:    linux/amd64",
    ] {
        assert!(text.contains(line), "{line} in:\n{text}");
    }
}

#[test]
fn invalid_release_is_refused() {
    let mut missing = files(&[]);
    missing.remove("release-manifests/release-metadata");
    assert!(of_files(&missing).unwrap_err().to_string().contains("release-metadata is missing"));
    let broken = files(&[("release-metadata", "{")]);
    assert!(format!("{:#}", of_files(&broken).unwrap_err()).contains("release-metadata is not JSON"));
    let foreign = files(&[("image-references", "kind: Pod\napiVersion: v1\nspec: {}")]);
    assert!(of_files(&foreign).unwrap_err().to_string().contains("ImageStream"));
}

#[test]
fn only_files_of_a_release_are_read_within_the_bounds_of_one() {
    let root = tempfile::tempdir().unwrap();
    let write = |name: &str, bytes: &[u8]| std::fs::write(root.path().join(name), bytes).unwrap();
    for (name, bytes) in files(&[("a.yaml", "kind: A")]) {
        write(name.trim_start_matches(RELEASE_MANIFESTS), &bytes);
    }
    // It takes no space on the disk.
    std::fs::File::create(root.path().join("disk.img")).unwrap().set_len(payload_dir::MAX_TOTAL + 1).unwrap();
    let info = of_folder(root.path()).unwrap();
    assert_eq!((info.manifests, info.metadata["version"].as_str()), (1, Some("1.0.0")));
    std::fs::File::create(root.path().join("large.yaml")).unwrap().set_len(payload_dir::MAX_FILE + 1).unwrap();
    let error = of_folder(root.path()).unwrap_err().to_string();
    assert!(error.contains("large.yaml is larger than"), "{error}");
}
