use super::*;
use crate::net::http::get_bounded;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;

struct Running {
    base: String,
    address: SocketAddr,
    pem: String,
    stop: CancellationToken,
    task: JoinHandle<()>,
}

async fn start(router: Router) -> Running {
    start_with(CLIENT_TIMEOUT, router).await
}

async fn start_with(client_timeout: Duration, router: Router) -> Running {
    let server = Server { client_timeout, ..Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap() };
    let address = server.address;
    let (tls, pem) = tls::tests::current(&["127.0.0.1"]);
    let stop = CancellationToken::new();
    let task = tokio::spawn(server.run(Arc::new(tls), router, stop.clone()));
    Running { base: format!("https://{address}"), address, pem, stop, task }
}

fn pages(health: Result<&'static str, &'static str>) -> Pages {
    let health = move || -> BoxFuture<'static, _> { Box::pin(async move { health.map_err(ToOwned::to_owned) }) };
    Pages { metrics: Arc::new(|| "up 1\n".to_owned()), health: Arc::new(health) }
}

fn trusting(pem: &str) -> reqwest::Client {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let certificate = reqwest::Certificate::from_pem(pem.as_bytes()).unwrap();
    reqwest::Client::builder().no_proxy().tls_certs_only([certificate]).build().unwrap()
}

#[tokio::test]
async fn metrics_and_health_are_served_over_tls_until_stopped() {
    let running = start(router(pages(Ok("ok")))).await;
    // Neither a client without TLS nor a silent one keeps others from being served.
    let mut plain = TcpStream::connect(running.address).await.unwrap();
    plain.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    let mut response = Vec::new();
    let _ = plain.read_to_end(&mut response).await;
    assert!(!String::from_utf8_lossy(&response).contains("EOF"));
    let silent = TcpStream::connect(running.address).await.unwrap();

    let client = trusting(&running.pem);
    let get = |path: &str| format!("{}{path}", running.base);
    assert_eq!(get_bounded(&client, &get("/healthz"), 100).await.unwrap(), b"ok");
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
    let running = start(router(pages(Err("stuck")))).await;
    let answer = trusting(&running.pem).get(format!("{}/healthz", running.base)).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.text().await.unwrap().as_str()), (503, "stuck"));
}

#[tokio::test]
async fn idle_connection_is_closed() {
    let running = start_with(Duration::from_millis(100), router(pages(Ok("ok")))).await;
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
    let running = start(router(Pages { metrics: long, ..pages(Ok("ok")) })).await;
    let mut kept = Vec::new();
    for _ in 0..MAX_CONNECTIONS {
        kept.push(TcpStream::connect(running.address).await.unwrap());
    }
    let mut reading_nothing = Vec::new();
    for _ in 0..16 {
        reading_nothing.push(deaf(&running, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").await);
    }
    let client = trusting(&running.pem);
    let url = format!("{}/healthz", running.base);
    let health = get_bounded(&client, &url, 100);
    let answer = tokio::time::timeout(CLIENT_TIMEOUT / 2, health).await.expect("before any of them has timed out");
    assert_eq!(answer.unwrap(), b"ok");
    drop((kept, reading_nothing));
    running.stop.cancel();
}

#[test]
fn newest_connection_gets_the_place_of_the_oldest() {
    let mut places = Places::default();
    let first: Vec<_> = (0..MAX_CONNECTIONS).map(|_| places.take()).collect();
    assert!(first.iter().all(|(_, given_up)| !given_up.is_cancelled()));
    places.leave(first[0].0);
    let (_, replacing_nobody) = places.take();
    assert!(!first[1].1.is_cancelled(), "there was a place");
    let (_, newest) = places.take();
    assert!(first[1].1.is_cancelled() && !first[2].1.is_cancelled());
    assert!(!replacing_nobody.is_cancelled() && !newest.is_cancelled());
    assert_eq!(places.taken.len(), MAX_CONNECTIONS);
}

#[tokio::test]
async fn port_in_use_is_an_error_that_names_it() {
    let first = Server::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
    let tls = Arc::new(tls::tests::current(&["localhost"]).0);
    let error = run(first.address, tls, pages(Ok("ok")), CancellationToken::new()).await.unwrap_err();
    assert!(error.to_string().contains(&first.address.to_string()), "{error}");
}
