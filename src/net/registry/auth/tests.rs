use super::super::tests::{Script, keyring, reply_with};
use super::super::{Access, parse_reference};
use super::*;
use crate::images::credentials::Keyring;
use axum::body::Body;
use axum::http;
use std::sync::atomic::{AtomicU64, Ordering};

const DIGEST: &str = "sha256:0123456789012345678901234567890123456789012345678901234567890123";

fn found() -> http::Response<Body> {
    reply_with(200, &[("Docker-Content-Digest", DIGEST)], "")
}

/// A registry that wants a token of its own, which lasts for so many seconds. Ann and Bob may read, Eve may not; nor may who has no
/// name, unless everybody may.
async fn registry(lasts: Option<u64>, everybody: bool) -> Script {
    let count = Arc::new(AtomicU64::new(0));
    Script::start(move |asked, headers| {
        let shown = headers.get("authorization").map_or("", |shown| shown.to_str().unwrap());
        let user = super::super::tests::user(shown);
        if asked.starts_with("GET /token") {
            let known = matches!(user.as_str(), "as ann" | "as bob") || user.is_empty() && everybody;
            let number = count.fetch_add(1, Ordering::SeqCst);
            let token = match (lasts, number % 2) {
                (Some(lasts), 0) => format!(r#"{{"token": "t{number}", "expires_in": {lasts}}}"#),
                (Some(lasts), _) => format!(r#"{{"access_token": "t{number}", "expires_in": {lasts}}}"#),
                (None, _) => format!(r#"{{"token": "t{number}"}}"#),
            };
            return if known { reply_with(200, &[], &token) } else { reply_with(401, &[], "") };
        }
        if user.starts_with("with t") {
            return found();
        }
        let challenge = format!("Bearer realm=\"http://{}/token\",service=\"reg\"", headers["host"].to_str().unwrap());
        reply_with(401, &[("WWW-Authenticate", &challenge)], "")
    })
    .await
}

fn access(registry: &Script, entries: &[(&str, &str, &str)]) -> Access {
    Access { credentials: keyring(&registry.address, entries), ..Access::default() }
}

#[tokio::test]
async fn token_is_used_until_it_expires() {
    let registry = registry(Some(300), false).await;
    let access = access(&registry, &[("", "ann", "1")]);
    registry.repository("org/cat:1", &access).digest(None).await.unwrap();
    assert_eq!(
        registry.asked(),
        [
            "HEAD /v2/org/cat/manifests/1",
            "GET /token?scope=repository%3Aorg%2Fcat%3Apull&service=reg as ann",
            "HEAD /v2/org/cat/manifests/1 with t0",
        ]
    );
    for _ in 0..3 {
        registry.repository("org/cat:1", &access.clone()).digest(None).await.unwrap();
    }
    assert_eq!(registry.asked(), vec!["HEAD /v2/org/cat/manifests/1 with t0"; 3]);
    // A token is for one repository.
    registry.repository("org/other:1", &access).digest(None).await.unwrap();
    assert_eq!(registry.asked().len(), 3);
}

#[tokio::test]
async fn expired_token_is_renewed_without_asking_in_vain() {
    let registry = registry(Some(0), true).await;
    let access = Access::default();
    registry.repository("cat:1", &access).digest(None).await.unwrap();
    registry.asked();
    registry.repository("cat:1", &access).digest(None).await.unwrap();
    assert_eq!(
        registry.asked(),
        ["GET /token?scope=repository%3Acat%3Apull&service=reg", "HEAD /v2/cat/manifests/1 with t1"]
    );
}

#[tokio::test]
async fn token_without_a_time_lasts_a_minute() {
    let known = Known::default();
    let registry = registry(None, true).await;
    let access = Access { known: known.clone(), ..Access::default() };
    let repository = registry.repository("cat:1", &access);
    repository.digest(None).await.unwrap();
    let until = known.of(&repository.key).shown.unwrap().2;
    let left = until - Instant::now();
    assert!(left > Duration::from_secs(50) && left <= Duration::from_secs(54), "{left:?}");
}

#[tokio::test]
async fn credentials_are_tried_one_after_the_other_and_the_good_one_first_from_then_on() {
    let registry = registry(Some(300), false).await;
    let all = [("/org/cat", "eve", "1"), ("/org", "bob", "2"), ("", "ann", "3")];
    let allowed = access(&registry, &all);
    registry.repository("org/cat:1", &allowed).digest(None).await.unwrap();
    let asked: Vec<String> =
        registry.asked().iter().filter_map(|it| Some(it.split_once(" as ")?.1.to_owned())).collect();
    assert_eq!(asked, ["eve", "bob"]);
    registry.repository("org/cat:1", &allowed).digest(None).await.unwrap();
    assert_eq!(registry.asked(), ["HEAD /v2/org/cat/manifests/1 with t1"]);

    let refused = access(&registry, &[("/org/cat", "eve", "1"), ("/org", "mallory", "1"), ("/elsewhere", "ann", "1")]);
    let error = registry.repository("org/cat:1", &refused).digest(None).await.unwrap_err();
    assert!(error.is_denied() && error.to_string().contains("401"), "{error}");
    assert!(error.to_string().contains(", with the credentials of Secret ns/pull (log in"), "{error}");
    let error = registry.repository("org/cat:1", &Access::default()).digest(None).await.unwrap_err();
    assert!(error.is_denied() && error.to_string().contains("without credentials"), "{error}");
}

#[tokio::test]
async fn forbidden_is_tried_with_the_next_credentials_and_basic_is_known_too() {
    let registry = Script::start(|_, headers| {
        let shown = headers.get("authorization").map_or("", |shown| shown.to_str().unwrap());
        match super::super::tests::user(shown).as_str() {
            "as ann" => found(),
            "as eve" => reply_with(403, &[], ""),
            _ => reply_with(401, &[("WWW-Authenticate", "Digest realm=\"x\", Basic realm=\"x\"")], ""),
        }
    })
    .await;
    let access = access(&registry, &[("/org", "eve", "1"), ("", "ann", "1")]);
    registry.repository("org/cat:1", &access).digest(None).await.unwrap();
    let asked = "HEAD /v2/org/cat/manifests/1";
    assert_eq!(registry.asked(), [asked, &format!("{asked} as eve"), &format!("{asked} as ann")]);
    registry.repository("org/cat:1", &access).digest(None).await.unwrap();
    assert_eq!(registry.asked(), [format!("{asked} as ann")]);
    let wrong = super::super::tests::keyring(&registry.address, &[("", "nobody", "1")]);
    let access = Access { credentials: wrong, ..Access::default() };
    registry.repository("org/cat:1", &access).digest(None).await.unwrap_err();
    assert_eq!(registry.asked(), [asked, &format!("{asked} as nobody")], "not again with the same");
}

#[tokio::test]
async fn token_is_not_for_those_with_other_credentials() {
    let registry = registry(Some(300), false).await;
    let ann = access(&registry, &[("", "ann", "1")]);
    registry.repository("org/cat:1", &ann).digest(None).await.unwrap();
    registry.asked();
    for credentials in [Keyring::default(), keyring(&registry.address, &[("", "eve", "1")])] {
        let other = Access { credentials, ..ann.clone() };
        let error = registry.repository("org/cat:1", &other).digest(None).await.unwrap_err();
        assert!(error.is_denied(), "{error}");
        assert!(!registry.asked().iter().any(|asked| asked.contains("with t0")));
    }
    registry.repository("org/cat:1", &ann).digest(None).await.unwrap();
    assert_eq!(registry.asked(), ["HEAD /v2/org/cat/manifests/1 with t0"]);
}

/// Most registries have a server of its own for tokens.
#[tokio::test]
async fn token_may_come_from_another_host() {
    let server = Script::start(|_, _| reply_with(200, &[], r#"{"token": "t"}"#)).await;
    let challenge = format!("Bearer realm=\"http://{}/token?x=y\"", server.address);
    let registry = Script::start(move |_, headers| match headers.contains_key("authorization") {
        true => found(),
        false => reply_with(401, &[("WWW-Authenticate", &challenge)], ""),
    })
    .await;
    let access = access(&registry, &[("", "ann", "1")]);
    registry.repository("org/cat:1", &access).digest(None).await.unwrap();
    assert_eq!(server.asked(), ["GET /token?x=y&scope=repository%3Aorg%2Fcat%3Apull as ann"]);
    let asked = "HEAD /v2/org/cat/manifests/1";
    assert_eq!(registry.asked(), [asked.to_owned(), format!("{asked} with t")]);
}

/// A store of layers that would have the password of the registry.
#[tokio::test]
async fn credentials_do_not_go_where_a_redirect_leads() {
    let store = Script::start(|_, headers| {
        let challenge = format!("Bearer realm=\"http://{}/token\"", headers["host"].to_str().unwrap());
        reply_with(401, &[("WWW-Authenticate", &challenge)], "")
    })
    .await;
    let location = format!("http://{}/manifest", store.address);
    let registry = Script::start(move |_, _| reply_with(307, &[("Location", &location)], "")).await;
    let access = access(&registry, &[("", "ann", "1")]);
    let error = registry.repository("org/cat:1", &access).digest(None).await.unwrap_err();
    assert!(error.is_denied(), "{error}");
    assert_eq!(store.asked(), ["HEAD /manifest"]);
}

#[tokio::test]
async fn registry_that_hides_what_is_not_allowed_is_asked_with_all_credentials() {
    for scheme in ["Basic realm=\"x\"", ""] {
        let registry = Script::start(move |asked, headers| {
            let shown = headers.get("authorization").map_or("", |shown| shown.to_str().unwrap());
            match super::super::tests::user(shown).as_str() {
                "as ann" => found(),
                _ if asked == "GET /v2/" && !scheme.is_empty() => reply_with(401, &[("WWW-Authenticate", scheme)], ""),
                _ => reply_with(404, &[], ""),
            }
        })
        .await;
        let access = access(&registry, &[("/org", "eve", "1"), ("", "ann", "1")]);
        registry.repository("org/cat:1", &access).digest(None).await.unwrap();
        let asked = "HEAD /v2/org/cat/manifests/1";
        assert_eq!(registry.asked(), [asked, "GET /v2/", &format!("{asked} as eve"), &format!("{asked} as ann")]);
        registry.repository("org/cat:1", &access).digest(None).await.unwrap();
        assert_eq!(registry.asked(), [format!("{asked} as ann")]);
        let error = registry.repository("org/cat:1", &Access::default()).digest(None).await.unwrap_err();
        assert_eq!(error.status(), Some(404));
        assert_eq!(registry.asked(), [asked, "GET /v2/org/cat/manifests/1"]);
    }
}

#[tokio::test]
async fn answer_that_is_no_token_is_an_error_without_its_text() {
    for (status, body, expected) in [
        (200, "<html>secret</html>".to_owned(), "the answer is not JSON with a token"),
        (200, r#"{"token": ["secret"]}"#.to_owned(), "the answer is not JSON with a token"),
        (200, r#"{"token": ""}"#.to_owned(), "the answer is not JSON with a token"),
        (200, r#"{"token": "a\nb"}"#.to_owned(), "the answer is not JSON with a token"),
        (200, format!(r#"{{"token": "{}"}}"#, "x".repeat(MAX_TOKEN)), "larger than 262144 bytes"),
        (500, String::new(), "500 Internal Server Error"),
    ] {
        let registry = Script::start(move |asked, headers| {
            if asked.starts_with("GET /token") {
                return reply_with(status, &[], &body);
            }
            let challenge = format!("Bearer realm=\"http://{}/token\"", headers["host"].to_str().unwrap());
            reply_with(401, &[("WWW-Authenticate", &challenge)], "")
        })
        .await;
        let error = registry.repository("cat:1", &Access::default()).digest(None).await.unwrap_err().to_string();
        assert!(error.contains(expected) && error.contains("get a token from 127.0.0.1"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

/// A registry elsewhere that would have its credentials sent to this machine, or in the clear.
#[tokio::test]
async fn credentials_do_not_go_where_a_redirect_may_not_lead() {
    let reference = parse_reference("registry.example/cat:1").unwrap();
    let repository = Access::default().repository(&reference).unwrap();
    for (realm, problem) in [
        ("http://auth.example/token", "from https to http"),
        ("https://169.254.169.254/latest", "to this machine or to its own link"),
        ("https://localhost/token", "to this machine"),
    ] {
        let challenge = Challenge::Bearer { realm: realm.parse().unwrap(), service: None, scope: None };
        let error = repository.answer("pull", 0, challenge).await.unwrap_err().to_string();
        assert!(error.contains(&format!("credentials do not go {problem}")), "{error}");
    }
}

#[test]
fn challenge_is_found_in_any_header_and_spelling() {
    let bearer = |scope: Option<&str>| Challenge::Bearer {
        realm: "https://auth.example/t".parse().unwrap(),
        service: Some("s".to_owned()),
        scope: scope.map(str::to_owned),
    };
    for (headers, expected) in [
        (vec!["Bearer realm=\"https://auth.example/t\",service=\"s\""], Some(bearer(None))),
        (vec!["bearer Realm=\"https://auth.example/t\", service=s, scope=\"a b\""], Some(bearer(Some("a b")))),
        (vec!["Basic realm=\"x\"", "Bearer realm=\"https://auth.example/t\",service=\"s\""], Some(bearer(None))),
        (vec!["Basic realm=\"x\", Bearer realm=\"https://auth.example/t\",service=\"s\""], Some(bearer(None))),
        (vec!["BASIC realm=\"x\""], Some(Challenge::Basic)),
        (vec!["Bearer realm=\"ftp://auth.example/t\""], None),
        (vec!["Bearer realm=\"nowhere\"", "Basic realm=\"x\""], Some(Challenge::Basic)),
        (vec!["Bearer"], None),
        (vec!["\"\"\",,,="], None),
        (vec![], None),
    ] {
        let mut map = HeaderMap::new();
        for text in &headers {
            map.append(WWW_AUTHENTICATE, text.parse().unwrap());
        }
        assert_eq!(challenge(&map), expected, "{headers:?}");
    }
}

#[test]
fn what_is_remembered_is_bounded() {
    let known = Known::default();
    for number in 0..3 * MAX_REMEMBERED {
        known.remember(&format!("r/{number}"), |known| known.login = number);
        assert!(known.state().repositories.len() <= MAX_REMEMBERED);
    }
    assert_eq!(known.of("r/1499").login, 1499);
}
