use super::*;

#[test]
fn digests_are_parsed_strictly() {
    let table = [
        ("sha256:abc123", true),
        ("sha256+b64u:aB_-=9", true),
        ("a.b:1", true),
        ("", false),
        ("sha256", false),
        ("sha256:", false),
        (":abc", false),
        ("SHA256:abc", false),
        ("sha256::abc", false),
        ("a..b:1", false),
        (".:1", false),
        ("a+:1", false),
        ("sha256:../../etc", false),
        ("sha256:a/b", false),
        ("sha256:é", false),
        ("sha256:a b", false),
    ];
    for (text, good) in table {
        assert_eq!(Digest::parse(text).is_ok(), good, "{text:?}");
    }
    let digest = Digest::parse("sha256:ab").unwrap();
    assert_eq!((digest.to_string().as_str(), digest.store_folder().as_str()), ("sha256:ab", "sha256=ab"));
    assert_eq!(digest.config_map_prefix(), "sha256-ab");
}

#[test]
fn digest_follows_the_last_at_sign_of_a_pull_spec() {
    assert_eq!(Digest::of_pull_spec("r.example/a:tag@sha256:ab"), Digest::parse("sha256:ab"));
    assert_eq!(Digest::of_pull_spec("a@b@sha256:ab").map(|digest| digest.to_string()), Ok("sha256:ab".to_owned()));
    for tagged in ["r.example:5000/a:1.0", "r.example/a@", ""] {
        assert_eq!(Digest::of_pull_spec(tagged), Err(VerifyError::NoDigest(tagged.to_owned())));
    }
    assert_eq!(Digest::of_pull_spec("a@sha256"), Err(VerifyError::Digest("sha256".to_owned())));
}
