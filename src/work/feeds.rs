//! The feeds of all kinds that a release contains: each is started once, and ready when all existing objects are in the
//! index.

use crate::cluster::feed::{Compare, Feed};
use crate::cluster::{ApiError, Cause, Clients, Index, Kind, Kinds, Objects};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a node waits for the first list of a kind before it reports that; the feed goes on trying.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// Each kind is listed again this often, in case a watch has missed something.
const RELIST: Duration = Duration::from_secs(1800);

/// The cluster as this process reads and writes it.
#[derive(Clone, Debug)]
pub(super) struct Cluster {
    pub objects: Objects,
    pub index: Arc<Index>,
    pub kinds: Arc<Kinds>,
    pub feeds: Arc<Feeds>,
}

/// One feed a kind.
pub(super) struct Feeds {
    clients: Arc<Clients>,
    objects: Objects,
    index: Arc<Index>,
    compare: Compare,
    stop: CancellationToken,
    slots: Mutex<HashMap<Kind, Slot>>,
}

#[derive(Clone, Debug)]
struct Slot {
    /// All existing objects are in the index.
    ready: watch::Receiver<bool>,
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
        index: Arc<Index>,
        compare: Compare,
        stop: CancellationToken,
    ) -> Self {
        Feeds { clients, objects, index, compare, stop, slots: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the feed of a kind unless that has been done. The index must track the objects of the kind before.
    pub(crate) fn start(&self, kind: &Kind) -> watch::Receiver<bool> {
        let mut slots = self.lock();
        if let Some(slot) = slots.get(kind) {
            return slot.ready.clone();
        }
        let (sender, ready) = watch::channel(false);
        slots.insert(kind.clone(), Slot { ready: ready.clone(), started: true });
        self.spawn(kind, sender);
        ready
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
        slots.insert(kind.clone(), Slot { ready: watch::channel(true).1, started: false });
    }

    /// We have written an object of the kind, or found that it exists.
    pub(crate) fn on_write(&self, kind: &Kind) {
        if let Some(slot) = self.lock().get_mut(kind).filter(|slot| !slot.started) {
            slot.started = true;
            self.spawn(kind, watch::channel(true).0);
        }
    }

    fn spawn(&self, kind: &Kind, ready: watch::Sender<bool>) {
        let feed = Feed {
            kind: kind.clone(),
            objects: self.objects.clone(),
            index: self.index.clone(),
            compare: self.compare.clone(),
            relist: RELIST,
        };
        let (clients, stop) = (self.clients.clone(), self.stop.clone());
        tokio::spawn(async move { feed.run(&clients, ready, stop).await });
    }

    /// Starts the feed if that has not been done, and waits until all existing objects are in the index; not forever, so that
    /// the caller can report what it waits for.
    pub(crate) async fn wait_until_listed(&self, kind: &Kind) -> Result<(), ApiError> {
        let mut ready = self.start(kind);
        match tokio::time::timeout(FIRST_LIST, ready.wait_for(|ready| *ready)).await {
            Ok(Ok(_)) => Ok(()),
            // A feed that has ended, which it does only when everything stops, never becomes ready.
            Ok(Err(_)) | Err(_) => {
                Err(ApiError { attempt: format!("list all {} for the first time", kind.plural), cause: Cause::Timeout })
            }
        }
    }
}
