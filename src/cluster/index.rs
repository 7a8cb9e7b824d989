//! The object index: for each object the payload owns, what this process knows to be in the cluster, and who waits for
//! it to change. Filled by the feeds and by our own reads and writes; decides which requests are needed at all
//! (architecture §3, "The index").

use crate::payload::ObjectId;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::{Notify, watch};

/// What the index knows of an object, for one wanted content.
#[derive(Clone, Debug, PartialEq)]
pub enum Sight {
    /// Not there: POST without asking.
    Absent,
    /// Read and found as wanted, unchanged since: no request.
    AsWanted,
    /// Read, differs, unchanged since: merge into this object.
    Differs(Arc<Value>),
    /// Not read yet, or changed since: GET.
    Unknown,
}

/// What a gate may look at.
#[derive(Clone, Debug, PartialEq)]
pub enum View {
    Absent,
    /// The object as pruned by `gate::view`, as fresh as the watch.
    Fresh(Arc<Value>),
    /// Changed since it was read: GET.
    Stale,
}

/// The part of an object's metadata that tells whether anything but its status moved.
#[derive(Clone, Debug, PartialEq)]
pub struct Mark {
    pub resource_version: String,
    /// 0 where the kind has none, or the object no status to tell apart: some kinds begin to count and never go on.
    pub generation: i64,
    /// Over labels, annotations, owner references, deletion time.
    pub meta: u64,
}

impl Mark {
    /// From an object; of its status counts only whether there is one.
    pub fn of(object: &Value) -> Mark {
        let has_status = object.get("status").is_some_and(|status| !status.is_null());
        let metadata = object.get("metadata");
        let field = |name: &str| metadata.and_then(|m| m.get(name));
        let mut hasher = DefaultHasher::new();
        for name in ["labels", "annotations", "ownerReferences", "deletionTimestamp"] {
            field(name).map(Value::to_string).hash(&mut hasher);
        }
        Mark {
            resource_version: field("resourceVersion").and_then(Value::as_str).unwrap_or_default().to_owned(),
            generation: if has_status { field("generation").and_then(Value::as_i64).unwrap_or(0) } else { 0 },
            meta: hasher.finish(),
        }
    }
}

/// Resource versions are ordered numbers; where they are not, any difference counts as news.
fn is_news(event: &str, known: &str) -> bool {
    match (event.parse::<u128>(), known.parse::<u128>()) {
        (Ok(event), Ok(known)) => event > known,
        _ => event != known,
    }
}

#[derive(Clone, Debug)]
enum State {
    Unread,
    Absent { as_of: String },
    Present { mark: Mark, as_wanted: Option<u64>, live: Option<Arc<Value>>, dirty: bool },
}

#[derive(Debug)]
struct Entry {
    state: State,
    view: Option<Arc<Value>>,
    changed: watch::Sender<u64>,
    /// A write of ours is under way; events are held until it returns.
    writing: bool,
    held: Vec<Event>,
}

#[derive(Debug)]
enum Event {
    /// With what gates read and the whole object, where the watch brings them.
    Seen(Mark, Option<Arc<Value>>, Option<Box<RawValue>>),
    Gone(String),
}

/// Why the engine is told of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Touched {
    /// Its spec or metadata changed by another hand, or it is gone.
    Content,
    /// Only its status moved.
    Status,
}

#[derive(Debug, Default)]
struct Inner {
    entries: HashMap<ObjectId, Entry>,
    touched: HashMap<ObjectId, Touched>,
}

/// Shared by the feeds and the engine. Only names that the payload owns have entries.
#[derive(Debug, Default)]
pub struct Index {
    inner: Mutex<Inner>,
    news: Notify,
}

impl Index {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds names to look after; what is known of a name stays known.
    pub fn own<'a>(&self, ids: impl IntoIterator<Item = &'a ObjectId>) {
        let mut inner = self.lock();
        for id in ids {
            if !inner.entries.contains_key(id) {
                inner.entries.insert(id.clone(), Entry::new());
            }
        }
    }

    /// The names of one kind.
    pub fn owned(&self, group: &str, kind: &str) -> HashSet<ObjectId> {
        let inner = self.lock();
        inner.entries.keys().filter(|id| id.group == group && id.kind == kind).cloned().collect()
    }

    pub fn is_owned(&self, id: &ObjectId) -> bool {
        self.lock().entries.contains_key(id)
    }

    /// What is known of the object for the content whose fingerprint is `wanted`.
    pub fn sight(&self, id: &ObjectId, wanted: u64) -> Sight {
        match self.lock().entries.get(id).map(|e| &e.state) {
            Some(State::Absent { .. }) => Sight::Absent,
            Some(State::Present { dirty: false, as_wanted: Some(hash), .. }) if *hash == wanted => Sight::AsWanted,
            Some(State::Present { dirty: false, live: Some(live), .. }) => Sight::Differs(live.clone()),
            _ => Sight::Unknown,
        }
    }

    /// Whether the object is known to be there, whatever its content.
    pub fn is_present(&self, id: &ObjectId) -> bool {
        matches!(self.lock().entries.get(id).map(|e| &e.state), Some(State::Present { .. }))
    }

    pub fn view(&self, id: &ObjectId) -> View {
        let inner = self.lock();
        let Some(entry) = inner.entries.get(id) else { return View::Stale };
        match (&entry.state, &entry.view) {
            (State::Absent { .. }, _) => View::Absent,
            (State::Present { .. }, Some(view)) => View::Fresh(view.clone()),
            _ => View::Stale,
        }
    }

    /// Wakes on every change of the object, also of its status alone.
    pub fn changed(&self, id: &ObjectId) -> watch::Receiver<u64> {
        let mut inner = self.lock();
        inner.entries.entry(id.clone()).or_insert_with(Entry::new).changed.subscribe()
    }

    /// How often the object has changed so far.
    pub fn times_changed(&self, id: &ObjectId) -> u64 {
        self.lock().entries.get(id).map_or(0, |entry| *entry.changed.borrow())
    }

    /// Records what a read or a write of ours returned. `as_wanted`: the content is the one with this fingerprint;
    /// otherwise the object is kept for the merge. `view`: what gates may read of it.
    pub fn saw(&self, id: &ObjectId, live: Option<Value>, as_wanted: Option<u64>, view: Option<Value>) {
        let mut inner = self.lock();
        let entry = inner.entries.entry(id.clone()).or_insert_with(Entry::new);
        match live {
            None => {
                entry.state = State::Absent { as_of: String::new() };
                entry.view = None;
            }
            Some(object) => {
                let mark = Mark::of(&object);
                return entry.know(mark, as_wanted, as_wanted.is_none().then(|| Arc::new(object)), view);
            }
        }
        // Those who wait may act on what was read, but nobody else changed anything: no news for the engine.
        entry.changed.send_modify(|n| *n += 1);
    }

    /// Records a write of ours whose answer is not kept: the content is the one with this fingerprint.
    pub fn wrote(&self, id: &ObjectId, mark: Mark, as_wanted: u64, view: Option<Value>) {
        let mut inner = self.lock();
        let entry = inner.entries.entry(id.clone()).or_insert_with(Entry::new);
        entry.know(mark, Some(as_wanted), None, view);
    }

    /// What was known of the content turned out to be wrong: the next look is a GET.
    pub fn forget(&self, id: &ObjectId) {
        if let Some(entry) = self.lock().entries.get_mut(id) {
            entry.state = State::Unread;
            entry.view = None;
        }
    }

    /// Holds the events of this key until [`Index::end_write`].
    pub fn begin_write(&self, id: &ObjectId) {
        if let Some(entry) = self.lock().entries.get_mut(id) {
            entry.writing = true;
        }
    }

    /// Ends the hold. Call after [`Index::saw`] has recorded the write: what was held is judged against it.
    pub fn end_write(&self, id: &ObjectId) {
        let held = match self.lock().entries.get_mut(id) {
            Some(entry) => {
                entry.writing = false;
                std::mem::take(&mut entry.held)
            }
            None => return,
        };
        for event in held {
            self.event(id, event);
        }
    }

    /// A watch saw the object; `view` and `whole` only where the kind is watched in full. The object is decoded only if
    /// its content is news.
    pub fn seen(&self, id: &ObjectId, mark: Mark, view: Option<Value>, whole: Option<Box<RawValue>>) {
        self.event(id, Event::Seen(mark, view.map(Arc::new), whole));
    }

    /// The first reading of a kind found the object, but not what is in it.
    pub fn noticed(&self, id: &ObjectId, mark: Mark) {
        if let Some(entry) = self.lock().entries.get_mut(id)
            && matches!(entry.state, State::Unread)
        {
            entry.state = State::Present { mark, as_wanted: None, live: None, dirty: true };
            entry.changed.send_modify(|n| *n += 1);
            return;
        }
        self.event(id, Event::Seen(mark, None, None));
    }

    /// A watch saw the object go.
    pub fn gone(&self, id: &ObjectId, resource_version: &str) {
        self.event(id, Event::Gone(resource_version.to_owned()));
    }

    /// A reading of the whole kind found the object. Like [`Index::saw`], but a difference to what was known is news for
    /// the engine; and so is one to what is wanted, whatever its mark says.
    pub fn listed(&self, id: &ObjectId, object: Value, as_wanted: Option<u64>, view: Option<Value>) {
        if self.is_unread(id) {
            return self.saw(id, Some(object), as_wanted, view);
        }
        let mark = Mark::of(&object);
        if as_wanted.is_none() {
            self.doubt(id, &mark.resource_version);
        }
        let whole = serde_json::value::to_raw_value(&object).ok();
        self.event(id, Event::Seen(mark, view.map(Arc::new), whole));
    }

    /// The object is not as wanted in this version, or was not when it was compared. If it counts as such, it is to be
    /// looked at.
    fn doubt(&self, id: &ObjectId, version: &str) {
        {
            let mut inner = self.lock();
            let Some(entry) = inner.entries.get_mut(id).filter(|entry| !entry.writing) else { return };
            match &mut entry.state {
                State::Present { mark, as_wanted: Some(_), dirty, .. } if !is_news(&mark.resource_version, version) => {
                    *dirty = true;
                }
                _ => return,
            }
            entry.changed.send_modify(|n| *n += 1);
            inner.touched.insert(id.clone(), Touched::Content);
        }
        self.news.notify_one();
    }

    /// A reading of the whole kind, as of `version`, did not find the object.
    pub fn unlisted(&self, id: &ObjectId, version: &str) {
        if self.is_unread(id) {
            return self.saw(id, None, None, None);
        }
        self.event(id, Event::Gone(version.to_owned()));
    }

    fn is_unread(&self, id: &ObjectId) -> bool {
        matches!(self.lock().entries.get(id).map(|e| &e.state), Some(State::Unread) | None)
    }

    fn event(&self, id: &ObjectId, event: Event) {
        {
            let mut inner = self.lock();
            let Some(entry) = inner.entries.get_mut(id) else { return };
            if entry.writing {
                entry.held.push(event);
                return;
            }
            let Some(touched) = entry.apply(event) else { return };
            entry.changed.send_modify(|n| *n += 1);
            let slot = inner.touched.entry(id.clone()).or_insert(touched);
            if touched == Touched::Content {
                *slot = touched;
            }
        }
        self.news.notify_one();
    }

    /// Waits until something was touched by another hand and takes all of it, coalesced by object.
    pub async fn news(&self) -> HashMap<ObjectId, Touched> {
        loop {
            let notified = self.news.notified();
            let touched = std::mem::take(&mut self.lock().touched);
            if !touched.is_empty() {
                return touched;
            }
            notified.await;
        }
    }
}

impl Entry {
    fn new() -> Self {
        Entry { state: State::Unread, view: None, changed: watch::channel(0).0, writing: false, held: Vec::new() }
    }

    /// Takes in an answer to a request, unless the watch is already further; or what was found out about the object that
    /// is kept for the merge, of which only the status may have moved since.
    fn know(&mut self, mark: Mark, as_wanted: Option<u64>, live: Option<Arc<Value>>, view: Option<Value>) {
        let further = match &self.state {
            State::Present { mark: known, .. } => is_news(&known.resource_version, &mark.resource_version),
            State::Absent { as_of } => !as_of.is_empty() && !is_news(&mark.resource_version, as_of),
            State::Unread => false,
        };
        if further {
            if let State::Present { as_wanted: found, live: kept, dirty: false, .. } = &mut self.state
                && as_wanted.is_some()
                && kept.as_ref().is_some_and(|kept| Mark::of(kept).resource_version == mark.resource_version)
            {
                (*found, *kept) = (as_wanted, None);
                self.changed.send_modify(|n| *n += 1);
            }
            return;
        }
        self.state = State::Present { mark, as_wanted, live, dirty: false };
        self.view = view.map(Arc::new);
        // Those who wait may act on what was read, but nobody else changed anything: no news for the engine.
        self.changed.send_modify(|n| *n += 1);
    }

    /// Takes in an event; `None` if it says nothing new.
    fn apply(&mut self, event: Event) -> Option<Touched> {
        match event {
            Event::Gone(at) => {
                match &self.state {
                    State::Absent { .. } => return None,
                    State::Present { mark, .. } if !at.is_empty() && !is_news(&at, &mark.resource_version) => {
                        return None;
                    }
                    _ => {}
                }
                self.state = State::Absent { as_of: at };
                self.view = None;
                Some(Touched::Content)
            }
            Event::Seen(mark, view, whole) => {
                let touched = match &self.state {
                    State::Absent { as_of } if !as_of.is_empty() && !is_news(&mark.resource_version, as_of) => {
                        return None;
                    }
                    State::Present { mark: known, .. } if !is_news(&mark.resource_version, &known.resource_version) => {
                        return None;
                    }
                    State::Present { mark: known, dirty: false, .. }
                        if mark.generation != 0 && mark.generation == known.generation && mark.meta == known.meta =>
                    {
                        Touched::Status
                    }
                    _ => Touched::Content,
                };
                self.view = view;
                match (&mut self.state, touched) {
                    (State::Present { mark: known, .. }, Touched::Status) => *known = mark,
                    (state, _) => {
                        let live = whole.and_then(|raw| serde_json::from_str(raw.get()).ok()).map(Arc::new);
                        *state = State::Present { mark, as_wanted: None, dirty: live.is_none(), live };
                    }
                }
                Some(touched)
            }
        }
    }
}

#[cfg(test)]
mod tests;
