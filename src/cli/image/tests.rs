use super::*;

fn release(tags: &[&str]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("manifests")).unwrap();
    let folder = dir.path().join("release-manifests");
    std::fs::create_dir(&folder).unwrap();
    std::fs::write(folder.join("release-metadata"), "{}").unwrap();
    let tags = tags.iter().map(|name| references::Tag::image(name, &format!("r/{name}@sha256:1"))).collect();
    let stream = ImageReferences { name: "1.0.0".into(), created: None, tags };
    std::fs::write(folder.join(references::FILE), stream.to_json().unwrap()).unwrap();
    dir
}

#[test]
fn unknown_image_is_reported_with_similar_names() {
    let many: Vec<String> = (0..30).map(|i| format!("component-number-{i}")).collect();
    let mut many: Vec<&str> = many.iter().map(String::as_str).collect();
    many.extend(["network-operator", "network-tools", "console"]);
    let few = release(&["a", "bcd"]);
    let many = release(&many);
    assert_eq!(find("bcd", few.path()).unwrap(), "r/bcd@sha256:1");
    assert_eq!(find("console", many.path()).unwrap(), "r/console@sha256:1");
    let said = |name, dir: &tempfile::TempDir| find(name, dir.path()).unwrap_err().to_string();
    assert!(said("zzz", &few).ends_with("has no image \"zzz\": there are a, bcd"), "{}", said("zzz", &few));
    let near = said("netwrok-operator", &many);
    assert!(near.ends_with(": there are network-operator"), "{near}");
    assert!(said("consol", &many).ends_with(": there are console"), "{}", said("consol", &many));
    assert!(
        said("zz", &many).ends_with("no name is similar; `cvo release info` lists all 33"),
        "{}",
        said("zz", &many)
    );
    assert!(said("x", &release(&[])).ends_with("it contains no images"));
}

#[test]
fn incomplete_release_is_refused() {
    for missing in ["manifests", "release-manifests/release-metadata", "release-manifests/image-references"] {
        let dir = release(&["a"]);
        let path = dir.path().join(missing);
        if path.is_dir() { std::fs::remove_dir(&path) } else { std::fs::remove_file(&path) }.unwrap();
        let error = format!("{:#}", find("a", dir.path()).unwrap_err());
        assert!(error.contains(&format!("{missing} is missing")) && error.contains("--payload"), "{error}");
    }
    let dir = release(&["a"]);
    std::fs::write(dir.path().join("release-manifests/image-references"), "kind: Pod\n").unwrap();
    let error = format!("{:#}", find("a", dir.path()).unwrap_err());
    assert!(error.contains("ImageStream"), "{error}");
}

#[test]
fn distance_counts_edits() {
    for (a, b, expected) in [("", "", 0), ("a", "", 1), ("", "ab", 2), ("kitten", "sitting", 3), ("ab", "ba", 2)] {
        assert_eq!(distance(a, b), expected, "{a} {b}");
    }
}
