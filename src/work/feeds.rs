//! The feeds of all kinds that take part: started once each, ready when all that is there is in the index.

use crate::cluster::feed::{Compare, Feed};
use crate::cluster::objects::Cause;
use crate::cluster::{ApiError, Clients, Index, Kind, Objects};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a node waits for a kind to be read before it says so; the feed goes on trying.
const FIRST_READING: Duration = Duration::from_secs(10);
/// So often each kind is read anew in case a watch missed something.
const SAFETY_NET: Duration = Duration::from_secs(1800);

/// Starts and remembers feeds.
pub struct Feeds {
    clients: Arc<Clients>,
    objects: Objects,
    index: Arc<Index>,
    compare: Compare,
    stop: CancellationToken,
    safety_net: Duration,
    running: Mutex<HashMap<Kind, Slot>>,
}

#[derive(Clone, Debug)]
struct Slot {
    /// All that is there is in the index.
    ready: watch::Receiver<bool>,
    /// A kind that came into being by our own hand is not watched before something of it is there: a server that is still
    /// making its storage would only turn the watch away.
    begun: bool,
}

impl std::fmt::Debug for Feeds {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Feeds").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Feeds {
    pub fn new(
        clients: Arc<Clients>,
        objects: Objects,
        index: Arc<Index>,
        compare: Compare,
        stop: CancellationToken,
    ) -> Self {
        Feeds { clients, objects, index, compare, stop, safety_net: SAFETY_NET, running: Mutex::default() }
    }

    /// Another period than half an hour.
    pub fn with_safety_net(self, safety_net: Duration) -> Self {
        Feeds { safety_net, ..self }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Kind, Slot>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the feed of a kind unless it runs. Names must be in the index before.
    pub fn start(&self, kind: &Kind) -> watch::Receiver<bool> {
        let mut running = self.lock();
        if let Some(slot) = running.get(kind) {
            return slot.ready.clone();
        }
        let (sender, ready) = watch::channel(false);
        running.insert(kind.clone(), Slot { ready: ready.clone(), begun: true });
        self.spawn(kind, sender);
        ready
    }

    /// The kind has come into being just now by our own hand: nothing of it can be there yet. Its feed starts with the
    /// first write, see [`Feeds::wrote`].
    pub fn born(&self, kind: &Kind) {
        let mut running = self.lock();
        if running.contains_key(kind) {
            return;
        }
        for id in self.index.tracked(&kind.group, &kind.kind) {
            self.index.on_missing_from_list(&id, "");
        }
        running.insert(kind.clone(), Slot { ready: watch::channel(true).1, begun: false });
    }

    /// Something of the kind has been written, or was there already.
    pub fn wrote(&self, kind: &Kind) {
        if let Some(slot) = self.lock().get_mut(kind).filter(|slot| !slot.begun) {
            slot.begun = true;
            self.spawn(kind, watch::channel(true).0);
        }
    }

    fn spawn(&self, kind: &Kind, ready: watch::Sender<bool>) {
        let feed = Feed {
            kind: kind.clone(),
            objects: self.objects.clone(),
            index: self.index.clone(),
            compare: self.compare.clone(),
            relist: self.safety_net,
        };
        let (clients, stop) = (self.clients.clone(), self.stop.clone());
        tokio::spawn(async move { feed.run(&clients, ready, stop).await });
    }

    /// Starts the feed unless it runs, and waits until all that is there is in the index; not for ever, so that who
    /// waits can say what for.
    pub async fn ensure(&self, kind: &Kind) -> Result<(), ApiError> {
        let mut ready = self.start(kind);
        match tokio::time::timeout(FIRST_READING, ready.wait_for(|ready| *ready)).await {
            Ok(Ok(_)) => Ok(()),
            // Otherwise the feed has ended, which it does only when everything stops.
            Ok(Err(_)) | Err(_) => {
                Err(ApiError { attempt: format!("read all {} for the first time", kind.plural), cause: Cause::Timeout })
            }
        }
    }
}
