use super::*;

/// Tools written in Go write null for an empty map, list or object.
#[test]
fn null_reads_as_empty() {
    let json = r#"{"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "metadata": {"name": "1.0.0",
            "creationTimestamp": null}, "spec": {"tags": [{"name": "a", "annotations": null, "from": {"kind":
            "DockerImage", "name": "r/a@sha256:1"}}, {"name": "b", "from": {"kind": "DockerImage", "name": null}}]}}"#;
    let read = ImageReferences::parse(json.as_bytes()).unwrap();
    assert_eq!(read.images().get("a").map(String::as_str), Some("r/a@sha256:1"));
    let json = r#"{"apiVersion": "image.openshift.io/v1", "kind": "ImageStream", "metadata": null, "spec": null}"#;
    assert!(ImageReferences::parse(json.as_bytes()).unwrap().tags.is_empty());
}

#[test]
fn yaml_and_json_give_the_same_images() {
    let yaml = "apiVersion: image.openshift.io/v1\nkind: ImageStream\nmetadata:\n  name: 1.0.0\n  creationTimestamp: \
        2026-01-02T03:04:05Z\nspec:\n  tags:\n  - name: b\n    from: {kind: DockerImage, name: r/b@sha256:2}\n  - name: a\n    \
        annotations: {k: v}\n    from: {kind: DockerImage, name: r/a@sha256:1}\n  - name: c\n    from: {kind: ImageStreamTag, name: x}\n  - name: d\n";
    let read = ImageReferences::parse(yaml.as_bytes()).unwrap();
    let expected = [("a", "r/a@sha256:1"), ("b", "r/b@sha256:2")].map(|(n, i)| (n.to_owned(), i.to_owned()));
    assert_eq!(read.images(), BTreeMap::from(expected));
    assert_eq!(read.created.map(|t| t.to_string()).as_deref(), Some("2026-01-02T03:04:05Z"));
    let again = ImageReferences::parse(&read.to_json().unwrap()).unwrap();
    assert_eq!((again.images(), again.created, &again.name), (read.images(), read.created, &read.name));
    assert_eq!(again.tags.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "d"]);
}

#[test]
fn anything_but_an_image_stream_is_refused() {
    let table = [
        ("", "is empty"),
        ("kind: ImageStream\napiVersion: v1\n", "of \"v1\""),
        ("kind: List\napiVersion: image.openshift.io/v1\n", "\"List\""),
        ("kind: ImageStream\napiVersion: image.openshift.io/v1\nspec: {tags: 5}\n", "does not have the form"),
        ("kind: [\n", "neither JSON nor YAML: line "),
    ];
    for (text, expected) in table {
        let error = ImageReferences::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(FILE) && error.contains(expected), "{text:?}: {error}");
    }
}

#[test]
fn versions_of_parts_are_those_of_all_tags_without_build_metadata() {
    let tag = |name: &str, declared: &str| Tag {
        annotations: BTreeMap::from([(BUILD_VERSIONS.to_owned(), declared.to_owned())]),
        ..Tag::image(name, "r/a@sha256:1")
    };
    let tags = vec![
        Tag::image("plain", "r/a@sha256:1"),
        tag("one", "kubernetes=1.36.0, kernel=6.1.0,"),
        tag("two", "kubernetes=1.36.0+k3s1,none"),
        tag("three", "kernel=6.2.0"),
    ];
    let versions = ImageReferences { tags, ..ImageReferences::default() }.versions();
    let of = |part: &str| versions[part].iter().map(String::as_str).collect::<Vec<_>>();
    assert_eq!((of("kubernetes"), of("kernel"), versions.len()), (vec!["1.36.0"], vec!["6.1.0", "6.2.0"], 2));
}
