use super::*;

/// `a:1`, `b:2`, `c:3:4`, `d:5` in base64.
const CONFIG: &str = r#"{"auths": {
        "quay.io": {"auth": "YToxCg=="}, "quay.io/org": {"auth": "Yjoy"},
        "quay.io/org/repo": {"username": "c", "password": "3:4"},
        "quay.io/team/v2": {"username": "v", "password": "2"},
        "https://index.docker.io/v1/": {"auth": "ZDo1"}, "empty.example": {}}, "credsStore": "desktop"}"#;

#[test]
fn longest_prefix_wins() {
    let credentials = Credentials::parse(CONFIG.as_bytes()).unwrap();
    let user = |registry: &str, repository: &str| match credentials.of(registry, repository) {
        RegistryAuth::Basic(user, password) => format!("{user}/{}", password.trim()),
        other => format!("{other:?}"),
    };
    assert_eq!(user("quay.io", "other/repo"), "a/1");
    assert_eq!(user("quay.io", "org/else"), "b/2");
    assert_eq!(user("quay.io", "org/repo"), "c/3:4");
    assert_eq!(user("quay.io", "org/repository"), "b/2", "a prefix ends at a slash");
    assert_eq!(user("quay.io", "team/v2"), "v/2");
    assert_eq!(user("quay.io", "team/other"), "a/1", "a repository may be named like a version of the API");
    assert_eq!(user("docker.io", "library/x"), "d/5");
    assert_eq!(user("index.docker.io", "library/x"), "d/5");
    assert_eq!(user("empty.example", "x"), "Anonymous");
    assert_eq!(user("elsewhere.example", "x"), "Anonymous");
}

#[test]
fn bad_file_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("config.json");
    std::fs::write(&path, r#"{"auths": {"quay.io": {"auth": "%%"}}}"#).unwrap();
    let message = Credentials::find(Some(&path)).unwrap_err().to_string();
    assert!(message.contains("config.json") && message.contains("quay.io") && message.contains("base64"), "{message}");
    let message = Credentials::find(Some(&dir.path().join("absent"))).unwrap_err().to_string();
    assert!(message.contains("absent"), "{message}");
}
