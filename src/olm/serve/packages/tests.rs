//! Requests over loopback, as API servers pass them on.

mod csvs;
mod large;

use super::access::tests::api_server;
use super::state::tests::served;
use super::*;
use crate::olm::catalog::served::tests::{content, flaky};
use crate::olm::packages::tests::blobs;
use crate::serve::certificate::tests::Authority;
use crate::serve::front_proxy::tests::config_map;
use flate2::read::GzDecoder;
use reqwest::StatusCode;
use serde_json::{Value, json};
use std::io::Read;
use std::sync::atomic::{AtomicUsize, Ordering};

const GLOBAL: &str = "openshift-marketplace";
const V1: &str = "/apis/packages.operators.coreos.com/v1";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";

/// A server, and an API server in front of it.
struct Running {
    base: String,
    authority: Authority,
    trusted: String,
    client: reqwest::Client,
    server: Arc<PackageServer>,
    catalogs: watch::Sender<Arc<Catalogs>>,
    behind: watch::Sender<Option<Instant>>,
    front_proxy: watch::Sender<Result<FrontProxy, String>>,
    certificate: watch::Sender<Option<Arc<CertifiedKey>>>,
    stopping: CancellationToken,
    stop: CancellationToken,
    asked: Arc<AtomicUsize>,
}

/// A certificate for the server, and its PEM.
fn certificate() -> (Option<Arc<CertifiedKey>>, String) {
    let made = rcgen::generate_simple_self_signed(vec!["127.0.0.1".to_owned()]).unwrap();
    let pem = made.cert.pem();
    (Some(Arc::new(tls::key_pair(&pem, &made.signing_key.serialize_pem()).unwrap())), pem)
}

fn catalogs() -> Arc<Catalogs> {
    let global = Arc::new(content(&[blobs("a"), blobs("b")].concat()).0);
    let own = Arc::new(content(&blobs("b")).0);
    let other = Arc::new(content(&blobs("c")).0);
    Arc::new(
        [served(GLOBAL, "community", &global), served("team", "own", &own), served("other", "theirs", &other)].into(),
    )
}

/// A client with this certificate.
fn client(trusted: &str, identity: Option<&str>, http1: bool) -> reqwest::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let trusted = reqwest::Certificate::from_pem(trusted.as_bytes()).unwrap();
    let mut client = reqwest::Client::builder().no_proxy().no_gzip().tls_certs_only([trusted]);
    if http1 {
        client = client.http1_only();
    }
    let identity = identity.map(|pem| reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
    identity.into_iter().fold(client, reqwest::ClientBuilder::identity).build().unwrap()
}

impl Running {
    async fn start() -> Running {
        Running::with(None).await
    }

    /// `csvs`: what namespaces see of ClusterServiceVersions.
    async fn with(csvs: Option<Arc<dyn CsvSource>>) -> Running {
        let authority = Authority::new("front-proxy");
        let (key, trusted) = certificate();
        let (catalogs, received) = watch::channel(catalogs());
        let (behind, late) = watch::channel(None);
        let (front_proxy, proxy) = watch::channel(FrontProxy::parse(&config_map(&authority, &[])));
        let (certificate, used) = watch::channel(key);
        let (stopping, stop, asked) =
            (CancellationToken::new(), CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
        let sources = Sources {
            global: GLOBAL.to_owned(),
            catalogs: received,
            behind: late,
            front_proxy: proxy,
            certificate: used,
            demands: watch::channel(tls::Demands::default()).1,
            stopping: stopping.clone(),
            reviews: Reviews(Arc::new(|namespace, body| {
                let answer = match body.as_slice() {
                    b"bad" => Err(Status::bad_request("bad")),
                    body => Ok(json!({"namespace": namespace, "bytes": body.len()})),
                };
                Box::pin(std::future::ready(answer))
            })),
            csvs,
        };
        let server = PackageServer::new(sources, api_server(asked.clone()), &stop);
        let port = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
        let base = format!("https://{}", port.address());
        tokio::spawn(server.clone().serve(port, stop.clone()));
        server.state.clone().wait_for(Option::is_some).await.unwrap();
        let client = client(&trusted, Some(&authority.client("front-proxy-client")), false);
        Running {
            base,
            authority,
            trusted,
            client,
            server,
            catalogs,
            behind,
            front_proxy,
            certificate,
            stopping,
            stop,
            asked,
        }
    }

    fn request(&self, user: &str, path: &str) -> reqwest::RequestBuilder {
        self.client.get(format!("{}{path}", self.base)).header("x-remote-user", user)
    }

    /// The JSON that `alice` gets, and the code.
    async fn get(&self, path: &str) -> (u16, Value) {
        let answer = self.request("alice", path).send().await.unwrap();
        assert_eq!(answer.version(), reqwest::Version::HTTP_2);
        assert_eq!(answer.headers()["content-type"].to_str().unwrap().split(';').next(), Some("application/json"));
        (answer.status().as_u16(), answer.json().await.unwrap())
    }

    async fn of_team(&self, rest: &str) -> (u16, Value) {
        self.get(&format!("{V1}/namespaces/team/packagemanifests{rest}")).await
    }

    /// Waits until a state of these catalogs is served.
    async fn becomes(&self, catalogs: Arc<Catalogs>) {
        let before = self.server.state.borrow().clone().unwrap();
        self.catalogs.send_replace(catalogs);
        let other = |state: &Option<Arc<State>>| state.as_ref().is_some_and(|state| !Arc::ptr_eq(state, &before));
        self.server.state.clone().wait_for(other).await.unwrap();
    }
}

fn names(list: &Value) -> Vec<String> {
    let of = |item: &Value| {
        format!("{}@{}", item["metadata"]["name"].as_str().unwrap(), item["status"]["catalogSource"].as_str().unwrap())
    };
    list["items"].as_array().unwrap().iter().map(of).collect()
}

#[tokio::test]
async fn namespace_sees_its_own_packages_and_those_of_the_global_namespace_as_its_own() {
    let running = Running::start().await;
    let (code, list) = running.of_team("").await;
    assert_eq!((code, names(&list)), (200, ["a@community", "b@community", "b@own"].map(String::from).into()));
    assert!(list["items"].as_array().unwrap().iter().all(|item| item["metadata"]["namespace"] == "team"));
    let (_, all) = running.get(&format!("{V1}/packagemanifests")).await;
    assert_eq!(names(&all), ["a@community", "b@community", "b@own", "c@theirs"]);
    assert_eq!(all["items"][3]["metadata"]["namespace"], "other");
    let (_, empty) = running.get(&format!("{V1}/namespaces/nowhere/packagemanifests")).await;
    assert_eq!(names(&empty), ["a@community", "b@community"]);
}

#[tokio::test]
async fn one_package_is_got_by_name_and_names_other_catalogs_that_have_it() {
    let running = Running::start().await;
    let (code, one) = running.of_team("/b").await;
    assert_eq!((code, &one["kind"], &one["status"]["catalogSource"]), (200, &json!("PackageManifest"), &json!("own")));
    assert_eq!(
        one["metadata"]["annotations"]["packages.operators.coreos.com/other-catalogs"],
        "openshift-marketplace/community"
    );
    let (code, status) = running.of_team("/c").await;
    assert_eq!((code, &status["kind"], &status["reason"]), (404, &json!("Status"), &json!("NotFound")));
}

#[tokio::test]
async fn selectors_select_and_others_are_refused() {
    let running = Running::start().await;
    for (query, expected) in [
        ("labelSelector=catalog%3Down", vec!["b@own"]),
        ("labelSelector=catalog+in+(own,none),provider%3DExample", vec!["b@own"]),
        ("fieldSelector=metadata.name%3Da", vec!["a@community"]),
        ("labelSelector=!catalog", vec![]),
    ] {
        assert_eq!(names(&running.of_team(&format!("?{query}")).await.1), expected, "{query}");
    }
    let (code, status) = running.of_team("?fieldSelector=status.packageName%3Da").await;
    assert_eq!((code, &status["reason"]), (400, &json!("BadRequest")));
}

#[tokio::test]
async fn pages_together_are_the_list_also_through_a_change_of_the_catalog() {
    let running = Running::start().await;
    let (_, first) = running.of_team("?limit=1").await;
    assert_eq!((names(&first), &first["metadata"]["remainingItemCount"]), (vec!["a@community".to_owned()], &json!(2)));
    // The next page is of another content, in which the last item is no more.
    let next = Arc::new(content(&[blobs("b"), blobs("d")].concat()).0);
    running.becomes(Arc::new([served(GLOBAL, "community", &next)].into())).await;
    let (code, rest) =
        running.of_team(&format!("?limit=5&continue={}", first["metadata"]["continue"].as_str().unwrap())).await;
    assert_eq!((code, names(&rest)), (200, ["b@community", "d@community"].map(String::from).into()));
    let (code, status) = running.of_team("?limit=5&continue=none").await;
    assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
}

#[tokio::test]
async fn table_is_sent_to_kubectl_for_lists_and_for_one() {
    let running = Running::start().await;
    for (rest, cells) in [("", json!(["a", "community", "<unknown>"])), ("/b", json!(["b", "own", "<unknown>"]))] {
        let request = running.request("alice", &format!("{V1}/namespaces/team/packagemanifests{rest}"));
        let table: Value = request.header("accept", TABLE).send().await.unwrap().json().await.unwrap();
        assert_eq!((&table["kind"], &table["rows"][0]["cells"]), (&json!("Table"), &cells), "{rest}");
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    }
    let whole = running.request("alice", &format!("{V1}/packagemanifests?includeObject=Object&limit=1"));
    let table: Value = whole.header("accept", TABLE).send().await.unwrap().json().await.unwrap();
    assert_eq!(table["rows"][0]["object"]["status"]["packageName"], "a");
    let metadata = running.request("alice", &format!("{V1}/namespaces/team/packagemanifests/b"));
    let accept = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
    let metadata: Value = metadata.header("accept", accept).send().await.unwrap().json().await.unwrap();
    assert_eq!((&metadata["kind"], metadata.get("status")), (&json!("PartialObjectMetadata"), None));
    assert_eq!(
        metadata["metadata"]["annotations"]["packages.operators.coreos.com/other-catalogs"],
        "openshift-marketplace/community"
    );
}

#[tokio::test]
async fn watches_and_verbs_that_write_are_refused_with_a_status() {
    let running = Running::start().await;
    for path in [format!("{V1}/packagemanifests?watch=true"), format!("{V1}/watch/packagemanifests")] {
        let (code, status) = running.get(&path).await;
        assert_eq!((code, &status["kind"], &status["reason"]), (405, &json!("Status"), &json!("MethodNotAllowed")));
    }
    let one = format!("{}{V1}/namespaces/team/packagemanifests/a", running.base);
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let request = running.client.request(method.parse().unwrap(), &one).header("x-remote-user", "alice");
        let answer = request.body("{}").send().await.unwrap();
        assert_eq!(
            (answer.status().as_u16(), answer.headers()["allow"].to_str().unwrap()),
            (405, "GET, HEAD"),
            "{method}"
        );
        assert_eq!(answer.json::<Value>().await.unwrap()["kind"], "Status");
    }
}

#[tokio::test]
async fn question_is_answered_for_who_may_create_it_and_is_bounded() {
    let running = Running::start().await;
    let url = format!("{}{V1}/namespaces/team/subscriptionreviews", running.base);
    let ask = async |user: &str, media_type: &str, body: Vec<u8>| {
        let request = running.client.post(&url).header("x-remote-user", user).header("content-type", media_type);
        let answer = request.body(body).send().await.unwrap();
        (answer.status().as_u16(), answer.json::<Value>().await.unwrap())
    };
    let json_type = "application/json; charset=utf-8";
    let (code, answer) = ask("alice", json_type, b"{}".to_vec()).await;
    assert_eq!((code, answer), (201, json!({"namespace": "team", "bytes": 2})));
    let (code, status) = ask("mallory", json_type, b"{}".to_vec()).await;
    assert_eq!((code, &status["reason"]), (403, &json!("Forbidden")));
    assert!(status["message"].as_str().unwrap().contains("cannot create resource \"subscriptionreviews\""), "{status}");
    for (media_type, body, expected) in [
        (json_type, b"bad".to_vec(), (400, "BadRequest")),
        ("application/yaml", b"{}".to_vec(), (415, "UnsupportedMediaType")),
        (json_type, vec![b' '; MAX_QUESTION + 1], (413, "RequestEntityTooLarge")),
    ] {
        let (code, status) = ask("alice", media_type, body).await;
        assert_eq!((code, status["reason"].as_str().unwrap()), expected);
    }
}

#[tokio::test]
async fn head_tells_what_get_would_without_its_body() {
    let running = Running::start().await;
    let head = async |user: &str, path: String| {
        let request = running.client.head(format!("{}{path}", running.base)).header("x-remote-user", user);
        let answer = request.send().await.unwrap();
        let length = answer.headers().get("content-length").map(|it| it.to_str().unwrap().parse::<usize>().unwrap());
        let code = answer.status().as_u16();
        assert!(answer.bytes().await.unwrap().is_empty());
        (code, length)
    };
    let (one, all) = (format!("{V1}/namespaces/team/packagemanifests/a"), format!("{V1}/packagemanifests"));
    let whole = running.request("alice", &one).send().await.unwrap().bytes().await.unwrap().len();
    assert_eq!(head("alice", one.clone()).await, (200, Some(whole)));
    assert_eq!(head("alice", all.clone()).await, (200, None));
    assert_eq!(head("alice", one.clone() + "x").await.0, 404);
    assert_eq!(head("mallory", all).await.0, 403);
    // By HTTP/1.1 too.
    let old = client(&running.trusted, Some(&running.authority.client("front-proxy-client")), true);
    let answer = old.head(format!("{}{one}", running.base)).header("x-remote-user", "alice").send().await.unwrap();
    assert_eq!((answer.version(), answer.status()), (reqwest::Version::HTTP_11, StatusCode::OK));
    assert_eq!(answer.headers()["content-length"].to_str().unwrap(), whole.to_string());
    let answer = old.get(format!("{}{one}", running.base)).header("x-remote-user", "alice").send().await.unwrap();
    assert_eq!(answer.bytes().await.unwrap().len(), whole, "on the same connection");
}

#[tokio::test]
async fn icon_is_sent_once_and_then_known_by_its_tag() {
    let running = Running::start().await;
    let path = format!("{V1}/namespaces/team/packagemanifests/b/icon");
    let answer = running.request("alice", &path).send().await.unwrap();
    let header = |name: &str| answer.headers()[name].to_str().unwrap().to_owned();
    assert_eq!((answer.status().as_u16(), header("content-type")), (200, "image/png".to_owned()));
    let tag = header("etag");
    assert_eq!(tag, "\"b.stable.b.v2\"");
    assert!(header("content-security-policy").contains("default-src 'none'"));
    assert_eq!(&answer.bytes().await.unwrap()[..], [0, 1, 2]);
    let again = running.request("alice", &path).header("if-none-match", &tag).send().await.unwrap();
    assert_eq!((again.status().as_u16(), again.headers()["etag"].to_str().unwrap()), (304, tag.as_str()));
    assert!(again.bytes().await.unwrap().is_empty());
    let other = running.request("alice", &path).header("if-none-match", "\"x\"").send().await.unwrap();
    assert_eq!(other.status().as_u16(), 200);
    let missing = running.request("alice", &path.replace("/b/", "/z/")).send().await.unwrap();
    assert_eq!(missing.status().as_u16(), 404);
    let refused = running.request("mallory", &path).send().await.unwrap();
    assert_eq!(refused.status().as_u16(), 403);
}

#[tokio::test]
async fn user_without_the_right_is_refused_and_is_told_what_it_lacks() {
    let running = Running::start().await;
    let answer = running.request("mallory", &format!("{V1}/namespaces/team/packagemanifests")).send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 403);
    let status: Value = answer.json().await.unwrap();
    assert_eq!((&status["kind"], &status["reason"]), (&json!("Status"), &json!("Forbidden")));
    assert!(status["message"].as_str().unwrap().contains("User \"mallory\" cannot list"), "{status}");
    let away = running.request("away", &format!("{V1}/packagemanifests")).send().await.unwrap();
    assert_eq!((away.status().as_u16(), away.headers()["retry-after"].to_str().unwrap()), (503, "1"));
}

#[tokio::test]
async fn only_api_servers_may_say_who_asks() {
    let running = Running::start().await;
    let other = Authority::new("front-proxy");
    for identity in [None, Some(other.client("front-proxy-client")), Some(running.authority.client("somebody"))] {
        let client = client(&running.trusted, identity.as_deref(), false);
        let request = client.get(format!("{}{V1}/packagemanifests", running.base)).header("x-remote-user", "alice");
        let answer = request.send().await.unwrap();
        assert_eq!(answer.status().as_u16(), 401);
        assert_eq!(answer.json::<Value>().await.unwrap()["reason"], "Unauthorized");
        // What is no request of a user is answered.
        for path in ["/healthz", "/livez", "/readyz"] {
            let answer = client.get(format!("{}{path}", running.base)).send().await.unwrap();
            assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (200, "ok"), "{path}");
        }
    }
    let nobody = running.client.get(format!("{}{V1}/packagemanifests", running.base)).send().await.unwrap();
    assert_eq!(nobody.status().as_u16(), 401, "an API server that does not say who asks");
    assert_eq!(running.asked.load(Ordering::SeqCst), 0);
}

#[tokio::test]
async fn authorities_of_api_servers_are_followed() {
    let running = Running::start().await;
    running.of_team("").await;
    let next = Authority::new("next");
    let _last = running.front_proxy.send_replace(FrontProxy::parse(&config_map(&next, &[])));
    let list = format!("{V1}/packagemanifests");
    let last = running.request("alice", &list).send().await.unwrap();
    assert_eq!(last.status().as_u16(), 401, "on a connection that was there before");
    let client = client(&running.trusted, Some(&next.client("front-proxy-client")), false);
    let answer = client.get(format!("{}{list}", running.base)).header("x-remote-user", "alice").send().await.unwrap();
    assert_eq!(answer.status().as_u16(), 200);
    let _last = running.front_proxy.send_replace(Err("nothing is known".to_owned()));
    assert_eq!(running.get(&list).await.0, 503);
}

#[tokio::test]
async fn discovery_and_openapi_are_served_to_whoever_asks_through_an_api_server() {
    let running = Running::start().await;
    for (path, kind) in
        [("/apis", "APIGroupList"), ("/apis/packages.operators.coreos.com", "APIGroup"), (V1, "APIResourceList")]
    {
        let (code, document) = running.get(path).await;
        assert_eq!((code, document["kind"].as_str()), (200, Some(kind)), "{path}");
    }
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let asked = || running.request("mallory", "/apis").header("accept", format!("{aggregated},application/json"));
    let answer = asked().send().await.unwrap();
    assert_eq!(answer.headers()["content-type"].to_str().unwrap(), aggregated);
    let tag = answer.headers()["etag"].to_str().unwrap().to_owned();
    assert_eq!(answer.json::<Value>().await.unwrap()["kind"], "APIGroupDiscoveryList");
    assert_eq!(asked().header("if-none-match", tag).send().await.unwrap().status().as_u16(), 304);
    assert_eq!(running.get("/openapi/v2").await.1["swagger"], "2.0");
    let (_, paths) = running.get("/openapi/v3").await;
    let url = paths["paths"]["apis/packages.operators.coreos.com/v1"]["serverRelativeURL"].as_str().unwrap();
    let answer = running.request("alice", url).send().await.unwrap();
    assert!(answer.headers()["cache-control"].to_str().unwrap().contains("immutable"));
    assert_eq!(answer.json::<Value>().await.unwrap()["openapi"], "3.0.0");
    assert_eq!(running.get("/other").await.0, 404);
    assert_eq!(running.asked.load(Ordering::SeqCst), 0, "it says the same to all");
}

#[tokio::test]
async fn long_list_is_compressed_for_clients_that_want_it() {
    let running = Running::start().await;
    let many: Vec<Value> = (0..100).flat_map(|number| blobs(&format!("p{number:03}"))).collect();
    running.becomes(Arc::new([served(GLOBAL, "community", &Arc::new(content(&many).0))].into())).await;
    let path = format!("{V1}/packagemanifests");
    let plain = running.request("alice", &path).send().await.unwrap();
    assert_eq!(plain.headers().get("content-encoding"), None);
    let plain = plain.bytes().await.unwrap();
    let packed = running.request("alice", &path).header("accept-encoding", "br, gzip;q=0.5").send().await.unwrap();
    assert_eq!(packed.headers()["content-encoding"].to_str().unwrap(), "gzip");
    let (packed, mut bytes) = (packed.bytes().await.unwrap(), Vec::new());
    GzDecoder::new(&packed[..]).read_to_end(&mut bytes).unwrap();
    assert!(bytes == plain && packed.len() < plain.len() / 5, "{} of {}", packed.len(), plain.len());
    assert_eq!(serde_json::from_slice::<Value>(&plain).unwrap()["items"].as_array().unwrap().len(), 100);
    let one =
        running.request("alice", &format!("{path}?limit=1")).header("accept-encoding", "gzip").send().await.unwrap();
    assert_eq!(one.headers().get("content-encoding"), None, "it does not pay");
    let refused = running.request("alice", &path).header("accept-encoding", "gzip;q=0").send().await.unwrap();
    assert_eq!(refused.headers().get("content-encoding"), None);
}

#[tokio::test]
async fn content_that_cannot_be_read_any_more_fails_alone_and_is_named() {
    let running = Running::start().await;
    let (whole, flaky) = flaky(&blobs("a"));
    running
        .becomes(Arc::new(
            [served(GLOBAL, "community", &whole), served("team", "own", &Arc::new(content(&blobs("b")).0))].into(),
        ))
        .await;
    flaky.store(true, Ordering::SeqCst);
    let (code, status) = running.of_team("/a").await;
    assert_eq!((code, &status["reason"]), (500, &json!("InternalError")));
    assert!(
        status["message"].as_str().unwrap().contains("package a of catalog openshift-marketplace/community"),
        "{status}"
    );
    assert_eq!(running.of_team("").await.0, 500);
    assert_eq!(running.of_team("/b").await.0, 200);
    assert_eq!(running.of_team("?labelSelector=catalog%3Down").await.0, 200);
}

#[tokio::test]
async fn replaced_certificate_is_used_for_new_connections_and_keeps_the_others() {
    let running = Running::start().await;
    running.of_team("").await;
    let (key, trusted) = certificate();
    running.certificate.send_replace(key);
    running.of_team("").await;
    let identity = running.authority.client("front-proxy-client");
    let reach = async |trusted: &str| {
        let client = client(trusted, Some(&identity), false);
        client.get(format!("{}/livez", running.base)).send().await.is_ok()
    };
    assert!(reach(&trusted).await && !reach(&running.trusted).await);
}

#[tokio::test]
async fn server_is_ready_when_it_can_answer_and_not_any_more_when_it_is_to_stop() {
    let running = Running::start().await;
    assert_eq!(running.server.ready(), Ok(()));
    let key = running.certificate.send_replace(None);
    assert!(running.server.ready().unwrap_err().contains("certificate"));
    running.certificate.send_replace(key);
    let _last = running.front_proxy.send_replace(Err("nothing is known".to_owned()));
    assert!(running.server.ready().unwrap_err().contains("nothing is known"));
    let _last = running.front_proxy.send_replace(FrontProxy::parse(&config_map(&running.authority, &[])));
    running.stopping.cancel();
    let answer = running.request("", "/readyz").send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (503, "stopping"));
    assert_eq!(running.of_team("").await.0, 200, "who asks nevertheless is answered");
    running.stop.cancel();
    let away = async || running.request("alice", "/livez").send().await.is_err();
    for _ in 0..100 {
        if away().await {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    panic!("it still answers");
}

#[tokio::test]
async fn request_has_one_state_of_all_catalogs() {
    let running = Running::start().await;
    let of = |version: &str| {
        let shared =
            Arc::new(content(&(0..40).flat_map(|number| blobs(&format!("{version}-{number}"))).collect::<Vec<_>>()).0);
        Arc::new(Catalogs::from([served(GLOBAL, "one", &shared), served(GLOBAL, "two", &shared)]))
    };
    let states = [of("old"), of("new")];
    running.becomes(states[0].clone()).await;
    let asking = async {
        for _ in 0..40 {
            let (code, list) = running.get(&format!("{V1}/packagemanifests")).await;
            let names = names(&list);
            let old = names.iter().filter(|name| name.starts_with("old")).count();
            assert!(code == 200 && names.len() == 80 && [0, 80].contains(&old), "{old} of {}", names.len());
        }
    };
    let changing = async {
        for number in 0..20 {
            running.becomes(states[(number + 1) % 2].clone()).await;
        }
    };
    tokio::join!(asking, changing);
}

#[tokio::test]
async fn answer_waits_for_what_other_replicas_serve_already_but_not_for_long() {
    let running = Running::start().await;
    let path = format!("{V1}/packagemanifests");
    let late = Arc::new(content(&blobs("late")).0);
    let asked = running.asked.load(Ordering::SeqCst);
    running.behind.send_replace(Some(Instant::now()));
    let arriving = async {
        while running.asked.load(Ordering::SeqCst) == asked {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        running.becomes(Arc::new([served(GLOBAL, "one", &late)].into())).await;
        running.behind.send_replace(None);
    };
    let ((code, list), ()) = tokio::join!(running.get(&path), arriving);
    assert_eq!((code, names(&list)), (200, vec!["late@one".to_owned()]));
    // A registry that sends a catalog bit by bit does not keep the others from being told.
    running.behind.send_replace(Instant::now().checked_sub(CATCHING_UP));
    let answer = tokio::time::timeout(CATCHING_UP, running.get(&path)).await;
    assert_eq!(answer.unwrap().0, 200);
}
