//! Reads signatures of a digest from HTTP and file stores.
//!
//! All stores are read at the same time and their results are consumed one by one; whoever has enough drops the stream, which
//! cancels the requests still in flight.

use crate::error::without_password;
use crate::net::http::{HttpError, get_bounded};
use crate::verify::{Digest, MAX_SIGNATURE_BYTES, Store};
use futures::stream::{self, BoxStream, StreamExt};
use reqwest::Client;
use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, timeout_at};

/// Highest number of a signature in a store.
const MAX_SIGNATURES: u32 = 9;

/// One result of reading a store. `source` is the URL, without a password, or the path that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Bytes that may be a signature; never empty.
    Candidate { source: String, signature: Vec<u8> },
    /// The URL or file could not be read.
    Failure { source: String, cause: String },
    /// The store has no signature of the digest.
    Nothing { source: String },
}

/// Reads signatures of `digest` from all stores at the same time, each with its client.
///
/// Within a store the signatures are read in order, from 1 to `MAX_SIGNATURES`. The first that is missing ends the store,
/// and so does a server that cannot be reached; other failures do not. Each store has `limit` for everything.
pub(crate) fn from_stores(stores: Vec<(Store, Client)>, digest: &Digest, limit: Duration) -> BoxStream<'static, Found> {
    let each = stores.into_iter().map(|(store, client)| {
        let source = without_password(&store.to_string()).into_owned();
        within(found_in(client, store, digest.clone()), limit, source)
    });
    stream::select_all(each).boxed()
}

/// What is found until the time is up, which is told as well.
pub(crate) fn within<'a>(found: BoxStream<'a, Found>, limit: Duration, source: String) -> BoxStream<'a, Found> {
    let end = Instant::now() + limit;
    let next = move |found: Option<(BoxStream<'a, Found>, String)>| async move {
        let (mut found, source) = found?;
        match timeout_at(end, found.next()).await {
            Ok(item) => Some((item?, Some((found, source)))),
            Err(_) => {
                let cause = format!("not everything was read within {} s", limit.as_secs());
                Some((Found::Failure { source, cause }, None))
            }
        }
    };
    stream::unfold(Some((found, source)), next).boxed()
}

fn found_in(client: Client, store: Store, digest: Digest) -> BoxStream<'static, Found> {
    let steps = stream::unfold((1, client, store, digest), |(n, client, store, digest)| async move {
        if n > MAX_SIGNATURES {
            return None;
        }
        let location = store.location(&digest, n);
        let source = without_password(&location).into_owned();
        let (found, next) = match read(&client, &store, &location).await {
            Read::Bytes(signature) if signature.is_empty() => (None, n + 1),
            Read::Bytes(signature) => (Some(Found::Candidate { source, signature }), n + 1),
            Read::Absent if n == 1 => (Some(Found::Nothing { source }), MAX_SIGNATURES + 1),
            Read::Absent => return None,
            Read::Failed(cause) => (Some(Found::Failure { source, cause }), n + 1),
            // It would fail for every number, each time after a timeout.
            Read::Unreachable(cause) => (Some(Found::Failure { source, cause }), MAX_SIGNATURES + 1),
        };
        Some((found, (next, client, store, digest)))
    });
    steps.filter_map(|found| async move { found }).boxed()
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
        Store::File(_) => match read_file(Path::new(source)).await {
            Ok(bytes) => Read::Bytes(bytes),
            Err((ErrorKind::NotFound, _)) => Read::Absent,
            Err((_, cause)) => Read::Failed(cause),
        },
    }
}

/// The signature in one file.
pub(crate) async fn from_file(path: &Path) -> Found {
    let source = path.display().to_string();
    match read_file(path).await {
        Ok(signature) => Found::Candidate { source, signature },
        Err((_, cause)) => Found::Failure { source, cause },
    }
}

/// Reads at most one byte more than a signature may have. An error comes with its cause for people.
async fn read_file(path: &Path) -> Result<Vec<u8>, (ErrorKind, String)> {
    let failed = |error: std::io::Error| (error.kind(), format!("the file cannot be read: {error}"));
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await.map_err(failed)?;
    file.take(MAX_SIGNATURE_BYTES as u64 + 1).read_to_end(&mut bytes).await.map_err(failed)?;
    if bytes.len() > MAX_SIGNATURE_BYTES {
        return Err((ErrorKind::FileTooLarge, format!("the file is larger than {MAX_SIGNATURE_BYTES} bytes")));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests;
