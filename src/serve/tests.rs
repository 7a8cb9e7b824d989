use super::*;
use crate::net::http::get_bounded;
use std::net::IpAddr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

struct Running {
    base: String,
    address: SocketAddr,
    pem: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(metrics: Metrics) -> Running {
    start_with(CLIENT_TIMEOUT, metrics).await
}

async fn start_with(client_timeout: Duration, metrics: Metrics) -> Running {
    let server = Server { client_timeout, ..Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap() };
    let address = server.address;
    let (tls, pem) = tls::tests::current(&["127.0.0.1"]);
    let stop = CancellationToken::new();
    let begin = over_tls(Arc::new(tls), metrics_router(metrics), client_timeout);
    let task = tokio::spawn(server.run(begin, stop.clone()));
    Running { base: format!("https://{address}"), address, pem, stop, task }
}

/// Metrics for everybody.
fn metrics_with(text: Arc<dyn Fn() -> String + Send + Sync>) -> Metrics {
    Metrics { text, guard: Arc::new(|_| Box::pin(async { Ok(()) })) }
}

fn up() -> Metrics {
    metrics_with(Arc::new(|| "up 1\n".to_owned()))
}

fn health_of(state: Result<&'static str, &'static str>) -> Health {
    let check = move || -> BoxFuture<'static, _> { Box::pin(async move { state.map_err(ToOwned::to_owned) }) };
    Health { check: Arc::new(check), ready: Arc::new(|| Ok(())), stopping: CancellationToken::new() }
}

/// Serves health at the address that is returned, for ever.
async fn serve_health(health: Health) -> SocketAddr {
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let address = server.address;
    tokio::spawn(server.run(plain(health_router(health)), CancellationToken::new()));
    address
}

async fn get_plain(address: SocketAddr, path: &str) -> (u16, String) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.get(format!("http://{address}{path}")).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

fn trusting(pem: &str) -> reqwest::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let certificate = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).build().unwrap()
}

#[tokio::test]
async fn metrics_are_served_over_tls_until_stopped() {
    let running = start(up()).await;
    // Neither a client without TLS nor a silent one keeps others from being served.
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    let _ = plain.read_to_end(&mut response).await;
    assert!(!String::from_utf8_lossy(&response).contains("EOF"));
    let silent = TcpStream::connect(running.address).await.unwrap();

    let client = trusting(&running.pem);
    let get = |path: &str| format!("{}{path}", running.base);
    let metrics = client.get(get("/metrics")).send().await.unwrap();
    assert_eq!(metrics.status(), 200);
    assert_eq!(metrics.headers()["content-type"], "text/plain; version=0.0.4; charset=utf-8");
    assert_eq!(metrics.text().await.unwrap(), "up 1\n");
    assert!(get_bounded(&client, &get("/other"), 100).await.unwrap_err().is_not_found());

    running.stop.cancel();
    tokio::time::timeout(Duration::from_secs(20), running.task).await.unwrap().unwrap();
    assert!(TcpStream::connect(running.address).await.is_err());
    drop(silent);
}

#[tokio::test]
async fn controller_that_is_stuck_is_an_error_that_says_so() {
    let address = serve_health(health_of(Err("stuck"))).await;
    for path in ["/healthz", "/readyz"] {
        assert_eq!(get_plain(address, path).await, (503, "stuck".to_owned()), "{path}");
    }
    assert_eq!(get_plain(address, "/metrics").await.0, 404, "nothing else is served there");
}

#[tokio::test]
async fn process_that_stops_is_alive_and_not_ready() {
    let health = health_of(Ok("ok"));
    let address = serve_health(health.clone()).await;
    let ok = (200, "ok".to_owned());
    assert_eq!((get_plain(address, "/healthz").await, get_plain(address, "/readyz").await), (ok.clone(), ok.clone()));
    health.stopping.cancel();
    assert_eq!(get_plain(address, "/healthz").await, ok);
    assert_eq!(get_plain(address, "/readyz").await, (503, "stopping".to_owned()));
}

/// What the guard is told, and what it answers to the client.
#[tokio::test]
async fn guard_decides_by_certificate_and_token() {
    let (authority, other) = (certificate::tests::Authority::new("ca"), certificate::tests::Authority::new("other"));
    let guard: Guard = {
        let known = authority.known();
        Arc::new(move |caller| {
            let name = known.common_name(&caller.chain);
            Box::pin(async move {
                match (name, caller.token.as_deref()) {
                    (Ok(name), None) if name == "prometheus" => Ok(()),
                    (_, Some("good")) => Ok(()),
                    (Ok(name), _) => Err(caller::Refusal::forbidden(name)),
                    (Err(cause), token) => Err(caller::Refusal::unauthorized(format!("{cause} {token:?}"))),
                }
            })
        })
    };
    let running = start(Metrics { guard, ..up() }).await;
    let url = format!("{}/metrics", running.base);
    let client = |identity: Option<String>| {
        let trusted = reqwest::Certificate::from_pem(running.pem.as_bytes()).unwrap();
        let client = reqwest::Client::builder().no_proxy().tls_certs_only([trusted]);
        let identity = identity.map(|pem| reqwest::Identity::from_pem(pem.as_bytes()).unwrap());
        identity.into_iter().fold(client, reqwest::ClientBuilder::identity).build().unwrap()
    };
    let ask = async |identity: Option<String>, authorization: Option<&str>| {
        let mut request = client(identity).get(&url);
        request = authorization.into_iter().fold(request, |request, value| request.header("authorization", value));
        let answer = request.send().await.unwrap();
        let scheme = answer.headers().get("www-authenticate").map(|value| value.to_str().unwrap().to_owned());
        (answer.status().as_u16(), scheme, answer.text().await.unwrap())
    };
    let bearer = Some("Bearer".to_owned());
    let served = (200, None, "up 1\n".to_owned());
    assert_eq!(ask(Some(authority.client("prometheus")), None).await, served);
    assert_eq!(ask(Some(authority.client("somebody")), None).await, (403, None, "somebody\n".to_owned()));
    let (status, scheme, text) = ask(Some(other.client("prometheus")), None).await;
    assert!(status == 401 && scheme == bearer && text.contains("UnknownIssuer"), "{status} {text}");
    assert_eq!(ask(None, Some("Bearer good")).await, served);
    assert_eq!(ask(Some(other.client("x")), Some("bearer  good ")).await, served);
    let client = client(None).get(&url).header(caller::FORWARDED, "Bearer good");
    assert_eq!(client.send().await.unwrap().status().as_u16(), 200, "through the API server");
    for unusable in ["Basic good", "good", "Bearer ", "Bearer"] {
        let (status, _, text) = ask(None, Some(unusable)).await;
        assert_eq!((status, text.as_str()), (401, "there is no certificate None\n"), "{unusable}");
    }
}

#[tokio::test]
async fn idle_connection_is_closed() {
    let running = start_with(Duration::from_millis(100), up()).await;
    let mut idle = connect(&running).await;
    let closed = tokio::time::timeout(Duration::from_secs(20), idle.read_to_end(&mut Vec::new())).await;
    assert!(closed.is_ok(), "it still has its permit");
}

/// A TLS connection that sends this and reads nothing.
async fn deaf(running: &Running, request: &[u8]) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut stream = connect(running).await;
    stream.write_all(request).await.unwrap();
    stream
}

async fn connect(running: &Running) -> tokio_rustls::client::TlsStream<TcpStream> {
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::pem::PemObject::from_pem_slice(running.pem.as_bytes()).unwrap()).unwrap();
    let trusting = rustls::ClientConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()));
    let trusting = trusting.with_safe_default_protocol_versions().unwrap().with_root_certificates(roots);
    let connector = tokio_rustls::TlsConnector::from(Arc::new(trusting.with_no_client_auth()));
    let name = rustls::pki_types::ServerName::from(running.address.ip());
    connector.connect(name, TcpStream::connect(running.address).await.unwrap()).await.unwrap()
}

/// Far more than there are places, of clients that never ask, and of clients that never read a long answer.
#[tokio::test]
async fn clients_that_keep_their_connections_do_not_keep_others_out() {
    let long: Arc<dyn Fn() -> String + Send + Sync> = Arc::new(|| "x".repeat(16 << 20));
    let running = start(metrics_with(long)).await;
    let mut kept = Vec::new();
    for _ in 0..places::MAX_CONNECTIONS {
        kept.push(TcpStream::connect(running.address).await.unwrap());
    }
    let mut reading_nothing = Vec::new();
    for _ in 0..16 {
        reading_nothing.push(deaf(&running, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await);
    }
    let client = trusting(&running.pem);
    let answer = client.get(format!("{}/metrics", running.base)).send();
    let answer = tokio::time::timeout(CLIENT_TIMEOUT / 2, answer).await.expect("before any of them has timed out");
    assert_eq!(answer.unwrap().bytes().await.unwrap().len(), 16 << 20);
    drop((kept, reading_nothing));
    running.stop.cancel();
}

#[tokio::test]
async fn port_in_use_is_an_error_that_names_it() {
    let first = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let tls = Arc::new(tls::tests::current(&["localhost"]).0);
    let error = metrics(first.address, tls, up(), CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains(&first.address.to_string()), "{error}");
}

/// The manifests name `0.0.0.0`, and on a cluster of IPv6 alone a node has no other addresses than those.
#[tokio::test]
async fn unspecified_address_means_both_families() {
    let families: &[&str] = match std::net::TcpListener::bind("[::1]:0") {
        Ok(_) => &["127.0.0.1", "::1"],
        Err(_) => &["127.0.0.1"],
    };
    let reaches = async |server: &Server, address: IpAddr| {
        let Ok(_stream) = TcpStream::connect((address, server.address.port())).await else { return false };
        let (_, peer) = server.next(&CancellationToken::new()).await.unwrap();
        assert_eq!(peer.ip(), address, "as the client knows itself, also where both families are served");
        true
    };
    for unspecified in ["0.0.0.0:0", "[::]:0"] {
        let Ok(server) = Server::bind(unspecified.parse().unwrap()).await else {
            assert_eq!((unspecified, families.len()), ("[::]:0", 1), "there is no IPv6 here");
            continue;
        };
        for address in families {
            assert!(reaches(&server, address.parse().unwrap()).await, "{unspecified} by {address}");
        }
    }
    let server = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    assert!(reaches(&server, "127.0.0.1".parse().unwrap()).await);
    assert!(!reaches(&server, "::1".parse().unwrap()).await, "an address that is named means itself");
}
