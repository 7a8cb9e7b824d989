use super::*;

#[test]
fn built_message_is_accepted() {
    let digest = Digest::parse("sha256:ab").unwrap();
    let built = message(&digest, "r.example/a:1", Timestamp::UNIX_EPOCH, "cvo 1");
    assert_eq!(check(&built, &digest, None), Ok(()));
    let text = String::from_utf8(built).unwrap();
    assert_eq!(
        text,
        r#"{"critical":{"identity":{"docker-reference":"r.example/a:1"},"image":{"docker-manifest-digest":"sha256:ab"},"type":"atomic container signature"},"optional":{"creator":"cvo 1","timestamp":0}}"#
    );
}

#[test]
fn content_is_checked_strictly() {
    let digest = Digest::parse("sha256:ab").unwrap();
    let message = |kind: &str, digest: &str, reference: &str, inner: &str, outer: &str| {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"{reference}"}},"image":{{"docker-manifest-digest":"{digest}"}},"type":"{kind}"{inner}}}{outer}}}"#
        )
    };
    let optional = r#","optional":{"creator":"x","timestamp":12}"#;
    let table = [
        (message(TYPE, "sha256:ab", "a", "", ""), ""),
        (message(TYPE, "sha256:ab", "a", "", optional), ""),
        (message(TYPE, "sha256:ab", "a", "", ",\"optional\":{}"), ""),
        (message(TYPE, "sha256:ab", "a", "", ",\"optional\":null"), ""),
        (message("other", "sha256:ab", "a", "", ""), "critical.type"),
        (message(TYPE, "sha256:ac", "a", "", ""), "sha256:ac"),
        (message(TYPE, "sha256:AB", "a", "", ""), "sha256:AB"),
        (message(TYPE, "sha256:ab", "", "", ""), "docker-reference"),
        (message(TYPE, "sha256:ab", "a", ",\"x\":1", ""), "unknown field `x`"),
        (message(TYPE, "sha256:ab", "a", "", ",\"y\":1"), "unknown field `y`"),
        (message(TYPE, "sha256:ab", "a", "", ",\"optional\":{\"z\":1}"), "unknown field `z`"),
        (message(TYPE, "sha256:ab", "a", "", ",\"optional\":{\"timestamp\":\"1\"}"), "invalid type"),
        (message(TYPE, "sha256:ab", "a", ",\"type\":\"b\"", ""), "duplicate field"),
        (message(TYPE, "sha256:ab", "a", "", "") + "{}", "trailing"),
        ("{}".to_owned(), "missing field"),
        (String::new(), "EOF"),
        ("null".to_owned(), "invalid type"),
    ];
    for (content, part) in table {
        match check(content.as_bytes(), &digest, None) {
            Ok(()) => assert_eq!(part, "", "{content} was accepted"),
            Err(error) => assert!(!part.is_empty() && error.to_string().contains(part), "{content}: {error}"),
        }
    }
}

#[test]
fn demanded_identity_is_a_repository_and_what_is_below_it() {
    let digest = Digest::parse("sha256:ab").unwrap();
    for (reference, demanded, accepted) in [
        ("r.example/prod:1", "r.example/prod", true),
        ("r.example/prod", "r.example/prod", true),
        ("r.example/prod@sha256:ab", "r.example/prod", true),
        ("r.example/prod/release:1", "r.example/prod", true),
        ("r.example/prod/release:1", "r.example/prod/", true),
        ("r.example/prod-test:1", "r.example/prod", false),
        ("r.example/test:1", "r.example/prod", false),
        ("evil.example/r.example/prod:1", "r.example/prod", false),
        ("r.example.evil.example/prod:1", "r.example", false),
        ("r.example/prod:1", "R.example/prod", false),
    ] {
        let checked = check(&message(&digest, reference, Timestamp::UNIX_EPOCH, "cvo"), &digest, Some(demanded));
        assert_eq!(checked.is_ok(), accepted, "{reference} {demanded}: {checked:?}");
        if let Err(error) = checked {
            assert!(error.to_string().contains(reference) && error.to_string().contains(demanded), "{error}");
        }
    }
}
