use super::*;

/// `a:1`, `b:2`, `c:3:4`, `d:5` in base64.
const CONFIG: &str = r#"{"auths": {
        "quay.io": {"auth": "YToxCg=="}, "quay.io/org": {"auth": "Yjoy"},
        "quay.io/org/repo": {"username": "c", "password": "3:4"},
        "quay.io/team/v2": {"username": "v", "password": "2"},
        "https://index.docker.io/v1/": {"auth": "ZDo1"}, "empty.example": {},
        "https://r.example/v2/org": {"auth": "Yjoy"}, "r.example/v1": {"auth": "YTox\n"},
        "r.example/org/wrapped": {"auth": "Yzoz\nOjQ"}}, "credsStore": "desktop"}"#;

fn keyring(sources: &[(&str, Format)]) -> Keyring {
    let mut keyring = Keyring::default();
    for (number, (source, format)) in sources.iter().enumerate() {
        keyring.add(source.as_bytes(), *format, &format!("source {number}")).unwrap();
    }
    keyring
}

fn users(keyring: &Keyring, registry: &str, repository: &str) -> String {
    let text = |known: &&Credential| match &known.login {
        Login::Password { user, password } => format!("{user}/{}", password.trim()),
        Login::Token(token) => token.clone(),
    };
    keyring.of(registry, repository).iter().map(text).collect::<Vec<_>>().join(" ")
}

#[test]
fn longest_path_comes_first_and_shorter_ones_follow() {
    let keyring = keyring(&[(CONFIG, Format::DockerConfigJson)]);
    for (registry, repository, expected) in [
        ("quay.io", "other/repo", "a/1"),
        ("quay.io", "org/else", "b/2 a/1"),
        ("quay.io", "org/repo", "c/3:4 b/2 a/1"),
        ("quay.io", "org/repo/deeper", "c/3:4 b/2 a/1"),
        // A path ends at a slash, and a repository may be named like a version of the API.
        ("quay.io", "org/repository", "b/2 a/1"),
        ("quay.io", "team/v2", "v/2 a/1"),
        ("quay.io", "team/other", "a/1"),
        ("quay.io:5000", "org/repo", ""),
        ("r.example", "org/app", "b/2 a/1"),
        ("r.example", "v2/org", "a/1"),
        ("r.example", "org/wrapped", "c/3:4 b/2 a/1"),
        ("docker.io", "library/x", "d/5"),
        ("index.docker.io", "library/x", "d/5"),
        ("empty.example", "x", ""),
        ("elsewhere.example", "x", ""),
    ] {
        assert_eq!(users(&keyring, registry, repository), expected, "{registry}/{repository}");
    }
}

#[test]
fn sources_keep_their_order_and_equal_credentials_are_tried_once() {
    let first = r#"{"auths": {"r.example": {"username": "one", "password": "1"}}}"#;
    // The form without "auths".
    let second =
        r#"{"r.example/team": {"username": "two", "password": "2"}, "https://r.example": {"auth": "b25lOjE="}}"#;
    let third = r#"{"auths": {"r.example/team/app": {"registrytoken": "three"}}}"#;
    let keyring =
        keyring(&[(first, Format::DockerConfigJson), (second, Format::DockerCfg), (third, Format::DockerConfigJson)]);
    assert_eq!(users(&keyring, "r.example", "team/app"), "one/1 two/2 three");
    assert_eq!(
        keyring.of("r.example", "team/app").iter().map(|known| known.origin.as_str()).collect::<Vec<_>>(),
        ["source 0", "source 1", "source 2"]
    );
    assert!(!format!("{keyring:?}").contains("\"1\"") && !format!("{keyring:?}").contains("three"), "{keyring:?}");
}

#[test]
fn stars_stand_for_parts_of_a_host() {
    for (pattern, registry, expected) in [
        ("*.example.com", "r.example.com", true),
        ("*.example.com", "example.com", false),
        ("*.example.com", "a.b.example.com", false),
        ("*.*.example.com", "a.b.example.com", true),
        ("prefix.*.com", "prefix.example.com", true),
        ("*-good.example.com", "very-good.example.com", true),
        ("*-good.example.com", "very-bad.example.com", false),
        ("a*b*c.example.com", "axxbxxc.example.com", true),
        ("a*b*c.example.com", "axxcxxb.example.com", false),
        ("ab*ba.example.com", "aba.example.com", false),
        ("*.example.com", "R.Example.com", true),
        ("*.example.com:5000", "r.example.com:5000", true),
        ("*.example.com", "r.example.com:5000", false),
        ("*.example.com:5000", "r.example.com:5001", false),
        ("r.example.com:5000", "r.example.com:5000", true),
    ] {
        assert_eq!(is_host(pattern, registry), expected, "{pattern} {registry}");
    }
    let both = r#"{"auths": {"*.example.com/team": {"username": "w", "password": "1"},
        "r.example.com/team": {"username": "h", "password": "1"}, "r.example.com": {"username": "all", "password": "1"}}}"#;
    let keyring = keyring(&[(both, Format::DockerConfigJson)]);
    assert_eq!(users(&keyring, "r.example.com", "team/app"), "h/1 w/1 all/1");
}

#[test]
fn source_that_cannot_be_read_is_named_with_its_entry_but_not_its_content() {
    for (content, format, expected) in [
        (
            r#"{"auths": {"quay.io": {"auth": "%%"}}}"#,
            Format::DockerConfigJson,
            "entry \"quay.io\": auth is not base64",
        ),
        (r#"{"quay.io": {"auth": "bm9jb2xvbg=="}}"#, Format::DockerCfg, "entry \"quay.io\": auth is not USER:PASSWORD"),
        ("secret", Format::DockerConfigJson, "it is not JSON (line 1, column 1)"),
        (r#"{"auths": []}"#, Format::DockerConfigJson, "it does not have the form of a credentials file"),
        (r#"{"quay.io": "secret"}"#, Format::DockerCfg, "it does not have the form of a credentials file"),
    ] {
        let error = Keyring::default().add(content.as_bytes(), format, "Secret ns/pull").unwrap_err().to_string();
        assert!(error.starts_with("Secret ns/pull: ") && error.contains(expected), "{content}: {error}");
        assert!(!error.contains("nocolon") && !error.contains("secret"), "{error}");
    }
}
