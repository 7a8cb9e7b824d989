//! Signatures of a digest from HTTP and file stores (cluster-version §7.4).
//!
//! All stores are asked at the same time and one consumer judges what they yield; as soon as it is satisfied, the
//! requests still under way are dropped.

use crate::net::http::{HttpError, get_bounded};
use crate::verify::{Digest, MAX_SIGNATURE_BYTES, Store};
use futures::stream::{self, BoxStream, StreamExt};
use reqwest::Client;
use std::io::ErrorKind;
use tokio::io::AsyncReadExt;

/// Highest number a signature may have in a store.
pub const MAX_SIGNATURES: u32 = 9;

/// What a store said to one question. `source` is the URL or path that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// Bytes that may be a signature; never empty.
    Candidate { source: String, signature: Vec<u8> },
    /// The place could not be read.
    Failure { source: String, cause: String },
    /// The store has no signature at all for the digest.
    Nothing { source: String },
}

/// Asks all stores for signatures of `digest` and hands each answer to `satisfied`, which says whether it has seen
/// enough. Returns true as soon as it has, false when every store is exhausted.
///
/// In one store the signatures are read in order, from 1 to [`MAX_SIGNATURES`]: the first that is not there ends the
/// store, and so does a server that cannot be reached; other failures do not.
pub async fn from_stores<F>(client: &Client, stores: &[Store], digest: &Digest, mut satisfied: F) -> bool
where
    F: FnMut(Answer) -> bool,
{
    let each = stores.iter().map(|store| answers(client, store, digest));
    let mut all = stream::select_all(each);
    while let Some(answer) = all.next().await {
        if satisfied(answer) {
            return true;
        }
    }
    false
}

fn answers<'a>(client: &'a Client, store: &'a Store, digest: &'a Digest) -> BoxStream<'a, Answer> {
    let steps = stream::unfold(1, move |n| async move {
        if n > MAX_SIGNATURES {
            return None;
        }
        let source = store.location(digest, n);
        match read(client, store, &source).await {
            Read::Bytes(signature) if signature.is_empty() => Some((None, n + 1)),
            Read::Bytes(signature) => Some((Some(Answer::Candidate { source, signature }), n + 1)),
            Read::Absent if n == 1 => Some((Some(Answer::Nothing { source }), MAX_SIGNATURES + 1)),
            Read::Absent => None,
            Read::Failed(cause) => Some((Some(Answer::Failure { source, cause }), n + 1)),
            // It would say the same of every number, each time after a time-out.
            Read::Unreachable(cause) => Some((Some(Answer::Failure { source, cause }), MAX_SIGNATURES + 1)),
        }
    });
    steps.filter_map(|answer| async move { answer }).boxed()
}

enum Read {
    Bytes(Vec<u8>),
    Absent,
    Failed(String),
    Unreachable(String),
}

async fn read(client: &Client, store: &Store, source: &str) -> Read {
    match store {
        Store::Http(_) => match get_bounded(client, source, MAX_SIGNATURE_BYTES).await {
            Ok(bytes) => Read::Bytes(bytes),
            Err(error) if error.is_not_found() => Read::Absent,
            Err(error @ HttpError::Transport { .. }) => Read::Unreachable(error.to_string()),
            Err(error) => Read::Failed(error.to_string()),
        },
        Store::File(_) => match read_file(source).await {
            Ok(bytes) if bytes.len() > MAX_SIGNATURE_BYTES => {
                Read::Failed(format!("the file is larger than {MAX_SIGNATURE_BYTES} bytes"))
            }
            Ok(bytes) => Read::Bytes(bytes),
            Err(error) if error.kind() == ErrorKind::NotFound => Read::Absent,
            Err(error) => Read::Failed(format!("the file cannot be read: {error}")),
        },
    }
}

/// At most one byte more than a signature may have.
async fn read_file(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await?;
    file.take(MAX_SIGNATURE_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::http::{ClientOptions, client};
    use axum::Router;
    use axum::extract::{Path, State};
    use axum::http::StatusCode;
    use axum::routing::get;
    use std::collections::BTreeMap;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    type Reply = (u16, Vec<u8>);

    /// A store with scripted replies by path, and the paths it was asked for.
    #[derive(Clone, Default)]
    struct Fake {
        replies: Arc<BTreeMap<String, Reply>>,
        asked: Arc<Mutex<Vec<String>>>,
    }

    async fn reply(State(fake): State<Fake>, Path(path): Path<String>) -> (StatusCode, Vec<u8>) {
        fake.asked.lock().unwrap().push(path.clone());
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

    fn digest() -> Digest {
        Digest::parse("sha256:ab").unwrap()
    }

    async fn collect(stores: &[Store]) -> Vec<Answer> {
        let client = client(&ClientOptions::new("1")).unwrap();
        let mut seen = Vec::new();
        let digest = digest();
        let enough = from_stores(&client, stores, &digest, |answer| {
            seen.push(answer);
            false
        });
        assert!(!enough.await);
        seen
    }

    #[tokio::test]
    async fn a_store_is_read_in_order_until_the_first_that_is_not_there() {
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
        assert_eq!(*first, Answer::Candidate { source: at(1), signature: b"one".to_vec() });
        assert_eq!(*fifth, Answer::Candidate { source: at(5), signature: b"five".to_vec() });
        for (answer, n, part) in [(second, 2, "500"), (fourth, 4, "larger than 51200 bytes")] {
            let Answer::Failure { source, cause } = answer else { panic!("{answer:?}") };
            assert!(*source == at(n) && cause.contains(part), "{cause}");
        }
        let expected: Vec<String> = (1..=6).map(|n| format!("a/sha256=ab/signature-{n}")).collect();
        assert_eq!(*fake.asked.lock().unwrap(), expected);
    }

    #[tokio::test]
    async fn a_server_that_cannot_be_reached_is_asked_once() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let base = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let seen = collect(&[Store::parse(&base).unwrap()]).await;
        let [Answer::Failure { source, .. }] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!(*source, format!("{base}/sha256=ab/signature-1"));
    }

    #[tokio::test]
    async fn at_most_nine_are_read() {
        let names: Vec<String> = (1..=12).map(|n| format!("sha256=ab/signature-{n}")).collect();
        let replies: Vec<(&str, u16, &[u8])> = names.iter().map(|n| (n.as_str(), 200, b"x".as_slice())).collect();
        let (_, base) = start(&replies).await;
        assert_eq!(collect(&[Store::parse(&base).unwrap()]).await.len(), 9);
    }

    #[tokio::test]
    async fn a_satisfied_consumer_ends_the_search_though_another_store_hangs() {
        let (_, base) = start(&[("a/sha256=ab/signature-1", 200, b"good")]).await;
        let stores = ["hang", "a"].map(|path| Store::parse(&format!("{base}/{path}")).unwrap());
        let client = client(&ClientOptions::new("1")).unwrap();
        let digest = digest();
        let search = from_stores(&client, &stores, &digest, |answer| matches!(answer, Answer::Candidate { .. }));
        assert!(tokio::time::timeout(Duration::from_secs(20), search).await.unwrap());
    }

    #[tokio::test]
    async fn file_stores_have_the_same_layout_and_empty_stores_say_so() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().to_str().unwrap();
        let empty = Store::parse(&format!("file://{base}")).unwrap();
        let first = format!("{base}/sha256=ab/signature-1");
        assert_eq!(collect(&[empty]).await, [Answer::Nothing { source: first.clone() }]);

        std::fs::create_dir_all(format!("{base}/sha256=ab/signature-2")).unwrap();
        std::fs::write(&first, b"one").unwrap();
        std::fs::write(format!("{base}/sha256=ab/signature-3"), vec![0; MAX_SIGNATURE_BYTES + 9]).unwrap();
        let seen = collect(&[Store::File(base.to_owned())]).await;
        let [one, folder_in_the_way, too_large] = seen.as_slice() else { panic!("{seen:?}") };
        assert_eq!(*one, Answer::Candidate { source: first, signature: b"one".to_vec() });
        let cause = |answer: &Answer| match answer {
            Answer::Failure { cause, .. } => cause.clone(),
            other => panic!("{other:?}"),
        };
        assert!(cause(folder_in_the_way).contains("cannot be read"));
        assert!(cause(too_large).contains("larger than"));
    }
}
