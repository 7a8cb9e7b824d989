//! Content on its way from a registry, and to one. A layer may be large and the line slow, so that nothing limits the whole; but
//! a registry that stops sending, or stops taking what is sent, is given up after a while.

use super::{DOCUMENT_TIMEOUT, RegistryError, Repository, too_slow};
use crate::error::chain;
use axum::body::Bytes;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use oci_client::errors::OciDistributionError;
use std::io;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

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
    /// The content from here. Its errors say where and what to do.
    pub(super) async fn content(&self, digest: &str) -> Result<Content, RegistryError> {
        let attempt = format!("pull blob {digest}");
        self.client.store_auth_if_needed(self.reference.resolve_registry(), &self.auth).await;
        // Not from the `urls` of a foreign layer: they could name any server.
        let source = self.within(&attempt, self.client.pull_blob_stream(&self.reference, digest)).await?;
        Ok(self.watched(attempt, source.stream))
    }

    /// Sends content of this size to here.
    pub(super) async fn send(&self, digest: &str, size: u64, content: Content) -> Result<(), RegistryError> {
        let attempt = format!("push blob {digest}");
        let (steps, seen) = watch::channel(Step::Send);
        let content = stepped(content, steps).map_err(OciDistributionError::from);
        self.sender.store_auth_if_needed(self.reference.resolve_registry(), &self.auth).await;
        tokio::select! {
            sent = self.sender.push_blob_stream(&self.reference, content, digest, Some(size)) => {
                sent.map(drop).map_err(|error| self.refused(attempt, error))
            }
            cause = silence(seen, self.pause) => Err(self.failed(attempt, cause, AGAIN)),
        }
    }

    /// The client library reads tokens, and what a registry says of an error, whole and by a client of its own, so that their
    /// length cannot be limited: their time is.
    pub(super) async fn within<T>(
        &self,
        attempt: &str,
        request: impl Future<Output = Result<T, OciDistributionError>>,
    ) -> Result<T, RegistryError> {
        match timeout(DOCUMENT_TIMEOUT, request).await {
            Ok(done) => done.map_err(|error| self.refused(attempt.to_owned(), error)),
            Err(_) => Err(self.failed(attempt.to_owned(), too_slow(DOCUMENT_TIMEOUT), "")),
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
