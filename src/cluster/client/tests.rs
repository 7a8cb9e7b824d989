use super::*;
use crate::cluster::{Cause, Kind, Objects};
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
async fn retry_after_is_bounded() {
    let now = tokio::time::Instant::now();
    for (asked, expected) in [("20", 20), ("30", 30), ("31", 30), ("7200", 30), ("18446744073709551615", 30)] {
        for code in [429, 503] {
            let mut request = http::Request::new(kube::client::Body::empty());
            let answer = http::Response::builder().status(code).header("Retry-After", asked).body(()).unwrap();
            let pause = retry_policy().unwrap().retry(&mut request, &mut Ok(answer)).unwrap();
            assert_eq!(pause.deadline() - now, Duration::from_secs(expected), "{asked}");
        }
    }
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
    let objects = Objects::new(clients.call.clone(), Arc::new(move || leads.load(Ordering::Relaxed)));
    let map = serde_json::json!({"metadata": {"name": "x", "namespace": "ns"}});
    let kind = Kind::known("", "v1", "ConfigMap", "configmaps", true);
    let error = objects.replace(&kind, "ns", "x", &map).await.unwrap_err();
    assert!(matches!(error.cause, Cause::NotLeader(_)), "{error}");
    assert_eq!(requests.load(Ordering::Relaxed), 1, "what was sent before is not sent again");
}

/// As for events, which the process that lost the lease may still want to publish.
#[tokio::test]
async fn other_requests_that_write_are_sent_only_by_the_leader() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let leads = Arc::new(AtomicBool::new(false));
    let now = leads.clone();
    let (clients, requests) = overloaded(move || now.store(false, Ordering::Relaxed)).await;
    let asked = leads.clone();
    let objects = Objects::new(clients.call.clone(), Arc::new(move || asked.load(Ordering::Relaxed)));
    let client = objects.client_for_writes();
    let request = || http::Request::post("/apis/events.k8s.io/v1/namespaces/ns/events").body(Vec::new()).unwrap();
    assert!(client.request::<serde_json::Value>(request()).await.is_err());
    assert_eq!(requests.load(Ordering::Relaxed), 0, "not sent");
    leads.store(true, Ordering::Relaxed);
    assert!(client.request::<serde_json::Value>(request()).await.is_err());
    assert_eq!(requests.load(Ordering::Relaxed), 1, "sent once, and not again after the lease was lost");
}
