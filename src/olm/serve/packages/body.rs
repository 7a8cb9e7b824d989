//! Writes answers of any length in bounded memory. What is short is sent as a whole; of what is not only some pieces wait for the
//! client, compressed if it wants that. A client that does not read loses its answer.

use axum::body::{Body, Bytes};
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};

/// Bytes up to which an answer is sent as a whole, as it is.
const WHOLE: usize = 128 << 10;
/// Bytes of a piece of a longer one, and how many wait.
const PIECE: usize = 32 << 10;
const PIECES: usize = 4;
/// How long the client may take to read a piece, and all of them.
const SEND_TIMEOUT: Duration = Duration::from_secs(20);
const TIMEOUT: Duration = Duration::from_secs(60);
/// Answers that are written at once, and how long the next one waits.
const WRITERS: usize = 8;
const WAIT: Duration = Duration::from_secs(10);

/// The places of those who write. Whoever reads a long list slowly keeps nobody from single packages.
#[derive(Debug)]
pub(super) struct Writers {
    lists: Arc<Semaphore>,
    single: Arc<Semaphore>,
}

impl Default for Writers {
    fn default() -> Self {
        let places = || Arc::new(Semaphore::new(WRITERS));
        Writers { lists: places(), single: places() }
    }
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answer {
    List,
    Single,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum WriteError {
    Busy,
    Failed(String),
}

/// An answer that has begun.
#[derive(Debug)]
pub(super) struct Written {
    pub body: Body,
    pub is_gzip: bool,
}

impl Writers {
    /// Writes an answer in a thread that may wait for the disk. An error after [`WHOLE`] bytes ends the body without its end.
    pub(super) async fn write<F>(&self, answer: Answer, accepts_gzip: bool, write: F) -> Result<Written, WriteError>
    where
        F: FnOnce(&mut Sink) -> io::Result<()> + Send + 'static,
    {
        let place = self.place(answer).await?;
        let (told, begun) = oneshot::channel();
        let runtime = Handle::current();
        tokio::task::spawn_blocking(move || {
            let mut sink = Sink { buffer: Vec::new(), out: None, told: Some(told), accepts_gzip, runtime };
            let written = write(&mut sink);
            sink.finish(written);
            drop(place);
        });
        begun.await.unwrap_or_else(|_| Err(WriteError::Failed("writing the answer has failed".to_owned())))
    }

    /// Reads something in such a thread.
    pub(super) async fn read<F, T>(&self, read: F) -> Result<T, WriteError>
    where
        F: FnOnce() -> io::Result<T> + Send + 'static,
        T: Send + 'static,
    {
        let _place = self.place(Answer::Single).await?;
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| Err(io::Error::other(error))).map_err(|error| WriteError::Failed(error.to_string()))
    }

    async fn place(&self, answer: Answer) -> Result<OwnedSemaphorePermit, WriteError> {
        let places = if answer == Answer::List { &self.lists } else { &self.single };
        match tokio::time::timeout(WAIT, places.clone().acquire_owned()).await {
            Ok(Ok(place)) => Ok(place),
            _ => Err(WriteError::Busy),
        }
    }
}

/// Where an answer is written.
pub(super) struct Sink {
    buffer: Vec<u8>,
    /// Where the pieces of a long answer go.
    out: Option<Out>,
    told: Option<oneshot::Sender<Result<Written, WriteError>>>,
    accepts_gzip: bool,
    runtime: Handle,
}

enum Out {
    Plain(Pieces),
    Gzip(GzEncoder<Pieces>),
}

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        let most = if self.out.is_some() { PIECE } else { WHOLE };
        if self.buffer.len() > most {
            self.push()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Sink {
    /// Hands the buffer on. The first time it is known that the answer is long.
    fn push(&mut self) -> io::Result<()> {
        let out = match self.out.take() {
            Some(out) => out,
            None => self.begin(),
        };
        match self.out.insert(out) {
            Out::Plain(pieces) => pieces.write_all(&self.buffer)?,
            Out::Gzip(encoder) => encoder.write_all(&self.buffer)?,
        }
        self.buffer.clear();
        Ok(())
    }

    fn begin(&mut self) -> Out {
        let (sender, receiver) = mpsc::channel(PIECES);
        let complete = Arc::new(AtomicBool::new(false));
        let body = Body::from_stream(stream::unfold(Some((receiver, complete.clone())), next));
        if let Some(told) = self.told.take() {
            // Whoever asked may be gone, which the first piece will show.
            let _gone = told.send(Ok(Written { body, is_gzip: self.accepts_gzip }));
        }
        let (runtime, buffer) = (self.runtime.clone(), Vec::with_capacity(PIECE));
        let pieces = Pieces { sender, complete, until: Instant::now() + TIMEOUT, runtime, buffer };
        match self.accepts_gzip {
            true => Out::Gzip(GzEncoder::new(pieces, Compression::fast())),
            false => Out::Plain(pieces),
        }
    }

    fn finish(mut self, written: io::Result<()>) {
        let ended = match (written, self.told.take()) {
            (Err(error), None) => Err(error),
            (Ok(()), None) => self.push().and_then(|()| match self.out {
                None => Ok(()),
                Some(Out::Plain(pieces)) => pieces.complete(),
                Some(Out::Gzip(encoder)) => encoder.finish().and_then(Pieces::complete),
            }),
            (written, Some(told)) => {
                let whole = Written { body: Body::from(self.buffer), is_gzip: false };
                let answer = written.map(|()| whole).map_err(|error| WriteError::Failed(error.to_string()));
                let _gone = told.send(answer);
                Ok(())
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "an answer was not written to its end");
        }
    }
}

type Receiver = (mpsc::Receiver<Bytes>, Arc<AtomicBool>);

/// The next piece of a body. One whose writer has not come to the end does not look complete.
async fn next(state: Option<Receiver>) -> Option<(io::Result<Bytes>, Option<Receiver>)> {
    let (mut receiver, complete) = state?;
    match receiver.recv().await {
        Some(piece) => Some((Ok(piece), Some((receiver, complete)))),
        None if complete.load(Ordering::Acquire) => None,
        None => Some((Err(io::Error::other("the answer was not written to its end")), None)),
    }
}

/// Sends what is written piece by piece.
struct Pieces {
    sender: mpsc::Sender<Bytes>,
    /// All pieces have been sent.
    complete: Arc<AtomicBool>,
    until: Instant,
    runtime: Handle,
    buffer: Vec<u8>,
}

impl Pieces {
    fn push(&mut self) -> io::Result<()> {
        if self.buffer.is_empty() {
            return Ok(());
        }
        let piece = std::mem::replace(&mut self.buffer, Vec::with_capacity(PIECE));
        let limit = SEND_TIMEOUT.min(self.until.saturating_duration_since(Instant::now()));
        let sent = self.runtime.block_on(async { self.sender.send_timeout(piece.into(), limit).await });
        sent.map_err(|_| io::Error::new(io::ErrorKind::BrokenPipe, "the client does not read the answer"))
    }

    fn complete(mut self) -> io::Result<()> {
        self.push()?;
        self.complete.store(true, Ordering::Release);
        Ok(())
    }
}

impl Write for Pieces {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.buffer.extend_from_slice(bytes);
        if self.buffer.len() >= PIECE {
            self.push()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests;
