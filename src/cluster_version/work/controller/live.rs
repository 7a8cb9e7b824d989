//! The ClusterVersion as the controller sees it: the latest of what the watch and our own writes returned.

use crate::cluster::task;
use crate::cluster::watcher::{self, Event, Selection, Selector};
use crate::cluster::{ApiError, Clients, Kind};
use crate::cluster_version::api::{ClusterVersion, ClusterVersionSpec, ClusterVersionStatus, HistoryEntry};
use crate::object::metadata;
use futures::stream::{BoxStream, StreamExt};
use serde_json::{Map, Value};
use std::collections::BTreeSet;
use std::sync::Arc;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// A ClusterVersion, decoded.
#[derive(Clone, Debug)]
pub(crate) struct Live {
    pub raw: Value,
    pub spec: ClusterVersionSpec,
    pub status: ClusterVersionStatus,
    pub generation: i64,
    pub uid: String,
    /// It was made anew, and its history in the API server is still empty.
    pub restored: bool,
}

/// Keeps the newest version of the one object that counts, and the names of the other ClusterVersions, which are ignored.
#[derive(Debug)]
pub(crate) struct Latest {
    name: String,
    live: Option<Arc<Live>>,
    unreadable: Option<String>,
    others: BTreeSet<String>,
    /// The history of the cluster as it was known last: a ClusterVersion that is made anew goes on with it. Without one the
    /// release would be installed over the one that runs.
    history: Vec<HistoryEntry>,
}

/// What the watch says of one ClusterVersion.
#[derive(Debug)]
pub(crate) enum Change {
    Applied(Box<Value>),
    /// By name.
    Deleted(String),
}

impl Latest {
    /// `history`: as a process before has recorded it.
    pub(crate) fn new(name: &str, history: Vec<HistoryEntry>) -> Self {
        Latest { name: name.to_owned(), live: None, unreadable: None, others: BTreeSet::new(), history }
    }

    pub(crate) fn history(&self) -> &[HistoryEntry] {
        &self.history
    }

    pub(crate) fn live(&self) -> Option<&Arc<Live>> {
        self.live.as_ref()
    }

    /// What is wrong with the set of ClusterVersions and with this one's shape, for the `Invalid` condition.
    pub(crate) fn problems(&self) -> Vec<String> {
        let ignored = |other: &String| {
            let name = &self.name;
            format!("metadata.name: Forbidden: ClusterVersion {other:?} is ignored, only {name:?} counts: delete it")
        };
        self.others.iter().map(ignored).chain(self.unreadable.clone()).collect()
    }

    /// Takes in what the watch tells. `false`: nothing is told any more. The process stops, which would be blind otherwise for the
    /// rest of its life, and answer all the same.
    pub(crate) fn on_told(&mut self, told: Option<Change>, stop: &CancellationToken) -> bool {
        match told {
            Some(change) => self.on_change(change),
            None if stop.is_cancelled() => return false,
            None => {
                tracing::error!("stopping because nobody follows the ClusterVersion any more");
                stop.cancel();
                return false;
            }
        }
        true
    }

    pub(crate) fn on_change(&mut self, change: Change) {
        match change {
            Change::Deleted(name) if name == self.name => {
                if self.live.take().is_some() {
                    tracing::warn!(
                        "the ClusterVersion was deleted; everything is left as it is until there is one again"
                    );
                }
            }
            Change::Deleted(name) => {
                self.others.remove(&name);
            }
            Change::Applied(object) => self.on_object(*object),
        }
    }

    /// What a write of ours returned counts like an event.
    pub(crate) fn on_written(&mut self, object: Option<Value>) {
        // The write may have preceded a deletion that the watch has told of already.
        if let (Some(object), true) = (object, self.live.is_some()) {
            self.on_object(object);
        }
    }

    fn on_object(&mut self, raw: Value) {
        let name = metadata::name(&raw).to_owned();
        if name != self.name {
            if self.others.insert(name.clone()) {
                tracing::warn!(object = %format_args!("ClusterVersion {name}"), "a second ClusterVersion is ignored");
            }
            return;
        }
        // The garbage collector is about to delete what it owns, so nothing may be applied from here on.
        if metadata::is_terminating(&raw) {
            if self.live.take().is_some() {
                tracing::warn!("the ClusterVersion is being deleted; everything is left as it is");
            }
            return;
        }
        // An event older than what we have written ourselves.
        if self.live.as_ref().is_some_and(|live| version(&raw) < version(&live.raw)) {
            return;
        }
        let part = |key: &str| raw.get(key).cloned().unwrap_or_else(|| Value::Object(Map::new()));
        let mut status = match serde_json::from_value::<ClusterVersionStatus>(part("status")) {
            Ok(status) => status,
            // Without the history nothing may be decided.
            Err(error) => {
                tracing::error!(%error, "status of the ClusterVersion cannot be read; waiting until it can");
                return;
            }
        };
        let restored = status.history.is_empty() && !self.history.is_empty();
        if restored {
            tracing::warn!("the ClusterVersion has no history; going on with the one that was recorded");
            status.history.clone_from(&self.history);
        } else {
            self.history.clone_from(&status.history);
        }
        let spec = serde_json::from_value::<ClusterVersionSpec>(part("spec"));
        self.unreadable = spec.as_ref().err().map(|e| format!("spec: Invalid: cannot be read: {e}"));
        let spec = match (spec, &self.live) {
            (Ok(spec), _) => spec,
            // What was asked for before still counts.
            (Err(_), Some(live)) => live.spec.clone(),
            (Err(_), None) => ClusterVersionSpec::default(),
        };
        let generation = raw.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
        let uid = metadata::uid(&raw).to_owned();
        self.live = Some(Arc::new(Live { spec, status, generation, uid, restored, raw }));
    }
}

/// 0 where resource versions are not numbers, so that no event counts as old.
fn version(raw: &Value) -> u128 {
    let version = raw.pointer("/metadata/resourceVersion").and_then(Value::as_str);
    version.and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// Watches all ClusterVersions: there should be one.
pub(crate) fn watch(clients: &Clients, stop: &CancellationToken) -> mpsc::Receiver<Change> {
    let (sender, receiver) = mpsc::channel(16);
    match clients.for_watch() {
        Ok(client) => {
            let events =
                watcher::events(client, Selection::new(Kind::of::<ClusterVersion>(false), "", Selector::All)).boxed();
            task::spawn("cluster version", stop, forward(events, sender));
        }
        Err(error) => tracing::error!(%error, "cannot watch the ClusterVersion"),
    }
    receiver
}

async fn forward(mut events: BoxStream<'static, Result<Event<Value>, ApiError>>, sender: mpsc::Sender<Change>) {
    let mut known: BTreeSet<String> = BTreeSet::new();
    let mut listed: BTreeSet<String> = BTreeSet::new();
    let mut unread = None;
    while let Some(event) = events.next().await {
        let mut out = Vec::new();
        match event {
            // Nothing else tells that the daemon waits for this.
            Err(error) if unread.replace(error.to_string()) != Some(error.to_string()) => {
                tracing::warn!(%error, "the ClusterVersion cannot be read; trying again");
            }
            Err(error) => tracing::debug!(%error, "the ClusterVersion cannot be read; trying again"),
            Ok(Event::Init) => listed.clear(),
            Ok(Event::InitApply(object)) => {
                // The list may break off, and the object be gone before the next one.
                known.insert(metadata::name(&object).to_owned());
                listed.insert(metadata::name(&object).to_owned());
                out.push(Change::Applied(Box::new(object)));
            }
            // Deletions during a broken watch show as absence.
            Ok(Event::InitDone) => {
                unread = None;
                out.extend(known.difference(&listed).cloned().map(Change::Deleted));
                known.clone_from(&listed);
            }
            Ok(Event::Apply(object)) => {
                known.insert(metadata::name(&object).to_owned());
                out.push(Change::Applied(Box::new(object)));
            }
            Ok(Event::Delete(object)) => {
                let name = metadata::name(&object).to_owned();
                known.remove(&name);
                listed.remove(&name);
                out.push(Change::Deleted(name));
            }
        }
        for change in out {
            if sender.send(change).await.is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests;
