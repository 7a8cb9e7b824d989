//! One feed a kind: one watch that begins with everything there is, compared object by object as it streams in, and then
//! goes on with what changes (architecture §3, "The index"). One request reads a kind and keeps it; only what is ours is
//! decoded, and nothing but what differs is kept. A server that cannot begin a watch so is read by pages first.
//!
//! Once in half an hour a feed begins anew: the safety net for whatever a watch may have missed.

use super::client::Clients;
use super::glance::{Glance, Name};
use super::index::Index;
use super::kinds::Kind;
use super::objects::{ApiError, Objects};
use super::survey::{list, too_many};
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

/// A server that has not said by then where the present ends does not know how to; it is asked for pages then.
const STREAM_LIMIT: Duration = Duration::from_secs(60);
/// Ends the part of a watch that tells what is there.
const INITIAL_END: &str = "k8s.io/initial-events-end";

/// What the engine makes of an object that a feed read: the fingerprint of the content it was found to have if it is as
/// wanted, and what gates may read of it.
#[derive(Debug, Default)]
pub struct Comparison {
    pub as_wanted: Option<u64>,
    pub view: Option<Value>,
}

pub type Compare = Arc<dyn Fn(&ObjectId, &Value) -> Comparison + Send + Sync>;

/// How a feed reads its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// Whole objects, beginning with all there are.
    Stream,
    /// The same of metadata alone: too many of the objects are somebody else's.
    Metadata,
    /// Pages, then a watch of whole objects: for servers that know no other way.
    Pages,
}

/// A feed for one kind. Runs until stopped.
pub struct Feed {
    pub kind: Kind,
    pub objects: Objects,
    pub index: Arc<Index>,
    pub compare: Compare,
    /// Reads everything anew so often.
    pub safety_net: Duration,
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
    /// Begin anew.
    Anew,
    /// Begin anew in another way.
    By(Way),
}

impl Feed {
    /// `ready` turns true when all that is there is in the index.
    pub async fn run(self, clients: &Clients, ready: watch::Sender<bool>, stop: CancellationToken) {
        let client = match clients.for_watch() {
            Ok(client) => client,
            Err(error) => return tracing::error!(kind = %self.kind.kind, %error, "cannot watch"),
        };
        let (mut way, mut from, mut failures, mut troubles) = (Way::Stream, None, 0u32, 0u32);
        // Feeds begin together; their later beginnings are spread over the whole period.
        let mut lasts = super::spread(self.safety_net);
        loop {
            let begun = Instant::now();
            let session = self.session(&client, way, from.take(), lasts, &ready);
            let Some(ended) = stop.run_until_cancelled(session).await else { return };
            // A server that ends watches at once is not to be asked in a tight loop.
            failures = if begun.elapsed() > Duration::from_secs(1) { 0 } else { failures + 1 };
            match ended {
                Ok(End::By(other)) => {
                    (way, failures) = (other, 0);
                    continue;
                }
                Ok(End::Anew) => lasts = self.safety_net,
                Ok(End::From(version)) => {
                    lasts = lasts.saturating_sub(begun.elapsed()).max(Duration::from_secs(5));
                    from = Some(version);
                }
                Err((error, version)) => {
                    tracing::debug!(kind = %self.kind.kind, %error, "watch failed; trying again");
                    // Some servers cannot begin a watch so and have nothing to say but that they are in trouble.
                    troubles = if version.is_none() && error.is_server_trouble() { troubles + 1 } else { 0 };
                    if way == Way::Stream && troubles >= 3 {
                        way = Way::Pages;
                    }
                    // The same position fails for ever if the server has lost it without saying so.
                    from = version.filter(|_| !error.is_gone() && failures < 5);
                }
            }
            if failures > 0 && stop.run_until_cancelled(tokio::time::sleep(pause(failures))).await.is_none() {
                return;
            }
        }
    }

    /// One watch from its beginning to its end; `from` is where an earlier one was cut.
    async fn session(
        &self,
        client: &kube::Client,
        way: Way,
        from: Option<String>,
        lasts: Duration,
        ready: &watch::Sender<bool>,
    ) -> Result<End, (ApiError, Option<String>)> {
        let from = match (way, from) {
            (Way::Pages, None) => {
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
        let request = match way {
            Way::Metadata => request.watch_metadata(&params, version),
            Way::Stream | Way::Pages => request.watch(&params, version),
        };
        let failed = |error| (ApiError::of(&attempt, error), resumes.clone());
        let request = request.map_err(|e| failed(kube::Error::BuildRequest(e)))?;
        let mut current = Current { feed: self, way, begun: Instant::now(), lasts, version: from, initial: None };
        if current.version.is_none() {
            let missing = self.owned();
            current.initial = Some(Initial { owned: missing.len(), missing, foreign: 0 });
        }
        match client.request_events::<Box<RawValue>>(request).await {
            Ok(events) => current.follow(events.boxed(), ready).await,
            Err(error) => {
                let error = ApiError::of(&attempt, error);
                // Who does not know this beginning calls it invalid.
                if resumes.is_none() && error.is_refused() { Ok(End::By(Way::Pages)) } else { Err((error, resumes)) }
            }
        }
    }

    fn owned(&self) -> HashSet<ObjectId> {
        self.index.owned(&self.kind.group, &self.kind.kind)
    }

    /// Reads what is there by pages and returns the resourceVersion to watch from.
    async fn pages(&self) -> Result<String, ApiError> {
        let mut missing = self.owned();
        let take = |id: ObjectId, object: Value| self.take(&id, object);
        let listed = list(&self.objects, &self.kind, &mut missing, take).await?;
        if listed.whole {
            self.absent(&missing, &listed.version);
        }
        Ok(listed.version)
    }

    /// An object of ours, read whole.
    fn take(&self, id: &ObjectId, object: Value) {
        let Comparison { as_wanted, view } = (self.compare)(id, &object);
        self.index.listed(id, object, as_wanted, view);
    }

    fn absent(&self, missing: &HashSet<ObjectId>, version: &str) {
        for id in missing {
            self.index.unlisted(id, version);
        }
    }
}

/// What a watch has told so far of what was there when it began.
struct Initial {
    missing: HashSet<ObjectId>,
    owned: usize,
    foreign: usize,
}

/// A watch under way.
struct Current<'a> {
    feed: &'a Feed,
    way: Way,
    begun: Instant,
    lasts: Duration,
    /// Where to go on when it is cut.
    version: Option<String>,
    /// While it tells what is there.
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
                let left = STREAM_LIMIT.saturating_sub(self.begun.elapsed());
                match tokio::time::timeout(left, events.next()).await {
                    Ok(event) => event,
                    Err(_) => return Ok(End::By(Way::Pages)),
                }
            } else {
                events.next().await
            };
            let Some(event) = event else { return Ok(self.ended()) };
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => self.saw(&object),
                Ok(WatchEvent::Deleted(object)) => {
                    let name = Name::read(&object);
                    self.feed.index.gone(&name.id(&self.feed.kind), &name.metadata.resource_version);
                    self.version = Some(name.metadata.resource_version);
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    let version = bookmark.metadata.resource_version;
                    if bookmark.metadata.annotations.contains_key(INITIAL_END)
                        && let Some(initial) = self.initial.take()
                    {
                        self.feed.absent(&initial.missing, &version);
                        ready.send_replace(true);
                    }
                    self.version = Some(version);
                }
                Ok(WatchEvent::Error(status)) => {
                    let error = ApiError::of("watch", kube::Error::Api(status));
                    if error.is_gone() {
                        return Ok(End::Anew);
                    }
                    return Err((error, self.position()));
                }
                // What was seen up to here counts; go on from there.
                Err(error) => {
                    tracing::debug!(kind = %self.feed.kind.kind, %error, "watch cut");
                    return Ok(self.ended());
                }
            }
            if let Some(initial) = &self.initial
                && self.way == Way::Stream
                && too_many(initial.foreign, initial.owned)
            {
                return Ok(End::By(Way::Metadata));
            }
        }
    }

    /// Where to go on. Until everything has been told there is no such place.
    fn position(&self) -> Option<String> {
        self.version.clone().filter(|_| self.initial.is_none())
    }

    fn ended(&self) -> End {
        match self.position() {
            Some(version) if self.begun.elapsed() + Duration::from_secs(2) < self.lasts => End::From(version),
            _ => End::Anew,
        }
    }

    fn saw(&mut self, object: &RawValue) {
        let name = Name::read(object);
        let id = name.id(&self.feed.kind);
        if !name.metadata.resource_version.is_empty() {
            self.version = Some(name.metadata.resource_version);
        }
        let index = &self.feed.index;
        if !index.is_owned(&id) {
            self.initial.iter_mut().for_each(|initial| initial.foreign += 1);
            return;
        }
        let first = self.initial.as_mut().is_some_and(|initial| initial.missing.remove(&id));
        let glance = || Glance::read(object);
        match (first, self.way) {
            (true, Way::Metadata) => index.noticed(&id, glance().mark_of_metadata()),
            (true, _) => self.feed.take(&id, serde_json::from_str(object.get()).unwrap_or_default()),
            (false, Way::Metadata) => index.seen(&id, glance().mark_of_metadata(), None, None),
            (false, _) => {
                let glance = glance();
                index.seen(&id, glance.mark(), glance.view(&id), Some(object.to_owned()));
            }
        }
    }
}

/// 0.2 s doubling up to 10 s, with jitter so that many feeds do not knock together.
fn pause(failures: u32) -> Duration {
    super::jittered(Duration::from_millis(200), failures, Duration::from_secs(10))
}
