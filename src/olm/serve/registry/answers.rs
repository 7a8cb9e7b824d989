//! The messages of an answer, made part by part as the client takes them.

use crate::olm::catalog::served::{self, Catalogs};
use crate::olm::registry::authority::Key;
use crate::olm::registry::query::{Part, Query, QueryError, part};
use futures::stream::{self, BoxStream, Stream, StreamExt, TryStreamExt};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::Instant;
use tonic::Status;

/// Bytes that a permit for memory stands for.
const UNIT: usize = 1 << 10;

/// What all answers together take for parts of catalogs that are decoded.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    units: u32,
    free: Arc<Semaphore>,
}

impl Memory {
    pub(super) fn new(bytes: usize) -> Self {
        let units = u32::try_from(bytes.div_ceil(UNIT)).unwrap_or(u32::MAX);
        Memory { units, free: Arc::new(Semaphore::new(units as usize)) }
    }

    pub(super) fn is_free(&self) -> bool {
        self.free.available_permits() == self.units as usize
    }

    /// Waits until so much is free. What needs more than all of it gets all of it.
    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, Status> {
        let units = u32::try_from(bytes.div_ceil(UNIT)).map_or(self.units, |units| units.min(self.units));
        let taken = self.free.clone().acquire_many_owned(units).await;
        taken.map_err(|_| Status::unavailable("the server stops"))
    }
}

/// The content of a catalog as it was when the call began, and what tells whether the catalog is still there.
pub(super) struct Content {
    pub key: Key,
    pub content: Arc<served::Content>,
    pub catalogs: watch::Receiver<Arc<Catalogs>>,
}

impl Content {
    /// A new content takes the place of this one without ending the answer; the end of the catalog does end it.
    fn check(&self) -> Result<(), Status> {
        if self.catalogs.borrow().contains_key(&self.key) { Ok(()) } else { Err(removed(&self.key)) }
    }
}

/// What is said of a catalog that is not served any more, or not yet.
pub(super) fn removed((namespace, name): &Key) -> Status {
    Status::unavailable(format!(
        "the catalog {name} of namespace {namespace} is not served now; see the status of its CatalogSource"
    ))
}

/// What is left of an answer.
struct Rest<Q> {
    query: Arc<Q>,
    content: Content,
    memory: Memory,
    /// The row with which the next part begins.
    next: Option<usize>,
    is_empty: bool,
    /// For the part that was taken last.
    held: Option<OwnedSemaphorePermit>,
    _call: OwnedSemaphorePermit,
}

/// Makes the first part of an answer, so that what is wrong with the request is known before anything is sent.
pub(super) async fn begin<Q: Query>(
    query: Q,
    content: Content,
    memory: Memory,
    call: OwnedSemaphorePermit,
    progress: &Progress,
) -> Result<Answers<Q::Answer>, Status> {
    let query = Arc::new(query);
    let mut rest = Rest { query, content, memory, next: Some(0), is_empty: true, held: None, _call: call };
    let first = rest.part().await?;
    let parts = stream::try_unfold((rest, first), |(mut rest, part)| async move {
        let messages = match part {
            Some(messages) => Some(messages),
            None => rest.part().await?,
        };
        Ok::<_, Status>(messages.map(|messages| (messages, (rest, None))))
    });
    let messages = parts.map_ok(|messages| stream::iter(messages).map(Ok)).try_flatten().boxed();
    Ok(Answers { messages, taking: progress.taking() })
}

impl<Q: Query> Rest<Q> {
    /// The next messages; `None` after the last ones.
    async fn part(&mut self) -> Result<Option<Vec<Q::Answer>>, Status> {
        while let Some(from) = self.next {
            self.content.check()?;
            self.reserve(self.query.weight(&self.content.content, from)).await?;
            let (query, content) = (self.query.clone(), self.content.content.clone());
            // It may read from a disk.
            let made = tokio::task::spawn_blocking(move || part(&*query, &content, from)).await;
            let Part { messages, next } = made.map_err(|error| Status::internal(error.to_string()))?.map_err(status)?;
            self.next = next;
            if !messages.is_empty() {
                self.is_empty = false;
                return Ok(Some(messages));
            }
        }
        self.held = None;
        match self.query.none().filter(|_| self.is_empty) {
            Some(error) => Err(status(error)),
            None => Ok(None),
        }
    }

    /// Waits until there is memory for a part. What the one before took has been sent.
    async fn reserve(&mut self, bytes: usize) -> Result<(), Status> {
        self.held = None;
        if bytes > 0 {
            self.held = Some(self.memory.take(bytes).await?);
        }
        Ok(())
    }
}

/// Clients know the code of what was not found.
fn status(error: QueryError) -> Status {
    let message = error.to_string();
    match error {
        QueryError::Invalid { .. } => Status::invalid_argument(message),
        QueryError::TooLarge { .. } => Status::resource_exhausted(message),
        QueryError::Index(_) => Status::internal(message),
        _ => Status::unknown(message),
    }
}

/// The messages of an answer.
pub(super) struct Answers<A> {
    messages: BoxStream<'static, Result<A, Status>>,
    taking: Taking,
}

impl<A> Stream for Answers<A> {
    type Item = Result<A, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let next = self.messages.as_mut().poll_next(context);
        let taken = matches!(next, Poll::Ready(Some(_))).then(Instant::now);
        *self.taking.0.lock().unwrap_or_else(PoisonError::into_inner) = taken;
        next
    }
}

/// Tells whether the client of a connection takes what it has asked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Progress(Arc<Mutex<Vec<Weak<Taken>>>>);

/// When the client took the last message, while it is to take the next one.
type Taken = Mutex<Option<Instant>>;

/// The progress of one answer.
struct Taking(Arc<Taken>);

impl Progress {
    fn taking(&self) -> Taking {
        let taking = Arc::new(Mutex::new(None));
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|other| other.strong_count() > 0);
        all.push(Arc::downgrade(&taking));
        Taking(taking)
    }

    /// Whether an answer has not gone on for that long because of the client.
    pub(super) fn is_stalled(&self, limit: Duration) -> bool {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let taken = |taking: Arc<Taken>| *taking.lock().unwrap_or_else(PoisonError::into_inner);
        let mut taken = all.iter().filter_map(Weak::upgrade).filter_map(taken);
        taken.any(|taken| taken.elapsed() >= limit)
    }
}
