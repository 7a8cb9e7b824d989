use super::*;
use crate::net::http::{Egress, client};
use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

type Reply = (u16, Vec<u8>);

/// A store with fixed replies by path, and the paths that were requested.
#[derive(Clone, Default)]
struct Fake {
    replies: Arc<BTreeMap<String, Reply>>,
    requested: Arc<Mutex<Vec<String>>>,
}

async fn reply(State(fake): State<Fake>, Path(path): Path<String>) -> (StatusCode, Vec<u8>) {
    fake.requested.lock().unwrap().push(path.clone());
    if path.starts_with("hang/") {
        std::future::pending::<()>().await;
    }
    let (code, body) = fake.replies.get(&path).cloned().unwrap_or((404, Vec::new()));
    (StatusCode::from_u16(code).unwrap(), body)
}

async fn start(replies: &[(&str, u16, &[u8])]) -> (Fake, String) {
    let replies = replies.iter().map(|(path, code, body)| ((*path).to_owned(), (*code, body.to_vec()))).collect();
    let fake = Fake { replies: Arc::new(replies), ..Fake::default() };
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().route("/{*path}", get(reply)).with_state(fake.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (fake, base)
}

const LIMIT: Duration = Duration::from_secs(60);

fn digest() -> Digest {
    Digest::parse("sha256:ab").unwrap()
}

async fn collect(stores: &[Store]) -> Vec<Found> {
    let client = client("1", &Egress::default()).unwrap();
    let stores: Vec<_> = stores.iter().map(|store| (store.clone(), client.clone())).collect();
    from_stores(stores, &digest(), LIMIT).collect().await
}

#[tokio::test]
async fn store_is_read_in_order_until_the_first_gap() {
    let large = vec![1; MAX_SIGNATURE_BYTES + 1];
    let (fake, base) = start(&[
        ("a/sha256=ab/signature-1", 200, b"one"),
        ("a/sha256=ab/signature-2", 500, b"oops"),
        ("a/sha256=ab/signature-3", 200, b""),
        ("a/sha256=ab/signature-4", 200, &large),
        ("a/sha256=ab/signature-5", 200, b"five"),
        ("a/sha256=ab/signature-7", 200, b"beyond the gap"),
    ])
    .await;
    let seen = collect(&[Store::parse(&format!("{base}/a/")).unwrap()]).await;
    let at = |n: u32| format!("{base}/a/sha256=ab/signature-{n}");
    let [first, second, fourth, fifth] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(*first, Found::Candidate { source: at(1), signature: b"one".to_vec() });
    assert_eq!(*fifth, Found::Candidate { source: at(5), signature: b"five".to_vec() });
    for (found, n, part) in [(second, 2, "500"), (fourth, 4, "larger than 51200 bytes")] {
        let Found::Failure { source, cause } = found else { panic!("{found:?}") };
        assert!(*source == at(n) && cause.contains(part), "{cause}");
    }
    let expected: Vec<String> = (1..=6).map(|n| format!("a/sha256=ab/signature-{n}")).collect();
    assert_eq!(*fake.requested.lock().unwrap(), expected);
}

#[tokio::test]
async fn unreachable_server_is_tried_once() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let base = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let seen = collect(&[Store::parse(&base).unwrap()]).await;
    let [Found::Failure { source, .. }] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(*source, format!("{base}/sha256=ab/signature-1"));
}

#[tokio::test]
async fn at_most_nine_signatures_are_read() {
    let names: Vec<String> = (1..=12).map(|n| format!("sha256=ab/signature-{n}")).collect();
    let replies: Vec<(&str, u16, &[u8])> = names.iter().map(|n| (n.as_str(), 200, b"x".as_slice())).collect();
    let (_, base) = start(&replies).await;
    assert_eq!(collect(&[Store::parse(&base).unwrap()]).await.len(), 9);
}

#[tokio::test]
async fn store_that_hangs_keeps_no_other_from_being_read() {
    let (_, base) = start(&[("a/sha256=ab/signature-1", 200, b"good")]).await;
    let client = client("1", &Egress::default()).unwrap();
    let stores = ["hang", "a"].map(|path| (Store::parse(&format!("{base}/{path}")).unwrap(), client.clone()));
    let mut search = from_stores(stores.into(), &digest(), LIMIT);
    let first = tokio::time::timeout(Duration::from_secs(20), search.next()).await.unwrap();
    assert!(matches!(first, Some(Found::Candidate { .. })), "{first:?}");
}

#[tokio::test]
async fn file_store_has_the_same_layout_and_empty_store_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().to_str().unwrap();
    let empty = Store::parse(&format!("file://{base}")).unwrap();
    let first = format!("{base}/sha256=ab/signature-1");
    assert_eq!(collect(&[empty]).await, [Found::Nothing { source: first.clone() }]);

    std::fs::create_dir_all(format!("{base}/sha256=ab/signature-2")).unwrap();
    std::fs::write(&first, b"one").unwrap();
    std::fs::write(format!("{base}/sha256=ab/signature-3"), vec![0; MAX_SIGNATURE_BYTES + 9]).unwrap();
    let seen = collect(&[Store::File(base.to_owned())]).await;
    let [one, folder_in_the_way, too_large] = seen.as_slice() else { panic!("{seen:?}") };
    assert_eq!(*one, Found::Candidate { source: first, signature: b"one".to_vec() });
    let cause = |found: &Found| match found {
        Found::Failure { cause, .. } => cause.clone(),
        other => panic!("{other:?}"),
    };
    assert!(cause(folder_in_the_way).contains("cannot be read"));
    assert!(cause(too_large).contains("larger than"));
}

#[tokio::test]
async fn store_that_hangs_is_given_up_in_time_and_named_without_its_password() {
    let (_, base) = start(&[("a/sha256=ab/signature-1", 200, b"good")]).await;
    let client = client("1", &Egress::default()).unwrap();
    let with_password = base.replace("http://", "http://me:secret@");
    let stores = ["hang", "a"].map(|path| (Store::parse(&format!("{with_password}/{path}")).unwrap(), client.clone()));
    let found: Vec<_> = from_stores(stores.into(), &digest(), Duration::from_millis(300)).collect().await;
    let shown = base.replace("http://", "http://***@");
    let candidate =
        Found::Candidate { source: format!("{shown}/a/sha256=ab/signature-1"), signature: b"good".to_vec() };
    let given_up =
        Found::Failure { source: format!("{shown}/hang"), cause: "not everything was read within 0 s".to_owned() };
    assert_eq!(found, [candidate, given_up]);
}
