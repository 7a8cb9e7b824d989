//! Tests against a fake registry in this process, which can refuse, count and send wrong content; and against a real one if
//! its program is installed.

use super::blocking::{Blocking, Slowest};
use super::image::{Start, append, scratch};
use super::layer::{Layer, LayerFile, Packing};
use super::*;
use crate::images::credentials::Format;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use futures::StreamExt;
use oci_client::manifest::OCI_IMAGE_MEDIA_TYPE;
use std::collections::HashMap;
use std::io::Read;
use std::sync::Mutex;
use tokio::io::AsyncWriteExt;
use tokio_util::sync::CancellationToken;

#[derive(Default)]
struct Stored {
    blobs: HashMap<(String, String), Bytes>,
    manifests: HashMap<(String, String), (String, Bytes)>,
    /// `PUT blob`, `MOUNT`, `GET blob`, `PUT manifest`.
    log: Vec<&'static str>,
    /// `user:password` that is required.
    login: Option<String>,
    can_mount: bool,
    /// Sent instead of any blob.
    wrong_blob: Option<Bytes>,
    /// Sends no more than the beginning of a blob, and takes none.
    stalls: bool,
}

#[derive(Clone, Default)]
pub(crate) struct Fake {
    stored: Arc<Mutex<Stored>>,
    address: String,
}

impl Fake {
    pub(crate) async fn start() -> Fake {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let fake = Fake { address: listener.local_addr().unwrap().to_string(), ..Fake::default() };
        let stored = fake.stored.clone();
        let app = axum::Router::new().fallback(move |request: Request<Body>| {
            let stored = stored.clone();
            async move {
                let stalls = stored.lock().unwrap().stalls;
                if stalls && request.method() == Method::PUT {
                    std::future::pending::<()>().await;
                }
                let (parts, body) = request.into_parts();
                let body = axum::body::to_bytes(body, usize::MAX).await.unwrap();
                answer(&mut stored.lock().unwrap(), &parts.method, &parts.uri, &parts.headers, body)
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        fake
    }

    pub(crate) fn repository(&self, name: &str, access: &Access) -> Repository {
        access.repository(&parse_reference(&format!("{}/{name}", self.address)).unwrap()).unwrap()
    }

    /// For the names of images.
    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// Requires this login, `user:password`.
    pub(crate) fn require(&self, login: &str) {
        self.stored.lock().unwrap().login = Some(login.to_owned());
    }

    /// The same with any bytes.
    pub(super) fn send_instead(&self, content: Vec<u8>) {
        self.stored.lock().unwrap().wrong_blob = Some(content.into());
    }

    /// Has this manifest from now on.
    pub(crate) fn put(&self, repository: &str, tag: &str, kind: &str, manifest: String) {
        let stored = (kind.to_owned(), manifest.into());
        self.stored.lock().unwrap().manifests.insert((repository.to_owned(), tag.to_owned()), stored);
    }

    /// Has no content of this digest any more.
    pub(crate) fn forget(&self, digest: &str) {
        self.stored.lock().unwrap().blobs.retain(|(_, known), _| known != digest);
    }

    pub(crate) fn count(&self, what: &str) -> usize {
        self.stored.lock().unwrap().log.iter().filter(|entry| **entry == what).count()
    }
}

fn reply(status: u16, headers: &[(&str, &str)], body: Bytes) -> Response<Body> {
    let builder = headers.iter().fold(Response::builder().status(status), |b, (k, v)| b.header(*k, *v));
    builder.body(Body::from(body)).unwrap()
}

fn answer(stored: &mut Stored, method: &Method, uri: &Uri, headers: &HeaderMap, body: Bytes) -> Response<Body> {
    if let Some(login) = &stored.login {
        use base64::Engine;
        let required = format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(login));
        if headers.get("authorization").is_none_or(|given| given.as_bytes() != required.as_bytes()) {
            return reply(401, &[("WWW-Authenticate", "Basic realm=\"x\"")], Bytes::new());
        }
    }
    let path = uri.path().trim_start_matches("/v2/");
    let query = uri.query().unwrap_or_default();
    let part = |key: &str| {
        let found = query.split('&').find_map(|p| p.strip_prefix(key)).unwrap_or_default();
        found.replace("%3A", ":").replace("%2F", "/")
    };
    if path.is_empty() || path == "/v2" {
        return reply(200, &[], Bytes::new());
    }
    if let Some((repository, name)) = path.split_once("/manifests/") {
        let key = (repository.to_string(), name.to_string());
        if *method == Method::PUT {
            stored.log.push("PUT manifest");
            let kind = headers["content-type"].to_str().unwrap().to_string();
            stored.manifests.insert((key.0.clone(), layer::sha256(&body)), (kind.clone(), body.clone()));
            stored.manifests.insert(key, (kind, body));
            return reply(201, &[("Location", uri.path())], Bytes::new());
        }
        return match stored.manifests.get(&key) {
            Some((kind, bytes)) => reply(200, &[("Content-Type", kind)], bytes.clone()),
            None => reply(404, &[], "{\"errors\":[{\"code\":\"MANIFEST_UNKNOWN\"}]}".into()),
        };
    }
    let (repository, digest) = path.split_once("/blobs/").unwrap();
    if let Some(session) = digest.strip_prefix("uploads/") {
        let digest = part("digest=");
        if *method == Method::PUT && session == "1" {
            assert_eq!(layer::sha256(&body), digest);
            stored.log.push("PUT blob");
            stored.blobs.insert((repository.into(), digest), body);
            return reply(201, &[("Location", "/v2/x")], Bytes::new());
        }
        let from = (part("from="), part("mount="));
        if let Some(bytes) = stored.blobs.get(&from).cloned().filter(|_| stored.can_mount) {
            stored.log.push("MOUNT");
            stored.blobs.insert((repository.into(), from.1), bytes);
            return reply(201, &[("Location", "/v2/x")], Bytes::new());
        }
        return reply(202, &[("Location", &format!("/v2/{repository}/blobs/uploads/1"))], Bytes::new());
    }
    let found = stored.blobs.get(&(repository.to_string(), digest.to_string())).cloned();
    match found {
        None => reply(404, &[], Bytes::new()),
        Some(_) if *method == Method::HEAD => reply(StatusCode::OK.as_u16(), &[], Bytes::new()),
        Some(bytes) if stored.stalls => {
            let beginning = futures::stream::once(async move { Ok::<_, std::convert::Infallible>(bytes.slice(..1)) });
            Response::new(Body::from_stream(beginning.chain(futures::stream::pending())))
        }
        Some(bytes) => {
            stored.log.push("GET blob");
            reply(200, &[], stored.wrong_blob.clone().unwrap_or(bytes))
        }
    }
}

/// Credentials for parts of a registry: path, user, password.
pub(crate) fn keyring(registry: &str, entries: &[(&str, &str, &str)]) -> Keyring {
    let entry = |(path, user, password): &(&str, &str, &str)| {
        (format!("{registry}{path}"), serde_json::json!({"username": user, "password": password}))
    };
    let auths: serde_json::Map<_, _> = entries.iter().map(entry).collect();
    let mut keyring = Keyring::default();
    let config = serde_json::json!({"auths": auths}).to_string();
    keyring.add(config.as_bytes(), Format::DockerConfigJson, "Secret ns/pull").unwrap();
    keyring
}

fn one_layer(path: &str, content: &str) -> Layer {
    let file = LayerFile { path: path.into(), mode: 0o444, bytes: content.into() };
    layer::write(&[file], 0, Packing::USUAL).unwrap()
}

pub(super) fn base() -> (Image, Vec<Layer>) {
    let layers = vec![one_layer("usr/bin/cvo", "program"), one_layer("manifests/own.yaml", "own")];
    let start = Start { architecture: "amd64".into(), ..Start::default() };
    (scratch(&layers, &start, jiff::Timestamp::UNIX_EPOCH).unwrap(), layers)
}

impl Fake {
    /// From now on it sends no more than the beginning of a blob, and takes none.
    pub(super) fn stall(&self) {
        self.stored.lock().unwrap().stalls = true;
    }

    /// A repository that waits for no longer than this in the middle of content.
    pub(super) fn impatient(&self, name: &str, pause: Duration) -> Repository {
        Access::default().connect(&parse_reference(&format!("{}/{name}", self.address)).unwrap(), pause, false).unwrap()
    }

    /// Sends this instead of any blob, or the blobs again.
    pub(crate) fn falsify(&self, content: Option<&'static str>) {
        self.stored.lock().unwrap().wrong_blob = content.map(Bytes::from);
    }
}

/// Pushes a base image and a release on it, and reads everything back.
async fn round_trip(from: &Repository, to: &Repository) {
    let (base_image, layers) = base();
    assert_eq!(from.push(&base_image, layers, None).await.unwrap(), base_image.digest);
    let pulled = from.pull("amd64").await.unwrap();
    assert_eq!((&pulled.digest, &pulled.config), (&base_image.digest, &base_image.config));

    let top = one_layer("release-manifests/a.yaml", "a");
    let release = append(&pulled, &top, &BTreeMap::new(), jiff::Timestamp::UNIX_EPOCH).unwrap();
    assert_eq!(to.push(&release, vec![top], Some(from)).await.unwrap(), release.digest);
    let pulled = to.pull("amd64").await.unwrap();
    assert_eq!(pulled.digest, release.digest);
    let found = to.gather(&pulled, &["manifests/", "release-manifests/"], |_| false).await.unwrap();
    let seen: Vec<_> = found.files.iter().map(|(k, v)| (k.as_str(), v.as_slice())).collect();
    assert_eq!(seen, [("manifests/own.yaml", b"own".as_slice()), ("release-manifests/a.yaml", b"a".as_slice())]);
}

#[tokio::test]
async fn images_are_copied_within_and_between_repositories_and_registries() {
    let (one, two, access) = (Fake::start().await, Fake::start().await, Access::default());
    round_trip(&one.repository("base:1", &access), &one.repository("base:release", &access)).await;
    assert_eq!(one.count("PUT blob"), 5, "two layers and a config, then only the new layer and the new config");

    one.stored.lock().unwrap().can_mount = true;
    round_trip(&one.repository("base:1", &access), &one.repository("org/other:1", &access)).await;
    assert_eq!((one.count("MOUNT"), one.count("PUT blob")), (2, 7), "the layers of the base are mounted");

    one.stored.lock().unwrap().can_mount = false;
    round_trip(&one.repository("base:1", &access), &one.repository("org/third:1", &access)).await;
    assert_eq!(one.count("PUT blob"), 11, "a registry that cannot mount gets copies");

    round_trip(&one.repository("base:1", &access), &two.repository("far:1", &access)).await;
    assert_eq!(two.count("PUT blob"), 4);
    let before = two.count("PUT blob");
    round_trip(&one.repository("base:1", &access), &two.repository("far:2", &access)).await;
    assert_eq!(two.count("PUT blob"), before, "existing blobs are not sent again");
}

#[tokio::test]
async fn credentials_are_sent_and_missing_ones_are_explained() {
    let fake = Fake::start().await;
    fake.stored.lock().unwrap().login = Some("ann:secret".into());
    let access = Access { credentials: keyring(&fake.address, &[("", "ann", "secret")]), ..Access::default() };
    round_trip(&fake.repository("a:1", &access), &fake.repository("b:1", &access)).await;

    let (image, layers) = base();
    let anonymous = fake.repository("a:1", &Access::default());
    for message in [
        anonymous.pull("amd64").await.unwrap_err().to_string(),
        anonymous.push(&image, layers, None).await.unwrap_err().to_string(),
    ] {
        assert!(message.contains(&fake.address) && message.contains("--registry-config"), "{message}");
    }
}

#[tokio::test]
async fn content_that_does_not_match_its_digest_is_refused() {
    let fake = Fake::start().await;
    let repository = fake.repository("a:1", &Access::default());
    let (image, layers) = base();
    repository.push(&image, layers, None).await.unwrap();
    fake.stored.lock().unwrap().wrong_blob = Some(vec![0_u8; 1 << 20].into());
    let longer = repository.gather(&image, &["manifests/"], |_| false).await.unwrap_err().to_string();
    let size = image.manifest.layers[1].size;
    assert!(longer.contains(&format!("more than the {size} bytes of its manifest")), "{longer}");
    fake.stored.lock().unwrap().wrong_blob = Some(one_layer("manifests/own.yaml", "evil").bytes.whole().into());
    let gathered = repository.gather(&image, &["manifests/"], |_| false).await;
    let message = gathered.unwrap_err().to_string();
    assert!(message.contains("a:1") && message.contains(&image.manifest.layers[1].digest), "{message}");
    assert!(repository.pull("amd64").await.is_err(), "the config is wrong too");

    // A manifest under a digest that is not its own.
    let other = format!("sha256:{}", "0".repeat(64));
    {
        let mut stored = fake.stored.lock().unwrap();
        let manifest = stored.manifests[&("a".to_string(), "1".to_string())].clone();
        stored.manifests.insert(("a".into(), other.clone()), manifest);
    }
    let message =
        fake.repository(&format!("a@{other}"), &Access::default()).pull("amd64").await.unwrap_err().to_string();
    assert!(message.contains(&format!("content with digest {}", image.digest)), "{message}");
}

#[tokio::test]
async fn index_yields_the_image_of_the_architecture() {
    let fake = Fake::start().await;
    let repository = fake.repository("a:1", &Access::default());
    let (image, layers) = base();
    repository.push(&image, layers, None).await.unwrap();
    let entry = |arch: &str, digest: &str| {
        serde_json::json!({"mediaType": OCI_IMAGE_MEDIA_TYPE, "digest": digest, "size": 1,
                           "platform": {"os": "linux", "architecture": arch}})
    };
    let absent = format!("sha256:{}", "1".repeat(64));
    let index = serde_json::json!({"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json",
                                   "manifests": [entry("arm64", &absent), entry("amd64", &image.digest)]});
    let stored = ("application/vnd.oci.image.index.v1+json".to_string(), index.to_string().into());
    fake.stored.lock().unwrap().manifests.insert(("a".into(), "multi".into()), stored);
    let multi = fake.repository("a:multi", &Access::default());
    assert_eq!(multi.pull("amd64").await.unwrap().digest, image.digest);
    assert!(multi.pull("s390x").await.unwrap_err().to_string().contains("without an image for linux/s390x"));
}

#[tokio::test]
async fn missing_or_too_large_content_is_explained() {
    let fake = Fake::start().await;
    let access = Access::default();
    let message = fake.repository("none:1", &access).pull("amd64").await.unwrap_err().to_string();
    assert!(message.contains("pull manifest 1: 404") && message.contains("check repository"), "{message}");

    let huge = (OCI_IMAGE_MEDIA_TYPE.to_string(), vec![b' '; MAX_DOCUMENT as usize + 1].into());
    fake.stored.lock().unwrap().manifests.insert(("a".into(), "huge".into()), huge);
    let message = fake.repository("a:huge", &access).pull("amd64").await.unwrap_err().to_string();
    assert!(message.contains("larger than 4194304 bytes"), "{message}");

    let junk = (OCI_IMAGE_MEDIA_TYPE.to_string(), "<html>".into());
    fake.stored.lock().unwrap().manifests.insert(("a".into(), "junk".into()), junk);
    let message = fake.repository("a:junk", &access).pull("amd64").await.unwrap_err().to_string();
    assert!(message.contains("read manifest junk"), "{message}");

    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let gone = access.repository(&parse_reference(&format!("{free}/a:1")).unwrap()).unwrap();
    let message = gone.pull("amd64").await.unwrap_err().to_string();
    assert!(message.contains("--insecure-registry") && message.contains("refused"), "{message}");

    let message = parse_reference("r.example/UPPER").unwrap_err().to_string();
    assert!(message.contains("r.example/UPPER") && message.contains("REGISTRY/REPOSITORY:TAG"), "{message}");
}

#[test]
fn local_registries_are_recognized() {
    for (registry, local) in [
        ("localhost:5000", true),
        ("127.0.0.1", true),
        ("127.0.0.1:5000", true),
        ("127.8.9.1:1", true),
        ("localhost.example.com", false),
        ("127.example.com", false),
        ("127.registry.example.com", false),
        ("registry.example:5000", false),
    ] {
        assert_eq!(is_local(registry), local, "{registry}");
    }
}

/// The real registry (Debian: docker-registry), if `CVO_TEST_REGISTRY` names its program or it is on the path.
#[tokio::test]
async fn real_registry_behaves_the_same() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let dir = tempfile::tempdir().unwrap();
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let config = dir.path().join("config.yml");
    let text = format!(
        "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\nhttp: {{addr: '127.0.0.1:{port}'}}\n",
        dir.path().join("data").display()
    );
    std::fs::write(&config, text).unwrap();
    let program = std::env::var_os("CVO_TEST_REGISTRY").unwrap_or_else(|| "docker-registry".into());
    let started = tokio::process::Command::new(&program)
        .arg("serve")
        .arg(&config)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let Ok(_registry) = started else {
        println!("skipped: no {} (set CVO_TEST_REGISTRY to its path)", program.display());
        return;
    };
    let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
    while tokio::net::TcpStream::connect(("127.0.0.1", port)).await.is_err() {
        assert!(tokio::time::Instant::now() < deadline, "the registry does not listen");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let repository = |name: &str| {
        Access::default().repository(&parse_reference(&format!("127.0.0.1:{port}/{name}")).unwrap()).unwrap()
    };
    round_trip(&repository("base:1"), &repository("base:2")).await;
    round_trip(&repository("base:1"), &repository("org/platform:1.0.0")).await;
    let message = repository("org/none:1").pull("amd64").await.unwrap_err().to_string();
    assert!(message.contains("404") && message.contains("org/none"), "{message}");
}

/// Whoever reads byte after byte of it would never be done.
#[tokio::test]
async fn layer_that_does_not_end_is_given_up() {
    let hundred: &'static [u8] = &[0; 100];
    let (silent, _kept) = tokio::io::duplex(1);
    let (unwanted, _also_kept) = tokio::io::duplex(1);
    let (soon, later) = (Duration::from_millis(20), Duration::from_secs(3600));
    let (stop, never) = (CancellationToken::new(), CancellationToken::new());
    stop.cancel();
    let mut silent = Blocking::new(silent, 100, soon, never.clone());
    let mut unwanted = Blocking::new(unwanted, 100, later, stop);
    let mut endless = Blocking::new(tokio::io::repeat(0), 100, later, never.clone());
    let mut exact = Blocking::new(hundred, 100, later, never);
    let read = tokio::task::spawn_blocking(move || {
        let copied = |body: &mut dyn Read| std::io::copy(body, &mut std::io::sink()).map_err(|e| e.to_string());
        [copied(&mut silent), copied(&mut unwanted), copied(&mut endless), copied(&mut exact)]
    });
    let [silent, unwanted, endless, exact] = read.await.unwrap();
    assert!(silent.unwrap_err().contains("has not sent all of it"));
    assert!(unwanted.unwrap_err().contains("nobody waits"));
    assert!(endless.unwrap_err().contains("more than the 100 bytes"));
    assert_eq!(exact, Ok(100));
}

/// What comes bit by bit keeps others waiting. How long its reader needs for each bit is not the fault of the registry.
#[tokio::test]
async fn layer_that_comes_too_slowly_is_given_up_though_it_always_goes_on() {
    let slowest = Slowest { rate: 100_000, grace: Duration::from_millis(40) };
    let (hour, never) = (Duration::from_secs(3600), CancellationToken::new());
    let (dripping, mut sender) = tokio::io::duplex(1);
    tokio::spawn(async move {
        while sender.write_all(b"x").await.is_ok() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    let mut dripping = Blocking::new(dripping, 1 << 20, hour, never.clone()).slowest(Some(slowest));
    let mut coming = Blocking::new(tokio::io::repeat(0), 1 << 20, hour, never).slowest(Some(slowest));
    let read = tokio::task::spawn_blocking(move || {
        let slow = std::io::copy(&mut dripping, &mut std::io::sink()).unwrap_err().to_string();
        coming.read_exact(&mut [0; 10]).unwrap();
        std::thread::sleep(slowest.grace * 3);
        (slow, coming.read_exact(&mut [0; 10]).is_ok())
    });
    let (slow, goes_on) = read.await.unwrap();
    assert!(slow.contains("sends less than 100000 bytes a second"), "{slow}");
    assert!(goes_on);
}

/// A server that answers as a test says, and remembers what it was asked: method, path and query, user or token.
#[derive(Clone)]
pub(super) struct Script {
    pub address: String,
    pub log: Arc<Mutex<Vec<String>>>,
}

impl Script {
    pub(super) async fn start<F>(answer: F) -> Script
    where
        F: Fn(&str, &HeaderMap) -> Response<Body> + Clone + Send + Sync + 'static,
    {
        let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let script = Script { address: listener.local_addr().unwrap().to_string(), log: Arc::default() };
        let log = script.log.clone();
        let app = axum::Router::new().fallback(move |request: Request<Body>| {
            let (answer, log) = (answer.clone(), log.clone());
            async move {
                let path = request.uri().path_and_query().unwrap();
                let asked = format!("{} {path}", request.method());
                let shown = request.headers().get("authorization").map_or("", |shown| shown.to_str().unwrap());
                log.lock().unwrap().push(format!("{asked} {}", user(shown)).trim().to_owned());
                answer(&asked, request.headers())
            }
        });
        tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        script
    }

    /// What it was asked since the last time.
    pub(super) fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.log.lock().unwrap())
    }

    pub(crate) fn repository(&self, name: &str, access: &Access) -> Repository {
        access.repository(&parse_reference(&format!("{}/{name}", self.address)).unwrap()).unwrap()
    }
}

/// `as ann`, or `with TOKEN`.
pub(super) fn user(shown: &str) -> String {
    use base64::Engine;
    match shown.split_once(' ') {
        Some(("Basic", encoded)) => {
            let decoded = base64::engine::general_purpose::STANDARD.decode(encoded).unwrap();
            format!("as {}", String::from_utf8(decoded).unwrap().split_once(':').unwrap().0)
        }
        Some((_, token)) => format!("with {token}"),
        None => String::new(),
    }
}

pub(super) fn reply_with(status: u16, headers: &[(&str, &str)], body: &str) -> Response<Body> {
    reply(status, headers, body.to_owned().into())
}
