use super::*;
use crate::serve::certificate::tests::{Authority, chain};
use serde_json::json;

/// The ConfigMap as kube-apiserver writes it, with these changes.
pub(crate) fn config_map(authority: &Authority, changed: &[(&str, Option<&str>)]) -> Value {
    let mut data = json!({
        "requestheader-client-ca-file": authority.pem(), "requestheader-allowed-names": r#"["front-proxy-client"]"#,
        "requestheader-username-headers": r#"["X-Remote-User"]"#, "requestheader-uid-headers": r#"["X-Remote-Uid"]"#,
        "requestheader-group-headers": r#"["X-Remote-Group"]"#, "requestheader-extra-headers-prefix": r#"["X-Remote-Extra-"]"#,
    });
    for (key, value) in changed {
        data[*key] = json!(value);
    }
    json!({"data": data})
}

fn caller(pem: &str) -> Caller {
    Caller { address: [127, 0, 0, 1].into(), chain: chain(pem), token: None }
}

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    pairs
        .iter()
        .map(|(name, value)| (name.parse::<axum::http::HeaderName>().unwrap(), value.parse().unwrap()))
        .collect()
}

#[test]
fn user_is_who_the_api_server_says() {
    let authority = Authority::new("front-proxy");
    let proxy = FrontProxy::parse(&config_map(&authority, &[])).unwrap();
    let caller = caller(&authority.client("front-proxy-client"));
    let sent = headers(&[
        ("x-remote-user", "alice"),
        ("x-remote-uid", "7"),
        ("x-remote-group", "devs"),
        ("x-remote-group", "ops"),
        ("x-remote-extra-scopes.example.com%2fa", "read"),
        ("x-remote-extra-scopes.example.com%2fa", "write"),
        ("x-other", "x"),
    ]);
    let expected = User {
        name: "alice".into(),
        uid: "7".into(),
        groups: ["devs", "ops", "system:authenticated"].map(String::from).into(),
        extra: [("scopes.example.com/a".to_owned(), vec!["read".to_owned(), "write".to_owned()])].into(),
    };
    assert_eq!(proxy.user(&caller, &sent), Ok(expected));
    let anonymous = headers(&[("x-remote-user", "system:anonymous"), ("x-remote-group", "system:unauthenticated")]);
    assert_eq!(proxy.user(&caller, &anonymous).unwrap().groups, ["system:unauthenticated"]);
    let error = proxy.user(&caller, &headers(&[("x-remote-user", "")])).unwrap_err();
    assert!(error.contains("x-remote-user"), "{error}");
}

#[test]
fn headers_of_others_do_not_count() {
    let (authority, other) = (Authority::new("front-proxy"), Authority::new("front-proxy"));
    let proxy = FrontProxy::parse(&config_map(&authority, &[])).unwrap();
    let sent = headers(&[("x-remote-user", "alice")]);
    for (pem, part) in [
        (other.client("front-proxy-client"), "not trusted"),
        (authority.client("somebody"), "\"somebody\""),
        (String::new(), "certificate"),
    ] {
        let error = proxy.user(&caller(&pem), &sent).unwrap_err();
        assert!(error.contains(part), "{part}: {error}");
    }
    let any = FrontProxy::parse(&config_map(&authority, &[("requestheader-allowed-names", Some("[]"))])).unwrap();
    assert!(any.user(&caller(&authority.client("somebody")), &sent).is_ok(), "all names count where none is named");
}

#[test]
fn config_map_that_cannot_be_used_says_which_key_is_wrong() {
    let authority = Authority::new("front-proxy");
    for (key, value) in [
        ("requestheader-client-ca-file", None),
        ("requestheader-client-ca-file", Some("junk")),
        ("requestheader-username-headers", None),
        ("requestheader-username-headers", Some("[]")),
        ("requestheader-group-headers", Some("X-Remote-Group")),
        ("requestheader-allowed-names", Some("[1]")),
    ] {
        let error = FrontProxy::parse(&config_map(&authority, &[(key, value)])).unwrap_err();
        assert!(error.contains(key), "{key}: {error}");
    }
}

#[test]
fn names_of_extra_headers_are_unescaped() {
    for (text, expected) in [("a", "a"), ("a%2fb", "a/b"), ("%", "%"), ("%2", "%2"), ("%zz%2F", "%zz/"), ("%ff", "%ff")]
    {
        assert_eq!(unescaped(text), expected);
    }
}
