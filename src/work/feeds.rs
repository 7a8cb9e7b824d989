//! The feeds of all kinds that take part: started once each, ready when their first list is in the index.

use crate::cluster::feed::{Begin, Compare, Feed};
use crate::cluster::objects::Cause;
use crate::cluster::{ApiError, Clients, Index, Kind, Objects};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long a node waits for a kind's first list before it says so; the feed goes on trying.
const FIRST_LIST: Duration = Duration::from_secs(10);
/// Kinds whose every change gates read: watched in full, so that no change costs a request.
const FULL: [(&str, &str); 2] =
    [("config.openshift.io", "ClusterOperator"), ("apiextensions.k8s.io", "CustomResourceDefinition")];

/// Starts and remembers feeds.
pub struct Feeds {
    clients: Arc<Clients>,
    objects: Objects,
    index: Arc<Index>,
    compare: Compare,
    stop: CancellationToken,
    /// By kind: whether its first list is in the index.
    running: Mutex<HashMap<Kind, watch::Receiver<bool>>>,
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
        Feeds { clients, objects, index, compare, stop, running: Mutex::default() }
    }

    /// Starts the feed of a kind unless it runs. Names must be in the index before.
    pub fn start(&self, kind: &Kind, begin: Begin) -> watch::Receiver<bool> {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(ready) = running.get(kind) {
            return ready.clone();
        }
        let (sender, ready) = watch::channel(false);
        running.insert(kind.clone(), ready.clone());
        let feed = Feed {
            kind: kind.clone(),
            objects: self.objects.clone(),
            index: self.index.clone(),
            compare: self.compare.clone(),
            full: FULL.contains(&(kind.group.as_str(), kind.kind.as_str())),
        };
        let (clients, stop) = (self.clients.clone(), self.stop.clone());
        tokio::spawn(async move { feed.run(&clients, begin, sender, stop).await });
        ready
    }

    /// Starts the feed unless it runs, and waits until its first list is in the index; not for ever, so that who waits
    /// can say what for.
    pub async fn ensure(&self, kind: &Kind) -> Result<(), ApiError> {
        let mut ready = self.start(kind, Begin::List);
        match tokio::time::timeout(FIRST_LIST, ready.wait_for(|ready| *ready)).await {
            Ok(Ok(_)) => Ok(()),
            // Otherwise the feed has ended, which it does only when everything stops.
            Ok(Err(_)) | Err(_) => {
                Err(ApiError { attempt: format!("list {} for the first time", kind.plural), cause: Cause::Timeout })
            }
        }
    }
}
