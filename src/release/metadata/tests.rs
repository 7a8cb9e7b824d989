use super::*;

#[test]
fn invalid_metadata_is_refused_with_the_cause() {
    let table = [
        ("[]", "not the JSON object"),
        ("{\"kind\":\"x\",\"version\":\"1.0.0\"}", "has kind \"x\""),
        ("{\"version\":\"1.0.0\"}", "has kind \"\""),
        ("{\"kind\":\"cincinnati-metadata-v0\"}", "\"\" is not a semantic version"),
        ("{\"kind\":\"cincinnati-metadata-v0\",\"version\":\"1.0\"}", "\"1.0\" is not a semantic version"),
    ];
    for (text, expected) in table {
        let error = ReleaseMetadata::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(FILE) && error.contains(expected), "{text}: {error}");
    }
}

#[test]
fn invalid_properties_are_ignored_with_a_warning() {
    let text = br#"{"kind":"cincinnati-metadata-v0","version":"1.0.1","previous":["1.0.0"],"next":null,"metadata":
            {"url":"https://example.com/notes/1.0.1","release.openshift.io/architecture":"multi",
             "io.openshift.upgrades.graph.release.channels":"stable-1,,fast-1,stable-1"}}"#;
    let read = ReleaseMetadata::parse(text).unwrap();
    let (release, warnings) = read.release("example.com/r@sha256:1");
    assert_eq!(warnings, Vec::<String>::new());
    assert_eq!(release.url, "https://example.com/notes/1.0.1");
    assert_eq!(release.architecture, "Multi");
    assert_eq!(release.channels, ["fast-1", "stable-1"]);
    assert_eq!((release.version.as_str(), release.image.as_str()), ("1.0.1", "example.com/r@sha256:1"));

    let mut bad = read.clone();
    bad.metadata.insert("url".into(), 5.into());
    bad.metadata.insert(ARCHITECTURE.into(), "amd64".into());
    bad.metadata.insert(CHANNELS.into(), Value::Array(vec![]));
    let (release, warnings) = bad.release("");
    assert_eq!(warnings.len(), 3, "{warnings:?}");
    assert_eq!(release, Release { version: "1.0.1".into(), ..Release::default() });
}

#[test]
fn written_metadata_reads_back() {
    let mut made = ReleaseMetadata::new("1.0.0").unwrap();
    made.previous.push("0.9.0".into());
    made.metadata.insert("url".into(), "https://example.com".into());
    assert_eq!(ReleaseMetadata::parse(&made.to_json().unwrap()).unwrap(), made);
    assert!(ReleaseMetadata::new("v1").is_err());
}
