//! One manifest into the cluster: what the index knows decides which request is needed, if any (architecture §3 step 5).

pub mod kept;
mod one;
#[cfg(test)]
mod tests;
mod wanted;

pub use kept::Kept;
pub use wanted::Wanted;

use super::feeds::Feeds;
use super::surroundings::Settings;
use crate::cluster::feed::Comparison;
use crate::cluster::index::View;
use crate::cluster::objects::Cause;
use crate::cluster::{ApiError, CachedState, Index, Kind, Kinds, Objects};
use crate::merge::MergeError;
use crate::payload::{Manifest, ObjectId};
use crate::rollout::Applied;
use crate::status::failure::{Reason, UpdateError, classify};
use one::One;
use serde_json::Value;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// What keeps a manifest from being applied now.
#[derive(Debug)]
pub enum Obstacle {
    /// The server does not serve the kind (yet).
    KindNotServed,
    /// The namespace is not there (yet).
    NamespaceMissing(String),
    Api(ApiError),
    /// The ClusterVersion is gone or going, so nothing may be made to belong to it.
    OwnerGone,
    /// The object has to be made anew, and whoever put these finalizers on it has not let the old one go yet.
    Going(Vec<String>),
    /// The manifest itself is at fault.
    Manifest(String),
}

impl From<MergeError> for Obstacle {
    fn from(error: MergeError) -> Self {
        Obstacle::Manifest(error.to_string())
    }
}

impl From<ApiError> for Obstacle {
    fn from(error: ApiError) -> Self {
        Obstacle::Api(error)
    }
}

impl Obstacle {
    /// As conditions report it (payload-and-apply §4.8).
    pub fn update_error(&self, manifest: &Manifest) -> UpdateError {
        let (reason, cause) = match self {
            Obstacle::KindNotServed => (
                Reason::ResourceTypeMissing,
                format!("the API server does not serve {} {}", manifest.api_version, manifest.id.kind),
            ),
            Obstacle::NamespaceMissing(namespace) => {
                (Reason::ResourceNotFound, format!("namespace {namespace:?} is not there yet"))
            }
            Obstacle::Api(error) => (reason(error), error.to_string()),
            Obstacle::OwnerGone => (
                Reason::ResourceConflict,
                "the ClusterVersion that owns it is being deleted, so it is left alone".to_owned(),
            ),
            Obstacle::Going(finalizers) => (
                Reason::ResourceConflict,
                format!(
                    "it is deleted to be made anew, and waited for until it is gone; finalizers that hold it: {}",
                    if finalizers.is_empty() { "none".to_owned() } else { finalizers.join(", ") }
                ),
            ),
            Obstacle::Manifest(problem) => (Reason::Integrity, problem.clone()),
        };
        UpdateError::new(reason, format!("{} from {}: {cause}", manifest.id, manifest.file))
    }
}

impl From<&ApiError> for UpdateError {
    fn from(error: &ApiError) -> Self {
        UpdateError::new(reason(error), error.to_string())
    }
}

fn reason(error: &ApiError) -> Reason {
    match &error.cause {
        Cause::Server { code, reason, .. } => classify(*code, reason),
        Cause::Transport(_) | Cause::Timeout => Reason::ClusterDown,
        Cause::Answer(_) | Cause::NotLeader => Reason::Failed,
    }
}

/// Applies manifests. Shared by all nodes.
#[derive(Debug)]
pub struct Applier {
    pub objects: Objects,
    pub index: Arc<Index>,
    pub kinds: Arc<Kinds>,
    pub feeds: Feeds,
    pub wanted: Arc<Wanted>,
    pub settings: Arc<Settings>,
    pub kept: Arc<Kept>,
    /// Definitions that this process has created: nothing of their kinds was there before.
    pub born: Mutex<HashSet<ObjectId>>,
}

impl Applier {
    /// Makes these manifests the wanted ones and starts the feeds of all kinds that are served.
    pub fn want(&self, manifests: &[Arc<Manifest>]) {
        let resolved: Vec<_> = manifests.iter().filter_map(|m| Some((self.kinds.resolve(m)?, m.clone()))).collect();
        self.index.track(resolved.iter().map(|((_, id), _)| id));
        self.wanted.set(resolved.iter().map(|((_, id), m)| (id.clone(), m.clone())).collect());
        for ((kind, _), _) in &resolved {
            self.feeds.start(kind);
        }
    }

    /// Takes in manifests whose kind has begun to be served.
    pub fn take_in<'a>(&self, manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) {
        let resolved: Vec<_> =
            manifests.into_iter().filter_map(|m| Some((self.kinds.resolve(m)?, m.clone()))).collect();
        self.index.track(resolved.iter().map(|((_, id), _)| id));
        for ((_, id), manifest) in &resolved {
            self.wanted.add(id.clone(), manifest.clone());
        }
        for ((kind, _), _) in &resolved {
            self.feeds.start(kind);
        }
    }

    /// The CRD `id` of the release is established: its kinds can be used from now on.
    pub fn kind_established(&self, id: &ObjectId, crd: &Value, manifests: &[Arc<Manifest>]) {
        let born = self.born.lock().unwrap_or_else(PoisonError::into_inner).contains(id);
        let kinds = Kinds::of_definition(crd);
        // Their names come first: who learns of a kind may use it at once, and a feed must know what to look for.
        for kind in &kinds {
            let of_kind = |m: &&Arc<Manifest>| m.api_version == kind.api_version() && m.id.kind == kind.kind;
            let found: Vec<_> = manifests.iter().filter(of_kind).map(|m| (kind.identity(m), m.clone())).collect();
            if !found.is_empty() {
                self.index.track(found.iter().map(|(id, _)| id));
                found.into_iter().for_each(|(id, manifest)| self.wanted.add(id, manifest));
                if born {
                    self.feeds.born(kind);
                } else {
                    self.feeds.start(kind);
                }
            }
        }
        self.kinds.add(kinds);
    }

    /// Brings one manifest into the cluster.
    pub async fn apply(&self, manifest: &Manifest) -> Result<Applied, Obstacle> {
        let delete = manifest.delete().map_err(Obstacle::Manifest)?;
        let Some((kind, id)) = self.kinds.resolve(manifest) else {
            // What is to be deleted cannot be there when its kind is not.
            return if delete { Ok(Applied::Left) } else { Err(Obstacle::KindNotServed) };
        };
        self.feeds.ensure(&kind).await?;
        self.settings.settle(manifest).await?;
        One { applier: self, kind: &kind, id: &id, want: self.wanted.want(manifest) }.apply().await
    }

    /// Whether the object is known to be what is wanted of it now.
    pub fn is_as_desired(&self, id: &ObjectId, manifest: &Manifest) -> bool {
        self.index.lookup(id, self.wanted.want(manifest).fingerprint) == CachedState::AsDesired
    }

    /// What gates may read of the object, read afresh only when the index says that it moved.
    pub async fn view(&self, kind: &Kind, id: &ObjectId) -> Result<Option<Arc<Value>>, ApiError> {
        match self.index.view(id) {
            View::Absent => Ok(None),
            View::Fresh(view) => Ok(Some(view)),
            View::Stale => {
                let Some(live) = self.objects.get(kind, &id.namespace, &id.name).await? else {
                    self.index.record_read(id, None, None, None);
                    return Ok(None);
                };
                let Comparison { as_desired, view } = self.wanted.compare(id, &live);
                self.index.record_read(id, Some(live), as_desired, view.clone());
                Ok(view.map(Arc::new))
            }
        }
    }
}

/// Identity of a namespace.
pub fn namespace_id(name: &str) -> ObjectId {
    ObjectId::new("", "Namespace", "", name)
}
