//! Brings objects to their desired state: what the index knows of an object decides which request is needed, if any. What is
//! desired, who owns it, under which name it is written and with whose rights are arguments, so that every process that
//! applies objects uses the same.

mod admission;
mod error;
mod object;
mod server_keeps;

pub(crate) use error::ApplyError;
pub(crate) use object::namespace_id;

use super::feed::{Callbacks, WholeKind};
use super::feeds::Feeds;
use super::index::View;
use super::{ApiError, CachedState, Clients, Index, Kind, Kinds, Objects, task};
use crate::gate::{self, Observed};
use crate::merge::{Applied, Desired};
use crate::object::manifest::ObjectId;
use object::ObjectApply;
use serde_json::Value;
use server_keeps::ServerKeeps;
use std::sync::Arc;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Says of an object that was read what is desired of it; `None` if that is nothing, or not known yet.
pub(crate) type Wanted = Arc<dyn Fn(&ObjectId, &Value) -> Option<Desired> + Send + Sync>;

/// The cluster as this process reads and writes it. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Cluster {
    /// For reading, and for writing with the rights of this process.
    pub objects: Objects,
    pub index: Arc<Index>,
    pub kinds: Arc<Kinds>,
    pub feeds: Arc<Feeds>,
    server_keeps: Arc<ServerKeeps>,
}

impl Cluster {
    /// `whole`: the kind that is followed as a whole, if there is one. `stop` is that of the process.
    pub(crate) fn new(
        clients: Arc<Clients>,
        objects: Objects,
        kinds: Arc<Kinds>,
        wanted: Wanted,
        whole: Option<WholeKind>,
        stop: &CancellationToken,
    ) -> Cluster {
        let index = Arc::<Index>::default();
        let server_keeps = Arc::new(ServerKeeps::default());
        let keeps = server_keeps.clone();
        let compare = move |id: &ObjectId, live: &Value| keeps.as_desired(id, &wanted(id, live)?, live);
        let (keeps, asking) = (server_keeps.clone(), index.clone());
        let before_relist = move |kind: &Kind| {
            keeps.ask_again(&asking, |id| id.group == kind.group && id.kind == kind.kind);
        };
        let callbacks = Callbacks { compare: Arc::new(compare), before_relist: Arc::new(before_relist), whole };
        let following =
            admission::follow(clients.clone(), kinds.clone(), server_keeps.clone(), index.clone(), stop.clone());
        task::spawn("admission", stop, following);
        let hindrances = server_keeps.changed().clone();
        let known = (index.clone(), kinds.clone());
        let feeds = Arc::new(Feeds::new(clients, objects.clone(), known, callbacks, hindrances, stop.clone()));
        Cluster { objects, index, kinds, feeds, server_keeps }
    }

    /// Brings an object to its desired state, by `writer`, whose field manager is that of `desired`. It costs the fewest requests
    /// if the kind is followed and listed.
    pub(crate) async fn apply(
        &self,
        writer: &Objects,
        kind: &Kind,
        id: &ObjectId,
        desired: &Desired,
    ) -> Result<Applied, ApplyError> {
        ObjectApply { cluster: self, writer, kind, id, desired, fingerprint: desired.fingerprint() }.run().await
    }

    /// Whether the object is known to be in its desired state.
    pub(crate) fn is_as_desired(&self, id: &ObjectId, desired: &Desired) -> bool {
        self.index.lookup(id, desired.fingerprint()) == CachedState::AsDesired
    }

    /// What gates read of the object; `None` if it does not exist. Reads it only if the index does not know its present
    /// state.
    pub(crate) async fn view(&self, kind: &Kind, id: &ObjectId) -> Result<Option<Arc<Observed>>, ApiError> {
        match self.index.view(id) {
            View::Absent => Ok(None),
            View::Fresh(view) => Ok(Some(view)),
            View::Stale => {
                let Some(live) = self.objects.get(kind, &id.namespace, &id.name).await? else {
                    self.index.record_read(id, None, None, None);
                    return Ok(None);
                };
                let (as_desired, view) = (self.feeds.compare(id, &live), gate::observe(id, &live));
                self.index.record_read(id, Some(live), as_desired, view.clone());
                Ok(view.map(Arc::new))
            }
        }
    }

    /// Follows an object: whether it exists is in the index once the feed of its kind is ready.
    pub(crate) fn follow(&self, kind: &Kind, id: &ObjectId) {
        self.index.track([id]);
        self.feeds.start(kind);
    }

    /// Objects with fields that the server keeps different from what was written.
    pub(crate) fn kept(&self) -> Vec<(ObjectId, Vec<String>)> {
        self.server_keeps.kept()
    }

    /// Only these objects are desired from now on. What the server has kept of them is written once more.
    pub(crate) fn write_kept_again(&self, desired: impl Fn(&ObjectId) -> bool) {
        self.server_keeps.retain(desired);
        self.server_keeps.ask_again(&self.index, |_| true);
    }

    /// Changes whenever [`Cluster::kept`] does, or which kinds have no watch.
    pub(crate) fn hindrances(&self) -> watch::Receiver<()> {
        self.server_keeps.changed().subscribe()
    }
}

#[cfg(test)]
pub(crate) mod tests;
