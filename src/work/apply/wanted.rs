//! What a release wants of each object it names, shared by the feeds that compare while they read and the nodes that
//! apply.

use super::Obstacle;
use super::kept::Kept;
use crate::cluster::feed::Comparison;
use crate::gate;
use crate::merge::inject::{Source, Surroundings};
use crate::merge::{self, Owner, Step};
use crate::payload::{Manifest, ObjectId};
use crate::work::surroundings::Settings;
use serde_json::Value;
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

/// The names a release owns and what it wants of them.
#[derive(Debug)]
pub struct Wanted {
    by_id: RwLock<HashMap<ObjectId, Arc<Manifest>>>,
    owner: RwLock<Option<Owner>>,
    settings: Arc<Settings>,
    kept: Arc<Kept>,
}

/// One manifest and all that its object depends on, at one moment.
#[derive(Debug)]
pub(super) struct Want<'a> {
    pub manifest: &'a Manifest,
    pub owner: Option<Owner>,
    surroundings: Surroundings,
    /// Another one means that something else is wanted.
    pub fingerprint: u64,
}

impl Want<'_> {
    /// The object as it would be created.
    pub fn object(&self) -> Result<Value, Obstacle> {
        merge::wanted(self.manifest, self.owner.as_ref(), &self.surroundings)
            .map_err(|e| Obstacle::Manifest(e.to_string()))
    }

    /// What is to be done, given what is there.
    pub fn step(&self, live: Option<&Value>) -> Result<Step, Obstacle> {
        merge::step(live, self.manifest, || self.object())
    }
}

impl Wanted {
    pub fn new(settings: Arc<Settings>, kept: Arc<Kept>) -> Self {
        Wanted { by_id: RwLock::default(), owner: RwLock::default(), settings, kept }
    }

    /// Replaces what is wanted. Ids are as the cluster knows them (see [`super::Applier::resolve`]).
    pub(super) fn set(&self, manifests: HashMap<ObjectId, Arc<Manifest>>) {
        *self.by_id.write().unwrap_or_else(PoisonError::into_inner) = manifests;
    }

    pub(super) fn add(&self, id: ObjectId, manifest: Arc<Manifest>) {
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(id, manifest);
    }

    /// The ClusterVersion that owns everything (payload-and-apply §5.5).
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.write().unwrap_or_else(PoisonError::into_inner) = Some(owner);
    }

    pub(super) fn want<'a>(&self, manifest: &'a Manifest) -> Want<'a> {
        let owner = self.owner.read().unwrap_or_else(PoisonError::into_inner).clone();
        let sources = Source::of(manifest);
        let surroundings = if sources.is_empty() { Surroundings::default() } else { self.settings.current() };
        let mut hasher = DefaultHasher::new();
        manifest.raw.hash(&mut hasher);
        owner.as_ref().map(|o| (&o.name, &o.uid)).hash(&mut hasher);
        sources.into_iter().for_each(|source| surroundings.part(source).hash(&mut hasher));
        Want { manifest, owner, surroundings, fingerprint: hasher.finish() }
    }

    /// What a feed makes of an object it has read.
    pub fn compare(&self, id: &ObjectId, live: &Value) -> Comparison {
        self.settings.deliver(id, live);
        let view = gate::gated(&id.group, &id.kind).then(|| gate::view(live));
        let manifest = self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let as_desired = manifest.and_then(|manifest| self.as_desired(id, &manifest, live));
        Comparison { as_desired, view }
    }

    /// The fingerprint of what is wanted, if the object is that.
    pub(super) fn as_desired(&self, id: &ObjectId, manifest: &Manifest, live: &Value) -> Option<u64> {
        if manifest.delete() != Ok(false) || !self.settings.settled(manifest) {
            return None;
        }
        let want = self.want(manifest);
        let as_desired = match want.step(Some(live)) {
            Ok(Step::Leave(_)) => true,
            Ok(Step::Change { .. }) => self.kept.is_known(id, want.fingerprint, live),
            _ => false,
        };
        as_desired.then_some(want.fingerprint)
    }
}
