//! One attempt of a feed: everything is read, or a watch goes on where the last one was cut off, until that ends.

use super::course::{Course, End, Ended, Mode};
use super::{Feed, ObjectEvent};
use crate::cluster::error::{ApiError, Cause};
use crate::cluster::list::{Every, list, too_many};
use crate::cluster::partial_object::PartialObject;
use crate::cluster::revision::Revision;
use crate::cluster::watcher::INITIAL_EVENTS_END;
use crate::gate;
use crate::object::manifest::ObjectId;
use futures::{Stream, StreamExt, stream};
use kube::api::{WatchEvent, WatchParams};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::HashSet;
use std::time::{Duration, Instant};

/// A server that has not marked the end of the initial events by then does not support them.
const INITIAL_EVENTS_LIMIT: Duration = Duration::from_secs(60);
/// Objects that are read by name at the same time.
const BY_NAME: usize = 8;

impl Feed {
    pub(super) async fn session(&self, client: &kube::Client, course: &Course) -> Ended {
        let mut from = course.from.clone();
        if from.is_none() && course.mode == Mode::Pages {
            match self.pages().await {
                Ok(version) => from = Some(version),
                Err(error) => {
                    if error.is_answer() && !error.is_not_found() {
                        self.by_name().await;
                    }
                    return Ended { end: End::Failed(error, None), watched: None };
                }
            }
        }
        let initial = from.is_none().then(|| {
            self.tell_whole(ObjectEvent::Begin);
            let missing = self.tracked();
            Initial { tracked: missing.len(), missing, others: 0 }
        });
        let (begun, lasts) = (Instant::now(), course.lasts);
        let current = Current { feed: self, mode: course.mode, begun, lasts, version: from, initial, watched: None };
        current.run(client).await
    }

    /// Lists everything in pages and returns the resourceVersion to watch from.
    async fn pages(&self) -> Result<String, ApiError> {
        let mut missing = self.tracked();
        let found = |id: ObjectId, object: Value| self.on_list(&id, object);
        let every = |object: &Value| self.tell_whole(ObjectEvent::Applied(object));
        self.tell_whole(ObjectEvent::Begin);
        let every = self.is_whole().then_some(&every as &Every<'_>);
        let listed = list(&self.objects, &self.kind, &mut missing, every, found).await?;
        self.tell_whole(ObjectEvent::Complete);
        if listed.complete {
            self.on_missing(&missing, &listed.version);
        } else {
            self.read_by_name(missing, &listed.version).await;
        }
        self.tell_ready();
        Ok(listed.version)
    }

    /// Reads every object by its name, because the kind cannot be listed.
    async fn by_name(&self) {
        self.read_by_name(self.tracked(), "").await;
        self.tell_ready();
    }

    /// What cannot be read stays as it is known. `version`: that of the list which did not reach them.
    async fn read_by_name(&self, ids: HashSet<ObjectId>, version: &str) {
        let read = |id: ObjectId| async move {
            match self.objects.get(&self.kind, &id.namespace, &id.name).await {
                Ok(Some(object)) => {
                    self.tell_whole(ObjectEvent::Applied(&object));
                    self.on_list(&id, object);
                }
                Ok(None) => self.index.on_missing_from_list(&id, version),
                Err(error) => tracing::debug!(object = %id, %error, "not read"),
            }
        };
        stream::iter(ids).for_each_concurrent(BY_NAME, read).await;
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
    /// Since when nothing is missed.
    watched: Option<Instant>,
}

impl Current<'_> {
    async fn run(mut self, client: &kube::Client) -> Ended {
        let end = match self.request() {
            Ok(request) => match client.request_events::<Box<RawValue>>(request).await {
                Ok(events) => self.follow(events.boxed()).await,
                Err(error) => self.refused(ApiError::of(&self.attempt(), error)),
            },
            Err(error) => {
                let error = ApiError::of(&self.attempt(), kube::Error::BuildRequest(error));
                End::Failed(error, self.position())
            }
        };
        Ended { end, watched: self.watched.map(|since| since.elapsed()) }
    }

    fn attempt(&self) -> String {
        format!("watch {}", self.feed.kind.plural)
    }

    fn request(&self) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
        let params = WatchParams {
            timeout: Some(u32::try_from(self.lasts.as_secs()).unwrap_or(u32::MAX).max(5)),
            bookmarks: true,
            send_initial_events: self.version.is_none(),
            ..WatchParams::default()
        };
        let request = kube::core::Request::new(self.feed.kind.path(""));
        let version = self.version.as_deref().unwrap_or_default();
        match self.mode {
            Mode::Metadata => request.watch_metadata(&params, version),
            Mode::Stream | Mode::Pages => request.watch(&params, version),
        }
    }

    /// Servers that do not know initial events call the request invalid.
    fn refused(&self, error: ApiError) -> End {
        if self.initial.is_some() && error.is_refused() {
            End::RelistAs(Mode::Pages)
        } else {
            End::Failed(error, self.position())
        }
    }

    async fn follow(&mut self, mut events: impl Stream<Item = kube::Result<WatchEvent<Box<RawValue>>>> + Unpin) -> End {
        if self.initial.is_none() {
            self.is_watched();
        }
        loop {
            let event = if self.initial.is_some() {
                let left = INITIAL_EVENTS_LIMIT.saturating_sub(self.begun.elapsed());
                match tokio::time::timeout(left, events.next()).await {
                    Ok(event) => event,
                    Err(_) => return End::RelistAs(Mode::Pages),
                }
            } else {
                events.next().await
            };
            let Some(event) = event else { return self.ended() };
            match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => self.on_event(&object),
                Ok(WatchEvent::Deleted(object)) => {
                    let name = PartialObject::read(&object);
                    self.feed.index.on_delete(&name.id(&self.feed.kind), &name.metadata.resource_version);
                    self.feed.tell_whole(ObjectEvent::Deleted(&name.metadata.name));
                    self.version = Some(name.metadata.resource_version);
                }
                Ok(WatchEvent::Bookmark(bookmark)) => {
                    let version = bookmark.metadata.resource_version;
                    if bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END)
                        && let Some(initial) = self.initial.take()
                    {
                        self.feed.on_missing(&initial.missing, &version);
                        self.feed.tell_whole(ObjectEvent::Complete);
                        self.is_watched();
                        self.feed.tell_ready();
                    }
                    self.version = Some(version);
                }
                Ok(WatchEvent::Error(status)) => {
                    let error = ApiError::of(&self.attempt(), kube::Error::Api(status));
                    return if error.is_gone() { End::Gone } else { End::Failed(error, self.position()) };
                }
                // What has come so far counts; go on from there.
                Err(error) => {
                    tracing::debug!(kind = %self.feed.kind.kind, %error, "watch cut off");
                    return self.ended();
                }
            }
            if let Some(initial) = &self.initial
                && self.mode == Mode::Stream
                && !self.feed.is_whole()
                && too_many(initial.others, initial.tracked)
            {
                return End::RelistAs(Mode::Metadata);
            }
        }
    }

    fn is_watched(&mut self) {
        self.watched = Some(Instant::now());
        self.feed.tell_watched();
    }

    /// Where to go on; nowhere before all initial events have come.
    fn position(&self) -> Option<String> {
        self.version.clone().filter(|_| self.initial.is_none())
    }

    fn ended(&self) -> End {
        match self.position() {
            Some(version) if self.begun.elapsed() + Duration::from_secs(2) < self.lasts => End::From(version),
            Some(_) => End::Relist,
            None => {
                let cause = Cause::Transport("the initial events broke off".to_owned());
                End::Failed(ApiError { attempt: self.attempt(), cause }, None)
            }
        }
    }

    fn on_event(&mut self, object: &RawValue) {
        let name = PartialObject::read(object);
        let id = name.id(&self.feed.kind);
        if !name.metadata.resource_version.is_empty() {
            self.version = Some(name.metadata.resource_version);
        }
        if self.feed.is_whole()
            && let Ok(object) = serde_json::from_str(object.get())
        {
            self.feed.tell_whole(ObjectEvent::Applied(&object));
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
