//! Objects that the release no longer contains. They stay, because only a manifest with the delete annotation deletes
//! anything; so they are named until somebody deletes or annotates them. The progress record keeps the list across restarts.

use super::apply::Applier;
use crate::cluster::task;
use crate::cluster::{ApiError, CachedState, Kind, jittered};
use crate::cluster_version::forecast;
use crate::cluster_version::progress::DroppedObject;
use crate::cluster_version::status::conditions::KEEP;
use crate::object::manifest::ObjectId;
use crate::release::{ApplyFilter, Selection};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// Most objects that are followed, so that the progress record has room for them.
const MOST: usize = 500;
/// Without an event each object is looked at again after this time.
const LOOK_AGAIN: Duration = Duration::from_secs(1800);
/// A read that failed is tried again after this time at most.
const RETRY_CAP: Duration = Duration::from_secs(60);

/// What became of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Found {
    Gone,
    /// Annotated by somebody who wants it to stay, or of a kind that is not served, so that nobody can tell.
    Tolerated,
    Exists,
}

/// The list, and what is known of its objects.
#[derive(Debug)]
pub(crate) struct Dropped {
    applier: Arc<Applier>,
    /// Those that are not known to be gone.
    objects: BTreeSet<ObjectId>,
    /// Those that exist and are not to stay.
    named: BTreeSet<ObjectId>,
    /// Those that nothing is known of yet.
    unseen: BTreeSet<ObjectId>,
    /// One for each object; ended when this is dropped.
    followers: JoinSet<()>,
    sender: mpsc::Sender<(ObjectId, Found)>,
    news: mpsc::Receiver<(ObjectId, Found)>,
}

impl Dropped {
    /// With what the process before has recorded.
    pub(crate) fn new(applier: Arc<Applier>, recorded: &[DroppedObject]) -> Dropped {
        let (sender, news) = mpsc::channel(16);
        let id = |object: &DroppedObject| ObjectId::new(&object.group, &object.kind, &object.namespace, &object.name);
        let objects = recorded.iter().take(MOST).map(id).collect();
        let (named, unseen) = (BTreeSet::new(), BTreeSet::new());
        Dropped { applier, objects, named, unseen, followers: JoinSet::new(), sender, news }
    }

    /// A rollout of `after` begins. `before`: what was applied until now, if this process knows. `filter` has selected
    /// `after`.
    pub(crate) fn begin(&mut self, before: Option<&Selection>, after: &Selection, filter: &ApplyFilter) {
        let excluded = forecast::excluded(after, filter);
        let contained = forecast::contained(after, &excluded);
        let newly = before.map(|before| forecast::dropped(&before.manifests, after, &excluded)).unwrap_or_default();
        self.objects.extend(newly);
        self.objects.retain(|id| !contained.contains(id));
        while self.objects.len() > MOST {
            let unnamed = self.objects.pop_last();
            tracing::warn!(
                object = unnamed.map(|id| id.to_string()),
                "no longer in the release, and not followed: there are too many"
            );
        }
        self.named.retain(|id| self.objects.contains(id));
        self.unseen.clone_from(&self.objects);
        self.followers = JoinSet::new();
        for id in &self.objects {
            let following = follow(self.applier.clone(), id.clone(), self.sender.clone());
            self.followers.spawn(task::guarded("dropped objects", self.applier.stop(), following));
        }
    }

    /// Waits until something is new. Cancel safe.
    pub(crate) async fn changed(&mut self) {
        // There is always a sender, so this never ends without news.
        let Some((id, found)) = self.news.recv().await else { return std::future::pending().await };
        self.unseen.remove(&id);
        match found {
            Found::Exists if self.objects.contains(&id) => drop(self.named.insert(id)),
            Found::Exists | Found::Tolerated => drop(self.named.remove(&id)),
            Found::Gone => {
                self.named.remove(&id);
                self.objects.remove(&id);
            }
        }
    }

    /// Objects that are to be named; `None` while something is not known of one.
    pub(crate) fn named(&self) -> Option<Vec<String>> {
        self.unseen.is_empty().then(|| self.named.iter().map(ToString::to_string).collect())
    }

    /// For the progress record.
    pub(crate) fn record(&self) -> Vec<DroppedObject> {
        let object = |id: &ObjectId| DroppedObject {
            group: id.group.clone(),
            kind: id.kind.clone(),
            namespace: id.namespace.clone(),
            name: id.name.clone(),
        };
        self.objects.iter().map(object).collect()
    }
}

/// Tells what becomes of an object, until it is gone.
async fn follow(applier: Arc<Applier>, id: ObjectId, news: mpsc::Sender<(ObjectId, Found)>) {
    let mut told = None;
    let mut failures = 0;
    loop {
        let (kind, live) = match applier.kinds().resolve_id(&id) {
            Some(resolved) => resolved,
            None => {
                told = tell(&news, &id, told, Found::Tolerated).await;
                applier.kinds().resolved(&id).await
            }
        };
        applier.follow(&kind, &live);
        let mut changed = applier.index().subscribe(&live);
        changed.mark_unchanged();
        match look(&applier, &kind, &live).await {
            Ok(found) => {
                failures = 0;
                told = tell(&news, &id, told, found).await;
                if found == Found::Gone {
                    return;
                }
                let _elapsed = tokio::time::timeout(LOOK_AGAIN, changed.changed()).await;
            }
            Err(error) => {
                failures += 1;
                tracing::debug!(%error, "cannot read an object that the release no longer contains");
                tokio::time::sleep(jittered(Duration::from_secs(1), failures, RETRY_CAP)).await;
            }
        }
    }
}

async fn tell(
    news: &mpsc::Sender<(ObjectId, Found)>,
    id: &ObjectId,
    told: Option<Found>,
    found: Found,
) -> Option<Found> {
    if told != Some(found) {
        // It fails only when nobody listens any more.
        let _unheard = news.send((id.clone(), found)).await;
    }
    Some(found)
}

async fn look(applier: &Applier, kind: &Kind, id: &ObjectId) -> Result<Found, ApiError> {
    applier.wait_until_listed(kind).await?;
    // Nothing is desired of the object, so no fingerprint fits.
    let found = match applier.index().lookup(id, 0) {
        CachedState::Absent => None,
        CachedState::Differs(live) => Some(live),
        CachedState::AsDesired | CachedState::Unknown => {
            applier.objects().get(kind, &id.namespace, &id.name).await?.map(Arc::new)
        }
    };
    Ok(found.map_or(Found::Gone, |live| if is_to_stay(&live) { Found::Tolerated } else { Found::Exists }))
}

/// Whether somebody wants the object to stay although no release contains it.
pub(crate) fn is_to_stay(live: &Value) -> bool {
    let annotation = live.pointer("/metadata/annotations").and_then(|all| all.get(KEEP));
    annotation.and_then(Value::as_str) == Some("true")
}

#[cfg(test)]
mod tests;
