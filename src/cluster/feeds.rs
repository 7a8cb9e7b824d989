//! The feeds of all kinds whose objects are followed: each is started once, and ready when all existing objects are in the
//! index.

use super::feed::{Callbacks, Feed, FeedState};
use super::{ApiError, Cause, Clients, Index, Kind, Kinds, Objects, task};
use crate::object::manifest::ObjectId;
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long the first list of a kind is waited for before that is reported; the feed goes on trying.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// Each kind is listed again this often, in case a watch has missed something.
const RELIST: Duration = Duration::from_secs(1800);

/// How a kind is followed.
#[derive(Clone, Debug)]
pub(crate) struct Followed {
    /// `<plural>.<group>`.
    pub resource: String,
    /// Changes are noticed at once.
    pub watched: bool,
    /// Why there has been no watch for more than a minute.
    pub unwatched: Option<ApiError>,
}

/// One feed a kind.
pub(crate) struct Feeds {
    clients: Arc<Clients>,
    objects: Objects,
    index: Arc<Index>,
    kinds: Arc<Kinds>,
    callbacks: Callbacks,
    hindrances: watch::Sender<()>,
    stop: CancellationToken,
    slots: Mutex<HashMap<Kind, Slot>>,
}

#[derive(Clone, Debug)]
struct Slot {
    state: watch::Receiver<FeedState>,
    /// A kind whose definition we have just created is not watched before it has an object: a server that is still setting
    /// up its storage would only reject the watch.
    started: bool,
}

impl std::fmt::Debug for Feeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feeds").field("slots", &self.slots).finish_non_exhaustive()
    }
}

impl Feeds {
    pub(crate) fn new(
        clients: Arc<Clients>,
        objects: Objects,
        (index, kinds): (Arc<Index>, Arc<Kinds>),
        callbacks: Callbacks,
        hindrances: watch::Sender<()>,
        stop: CancellationToken,
    ) -> Self {
        Feeds { clients, objects, index, kinds, callbacks, hindrances, stop, slots: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the feed of a kind unless that has been done. The index must track the objects of the kind before.
    pub(crate) fn start(&self, kind: &Kind) -> watch::Receiver<FeedState> {
        let mut slots = self.lock();
        let spawn = || Slot { state: self.spawn(kind, FeedState::default()), started: true };
        slots.entry(kind.clone()).or_insert_with(spawn).state.clone()
    }

    /// For a kind whose definition we have just created, so that no object of it exists: its feed starts with our first
    /// write, see [`Feeds::on_write`].
    pub(crate) fn start_with_first_write(&self, kind: &Kind) {
        let mut slots = self.lock();
        if slots.contains_key(kind) {
            return;
        }
        for id in self.index.tracked(&kind.group, &kind.kind) {
            self.index.on_missing_from_list(&id, "");
        }
        slots.insert(kind.clone(), Slot { state: watch::channel(listed()).1, started: false });
    }

    /// We have written an object of the kind, or found that it exists.
    pub(crate) fn on_write(&self, kind: &Kind) {
        if let Some(slot) = self.lock().get_mut(kind).filter(|slot| !slot.started) {
            *slot = Slot { state: self.spawn(kind, listed()), started: true };
        }
    }

    fn spawn(&self, kind: &Kind, state: FeedState) -> watch::Receiver<FeedState> {
        let (state, receiver) = watch::channel(state);
        let feed = Feed {
            kind: kind.clone(),
            objects: self.objects.clone(),
            index: self.index.clone(),
            kinds: self.kinds.clone(),
            callbacks: self.callbacks.clone(),
            hindrances: self.hindrances.clone(),
            relist: RELIST,
            state,
        };
        let clients = self.clients.clone();
        task::spawn("feed", &self.stop, async move { feed.run(&clients).await });
        receiver
    }

    /// All kinds that are followed, by name.
    pub(crate) fn followed(&self) -> Vec<Followed> {
        let followed = |(kind, slot): (&Kind, &Slot)| {
            let FeedState { ready, error, unwatched } = slot.state.borrow().clone();
            let watched = slot.started && ready && error.is_none();
            Followed { resource: kind.resource(), watched, unwatched: error.filter(|_| unwatched) }
        };
        let mut all: Vec<Followed> = self.lock().iter().map(followed).collect();
        all.sort_by(|a, b| a.resource.cmp(&b.resource));
        all
    }

    /// Fingerprint of the desired content of an object that was read, if it has that.
    pub(crate) fn compare(&self, id: &ObjectId, live: &Value) -> Option<u64> {
        (self.callbacks.compare)(id, live)
    }

    /// Starts the feed if that has not been done, and waits until all existing objects are in the index; not forever, so that
    /// the caller can report what it waits for.
    pub(crate) async fn wait_until_listed(&self, kind: &Kind) -> Result<(), ApiError> {
        let mut state = self.start(kind);
        // A feed that has ended, which it does only when everything stops, never becomes ready.
        if let Ok(Ok(_)) = tokio::time::timeout(FIRST_LIST, state.wait_for(|state| state.ready)).await {
            return Ok(());
        }
        let silent =
            || ApiError { attempt: format!("list all {} for the first time", kind.plural), cause: Cause::Timeout };
        Err(state.borrow().error.clone().unwrap_or_else(silent))
    }
}

/// Of a kind that has no objects yet.
fn listed() -> FeedState {
    FeedState { ready: true, ..FeedState::default() }
}
