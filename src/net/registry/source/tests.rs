use super::super::copy::{Progress, copy};
use super::super::image::Start;
use super::super::layer::{self, LayerFile, Packing};
use super::super::tests::{Fake, Script, keyring, reply_with};
use super::super::{Advice, image, pull_spec};
use super::*;
use crate::images::mirrors::By;
use futures::StreamExt;
use std::time::Duration;

const LIMITS: Limits = Limits {
    files: 10,
    bytes: 1000,
    file_bytes: 1000,
    packed: 1 << 20,
    unpacked: 1 << 20,
    window: 8 << 20,
    time: Duration::from_secs(60),
    slowest: None,
};

/// An image whose only file has this content.
fn catalog(content: &str) -> (Image, Vec<layer::Layer>) {
    let file = LayerFile { path: "configs/a".into(), mode: 0o444, bytes: content.into() };
    let layers = vec![layer::write(&[file], 0, Packing::USUAL).unwrap()];
    (image::scratch(&layers, &Start::default(), jiff::Timestamp::UNIX_EPOCH).unwrap(), layers)
}

async fn pushed(fake: &Fake, name: &str, content: &str) -> Image {
    let (image, layers) = catalog(content);
    fake.repository(name, &Access::default()).push(&image, layers, None).await.unwrap();
    image
}

fn rule(source: &str, by: By, contact_source: bool, mirrors: &[String]) -> Rule {
    let origin = "ImageDigestMirrorSet m".to_owned();
    Rule { source: source.to_owned(), mirrors: mirrors.to_vec(), by, contact_source, origin }
}

/// What is read of the image, or the error.
async fn read(sources: &Sources, name: &str) -> String {
    let image = parse(name).unwrap();
    let read = async {
        let opened = sources.open(&image, Platform::Preferred("amd64")).await?;
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("out");
        opened.write(&["configs"], &to, &LIMITS).await?;
        Ok::<_, RegistryError>(std::fs::read_to_string(to.join("configs/a")).unwrap())
    };
    read.await.unwrap_or_else(|error| error.to_string())
}

#[tokio::test]
async fn mirrors_are_asked_in_their_order_and_then_the_source() {
    let (source, first, second) = (Fake::start().await, Fake::start().await, Fake::start().await);
    let image = pushed(&source, "org/cat:1", "content").await;
    let name = format!("{}/org/cat", source.address());
    let by_digest = format!("{name}@{}", image.digest);
    let mirrors = [format!("{}/mirror", first.address()), format!("{}/other", second.address())];
    let rules = |by, contact| vec![rule(&format!("{}/org", source.address()), by, contact, &mirrors)];
    let sources = |mirrors| Sources { mirrors, ..Sources::default() };
    // No mirror has it.
    assert_eq!(read(&sources(rules(By::Digest, true)), &by_digest).await, "content");
    let error = read(&sources(rules(By::Digest, false)), &by_digest).await;
    for words in [first.address(), second.address(), "it cannot be read anywhere", "404", &image.digest] {
        assert!(error.contains(words), "{words}: {error}");
    }
    assert!(!error.contains("repository org/cat"), "the source is not asked: {error}");

    pushed(&second, "other/cat:1", "content").await;
    let before = source.count("GET blob");
    assert_eq!(read(&sources(rules(By::Digest, true)), &by_digest).await, "content");
    assert_eq!(source.count("GET blob"), before, "the mirror has it");
    // A mirror whose layer is gone is followed by the next place.
    second.forget(&image.manifest.layers[0].digest);
    assert_eq!(read(&sources(rules(By::Digest, true)), &by_digest).await, "content");
    assert_eq!(source.count("GET blob"), before + 1);

    // Rules by digest are not for tags, and a mirror of tags may have another image.
    pushed(&first, "mirror/cat:1", "mirrored").await;
    assert_eq!(read(&sources(rules(By::Digest, true)), &format!("{name}:1")).await, "content");
    assert_eq!(read(&sources(rules(By::Tag, true)), &format!("{name}:1")).await, "mirrored");
    let error = read(&sources(rules(By::Digest, false)), &format!("{name}:1")).await;
    assert!(error.contains("ImageDigestMirrorSet m forbids to contact its source"), "{error}");
}

#[tokio::test]
async fn poll_goes_the_same_way() {
    let digest = format!("sha256:{}", "5".repeat(64));
    let answer = digest.clone();
    let mirror = Script::start(move |_, _| reply_with(200, &[("Docker-Content-Digest", &answer)], "")).await;
    let source = Script::start(|_, _| reply_with(500, &[], "")).await;
    let mirrors = vec![rule(&source.address, By::Tag, true, &[format!("{}/m", mirror.address)])];
    let sources = Sources { mirrors, ..Sources::default() };
    let image = parse(&format!("{}/org/cat:1", source.address)).unwrap();
    let first = sources.digest(&image, None).await.unwrap();
    assert_eq!(sources.digest(&image, Some(&first)).await.unwrap().digest, digest);
    assert_eq!((mirror.asked(), source.asked().len()), (vec!["HEAD /v2/m/org/cat/manifests/1".to_owned(); 2], 0));

    // Who wants to be asked later is heard, wherever that was said.
    let busy = Script::start(|_, _| reply_with(429, &[("Retry-After", "7")], "")).await;
    let mirrors = vec![rule(&source.address, By::Tag, true, &[format!("{}/m", busy.address)])];
    let error = Sources { mirrors, ..Sources::default() }.digest(&image, None).await.unwrap_err();
    assert_eq!((error.status(), error.retry_after()), (Some(500), Some(Duration::from_secs(7))));
}

#[tokio::test]
async fn policy_is_kept_and_named() {
    let (source, mirror) = (Fake::start().await, Fake::start().await);
    pushed(&source, "org/cat:1", "content").await;
    pushed(&mirror, "org/cat:1", "content").await;
    let name = format!("{}/org/cat:1", source.address());
    let origin = "Image \"cluster\"".to_owned();
    let policy = |allowed: &[&str], blocked: &[&str]| Policy {
        allowed: allowed.iter().map(|it| it.to_string()).collect(),
        blocked: blocked.iter().map(|it| it.to_string()).collect(),
        insecure: Vec::new(),
        origin: origin.clone(),
        signed: Vec::new(),
    };
    let mirrors = vec![rule(source.address(), By::Tag, true, &[mirror.address().to_owned()])];
    let with = |policy, mirrors: &[Rule]| Sources { policy, mirrors: mirrors.to_vec(), ..Sources::default() };
    // The name counts for what is allowed, the place for what is blocked.
    assert_eq!(read(&with(policy(&[source.address()], &[]), &mirrors), &name).await, "content");
    assert!(
        read(&with(policy(&[mirror.address()], &[]), &mirrors), &name).await.contains("does not allow its registry")
    );
    assert_eq!(read(&with(policy(&[], &[source.address()]), &mirrors), &name).await, "content");
    assert_eq!(read(&with(policy(&[], &[mirror.address()]), &mirrors), &name).await, "content");
    let both = read(&with(policy(&[], &[mirror.address(), source.address()]), &mirrors), &name).await;
    for words in ["blockedRegistries has", source.address(), mirror.address(), "Image \"cluster\""] {
        assert!(both.contains(words), "{words}: {both}");
    }
    let requests = (source.count("GET blob"), mirror.count("GET blob"));
    let error = read(&with(policy(&[], &["127.0.0.1"]), &[]), &name).await;
    assert!(error.contains("blocks its registry (registrySources.blockedRegistries has \"127.0.0.1\")"), "{error}");
    assert_eq!((source.count("GET blob"), mirror.count("GET blob")), requests);
}

#[tokio::test]
async fn mirror_has_credentials_of_its_own() {
    let (source, mirror) = (Fake::start().await, Fake::start().await);
    pushed(&mirror, "m/cat:1", "content").await;
    mirror.require("ann:secret");
    let mirrors = vec![rule(source.address(), By::Tag, false, &[format!("{}/m", mirror.address())])];
    let mut sources = Sources { mirrors, ..Sources::default() };
    let name = format!("{}/cat:1", source.address());
    sources.access.advice = Advice::Cluster;
    let error = read(&sources, &name).await;
    assert!(error.contains("401") && error.contains("name a pull secret"), "{error}");
    sources.access.credentials = keyring(mirror.address(), &[("/m/cat", "eve", "wrong"), ("/m", "ann", "secret")]);
    assert_eq!(read(&sources, &name).await, "content");
}

/// Of what runs nowhere here there is often an image for one platform only.
#[tokio::test]
async fn image_for_another_platform_is_read() {
    let fake = Fake::start().await;
    let (arm, amd) = (pushed(&fake, "cat:arm", "arm").await, pushed(&fake, "cat:amd", "amd").await);
    let entry = |os: &str, architecture: &str, image: &Image| {
        serde_json::json!({"mediaType": image.media_type, "digest": image.digest, "size": image.manifest_bytes.len(),
                           "platform": {"os": os, "architecture": architecture}})
    };
    let kind = "application/vnd.oci.image.index.v1+json";
    for (entries, expected) in [
        (vec![entry("linux", "arm64", &arm), entry("linux", "amd64", &amd)], "amd"),
        (vec![entry("linux", "arm64", &arm)], "arm"),
        (vec![], "it is an index without images"),
    ] {
        let index = serde_json::json!({"schemaVersion": 2, "mediaType": kind, "manifests": entries}).to_string();
        fake.put("cat", "index", kind, index);
        let read = read(&Sources::default(), &format!("{}/cat:index", fake.address())).await;
        assert!(read.contains(expected), "{read}");
        let repository = fake.repository("cat:index", &Access::default());
        assert_eq!(repository.pull("amd64").await.is_ok(), expected == "amd", "what is to run needs its platform");
    }
}

/// Each of its bytes takes many in memory.
#[tokio::test]
async fn manifest_of_an_image_that_is_data_is_small() {
    let fake = Fake::start().await;
    let image = pushed(&fake, "cat:1", "content").await;
    let mut manifest = serde_json::to_value(&image.manifest).unwrap();
    manifest["annotations"] = serde_json::json!({"a": "x".repeat(600_000)});
    fake.put("cat", "large", &image.media_type, manifest.to_string());
    let error = read(&Sources::default(), &format!("{}/cat:large", fake.address())).await;
    assert!(error.contains("cannot read manifest large: it is larger than 524288 bytes"), "{error}");
    fake.repository("cat:large", &Access::default()).pull("amd64").await.unwrap();
}

#[tokio::test]
async fn page_in_place_of_a_registry_is_told() {
    let page = Script::start(|_, _| reply_with(200, &[("Content-Type", "text/html; charset=utf-8")], "<html>")).await;
    let error = read(&Sources::default(), &format!("{}/cat:1", page.address)).await;
    for words in ["cannot pull manifest 1: the answer is an HTML page", "a login page", &page.address, "repository cat"]
    {
        assert!(error.contains(words), "{words}: {error}");
    }
    let missing = Script::start(|_, _| reply_with(404, &[("Content-Type", "text/html")], "<html>long</html>")).await;
    let error = read(&Sources::default(), &format!("{}/cat:1", missing.address)).await;
    assert!(error.contains("404 Not Found (an HTML page) (check repository"), "{error}");
}

/// A byte now and then, for ever, or as many as there are time for.
fn endless(pause: Duration, chunk: usize) -> axum::body::Body {
    let chunks = futures::stream::repeat(vec![b' '; chunk]).then(move |chunk| async move {
        tokio::time::sleep(pause).await;
        Ok::<_, std::convert::Infallible>(chunk)
    });
    axum::body::Body::from_stream(chunks)
}

#[tokio::test]
async fn registry_that_drips_or_never_ends_is_given_up() {
    const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
    let part = |size: usize| serde_json::json!({"mediaType": "x", "digest": format!("sha256:{}", "0".repeat(64)), "size": size});
    let manifest =
        serde_json::json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": part(5 << 20), "layers": [part(1000)]});
    let manifest = manifest.to_string();
    for (what, pause, chunk, words) in [
        ("manifests", 10, 1, "cannot pull manifest 1: the registry has not sent all of it within 0 s"),
        ("manifests", 0, 100_000, "cannot pull manifest 1: it is larger than 4194304 bytes"),
        ("blobs", 10, 1, "the registry has not sent all of it within 0 s"),
        ("blobs", 0, 100_000, "it is larger than 524288 bytes"),
        ("token", 10, 1, "get a token from 127.0.0.1: the registry has not sent all of it within 0 s"),
        ("token", 0, 100_000, "get a token from 127.0.0.1: it is larger than 262144 bytes"),
        ("error", 10, 1, "503 Service Unavailable (the registry itself fails"),
        ("error", 0, 100_000, "503 Service Unavailable (the registry itself fails"),
    ] {
        let manifest = manifest.clone();
        let registry = Script::start(move |asked, headers| {
            let challenge = format!("Bearer realm=\"http://{}/token\"", headers["host"].to_str().unwrap());
            let answer =
                |status: u16| axum::http::Response::builder().status(status).header("WWW-Authenticate", &challenge);
            match what {
                "token" if !asked.contains("/token") => answer(401).body(axum::body::Body::empty()).unwrap(),
                "error" => answer(503).body(endless(Duration::from_millis(pause), chunk)).unwrap(),
                "blobs" if asked.contains("/manifests/") => reply_with(200, &[], &manifest),
                _ => answer(200).body(endless(Duration::from_millis(pause), chunk)).unwrap(),
            }
        })
        .await;
        let mut repository = registry.repository("cat:1", &Access::default());
        repository.document_timeout = Duration::from_millis(300);
        let place = Place::Registry(Box::new(repository));
        let error = place.image("1", Platform::Preferred("amd64")).await.unwrap_err().to_string();
        assert!(error.contains(words), "{what} {pause}: {error}");
    }
}

/// A registry with a certificate that nobody has signed, and one without.
#[tokio::test]
async fn insecure_registry_needs_no_certificate() {
    let digest = format!("sha256:{}", "5".repeat(64));
    let found = || {
        let digest = digest.clone();
        axum::Router::new().fallback(move || async move { reply_with(200, &[("Docker-Content-Digest", &digest)], "") })
    };
    let (address, bundle) = crate::net::http::tests::serve_tls("0.0.0.0", found()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let plain = listener.local_addr().unwrap();
    let app = found();
    tokio::spawn(async move { axum::serve(listener, app).await });
    let sources = |insecure: &[&str]| Sources {
        policy: Policy { insecure: insecure.iter().map(|it| it.to_string()).collect(), ..Policy::default() },
        ..Sources::default()
    };
    let poll = async |sources: Sources, name: String| {
        let found = sources.digest(&parse(&name).unwrap(), None).await;
        found.map_or_else(|error| error.to_string(), |found| found.digest)
    };
    // It means this machine, but is none of the names whose registries are trusted for it.
    let host = "0.0.0.0";
    let secure = format!("{host}:{}", address.port());
    let error = poll(sources(&[]), format!("{secure}/cat:1")).await;
    assert!(error.contains("certificate"), "{error}");
    assert_eq!(poll(sources(&[&secure]), format!("{secure}/cat:1")).await, digest);
    let open = format!("{host}:{}", plain.port());
    assert!(poll(sources(&[]), format!("{open}/cat:1")).await.contains("cannot ask for the digest"));
    assert_eq!(poll(sources(&[&open]), format!("{open}/cat:1")).await, digest);
    // With its own CA it is a registry like any other. The CA is for it alone.
    for (registry, trusted) in [(secure.clone(), true), ("elsewhere.example".to_owned(), false)] {
        let mut with_ca = sources(&[]);
        with_ca.access.registry_ca.insert(registry, bundle.pem.clone().into_bytes());
        assert_eq!(poll(with_ca, format!("{secure}/cat:1")).await == digest, trusted);
    }
    // A certificate may end without a line break. And who has another CA from now on is not kept from using it.
    let (_, other) = crate::net::http::tests::serve_tls("127.0.0.1", found()).await;
    let mut with_both = sources(&[]);
    with_both.access.extra_ca = other.pem.trim_end().as_bytes().to_vec();
    assert!(poll(with_both.clone(), format!("{secure}/cat:1")).await.contains("certificate"));
    with_both.access.registry_ca.insert(secure.clone(), bundle.pem.clone().into_bytes());
    assert_eq!(poll(with_both, format!("{secure}/cat:1")).await, digest);
    assert_eq!(pull_spec(&parse_reference("a.example/b:1").unwrap(), "sha256:1"), "a.example/b@sha256:1");
}

/// It would be another image tomorrow, and it becomes a part of a URL.
#[tokio::test]
async fn what_is_no_digest_is_not_asked_for() {
    let fake = Fake::start().await;
    let image = pushed(&fake, "cat:1", "content").await;
    let kind = "application/vnd.oci.image.index.v1+json";
    for digest in ["1", "sha256:../../other/manifests/1"] {
        let entry = serde_json::json!({"mediaType": image.media_type, "digest": digest, "size": 1});
        let index = serde_json::json!({"schemaVersion": 2, "mediaType": kind, "manifests": [entry]}).to_string();
        fake.put("cat", "index", kind, index);
        let error = read(&Sources::default(), &format!("{}/cat:index", fake.address())).await;
        assert!(
            error.contains("cannot read manifest index") && error.contains(&format!("has {digest:?} in place")),
            "{error}"
        );
        let folder = tempfile::tempdir().unwrap();
        let to = Place::Folder(super::super::layout::Layout::create(folder.path()).await.unwrap());
        let from = Place::Registry(Box::new(fake.repository("cat:index", &Access::default())));
        let error = copy(&from, &to, "index", None, &progress()).await.unwrap_err().to_string();
        assert!(error.contains("in place of a digest"), "{error}");
    }

    let registry = Script::start(|_, _| reply_with(500, &[], "")).await;
    let place = Place::Registry(Box::new(registry.repository("cat:1", &Access::default())));
    let mut image = image;
    image.manifest.layers[0].digest = "sha256:../../../logout".to_owned();
    let folder = tempfile::tempdir().unwrap();
    let error = files::write(&place, &image, &["configs"], &folder.path().join("out"), &LIMITS).await.unwrap_err();
    assert!(error.to_string().contains("in place of a digest"), "{error}");
    assert!(registry.asked().is_empty());
}

fn progress() -> std::sync::Arc<dyn Progress> {
    struct Silent;
    impl Progress for Silent {
        fn expect(&self, _bytes: u64) {}
        fn done(&self, _bytes: u64, _copied: bool) {}
    }
    std::sync::Arc::new(Silent)
}

/// What says more than that a place may not be asked.
#[tokio::test]
async fn status_is_that_of_the_last_place_that_has_answered() {
    let (source, mirror) = (Fake::start().await, Fake::start().await);
    mirror.require("ann:secret");
    let mirrors = vec![rule(source.address(), By::Tag, true, &[mirror.address().to_owned()])];
    let policy = Policy { blocked: vec![source.address().to_owned()], ..Policy::default() };
    let sources = Sources { mirrors, policy, ..Sources::default() };
    let image = parse(&format!("{}/cat:1", source.address())).unwrap();
    let error = sources.digest(&image, None).await.unwrap_err();
    assert!(error.is_denied() && error.to_string().contains("blockedRegistries"), "{error}");
}
