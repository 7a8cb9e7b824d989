//! Content that is read by a thread which may block.

use super::request::too_slow;
use std::io::{self, Read};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

/// A blocking reader of an asynchronous body. It fails where the body is longer than it should be, after a time, and when nobody
/// waits for it any more.
pub(super) struct Blocking<R> {
    runtime: tokio::runtime::Handle,
    body: R,
    size: u64,
    /// Of the size.
    left: u64,
    until: Instant,
    limit: Duration,
    stop: CancellationToken,
}

impl<R> Blocking<R> {
    /// `limit`: for all of it, from now on.
    pub(super) fn new(body: R, size: u64, limit: Duration, stop: CancellationToken) -> Self {
        let until = Instant::now() + limit;
        Blocking { runtime: tokio::runtime::Handle::current(), body, size, left: size, until, limit, stop }
    }
}

impl<R: AsyncRead + Unpin> Read for Blocking<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (body, until, stop) = (&mut self.body, self.until, &self.stop);
        let read = self.runtime.block_on(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(Err(io::Error::other("nobody waits for it any more"))),
                read = timeout_at(until, body.read(buffer)) => read,
            }
        });
        let read = read.unwrap_or_else(|_| Err(too_slow(self.limit)))?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| {
            io::Error::other(format!("the registry sends more than the {} bytes of its manifest", self.size))
        })?;
        Ok(read)
    }
}
