//! A feed reads one kind into the index and keeps it current by one watch with initial events: the server first sends all
//! objects that exist, then what changes. Only objects that the index tracks are decoded, and only those that differ from
//! the desired content are kept. Where the server cannot send initial events, the kind is listed in pages first.
//!
//! Every half hour a feed lists its kind again, in case a watch has missed something.

use super::backoff::{jittered, spread};
use super::client::Clients;
use super::error::ApiError;
use super::index::Index;
use super::kinds::Kind;
use super::list::{list, too_many};
use super::objects::Objects;
use super::partial_object::PartialObject;
use super::revision::Revision;
use crate::gate::{self, Observed};
use crate::payload::ObjectId;
use futures::{Stream, StreamExt};
use kube::api::{WatchEvent, WatchParams};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// A server that has not marked the end of the initial events by then does not support them.
const INITIAL_EVENTS_LIMIT: Duration = Duration::from_secs(60);
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// An object that a feed has read, compared with the desired one.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    /// Fingerprint of the desired content, if the object has it.
    pub as_desired: Option<u64>,
    /// What gates read of it.
    pub view: Option<Observed>,
}

pub(crate) type Compare = Arc<dyn Fn(&ObjectId, &Value) -> Comparison + Send + Sync>;

/// How a feed reads its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A watch of whole objects with initial events.
    Stream,
    /// The same with metadata only: the kind has too many objects that are not tracked.
    Metadata,
    /// A list in pages, then a watch of whole objects: for servers without initial events.
    Pages,
}

/// The feed of one kind. Runs until stopped.
pub(crate) struct Feed {
    pub kind: Kind,
    pub objects: Objects,
    pub index: Arc<Index>,
    pub compare: Compare,
    /// Lists everything again this often.
    pub relist: Duration,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// How a watch ended.
enum End {
    /// Go on from this resourceVersion.
    From(String),
    /// List everything again.
    Relist,
    /// List everything again in another mode.
    RelistAs(Mode),
}

impl Feed {
    /// `ready` turns true when all objects that exist are in the index.
    pub(crate) async fn run(self, clients: &Clients, ready: watch::Sender<bool>, stop: CancellationToken) {
        let client = match clients.for_watch() {
            Ok(client) => client,
            Err(error) => return tracing::error!(kind = %self.kind.kind, %error, "cannot watch"),
        };
        let (mut mode, mut from, mut failures, mut server_errors) = (Mode::Stream, None, 0u32, 0u32);
        // All feeds start at the same time; their later lists are spread over the whole period.
        let mut lasts = spread(self.relist);
        loop {
            let begun = Instant::now();
            let session = self.session(&client, mode, from.take(), lasts, &ready);
            let Some(ended) = stop.run_until_cancelled(session).await else { return };
            // A server that ends watches at once must not be asked in a tight loop.
            failures = if begun.elapsed() > Duration::from_secs(1) { 0 } else { failures + 1 };
            match ended {
                Ok(End::RelistAs(other)) => {
                    (mode, failures) = (other, 0);
                    continue;
                }
                Ok(End::Relist) => lasts = self.relist,
                Ok(End::From(version)) => {
                    lasts = lasts.saturating_sub(begun.elapsed()).max(Duration::from_secs(5));
                    from = Some(version);
                }
                Err((error, version)) => {
                    tracing::debug!(kind = %self.kind.kind, %error, "watch failed; trying again");
                    // Some servers that do not support initial events answer with an internal server error.
                    server_errors = if version.is_none() && error.is_internal() { server_errors + 1 } else { 0 };
                    if mode == Mode::Stream && server_errors >= 3 {
                        mode = Mode::Pages;
                    }
                    // A server may have lost this position without saying so, and then it fails every time.
                    from = version.filter(|_| !error.is_gone() && failures < 5);
                }
            }
            if failures > 0 && stop.run_until_cancelled(tokio::time::sleep(pause(failures))).await.is_none() {
                return;
            }
        }
    }

    /// One watch from its start to its end; `from` is where an earlier one was cut off.
    async fn session(
        &self,
        client: &kube::Client,
        mode: Mode,
        from: Option<String>,
        lasts: Duration,
        ready: &watch::Sender<bool>,
    ) -> Result<End, (ApiError, Option<String>)> {
        let from = match (mode, from) {
            (Mode::Pages, None) => {
                let version = self.pages().await.map_err(|e| (e, None))?;
                ready.send_replace(true);
                Some(version)
            }
            (_, from) => from,
        };
        let resumes = from.clone();
        let attempt = format!("watch {}", self.kind.plural);
        let params = WatchParams {
            timeout: Some(u32::try_from(lasts.as_secs()).unwrap_or(u32::MAX).max(5)),
            bookmarks: true,
            send_initial_events: from.is_none(),
            ..WatchParams::default()
        };
        let request = kube::core::Request::new(self.kind.path(""));
        let version = from.as_deref().unwrap_or_default();
        let request = match mode {
            Mode::Metadata => request.watch_metadata(&params, version),
            Mode::Stream | Mode::Pages => request.watch(&params, version),
        };
        let failed = |error| (ApiError::of(&attempt, error), resumes.clone());
        let request = request.map_err(|e| failed(kube::Error::BuildRequest(e)))?;
        let mut current = Current { feed: self, mode, begun: Instant::now(), lasts, version: from, initial: None };
        if current.version.is_none() {
            let missing = self.tracked();
            current.initial = Some(Initial { tracked: missing.len(), missing, others: 0 });
        }
        match client.request_events::<Box<RawValue>>(request).await {
            Ok(events) => current.follow(events.boxed(), ready).await,
            Err(error) => {
                let error = ApiError::of(&attempt, error);
                // Servers that do not know initial events call the request invalid.
                if resumes.is_none() && error.is_refused() {
                    Ok(End::RelistAs(Mode::Pages))
                } else {
                    Err((error, resumes))
                }
            }
        }
    }

    fn tracked(&self) -> HashSet<ObjectId> {
        self.index.tracked(&self.kind.group, &self.kind.kind)
    }

    /// Lists everything in pages and returns the resourceVersion to watch from.
    async fn pages(&self) -> Result<String, ApiError> {
        let mut missing = self.tracked();
        let found = |id: ObjectId, object: Value| self.on_list(&id, object);
        let listed = list(&self.objects, &self.kind, &mut missing, found).await?;
        if listed.complete {
            self.on_missing(&missing, &listed.version);
        }
        Ok(listed.version)
    }

    /// A tracked object, read as a whole.
    fn on_list(&self, id: &ObjectId, object: Value) {
        let Comparison { as_desired, view } = (self.compare)(id, &object);
        self.index.on_list(id, object, as_desired, view);
    }

    fn on_missing(&self, missing: &HashSet<ObjectId>, version: &str) {
        for id in missing {
            self.index.on_missing_from_list(id, version);
        }
    }
}

/// The initial events so far.
struct Initial {
    /// Tracked objects that have not come yet.
    missing: HashSet<ObjectId>,
    /// Number of tracked objects.
    tracked: usize,
    /// Number of other objects that have come.
    others: usize,
}

/// A watch under way.
struct Current<'a> {
    feed: &'a Feed,
    mode: Mode,
    begun: Instant,
    lasts: Duration,
    /// Where to go on when it is cut off.
    version: Option<String>,
    /// Until all initial events have come.
    initial: Option<Initial>,
}

type Ended = Result<End, (ApiError, Option<String>)>;

impl Current<'_> {
    async fn follow(
        mut self,
        mut events: impl Stream<Item = kube::Result<WatchEvent<Box<RawValue>>>> + Unpin,
        ready: &watch::Sender<bool>,
    ) -> Ended {
        loop {
            let event = if self.initial.is_some() {
                let left = INITIAL_EVENTS_LIMIT.saturating_sub(self.begun.elapsed());
                match tokio::time::timeout(left, events.next()).await {
                    Ok(event) => event,
                    Err(_) => return Ok(End::RelistAs(Mode::Pages)),
                }
            } else {
                events.next().await
            };
            let Some(event) = event else { return Ok(self.ended()) };
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => self.on_event(&object),
                Ok(WatchEvent::Deleted(object)) => {
                    let name = PartialObject::read(&object);
                    self.feed.index.on_delete(&name.id(&self.feed.kind), &name.metadata.resource_version);
                    self.version = Some(name.metadata.resource_version);
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    let version = bookmark.metadata.resource_version;
                    if bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END)
                        && let Some(initial) = self.initial.take()
                    {
                        self.feed.on_missing(&initial.missing, &version);
                        ready.send_replace(true);
                    }
                    self.version = Some(version);
                }
                Ok(WatchEvent::Error(status)) => {
                    let error = ApiError::of("watch", kube::Error::Api(status));
                    if error.is_gone() {
                        return Ok(End::Relist);
                    }
                    return Err((error, self.position()));
                }
                // What has come so far counts; go on from there.
                Err(error) => {
                    tracing::debug!(kind = %self.feed.kind.kind, %error, "watch cut off");
                    return Ok(self.ended());
                }
            }
            if let Some(initial) = &self.initial
                && self.mode == Mode::Stream
                && too_many(initial.others, initial.tracked)
            {
                return Ok(End::RelistAs(Mode::Metadata));
            }
        }
    }

    /// Where to go on; nowhere before all initial events have come.
    fn position(&self) -> Option<String> {
        self.version.clone().filter(|_| self.initial.is_none())
    }

    fn ended(&self) -> End {
        match self.position() {
            Some(version) if self.begun.elapsed() + Duration::from_secs(2) < self.lasts => End::From(version),
            _ => End::Relist,
        }
    }

    fn on_event(&mut self, object: &RawValue) {
        let name = PartialObject::read(object);
        let id = name.id(&self.feed.kind);
        if !name.metadata.resource_version.is_empty() {
            self.version = Some(name.metadata.resource_version);
        }
        let index = &self.feed.index;
        if !index.is_tracked(&id) {
            self.initial.iter_mut().for_each(|initial| initial.others += 1);
            return;
        }
        let first = self.initial.as_mut().is_some_and(|initial| initial.missing.remove(&id));
        match (first, self.mode) {
            (true, Mode::Metadata) => index.on_metadata(&id, Revision::read_metadata(object)),
            (true, _) => self.feed.on_list(&id, serde_json::from_str(object.get()).unwrap_or_default()),
            (false, Mode::Metadata) => index.on_event(&id, Revision::read_metadata(object), None, None),
            (false, _) => {
                let view = gate::observe_json(&id, object.get());
                index.on_event(&id, Revision::read(object), view, Some(object.to_owned()));
            }
        }
    }
}

/// 0.2 s doubling up to 10 s, with jitter so that the feeds do not all ask at the same time.
fn pause(failures: u32) -> Duration {
    jittered(Duration::from_millis(200), failures, Duration::from_secs(10))
}
