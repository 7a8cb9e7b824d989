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
    slowest: Option<Slowest>,
    /// How long the body was waited for.
    waited: Duration,
    stop: CancellationToken,
}

/// How slowly a body may come.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Slowest {
    /// Bytes a second.
    pub rate: u64,
    /// That long it may be slower.
    pub grace: Duration,
}

impl<R> Blocking<R> {
    /// `limit`: for all of it, from now on.
    pub(super) fn new(body: R, size: u64, limit: Duration, stop: CancellationToken) -> Self {
        let until = Instant::now() + limit;
        let (runtime, waited) = (tokio::runtime::Handle::current(), Duration::ZERO);
        Blocking { runtime, body, size, left: size, until, limit, slowest: None, waited, stop }
    }

    /// It fails as well where it comes too slowly. What its reader does meanwhile does not count.
    pub(super) fn slowest(self, slowest: Option<Slowest>) -> Self {
        Blocking { slowest, ..self }
    }

    /// How long is waited for the next part.
    fn patience(&self) -> Option<Duration> {
        let Slowest { rate, grace } = self.slowest?;
        let received = self.size.saturating_sub(self.left);
        let expected = Duration::from_millis(received.saturating_mul(1000).checked_div(rate).unwrap_or(u64::MAX));
        Some(grace.saturating_add(expected).saturating_sub(self.waited))
    }
}

impl<R: AsyncRead + Unpin> Read for Blocking<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (begun, patience) = (Instant::now(), self.patience());
        let slow = patience.map_or(self.until, |patience| begun + patience);
        let (body, until, stop) = (&mut self.body, self.until.min(slow), &self.stop);
        let read = self.runtime.block_on(async move {
            tokio::select! {
                biased;
                () = stop.cancelled() => Ok(Err(io::Error::other("nobody waits for it any more"))),
                read = timeout_at(until, body.read(buffer)) => read,
            }
        });
        self.waited += begun.elapsed();
        let read = read.unwrap_or_else(|_| match self.slowest {
            Some(slowest) if slow < self.until => Err(slower(slowest)),
            _ => Err(too_slow(self.limit)),
        })?;
        let left = self.left.checked_sub(read as u64);
        self.left = left.ok_or_else(|| {
            io::Error::other(format!("the registry sends more than the {} bytes of its manifest", self.size))
        })?;
        Ok(read)
    }
}

fn slower(slowest: Slowest) -> io::Error {
    let cause = format!(
        "the registry sends less than {} bytes a second: does it work, and is the line to it slow?",
        slowest.rate
    );
    io::Error::new(io::ErrorKind::TimedOut, cause)
}
