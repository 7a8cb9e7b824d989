//! Content on its way from a registry, and to one. A layer may be large and the line slow, so that nothing limits the whole; but
//! a registry that stops sending, or stops taking what is sent, is given up after a while.

use super::layer::{LayerBytes, is_digest, no_digest};
use super::request::Ask;
use super::{DOCUMENT_TIMEOUT, RegistryError, Repository};
use crate::error::chain;
use axum::body::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use oci_client::errors::OciDistributionError;
use oci_client::manifest::OciDescriptor;
use reqwest::Method;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::io::ReaderStream;

pub(super) type Content = BoxStream<'static, io::Result<Bytes>>;

/// What is sent at once of content that is in memory.
const PART: usize = 256 << 10;
const AGAIN: &str =
    " (do the registry and the line to it work? then run the command again: what is there is not copied again)";

/// What content that is being sent waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Its next part comes from somewhere else, which has its own limit.
    Read,
    /// The registry takes the last part before it gets another one.
    Send,
}

impl Repository {
    /// The content from here. Its errors say where and what to do, also if it is not what the descriptor says.
    pub(super) async fn content(&self, part: &OciDescriptor) -> Result<Content, RegistryError> {
        if !is_digest(&part.digest) {
            return Err(self.failed("read the manifest".to_owned(), no_digest(&part.digest), ""));
        }
        let attempt = format!("pull blob {}", part.digest);
        // Not from the `urls` of a foreign layer: they could name any server.
        let path = format!("blobs/{}", part.digest);
        let ask = Ask { method: Method::GET, path, headers: Vec::new(), attempt: &attempt };
        let response = self.ask(&ask).await?;
        if !response.status().is_success() {
            return Err(self.answered(attempt, response).await);
        }
        let content = self.watched(attempt.clone(), response.bytes_stream().map_err(io::Error::other).boxed());
        let repository = self.clone();
        Ok(verified(content, part, move |cause| io::Error::other(repository.failed(attempt.clone(), cause, ""))))
    }

    /// Sends content of this size to here.
    pub(super) async fn send(&self, digest: &str, size: u64, content: Content) -> Result<(), RegistryError> {
        let attempt = format!("push blob {digest}");
        let (steps, seen) = watch::channel(Step::Send);
        let content = stepped(content, steps).map_err(OciDistributionError::from);
        let sender = &self.writers().await?.sender;
        tokio::select! {
            sent = sender.push_blob_stream(&self.reference, content, digest, Some(size)) => {
                sent.map(drop).map_err(|error| self.refused(attempt, error))
            }
            cause = silence(seen, self.pause) => Err(self.failed(attempt, cause, AGAIN)),
        }
    }

    fn watched(&self, attempt: String, source: Content) -> Content {
        let place = Arc::new((self.clone(), attempt));
        let next = move |source: Option<Content>| {
            let place = place.clone();
            async move {
                let mut source = source?;
                let (repository, attempt) = &*place;
                let pause = repository.pause;
                let silent = || format!("the registry has sent nothing for {} s", pause.as_secs());
                let (cause, way_out) = match timeout(pause, source.next()).await {
                    Ok(None) => return None,
                    Ok(Some(Ok(chunk))) => return Some((Ok(chunk), Some(source))),
                    Ok(Some(Err(error))) => match of_line(&error) {
                        Some(line) if line.is_timeout() => (silent(), AGAIN),
                        Some(line) => (chain(line), AGAIN),
                        None => (chain(&error), ""),
                    },
                    Err(_) => (silent(), AGAIN),
                };
                Some((Err(io::Error::other(repository.failed(attempt.clone(), cause, way_out))), None))
            }
        };
        stream::unfold(Some(source), next).boxed()
    }
}

/// Content on its way, as far as it was checked.
struct Checked {
    content: Content,
    hash: Sha256,
    /// Bytes that are still to come.
    left: u64,
    wrong: Box<dyn Fn(String) -> io::Error + Send>,
}

/// The content, which ends with an error unless it is all of what the descriptor says.
pub(super) fn verified(
    content: Content,
    part: &OciDescriptor,
    wrong: impl Fn(String) -> io::Error + Send + 'static,
) -> Content {
    let (digest, size) = (part.digest.clone(), u64::try_from(part.size).unwrap_or(0));
    let state = Checked { content, hash: Sha256::new(), left: size, wrong: Box::new(wrong) };
    let next = move |state: Option<Checked>| {
        let digest = digest.clone();
        async move {
            let mut state = state?;
            let cause = match state.content.next().await {
                Some(Ok(chunk)) => match state.left.checked_sub(chunk.len() as u64) {
                    Some(left) => {
                        state.left = left;
                        state.hash.update(&chunk);
                        return Some((Ok(chunk), Some(state)));
                    }
                    None => format!("the registry sends more than the {size} bytes of its manifest"),
                },
                Some(Err(error)) => return Some((Err(error), None)),
                None => match format!("sha256:{}", hex::encode(state.hash.finalize())) {
                    found if found == digest && state.left == 0 => return None,
                    found if found == digest => {
                        format!("it has {} bytes, and {size} by its manifest", size - state.left)
                    }
                    found => format!(
                        "the {} bytes that were sent have the digest {found}: it is damaged there or on its way; push the image again",
                        size - state.left
                    ),
                },
            };
            Some((Err((state.wrong)(cause)), None))
        }
    };
    stream::unfold(Some(state), next).boxed()
}

/// What happened to the line; `None`: the content itself is wrong.
fn of_line(error: &io::Error) -> Option<&reqwest::Error> {
    error.get_ref()?.downcast_ref()
}

fn stepped(content: Content, steps: watch::Sender<Step>) -> Content {
    let next = |(mut content, steps): (Content, watch::Sender<Step>)| async move {
        steps.send_replace(Step::Read);
        let next = content.next().await?;
        steps.send_replace(Step::Send);
        Some((next, (content, steps)))
    };
    stream::unfold((content, steps), next).boxed()
}

/// Ends when the registry is to be given up, and says why.
async fn silence(mut seen: watch::Receiver<Step>, pause: Duration) -> String {
    loop {
        let step = *seen.borrow_and_update();
        let changed = match step {
            Step::Read => Ok(seen.changed().await),
            Step::Send => timeout(pause, seen.changed()).await,
        };
        match changed {
            Ok(Ok(())) => {}
            Ok(Err(_)) => break,
            Err(_) => return format!("the registry has taken nothing of it for {} s", pause.as_secs()),
        }
    }
    // All of it is sent. A registry may check a large layer and move it to where it stays before it answers.
    sleep(DOCUMENT_TIMEOUT).await;
    format!("the registry has got all of it, and has not answered for {} s", DOCUMENT_TIMEOUT.as_secs())
}

/// Content that is in memory.
pub(super) fn parts(bytes: Vec<u8>) -> Content {
    let size = bytes.len();
    let bytes = Bytes::from(bytes);
    let part = move |at: usize| Ok(bytes.slice(at..size.min(at + PART)));
    stream::iter((0..size).step_by(PART).map(part)).boxed()
}

/// The content of a layer that was built.
pub(super) async fn of_layer(bytes: LayerBytes) -> io::Result<Content> {
    match bytes {
        LayerBytes::Memory(bytes) => Ok(parts(bytes)),
        // An open file can be read although its name is gone.
        LayerBytes::Disk(path, _) => {
            let file = tokio::fs::File::open(&*path).await?;
            Ok(ReaderStream::with_capacity(file, PART).boxed())
        }
    }
}

/// The content, and where it is found what has failed of it: whoever writes it would call that a failure of where it goes to.
pub(super) fn kept(content: Content) -> (Content, Arc<OnceLock<String>>) {
    let failure = Arc::new(OnceLock::new());
    let slot = failure.clone();
    let content = content.inspect_err(move |error| {
        // There is one at most.
        let _ = slot.set(chain(error));
    });
    (content.boxed(), failure)
}

/// What has failed of the content, else where it goes to.
pub(super) fn cause_of(failure: &OnceLock<String>, error: RegistryError) -> RegistryError {
    failure.get().map_or(error, |cause| RegistryError::Source(cause.clone()))
}

#[cfg(test)]
mod tests;
