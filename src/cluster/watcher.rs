//! A few objects of one kind as they are and as they change: one watch, which the server begins with everything that exists
//! (initial events). A server that cannot do that is asked for a list before. However a watch ends, the next one begins with
//! everything that exists then, so what happened in the gap is not missed. For kinds with many objects there is [`super::feed`].
//!
//! kube's watcher does not serve here: it cannot change from one way of reading to the other, and it takes initial events from
//! the server's cache at resourceVersion 0, which may be older than what was read or written before.

use super::backoff::{WatchBackoff, with_jitter};
use super::error::{ApiError, Cause};
use super::kinds::Kind;
use super::objects::{PageMeta, call};
use futures::stream::{self, BoxStream, Stream, StreamExt};
use kube::Client;
use kube::api::{ListParams, WatchEvent, WatchParams};
pub(crate) use kube::runtime::watcher::Event;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How long one watch lasts.
const WATCH_SECONDS: u32 = 1800;
/// Pause before the server is asked again for a kind that it may never have.
const NOT_SERVED: Duration = Duration::from_secs(600);
/// A server that has not told everything that exists by then has failed.
const INITIAL_LIMIT: Duration = Duration::from_secs(30);
/// The annotation of the bookmark that ends the initial events.
pub(super) const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Which objects are watched.
#[derive(Clone, Debug)]
pub(crate) struct Selection {
    pub kind: Kind,
    /// Empty for all.
    pub namespace: String,
    pub selector: Selector,
    /// The server may never have the kind: as long as it has not, it is asked once in ten minutes. A kind that it had before is asked
    /// for once more soon: a server that has just begun may not have loaded its definitions.
    pub optional: bool,
    /// Only the metadata of the objects is asked for.
    pub metadata: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Selector {
    All,
    Name(String),
    /// A label selector.
    Labels(String),
    /// A field selector.
    Fields(String),
}

impl Selection {
    /// `namespace` is empty for a kind without, and for all.
    pub(crate) fn new(kind: Kind, namespace: &str, selector: Selector) -> Selection {
        Selection { kind, namespace: namespace.to_owned(), selector, optional: false, metadata: false }
    }

    /// The same for a kind that the server may never have.
    pub(crate) fn optional(self) -> Selection {
        Selection { optional: true, ..self }
    }

    /// The same without what is not metadata.
    pub(crate) fn of_metadata(self) -> Selection {
        Selection { metadata: true, ..self }
    }

    fn attempt(&self) -> String {
        let Selection { kind, namespace, selector, .. } = self;
        let mut text = format!("watch {}", kind.plural);
        if !namespace.is_empty() {
            text.push_str(&format!(" in {namespace}"));
        }
        match selector {
            Selector::All => {}
            Selector::Name(name) => text.push_str(&format!(" with the name {name}")),
            Selector::Labels(labels) => text.push_str(&format!(" with the labels {labels}")),
            Selector::Fields(fields) => text.push_str(&format!(" with the fields {fields}")),
        }
        text
    }

    fn fields(&self) -> Option<String> {
        match &self.selector {
            Selector::Name(name) => Some(format!("metadata.name={name}")),
            Selector::Fields(fields) => Some(fields.clone()),
            Selector::All | Selector::Labels(_) => None,
        }
    }

    fn labels(&self) -> Option<String> {
        if let Selector::Labels(labels) = &self.selector { Some(labels.clone()) } else { None }
    }

    /// Begins with everything that exists, or after a resourceVersion.
    fn watch(&self, version: Option<&str>) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
        let params = WatchParams {
            field_selector: self.fields(),
            label_selector: self.labels(),
            timeout: Some(WATCH_SECONDS),
            bookmarks: version.is_none(),
            send_initial_events: version.is_none(),
        };
        let request = kube::core::Request::new(self.kind.path(&self.namespace));
        let version = version.unwrap_or_default();
        if self.metadata { request.watch_metadata(&params, version) } else { request.watch(&params, version) }
    }

    fn list(&self) -> Result<http::Request<Vec<u8>>, kube::core::request::Error> {
        let (field_selector, label_selector) = (self.fields(), self.labels());
        let params = ListParams { field_selector, label_selector, ..ListParams::default() };
        let request = kube::core::Request::new(self.kind.path(&self.namespace));
        if self.metadata { request.list_metadata(&params) } else { request.list(&params) }
    }
}

/// The objects, and then their changes, as long as the stream is polled. An error says why they could not be read; the next
/// attempt follows after a pause. The end of a watch that had told everything is no error.
pub(crate) fn events<T>(client: Client, selection: Selection) -> impl Stream<Item = Result<Event<T>, ApiError>>
where
    T: Clone + DeserializeOwned + Send + 'static,
{
    events_with(client, selection, WatchBackoff::default())
}

/// The same with these pauses.
pub(crate) fn events_with<T>(
    client: Client,
    selection: Selection,
    backoff: WatchBackoff,
) -> impl Stream<Item = Result<Event<T>, ApiError>>
where
    T: Clone + DeserializeOwned + Send + 'static,
{
    let state = State::Paused { until: Instant::now() };
    let watcher = Watcher { client, selection, backoff, by_list: false, served: false, state };
    stream::unfold(watcher, |mut watcher| async move { Some((watcher.next().await, watcher)) })
}

type Events<T> = BoxStream<'static, kube::Result<WatchEvent<T>>>;

#[derive(Deserialize)]
struct List<T> {
    #[serde(default)]
    metadata: PageMeta,
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

enum State<T> {
    Paused {
        until: Instant,
    },
    /// Initial events come.
    Initial {
        events: Events<T>,
        until: Instant,
    },
    /// What is left of the list, and the resourceVersion to watch from.
    Listed {
        left: std::vec::IntoIter<T>,
        version: String,
    },
    /// Everything that exists has been told.
    Current {
        events: Events<T>,
    },
}

struct Watcher<T> {
    client: Client,
    selection: Selection,
    backoff: WatchBackoff,
    /// Everything is read by a list and not by initial events. After a failure the other way is tried, and the one that
    /// works is kept.
    by_list: bool,
    /// The last attempt but the present one has found the kind.
    served: bool,
    state: State<T>,
}

impl<T: Clone + DeserializeOwned + Send + 'static> Watcher<T> {
    async fn next(&mut self) -> Result<Event<T>, ApiError> {
        loop {
            let told = match &mut self.state {
                State::Paused { until } => {
                    sleep_until(*until).await;
                    self.begin().await.map(Some)
                }
                State::Initial { events, until } => {
                    let event = timeout_at(*until, events.next()).await;
                    self.on_initial(event.map_err(|_| Cause::Timeout))
                }
                State::Listed { left, version } => match left.next() {
                    Some(object) => Ok(Some(Event::InitApply(object))),
                    None => {
                        let version = std::mem::take(version);
                        self.go_on(&version).await.map(Some)
                    }
                },
                State::Current { events } => {
                    let event = events.next().await;
                    Ok(self.on_change(event))
                }
            };
            match told {
                Ok(Some(event)) => {
                    self.served = true;
                    return Ok(event);
                }
                Ok(None) => {}
                Err(error) => {
                    self.pause();
                    let was_served = std::mem::take(&mut self.served);
                    if self.selection.optional && error.is_not_found() && !was_served {
                        self.state = State::Paused { until: Instant::now() + with_jitter(NOT_SERVED) };
                    }
                    return Err(error);
                }
            }
        }
    }

    fn pause(&mut self) {
        self.state = State::Paused { until: Instant::now() + self.backoff.pause() };
    }

    fn error(&self, cause: Cause) -> ApiError {
        ApiError { attempt: self.selection.attempt(), cause }
    }

    async fn begin(&mut self) -> Result<Event<T>, ApiError> {
        if !self.by_list {
            let until = Instant::now() + INITIAL_LIMIT;
            match self.open(None, until).await {
                Ok(events) => {
                    self.state = State::Initial { events, until };
                    return Ok(Event::Init);
                }
                // The server does not know initial events.
                Err(error) if error.is_refused() => self.by_list = true,
                Err(error) => {
                    self.by_list = is_of_the_way(&error);
                    return Err(error);
                }
            }
        }
        let attempt = self.selection.attempt();
        let list = call::<List<T>>(&self.client, INITIAL_LIMIT, &attempt, self.selection.list()).await;
        let list = list.inspect_err(|error| self.by_list = !is_of_the_way(error))?;
        self.state = State::Listed { left: list.items.into_iter(), version: list.metadata.resource_version };
        Ok(Event::Init)
    }

    /// After the list.
    async fn go_on(&mut self, version: &str) -> Result<Event<T>, ApiError> {
        let events = self.open(Some(version), Instant::now() + INITIAL_LIMIT).await;
        let events = events.inspect_err(|error| self.by_list = !is_of_the_way(error))?;
        self.state = State::Current { events };
        Ok(Event::InitDone)
    }

    async fn open(&mut self, version: Option<&str>, until: Instant) -> Result<Events<T>, ApiError> {
        let attempt = self.selection.attempt();
        let request = self.selection.watch(version);
        let request = request.map_err(|e| ApiError::of(&attempt, kube::Error::BuildRequest(e)))?;
        match timeout_at(until, self.client.request_events::<T>(request)).await {
            Ok(events) => Ok(events.map_err(|e| ApiError::of(&attempt, e))?.boxed()),
            Err(_) => Err(self.error(Cause::Timeout)),
        }
    }

    fn on_initial(
        &mut self,
        event: Result<Option<kube::Result<WatchEvent<T>>>, Cause>,
    ) -> Result<Option<Event<T>>, ApiError> {
        let failure = match event {
            Ok(Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)))) => {
                return Ok(Some(Event::InitApply(object)));
            }
            Ok(Some(Ok(WatchEvent::Bookmark(bookmark)))) => {
                let all = bookmark.metadata.annotations.contains_key(INITIAL_EVENTS_END);
                return Ok(if all { self.on_initial_end() } else { None });
            }
            // Of an object that has been told of already.
            Ok(Some(Ok(WatchEvent::Deleted(object)))) => return Ok(Some(Event::Delete(object))),
            Ok(Some(Ok(WatchEvent::Error(status)))) => {
                ApiError::of(&self.selection.attempt(), kube::Error::Api(status))
            }
            Ok(Some(Err(error))) => ApiError::of(&self.selection.attempt(), error),
            Ok(None) => self.error(Cause::Transport("the initial events broke off".to_owned())),
            Err(cause) => self.error(cause),
        };
        self.by_list = true;
        Err(failure)
    }

    fn on_initial_end(&mut self) -> Option<Event<T>> {
        let until = Instant::now();
        let State::Initial { events, .. } = std::mem::replace(&mut self.state, State::Paused { until }) else {
            return None;
        };
        self.state = State::Current { events };
        Some(Event::InitDone)
    }

    /// `None` when the watch has ended.
    fn on_change(&mut self, event: Option<kube::Result<WatchEvent<T>>>) -> Option<Event<T>> {
        let end = match event {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => return Some(Event::Apply(object)),
            Some(Ok(WatchEvent::Deleted(object))) => return Some(Event::Delete(object)),
            Some(Ok(WatchEvent::Bookmark(_))) => return None,
            Some(Ok(WatchEvent::Error(status))) => status.message.clone(),
            Some(Err(error)) => error.to_string(),
            None => String::new(),
        };
        tracing::debug!(watch = self.selection.attempt(), %end, "watch ended; beginning anew");
        self.pause();
        None
    }
}

/// Whether another way to read may succeed: not if the server was not reached, or does not serve the kind.
fn is_of_the_way(error: &ApiError) -> bool {
    !matches!(error.cause, Cause::Transport(_)) && !error.is_not_found()
}

#[cfg(test)]
pub(crate) mod tests;
