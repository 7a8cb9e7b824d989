use super::*;
use crate::cluster::{Cause, Kind, Objects};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// With neither a service account nor a kubeconfig.
#[tokio::test]
async fn each_cause_is_named_once() {
    let Err(cause) = kube::Config::infer().await else {
        println!("skipped: a kubeconfig exists here");
        return;
    };
    let said = format!("{:#}", anyhow::Error::from(ClientError::Infer { cause }));
    assert_eq!(said.matches("failed to read kubeconfig").count(), 1, "{said}");
    assert!(said.ends_with("or give --kubeconfig"), "{said}");
}

/// A server that asks for hours of patience is asked again after half a minute.
#[tokio::test(start_paused = true)]
async fn retry_after_is_bounded_and_does_not_bring_all_back_together() {
    let now = tokio::time::Instant::now();
    let mut pauses = BTreeSet::new();
    for (asked, expected) in [("20", 20), ("30", 30), ("31", 30), ("7200", 30), ("18446744073709551615", 30)] {
        for code in [429, 503] {
            let mut request = http::Request::new(kube::client::Body::empty());
            let answer = http::Response::builder().status(code).header("Retry-After", asked).body(()).unwrap();
            let pause = retry_policy().unwrap().retry(&mut request, &mut Ok(answer)).unwrap();
            let (pause, expected) = (pause.deadline() - now, Duration::from_secs(expected));
            assert!((expected..expected.mul_f64(1.25)).contains(&pause), "{asked}: {pause:?}");
            pauses.insert(pause);
        }
    }
    assert!(pauses.len() > 5, "{pauses:?}");
}

/// A server that answers `429 Too Many Requests` to everything and counts it; `on_request` is called before each answer.
async fn overloaded(on_request: impl Fn() + Send + 'static) -> (Clients, Arc<AtomicUsize>) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = kube::Config::new(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 4096];
        while stream.read(&mut request).await.unwrap() > 0 {
            counted.fetch_add(1, Ordering::Relaxed);
            on_request();
            let answer = b"HTTP/1.1 429 Too Many Requests\r\nContent-Length: 0\r\n\r\n";
            stream.write_all(answer).await.unwrap();
        }
    });
    (Clients::new(config).unwrap(), count)
}

#[tokio::test]
async fn write_is_not_sent_again_after_the_lease_was_lost() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let leads = Arc::new(AtomicBool::new(true));
    let lost = leads.clone();
    let (clients, requests) = overloaded(move || lost.store(false, Ordering::Relaxed)).await;
    let objects = Objects::new(clients.call.clone(), "tests", Arc::new(move || leads.load(Ordering::Relaxed)));
    let map = serde_json::json!({"metadata": {"name": "x", "namespace": "ns"}});
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let error = objects.replace(&kind, "ns", "x", &map).await.unwrap_err();
    assert!(matches!(error.cause, Cause::NotLeader(_)), "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), 1, "what was sent before is not sent again");
}

/// The lease is lost while the connection is made, as where the API server starts again and the process is frozen meanwhile. The
/// request has been let through by then.
#[tokio::test]
async fn write_that_waited_for_its_connection_is_not_sent_after_the_lease_was_lost() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    for keeps in [true, false] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut config = kube::Config::new("http://api.example.com:6443".parse().unwrap());
        config.proxy_url = Some(format!("http://{}", listener.local_addr().unwrap()).parse().unwrap());
        let leads = Arc::new(AtomicBool::new(true));
        let lost = leads.clone();
        let sent = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let _connect = stream.read(&mut [0; 4096]).await.unwrap();
            lost.store(keeps, Ordering::Relaxed);
            stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
            let mut all = Vec::new();
            let mut part = [0; 4096];
            loop {
                let length = stream.read(&mut part).await.unwrap();
                all.extend_from_slice(&part[..length]);
                let text = String::from_utf8_lossy(&all).into_owned();
                if length == 0 || text.contains("secret-of-the-write") {
                    return text;
                }
            }
        });
        let clients = Clients::of(config).unwrap();
        let objects = Objects::new(clients.call.clone(), "tests", Arc::new(move || leads.load(Ordering::Relaxed)));
        let map =
            serde_json::json!({"metadata": {"name": "x", "namespace": "ns"}, "data": {"a": "secret-of-the-write"}});
        let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
        assert!(objects.replace(&kind, "ns", "x", &map).await.is_err(), "there is no answer");
        let text = sent.await.unwrap();
        assert_eq!(text.contains("secret-of-the-write"), keeps, "{text}");
    }
}

/// As for events, which the process that lost the lease may still want to publish.
#[tokio::test]
async fn other_requests_that_write_are_sent_only_by_the_leader() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let leads = Arc::new(AtomicBool::new(false));
    let now = leads.clone();
    let (clients, requests) = overloaded(move || now.store(false, Ordering::Relaxed)).await;
    let asked = leads.clone();
    let objects = Objects::new(clients.call.clone(), "tests", Arc::new(move || asked.load(Ordering::Relaxed)));
    let client = objects.client_for_writes();
    let request = || http::Request::post("/apis/events.k8s.io/v1/namespaces/ns/events").body(Vec::new()).unwrap();
    assert!(client.request::<serde_json::Value>(request()).await.is_err());
    assert_eq!(requests.load(Ordering::Relaxed), 0, "not sent");
    leads.store(true, Ordering::Relaxed);
    assert!(client.request::<serde_json::Value>(request()).await.is_err());
    assert_eq!(requests.load(Ordering::Relaxed), 1, "sent once, and not again after the lease was lost");
}

/// A server that is reached by another name than the one in its certificate, as through a tunnel.
#[tokio::test]
async fn certificate_is_compared_with_the_name_in_the_kubeconfig() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(vec!["api.example.com".to_owned()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = rustls::pki_types::PrivateKeyDer::Pkcs8(made.signing_key.serialize_der().into());
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let tls = tls.with_no_client_auth().with_single_cert(vec![certificate.clone()], key).unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            if let Ok(stream) = acceptor.accept(stream).await {
                tokio::spawn(answer(stream));
            }
        }
    });
    for (name, reached) in [(Some("api.example.com"), true), (None, false), (Some("other.example.com"), false)] {
        let mut config = kube::Config::new(format!("https://{address}").parse().unwrap());
        config.root_cert = Some(vec![certificate.to_vec()]);
        config.tls_server_name = name.map(ToOwned::to_owned);
        let said = Clients::new(config).unwrap().call.request_text(get()).await;
        assert_eq!(said.is_ok(), reached, "{name:?}: {said:?}");
    }
    let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    config.tls_server_name = Some("no name".to_owned());
    let error = Clients::new(config).unwrap_err().to_string();
    assert!(error.contains("tls-server-name"), "{error}");
}

fn get() -> http::Request<Vec<u8>> {
    http::Request::get("/version").body(Vec::new()).unwrap()
}

/// Answers one request with `well`.
async fn answer(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let _request = stream.read(&mut [0; 4096]).await;
    let _written = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nwell").await;
}

#[tokio::test]
async fn proxy_of_the_kubeconfig_is_used_or_refused_by_its_name() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let asked = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).await.unwrap();
        stream.write_all(b"HTTP/1.1 200 Connected\r\n\r\n").await.unwrap();
        answer(stream).await;
        String::from_utf8_lossy(&request[..length]).into_owned()
    });
    let folder = tempfile::tempdir().unwrap();
    let connect = async |proxy: &str| {
        let file = serde_json::json!({
            "apiVersion": "v1", "kind": "Config", "current-context": "one",
            "clusters": [
                {"name": "other", "cluster": {"server": "http://other.example.com", "proxy-url": "socks5://other"}},
                {"name": "a", "cluster": {"server": "http://api.example.com:6443", "proxy-url": proxy}},
            ],
            "users": [{"name": "u", "user": {}}],
            "contexts": [{"name": "one", "context": {"cluster": "a", "user": "u"}}],
        });
        let path = folder.path().join("kubeconfig");
        std::fs::write(&path, file.to_string()).unwrap();
        Clients::connect(Some(&path)).await
    };
    let clients = connect(&format!("http://{address}")).await.unwrap();
    assert_eq!(clients.call.request_text(get()).await.unwrap(), "well");
    assert!(asked.await.unwrap().starts_with("CONNECT api.example.com:6443 "));
    for refused in ["socks5://127.0.0.1:1", "https://127.0.0.1:1", "http://user:secret@127.0.0.1:1", "/proxy"] {
        let error = connect(refused).await.unwrap_err().to_string();
        assert!(error.contains("proxy-url") && !error.contains("secret"), "{refused}: {error}");
    }
}
