//! One feed a kind: a paged full list that compares page by page and keeps only what differs, then a watch from that
//! list's resourceVersion, of metadata alone except where gates read every change (architecture §3, "The index").

use super::client::Clients;
use super::index::{Index, Mark};
use super::kinds::Kind;
use super::objects::{ApiError, Objects};
use crate::gate;
use crate::payload::ObjectId;
use futures::StreamExt;
use kube::api::{WatchEvent, WatchParams};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Longer than the server's own range, so that quiet kinds cost next to nothing.
const WATCH_SECONDS: u32 = 1800;
/// A list is given up after a page when this many foreign objects for each of ours follow: ours are read by name then.
pub(super) const FOREIGN_PER_OWN: i64 = 20;

/// What the engine makes of an object that a list read: the fingerprint of the content it was found to have if it is as
/// wanted, and what gates may read of it.
#[derive(Debug, Default)]
pub struct Comparison {
    pub as_wanted: Option<u64>,
    pub view: Option<Value>,
}

pub type Compare = Arc<dyn Fn(&ObjectId, &Value) -> Comparison + Send + Sync>;

/// How a feed begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    /// Nothing is known: list, then watch.
    List,
    /// The kind has come into being just now by our own hand: nothing can be there yet.
    Empty,
}

/// A feed for one kind. Runs until stopped.
pub struct Feed {
    pub kind: Kind,
    pub objects: Objects,
    pub index: Arc<Index>,
    pub compare: Compare,
    /// Watch status too and keep the views fresh, instead of metadata alone.
    pub full: bool,
}

impl std::fmt::Debug for Feed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feed").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// Metadata alone.
#[derive(Clone, Deserialize, Serialize)]
struct Lite {
    #[serde(default)]
    metadata: Value,
}

/// What gates read where every change is watched. The spec is skipped unread: those of definitions are large.
#[derive(Clone, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
#[derive(Default)]
struct Status {
    api_version: String,
    kind: String,
    metadata: Value,
    #[serde(skip_serializing_if = "Value::is_null")]
    status: Value,
}

enum WatchEnd {
    /// Go on from this resourceVersion.
    From(String),
    Relist,
}

impl Feed {
    /// `ready` turns true when the first list is in the index.
    pub async fn run(self, clients: &Clients, begin: Begin, ready: watch::Sender<bool>, stop: CancellationToken) {
        let client = match clients.for_watch() {
            Ok(client) => client,
            Err(error) => return tracing::error!(kind = %self.kind.kind, %error, "cannot watch"),
        };
        let mut begin = begin;
        let mut failures = 0u32;
        loop {
            let Some(started) = stop.run_until_cancelled(self.read(begin)).await else { return };
            let pause = match started {
                Ok(version) => {
                    ready.send_replace(true);
                    failures = 0;
                    begin = Begin::List;
                    if stop.run_until_cancelled(self.watch(&client, version)).await.is_none() {
                        return;
                    }
                    continue;
                }
                Err(error) => {
                    failures += 1;
                    tracing::warn!(kind = %self.kind.kind, %error, "list failed; trying again");
                    pause(failures)
                }
            };
            if stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
                return;
            }
        }
    }

    /// Reads what is there and returns the resourceVersion to watch from.
    async fn read(&self, begin: Begin) -> Result<String, ApiError> {
        let mut missing = self.index.owned(&self.kind.group, &self.kind.kind);
        let mut version = String::new();
        if begin == Begin::List {
            let owned = i64::try_from(missing.len()).unwrap_or(i64::MAX);
            let mut token = None;
            loop {
                let page = self.objects.page(&self.kind, token).await?;
                if version.is_empty() {
                    version = page.metadata.resource_version;
                }
                for object in page.items {
                    self.take(object, &mut missing);
                }
                token = page.metadata.continue_token.filter(|t| !t.is_empty());
                if token.is_none() {
                    break;
                }
                let remaining = page.metadata.remaining_item_count.unwrap_or(0);
                if missing.is_empty() || remaining > owned.saturating_mul(FOREIGN_PER_OWN).max(1000) {
                    return Ok(version);
                }
            }
        }
        for id in &missing {
            self.index.listed(id, None, None, None);
        }
        Ok(version)
    }

    fn take(&self, mut object: Value, missing: &mut HashSet<ObjectId>) {
        let id = self.id(object.get("metadata").unwrap_or(&Value::Null));
        if !missing.remove(&id) {
            return;
        }
        // Lists leave these out of their items.
        if let Some(map) = object.as_object_mut() {
            map.entry("apiVersion").or_insert_with(|| self.kind.api_version().into());
            map.entry("kind").or_insert_with(|| self.kind.kind.clone().into());
        }
        let Comparison { as_wanted, view } = (self.compare)(&id, &object);
        self.index.listed(&id, Some(object), as_wanted, view);
    }

    fn id(&self, metadata: &Value) -> ObjectId {
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        ObjectId::new(&self.kind.group, &self.kind.kind, text("namespace"), text("name"))
    }

    /// Watches until the position is lost.
    async fn watch(&self, client: &kube::Client, mut version: String) {
        let mut failures = 0u32;
        loop {
            let before = std::time::Instant::now();
            match self.watch_once(client, &version).await {
                Ok(WatchEnd::From(next)) => {
                    version = next;
                    // A server that ends watches at once is not to be asked in a tight loop.
                    if before.elapsed() > Duration::from_secs(1) {
                        failures = 0;
                        continue;
                    }
                    failures += 1;
                }
                Ok(WatchEnd::Relist) => return,
                Err(error) if error.is_gone() || failures >= 5 => return,
                Err(error) => {
                    failures += 1;
                    tracing::debug!(kind = %self.kind.kind, %error, "watch failed; trying again");
                }
            }
            tokio::time::sleep(pause(failures)).await;
        }
    }

    async fn watch_once(&self, client: &kube::Client, version: &str) -> Result<WatchEnd, ApiError> {
        let attempt = format!("watch {}", self.kind.plural);
        let params = WatchParams { timeout: Some(WATCH_SECONDS), bookmarks: true, ..WatchParams::default() };
        let request = kube::core::Request::new(self.kind.path(""));
        let request =
            if self.full { request.watch(&params, version) } else { request.watch_metadata(&params, version) };
        let request = request.map_err(|e| ApiError::of(&attempt, kube::Error::BuildRequest(e)))?;
        let stream = if self.full {
            let events = client.request_events::<Status>(request).await.map_err(|e| ApiError::of(&attempt, e))?;
            StreamExt::map(events, |event: kube::Result<WatchEvent<Status>>| event.map(to_value)).boxed()
        } else {
            let events = client.request_events::<Lite>(request).await.map_err(|e| ApiError::of(&attempt, e))?;
            StreamExt::map(events, |event: kube::Result<WatchEvent<Lite>>| event.map(to_value)).boxed()
        };
        self.follow(stream, version, &attempt).await
    }

    async fn follow(
        &self,
        mut stream: futures::stream::BoxStream<'_, kube::Result<WatchEvent<Value>>>,
        version: &str,
        attempt: &str,
    ) -> Result<WatchEnd, ApiError> {
        let mut version = version.to_owned();
        while let Some(event) = stream.next().await {
            match event.map_err(|e| ApiError::of(attempt, e)) {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => {
                    version = self.saw(object).unwrap_or(version);
                }
                Ok(WatchEvent::Deleted(object)) => {
                    let mark = Mark::of(&object);
                    let id = self.id(object.get("metadata").unwrap_or(&Value::Null));
                    self.index.gone(&id, &mark.resource_version);
                    version = mark.resource_version;
                }
                Ok(WatchEvent::Bookmark(bookmark)) => version = bookmark.metadata.resource_version,
                Ok(WatchEvent::Error(status)) => {
                    let error = ApiError::of(attempt, kube::Error::Api(status));
                    return if error.is_gone() { Ok(WatchEnd::Relist) } else { Err(error) };
                }
                // What was seen up to here counts; go on from there.
                Err(error) => {
                    tracing::debug!(kind = %self.kind.kind, %error, "watch cut");
                    break;
                }
            }
        }
        Ok(WatchEnd::From(version))
    }

    fn saw(&self, object: Value) -> Option<String> {
        let mark = Mark::of(&object);
        let version = mark.resource_version.clone();
        let id = self.id(object.get("metadata")?);
        if self.index.is_owned(&id) {
            let view = self.full.then(|| gate::view(&object));
            self.index.seen(&id, mark, view);
        }
        Some(version)
    }
}

fn to_value<T: Serialize>(event: WatchEvent<T>) -> WatchEvent<Value> {
    let value = |object: T| serde_json::to_value(object).unwrap_or_default();
    match event {
        WatchEvent::Added(o) => WatchEvent::Added(value(o)),
        WatchEvent::Modified(o) => WatchEvent::Modified(value(o)),
        WatchEvent::Deleted(o) => WatchEvent::Deleted(value(o)),
        WatchEvent::Bookmark(b) => WatchEvent::Bookmark(b),
        WatchEvent::Error(e) => WatchEvent::Error(e),
    }
}

/// 0.2 s doubling up to 10 s, with jitter so that many feeds do not knock together.
fn pause(failures: u32) -> Duration {
    super::jittered(Duration::from_millis(200), failures, Duration::from_secs(10))
}
