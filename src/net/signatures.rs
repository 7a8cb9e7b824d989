//! Reads signatures of a digest from HTTP and file stores.
//!
//! All stores are read at the same time and their results are consumed one by one; as soon as the consumer is satisfied,
//! the requests still in flight are cancelled.

use crate::net::http::{HttpError, get_bounded};
use crate::verify::{Digest, MAX_SIGNATURE_BYTES, Store};
use futures::stream::{self, BoxStream, StreamExt};
use reqwest::Client;
use std::io::ErrorKind;
use tokio::io::AsyncReadExt;

/// Highest number of a signature in a store.
const MAX_SIGNATURES: u32 = 9;

/// One result of reading a store. `source` is the URL or path that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// Bytes that may be a signature; never empty.
    Candidate { source: String, signature: Vec<u8> },
    /// The URL or file could not be read.
    Failure { source: String, cause: String },
    /// The store has no signature of the digest.
    Nothing { source: String },
}

/// Reads signatures of `digest` from all stores, each with its client, and passes each result to `satisfied`, which returns whether that is
/// enough. Returns true as soon as it is, false when every store has been read.
///
/// Within a store the signatures are read in order, from 1 to `MAX_SIGNATURES`. The first that is missing ends the store,
/// and so does a server that cannot be reached; other failures do not.
pub(crate) async fn from_stores<F>(stores: &[(Store, Client)], digest: &Digest, mut satisfied: F) -> bool
where
    F: FnMut(Found) -> bool,
{
    let each = stores.iter().map(|(store, client)| found_in(client, store, digest));
    let mut all = stream::select_all(each);
    while let Some(found) = all.next().await {
        if satisfied(found) {
            return true;
        }
    }
    false
}

fn found_in<'a>(client: &'a Client, store: &'a Store, digest: &'a Digest) -> BoxStream<'a, Found> {
    let steps = stream::unfold(1, move |n| async move {
        if n > MAX_SIGNATURES {
            return None;
        }
        let source = store.location(digest, n);
        match read(client, store, &source).await {
            Read::Bytes(signature) if signature.is_empty() => Some((None, n + 1)),
            Read::Bytes(signature) => Some((Some(Found::Candidate { source, signature }), n + 1)),
            Read::Absent if n == 1 => Some((Some(Found::Nothing { source }), MAX_SIGNATURES + 1)),
            Read::Absent => None,
            Read::Failed(cause) => Some((Some(Found::Failure { source, cause }), n + 1)),
            // It would fail for every number, each time after a timeout.
            Read::Unreachable(cause) => Some((Some(Found::Failure { source, cause }), MAX_SIGNATURES + 1)),
        }
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

/// Reads at most one byte more than a signature may have.
async fn read_file(path: &str) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = tokio::fs::File::open(path).await?;
    file.take(MAX_SIGNATURE_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
