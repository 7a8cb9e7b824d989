use super::super::tests::{Script, reply_with};
use super::super::{Access, layer, parse_reference};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const MANIFEST: &str = r#"{"schemaVersion": 2}"#;

fn digest() -> String {
    layer::sha256(MANIFEST.as_bytes())
}

/// A registry whose one tag names this content.
async fn registry(content: Arc<Mutex<&'static str>>, entity_tags: bool) -> Script {
    Script::start(move |asked, headers| {
        let content = *content.lock().unwrap();
        assert!(headers["accept"].to_str().unwrap().contains("manifest.list.v2+json"));
        let digest = layer::sha256(content.as_bytes());
        let tag = format!("\"{digest}\"");
        if entity_tags && headers.get("if-none-match").is_some_and(|known| known.to_str().unwrap() == tag) {
            return reply_with(304, &[], "");
        }
        let tag = if entity_tags { ("ETag", tag.as_str()) } else { ("X-None", "") };
        let body = if asked.starts_with("HEAD") { "" } else { content };
        reply_with(200, &[("Docker-Content-Digest", &digest), tag], body)
    })
    .await
}

#[tokio::test]
async fn unchanged_tag_costs_one_head_request() {
    for entity_tags in [true, false] {
        let content = Arc::new(Mutex::new(MANIFEST));
        let registry = registry(content.clone(), entity_tags).await;
        let access = Access::default();
        let first = registry.repository("org/cat:1", &access).digest(None).await.unwrap();
        assert_eq!(first.digest, digest());
        for _ in 0..3 {
            let again = registry.repository("org/cat:1", &access).digest(Some(&first)).await.unwrap();
            assert_eq!(again, first);
        }
        assert_eq!(registry.asked(), vec!["HEAD /v2/org/cat/manifests/1"; 4]);
        *content.lock().unwrap() = "{}";
        let changed = registry.repository("org/cat:1", &access).digest(Some(&first)).await.unwrap();
        assert_eq!(changed.digest, layer::sha256(b"{}"));
        assert_eq!(registry.asked(), ["HEAD /v2/org/cat/manifests/1"]);
    }
}

/// What is known of one tag says nothing of another one.
#[tokio::test]
async fn entity_tag_is_sent_for_its_own_tag_only() {
    let registry = Script::start(|_, headers| {
        let digest = format!("sha256:{}", "1".repeat(64));
        let known = headers.contains_key("if-none-match");
        reply_with(if known { 304 } else { 200 }, &[("Docker-Content-Digest", &digest), ("ETag", "\"x\"")], "")
    })
    .await;
    let access = Access::default();
    let one = registry.repository("cat:1", &access).digest(None).await.unwrap();
    let other = registry.repository("cat:2", &access).digest(Some(&one)).await.unwrap();
    assert_ne!(one, other);
    assert_eq!(registry.repository("cat:1", &access).digest(Some(&one)).await.unwrap(), one);
}

#[tokio::test]
async fn registry_without_head_or_digest_is_asked_for_the_manifest() {
    // The status of a HEAD request, its headers, and whether that is remembered.
    for (status, header, remembered) in [
        (405, ("X", ""), true),
        (501, ("X", ""), true),
        (404, ("X", ""), false),
        (200, ("X", ""), true),
        (200, ("Docker-Content-Digest", "sha256:short"), true),
        (200, ("Docker-Content-Digest", "md5:0123"), true),
    ] {
        let registry = Script::start(move |asked, headers| match asked.starts_with("HEAD") {
            true => reply_with(status, &[header], ""),
            false if headers.contains_key("if-none-match") => reply_with(304, &[], ""),
            false => reply_with(200, &[("ETag", "\"x\"")], MANIFEST),
        })
        .await;
        let access = Access::default();
        let first = registry.repository("cat:1", &access).digest(None).await.unwrap();
        assert_eq!(first.digest, digest(), "{status} {header:?}");
        assert_eq!(registry.asked(), ["HEAD /v2/cat/manifests/1", "GET /v2/cat/manifests/1"]);
        assert_eq!(registry.repository("cat:1", &access).digest(Some(&first)).await.unwrap(), first);
        assert_eq!(registry.asked().len(), if remembered { 1 } else { 2 }, "{status} {header:?}");
    }
}

#[tokio::test]
async fn digest_that_is_named_is_not_asked_for() {
    let registry = Script::start(|_, _| reply_with(500, &[], "")).await;
    let found = registry.repository(&format!("cat@{}", digest()), &Access::default()).digest(None).await.unwrap();
    assert_eq!((found.digest, registry.asked().len()), (digest(), 0));
}

#[tokio::test]
async fn failed_poll_says_what_happened_and_when_to_ask_again() {
    for (status, headers, words, requests) in [
        (404, vec![], "404 Not Found NAME_UNKNOWN: no such repository (check repository", 2),
        (
            429,
            vec![("Retry-After", "30")],
            "429 Too Many Requests; it wants to be asked again in 30 s (the registry limits",
            1,
        ),
        (503, vec![], "503 Service Unavailable (the registry itself fails", 1),
        (403, vec![], "403 Forbidden, without credentials (name a pull secret", 1),
        (302, vec![("Location", "/v2/cat/manifests/1")], "more than 3 redirects", 1),
    ] {
        let answer = headers.clone();
        let registry = Script::start(move |asked, _| {
            let body = r#"{"errors": [{"code": "NAME_UNKNOWN", "message": "no such repository"}]}"#;
            reply_with(status, &answer, if asked.starts_with("HEAD") { "" } else { body })
        })
        .await;
        let access = Access { advice: super::super::Advice::Cluster, ..Access::default() };
        let error = registry.repository("cat:1", &access).digest(None).await.unwrap_err();
        let text = error.to_string();
        let place = format!("registry {}, repository cat: cannot ask for the digest of 1", registry.address);
        assert!(text.contains(words) && text.contains(&place), "{text}");
        assert_eq!(error.status(), (status != 302).then_some(status));
        assert_eq!(error.retry_after(), headers.first().filter(|_| status == 429).map(|_| Duration::from_secs(30)));
        assert_eq!(error.is_denied(), status == 403);
        assert!(registry.asked().len() == requests || status == 302, "{status}");
    }
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = Access::default().repository(&parse_reference(&format!("{free}/cat:1")).unwrap()).unwrap();
    let error = gone.digest(None).await.unwrap_err();
    assert!(error.status().is_none() && error.to_string().contains("--insecure-registry"), "{error}");
}
