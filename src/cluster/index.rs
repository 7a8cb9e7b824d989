//! The object index: what this process knows of each object that the release contains. The feeds fill it from lists and
//! watches, our own reads and writes fill it too; it decides whether an object needs a request at all.
//!
//! An entry is unread, absent or present. What holds for it:
//!
//! - Nothing is claimed of an unread entry. The first list of its kind, or a read of ours, ends that state.
//! - An object counts as desired only for the content, named by its fingerprint, that a read or the answer to our write
//!   was compared with, and only as long as nothing but its status has changed since. For other content it is unknown.
//! - An object that differs is kept whole until the next change, so that it can be merged and written without a GET.
//! - Entries only go forward: events, lists and answers that are older than what is known are ignored, in whatever
//!   order they come. A deletion is remembered with its resourceVersion for that reason.
//! - While a write of ours is under way, the events of that object are held. They are judged after its answer has been
//!   recorded, so our own write is not mistaken for a change, and a change made after it is not missed.
//! - After a gap in a watch the whole kind is listed. An object that is missing from the list is absent, and one that
//!   differs from the desired content has changed, even if its revision is the one we know.
//! - [`Index::changes`] tells of changes that other clients made; subscribers of an object are woken by our own reads and
//!   writes as well.

use super::revision::Revision;
use crate::gate::Observed;
use crate::object::manifest::ObjectId;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// What is known of an object, compared with one desired content.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum CachedState {
    /// It does not exist: POST without a GET before.
    Absent,
    /// It has the desired content: no request.
    AsDesired,
    /// It has other content: merge into this object.
    Differs(Arc<Value>),
    /// It has not been read yet, or has changed since: GET.
    Unknown,
}

/// What a gate reads of an object.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum View {
    Absent,
    /// As of the last event.
    Fresh(Arc<Observed>),
    /// It has not been read yet, or has changed since: GET.
    Stale,
}

/// Resource versions are increasing numbers; where they are not numbers, any other version counts as newer.
fn is_newer(event: &str, known: &str) -> bool {
    match (event.parse::<u128>(), known.parse::<u128>()) {
        (Ok(event), Ok(known)) => event > known,
        _ => event != known,
    }
}

#[derive(Clone, Debug)]
enum State {
    Unread,
    Absent {
        as_of: String,
    },
    Present {
        revision: Revision,
        /// Fingerprint of the desired content that the object was found to have.
        as_desired: Option<u64>,
        /// The object, where it differs from the desired content.
        live: Option<Arc<Value>>,
        /// It changed, and nothing is known of its content.
        stale: bool,
    },
}

#[derive(Debug)]
struct Entry {
    state: State,
    view: Option<Arc<Observed>>,
    changed: watch::Sender<u64>,
    /// Events that came during a write of ours, which is under way while this is there.
    held: Option<Vec<Event>>,
}

#[derive(Debug)]
enum Event {
    /// With what gates read and the whole object, where the watch sends them.
    Modified(Revision, Option<Arc<Observed>>, Option<Box<RawValue>>),
    /// With the resourceVersion of the deletion, empty where it is unknown.
    Deleted(String),
}

/// What another client changed of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChangeKind {
    /// Its spec or metadata, or it was created or deleted.
    Content,
    /// Only its status.
    Status,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<ObjectId, Entry>,
    changes: HashMap<ObjectId, ChangeKind>,
}

/// See the invariants at the top of this file.
#[derive(Debug, Default)]
pub(crate) struct Index {
    inner: Mutex<Inner>,
    changed: Notify,
}

impl Index {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds objects; what is known of one already stays known.
    pub(crate) fn track<'a>(&self, ids: impl IntoIterator<Item = &'a ObjectId>) {
        let mut inner = self.lock();
        for id in ids {
            if !inner.entries.contains_key(id) {
                inner.entries.insert(id.clone(), Entry::new());
            }
        }
    }

    /// The tracked objects of one kind.
    pub(crate) fn tracked(&self, group: &str, kind: &str) -> HashSet<ObjectId> {
        let inner = self.lock();
        inner.entries.keys().filter(|id| id.group == group && id.kind == kind).cloned().collect()
    }

    pub(crate) fn is_tracked(&self, id: &ObjectId) -> bool {
        self.lock().entries.contains_key(id)
    }

    /// What is known of the object, compared with the desired content of this fingerprint.
    pub(crate) fn lookup(&self, id: &ObjectId, fingerprint: u64) -> CachedState {
        match self.lock().entries.get(id).map(|e| &e.state) {
            Some(State::Absent { .. }) => CachedState::Absent,
            Some(State::Present { stale: false, as_desired: Some(hash), .. }) if *hash == fingerprint => {
                CachedState::AsDesired
            }
            Some(State::Present { stale: false, live: Some(live), .. }) => CachedState::Differs(live.clone()),
            _ => CachedState::Unknown,
        }
    }

    /// Whether the object is known to exist, whatever its content.
    pub(crate) fn is_present(&self, id: &ObjectId) -> bool {
        matches!(self.lock().entries.get(id).map(|e| &e.state), Some(State::Present { .. }))
    }

    /// What gates read of the object.
    pub(crate) fn view(&self, id: &ObjectId) -> View {
        let inner = self.lock();
        let Some(entry) = inner.entries.get(id) else { return View::Stale };
        match (&entry.state, &entry.view) {
            (State::Absent { .. }, _) => View::Absent,
            (State::Present { .. }, Some(view)) => View::Fresh(view.clone()),
            _ => View::Stale,
        }
    }

    /// Wakes on every change of the object, also of its status alone, and on our own reads and writes of it.
    pub(crate) fn subscribe(&self, id: &ObjectId) -> watch::Receiver<u64> {
        let mut inner = self.lock();
        inner.entries.entry(id.clone()).or_insert_with(Entry::new).changed.subscribe()
    }

    /// Records the object that a read or a write of ours returned. `as_desired`: it has the desired content of this
    /// fingerprint; otherwise it is kept for the merge. `view`: what gates read of it.
    pub(crate) fn record_read(
        &self,
        id: &ObjectId,
        live: Option<Value>,
        as_desired: Option<u64>,
        view: Option<Observed>,
    ) {
        let mut inner = self.lock();
        let entry = inner.entries.entry(id.clone()).or_insert_with(Entry::new);
        match live {
            None => {
                entry.state = State::Absent { as_of: String::new() };
                entry.view = None;
            }
            Some(object) => {
                let revision = Revision::of(&object);
                return entry.record(revision, as_desired, as_desired.is_none().then(|| Arc::new(object)), view);
            }
        }
        entry.changed.send_modify(|n| *n += 1);
    }

    /// Records a write of ours whose answer has not been decoded: the object has the desired content of this fingerprint.
    pub(crate) fn record_write(&self, id: &ObjectId, revision: Revision, as_desired: u64, view: Option<Observed>) {
        let mut inner = self.lock();
        let entry = inner.entries.entry(id.clone()).or_insert_with(Entry::new);
        entry.record(revision, Some(as_desired), None, view);
    }

    /// What was known of the object turned out to be wrong: it is unread again.
    pub(crate) fn invalidate(&self, id: &ObjectId) {
        if let Some(entry) = self.lock().entries.get_mut(id) {
            entry.state = State::Unread;
            entry.view = None;
        }
    }

    /// Before a write of ours: holds the events of this object until [`Index::release_events`].
    pub(crate) fn hold_events(&self, id: &ObjectId) {
        if let Some(entry) = self.lock().entries.get_mut(id) {
            entry.held.get_or_insert_default();
        }
    }

    /// After the write has been recorded: what was held is judged against it.
    pub(crate) fn release_events(&self, id: &ObjectId) {
        let held = self.lock().entries.get_mut(id).and_then(|entry| entry.held.take());
        for event in held.into_iter().flatten() {
            self.take_event(id, event);
        }
    }

    /// A watch says that the object was created or changed. `view` and `whole` only where the watch sends whole objects;
    /// `whole` is decoded only if the content has changed.
    pub(crate) fn on_event(
        &self,
        id: &ObjectId,
        revision: Revision,
        view: Option<Observed>,
        whole: Option<Box<RawValue>>,
    ) {
        self.take_event(id, Event::Modified(revision, view.map(Arc::new), whole));
    }

    /// The initial events of a metadata watch say that the object exists, but not what its content is.
    pub(crate) fn on_metadata(&self, id: &ObjectId, revision: Revision) {
        if let Some(entry) = self.lock().entries.get_mut(id)
            && matches!(entry.state, State::Unread)
        {
            entry.state = State::Present { revision, as_desired: None, live: None, stale: true };
            entry.changed.send_modify(|n| *n += 1);
            return;
        }
        self.on_event(id, revision, None, None);
    }

    /// A watch says that the object was deleted.
    pub(crate) fn on_delete(&self, id: &ObjectId, resource_version: &str) {
        self.take_event(id, Event::Deleted(resource_version.to_owned()));
    }

    /// A list of the whole kind contains the object. The first list only makes it known; a later one tells of a change if
    /// the object differs from what was known, or, at whatever revision, from the desired content.
    pub(crate) fn on_list(&self, id: &ObjectId, object: Value, as_desired: Option<u64>, view: Option<Observed>) {
        if self.is_unread(id) {
            return self.record_read(id, Some(object), as_desired, view);
        }
        let revision = Revision::of(&object);
        if as_desired.is_none() {
            self.contradict(id, &revision.resource_version);
        }
        let whole = serde_json::value::to_raw_value(&object).ok();
        self.on_event(id, revision, view, whole);
    }

    /// In this version the object differs from the desired content. If it is known to be as desired in this version or an
    /// older one, that is wrong and it has to be read again.
    fn contradict(&self, id: &ObjectId, version: &str) {
        {
            let mut inner = self.lock();
            let Some(entry) = inner.entries.get_mut(id).filter(|entry| entry.held.is_none()) else { return };
            match &mut entry.state {
                State::Present { revision, as_desired: Some(_), stale, .. }
                    if !is_newer(&revision.resource_version, version) =>
                {
                    *stale = true;
                }
                _ => return,
            }
            entry.changed.send_modify(|n| *n += 1);
            inner.changes.insert(id.clone(), ChangeKind::Content);
        }
        self.changed.notify_one();
    }

    /// The object may be written once more, although it counts as desired.
    pub(crate) fn mark_outdated(&self, id: &ObjectId) {
        let version = match self.lock().entries.get(id).map(|entry| &entry.state) {
            Some(State::Present { revision, .. }) => revision.resource_version.clone(),
            _ => return,
        };
        self.contradict(id, &version);
    }

    /// A list of the whole kind, as of `version`, does not contain the object.
    pub(crate) fn on_missing_from_list(&self, id: &ObjectId, version: &str) {
        if self.is_unread(id) {
            return self.record_read(id, None, None, None);
        }
        self.on_delete(id, version);
    }

    fn is_unread(&self, id: &ObjectId) -> bool {
        matches!(self.lock().entries.get(id).map(|e| &e.state), Some(State::Unread) | None)
    }

    fn take_event(&self, id: &ObjectId, event: Event) {
        {
            let mut inner = self.lock();
            let Some(entry) = inner.entries.get_mut(id) else { return };
            if let Some(held) = &mut entry.held {
                held.push(event);
                return;
            }
            let Some(change) = entry.apply(event) else { return };
            entry.changed.send_modify(|n| *n += 1);
            let kind = inner.changes.entry(id.clone()).or_insert(change);
            if change == ChangeKind::Content {
                *kind = change;
            }
        }
        self.changed.notify_one();
    }

    /// Waits until other clients have changed something and takes all of it, one change an object. Cancel safe.
    pub(crate) async fn changes(&self) -> HashMap<ObjectId, ChangeKind> {
        loop {
            let notified = self.changed.notified();
            let changes = std::mem::take(&mut self.lock().changes);
            if !changes.is_empty() {
                return changes;
            }
            notified.await;
        }
    }
}

impl Entry {
    fn new() -> Self {
        Entry { state: State::Unread, view: None, changed: watch::channel(0).0, held: None }
    }

    /// Records the answer to a request, unless the watch knows a newer one. Even then the answer counts if it is about the
    /// object that is kept for the merge, because only the status has changed since that one.
    fn record(
        &mut self,
        revision: Revision,
        as_desired: Option<u64>,
        live: Option<Arc<Value>>,
        view: Option<Observed>,
    ) {
        let outdated = match &self.state {
            State::Present { revision: known, .. } => is_newer(&known.resource_version, &revision.resource_version),
            State::Absent { as_of } => !as_of.is_empty() && !is_newer(&revision.resource_version, as_of),
            State::Unread => false,
        };
        if outdated {
            if let State::Present { as_desired: found, live: kept, stale: false, .. } = &mut self.state
                && as_desired.is_some()
                && kept.as_ref().is_some_and(|kept| Revision::of(kept).resource_version == revision.resource_version)
            {
                (*found, *kept) = (as_desired, None);
                self.changed.send_modify(|n| *n += 1);
            }
            return;
        }
        self.state = State::Present { revision, as_desired, live, stale: false };
        self.view = view.map(Arc::new);
        self.changed.send_modify(|n| *n += 1);
    }

    /// `None` if the event says nothing new.
    fn apply(&mut self, event: Event) -> Option<ChangeKind> {
        match event {
            Event::Deleted(at) => {
                match &self.state {
                    State::Absent { .. } => return None,
                    State::Present { revision, .. } if !at.is_empty() && !is_newer(&at, &revision.resource_version) => {
                        return None;
                    }
                    _ => {}
                }
                self.state = State::Absent { as_of: at };
                self.view = None;
                Some(ChangeKind::Content)
            }
            Event::Modified(revision, view, whole) => {
                let version = &revision.resource_version;
                let change = match &self.state {
                    State::Absent { as_of } if !as_of.is_empty() && !is_newer(version, as_of) => return None,
                    State::Present { revision: known, .. } if !is_newer(version, &known.resource_version) => {
                        return None;
                    }
                    State::Present { revision: known, stale: false, .. } if revision.has_content_of(known) => {
                        ChangeKind::Status
                    }
                    _ => ChangeKind::Content,
                };
                self.view = view;
                match (&mut self.state, change) {
                    (State::Present { revision: known, .. }, ChangeKind::Status) => *known = revision,
                    (state, _) => {
                        let live = whole.and_then(|raw| serde_json::from_str(raw.get()).ok()).map(Arc::new);
                        *state = State::Present { revision, as_desired: None, stale: live.is_none(), live };
                    }
                }
                Some(change)
            }
        }
    }
}

#[cfg(test)]
mod tests;
