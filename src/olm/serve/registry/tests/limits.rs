//! What clients cannot do.

use super::*;
use crate::olm::registry::tests::get_replacement;
use futures::StreamExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const SHORT: Duration = Duration::from_millis(200);

fn served() -> Catalogs {
    catalogs(vec![("one", "widgets", content(&widgets())), ("two", "long", long(3000, 1000, true))])
}

/// Reads until the server closes the connection.
async fn is_closed(stream: &mut TcpStream) -> bool {
    let mut bytes = Vec::new();
    tokio::time::timeout(Duration::from_secs(10), stream.read_to_end(&mut bytes)).await.is_ok()
}

#[tokio::test]
async fn client_that_does_not_speak_http2_is_disconnected_at_once() {
    let running = start().await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n").await.unwrap();
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn client_that_says_nothing_is_disconnected() {
    let running = start_with(Limits { greeting: SHORT, ..Limits::default() }, served()).await;
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    let mut slow = TcpStream::connect(running.address).await.unwrap();
    slow.write_all(b"PRI * HTTP").await.unwrap();
    assert!(is_closed(&mut silent).await && is_closed(&mut slow).await);
    running.client().await;
}

#[tokio::test]
async fn client_that_does_not_answer_is_disconnected() {
    let running = start_with(Limits { keepalive: SHORT, ..Limits::default() }, served()).await;
    let mut stream = TcpStream::connect(running.address).await.unwrap();
    // The preface and empty settings, and then nothing.
    stream.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00").await.unwrap();
    assert!(is_closed(&mut stream).await);
}

#[tokio::test]
async fn client_that_is_idle_stays_connected() {
    let limits = Limits { greeting: SHORT, call: SHORT, stalled: SHORT, keepalive: SHORT, ..Limits::default() };
    let running = start_with(limits, served()).await;
    let client = running.client().await;
    let before = client.channel();
    tokio::time::sleep(SHORT * 4).await;
    assert_eq!(client.channel(), before);
    assert_eq!(all(&client, ListPackageRequest {}).await.unwrap().len(), 2);
}

#[tokio::test]
async fn request_that_drips_is_refused() {
    let running = start_with(Limits { call: SHORT, ..Limits::default() }, served()).await;
    let stream = TcpStream::connect(running.address).await.unwrap();
    let io = hyper_util::rt::TokioIo::new(stream);
    let executor = hyper_util::rt::TokioExecutor::new();
    let (mut sender, connection) = hyper::client::conn::http2::handshake(executor, io).await.unwrap();
    tokio::spawn(connection);
    // A message is announced, and does not come.
    let body = futures::stream::iter([Ok::<_, std::io::Error>("\0")]).chain(futures::stream::pending());
    let request = http::Request::post(format!("http://widgets.one.svc{}", GetPackageRequest::PATH))
        .header("content-type", "application/grpc")
        .body(axum::body::Body::from_stream(body))
        .unwrap();
    let response = tokio::time::timeout(Duration::from_secs(10), sender.send_request(request)).await.unwrap().unwrap();
    assert_eq!(response.headers()["grpc-status"], "8");
}

#[tokio::test]
async fn large_request_is_refused() {
    let client = start().await.client().await;
    let (code, message) = refusal(&client, GetPackageRequest { name: "x".repeat(70_000) }).await;
    assert_eq!((code, message.contains("limit")), (Code::OutOfRange, true));
}

#[tokio::test]
async fn client_that_does_not_take_its_answer_is_disconnected_and_others_are_not() {
    let running = start_with(Limits { stalled: SHORT, ..Limits::default() }, served()).await;
    let (stalled, other) = (client_of(running.address, "long.two.svc").await, running.client().await);
    let mut answer = Box::pin(stalled.bundles());
    answer.next().await.unwrap().unwrap();
    until(async || stalled.channel().state != Connection::Ready).await;
    assert_eq!(other.channel().state, Connection::Ready);
    assert!(answer.try_collect::<Vec<_>>().await.is_err());
}

#[tokio::test]
async fn client_that_takes_its_answer_slowly_gets_all_of_it() {
    let running = start_with(Limits { stalled: Duration::from_secs(1), ..Limits::default() }, served()).await;
    let client = client_of(running.address, "long.two.svc").await;
    let mut answer = Box::pin(client.bundles());
    let mut count = 0;
    while let Some(bundle) = answer.next().await {
        bundle.unwrap();
        count += 1;
        if count % 1000 == 0 {
            tokio::time::sleep(Duration::from_millis(600)).await;
        }
    }
    assert_eq!(count, 3000);
}

#[tokio::test]
async fn new_connection_takes_the_place_of_the_oldest() {
    let running = start_with(Limits { connections: 2, ..Limits::default() }, served()).await;
    let first = running.client().await;
    let _second = running.client().await;
    let _third = running.client().await;
    until(async || first.channel().state != Connection::Ready).await;
}

#[tokio::test]
async fn calls_beyond_the_limit_of_a_port_wait_and_then_are_refused() {
    let limits = Limits { calls: 1, call: SHORT, ..Limits::default() };
    let running = start_with(limits, served()).await;
    let client = client_of(running.address, "long.two.svc").await;
    let mut answer = Box::pin(client.bundles());
    answer.next().await.unwrap().unwrap();
    let (code, message) = refusal(&client, ListPackageRequest {}).await;
    assert_eq!((code, message.contains("try again")), (Code::ResourceExhausted, true));
    drop(answer);
    until(async || all(&client, ListPackageRequest {}).await.is_ok()).await;
}

#[tokio::test]
async fn parts_of_catalogs_that_need_memory_wait_for_each_other() {
    let limits = Limits { memory: 1, ..Limits::default() };
    let running = start_with(limits, catalogs(vec![("two", "long", long(1000, 2000, false))])).await;
    let (one, other) =
        (client_of(running.address, "long.two.svc").await, client_of(running.address, "long.two.svc").await);
    let mut held = Box::pin(one.bundles());
    held.next().await.unwrap().unwrap();
    let waiting = get_replacement("a", "x", "a.v0");
    // Until more is made of the first answer than is on its way.
    until(async || tokio::time::timeout(SHORT, other.one(waiting.clone())).await.is_err()).await;
    // It needs none.
    assert_eq!(all(&other, ListPackageRequest {}).await.unwrap().len(), 1);
    drop(held);
    assert_eq!(other.one(waiting).await.unwrap().csv_name, "a.v1");
    assert_eq!(other.bundles().try_collect::<Vec<_>>().await.unwrap().len(), 1000);
}
