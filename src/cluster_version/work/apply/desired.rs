//! The desired state of each object of a release, shared by the feeds, which compare what they read with it, and the nodes,
//! which apply it.

use crate::cluster_version::work::cluster_configuration::ConfigurationWatcher;
use crate::merge::inject::{ClusterConfiguration, Source};
use crate::merge::{Desired, Manager, Owner, Schemas};
use crate::object::manifest::{Manifest, ObjectId};
use serde_json::Value;
use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

/// The objects of the release.
#[derive(Debug)]
pub(super) struct DesiredObjects {
    manifests: RwLock<HashMap<ObjectId, Arc<Manifest>>>,
    owner: RwLock<Option<Owner>>,
    /// The Deployment that may be scaled to zero by others.
    stoppable: RwLock<Option<ObjectId>>,
    configuration: Arc<ConfigurationWatcher>,
    schemas: Arc<Schemas>,
    /// Under whose name they are written.
    manager: Manager,
}

impl DesiredObjects {
    pub(crate) fn new(manager: Manager, configuration: Arc<ConfigurationWatcher>) -> Self {
        DesiredObjects {
            manifests: RwLock::default(),
            owner: RwLock::default(),
            stoppable: RwLock::default(),
            configuration,
            schemas: Arc::default(),
            manager,
        }
    }

    /// Replaces all. Ids are as the cluster knows them.
    pub(crate) fn set(&self, manifests: HashMap<ObjectId, Arc<Manifest>>) {
        self.schemas.set(manifests.values());
        *self.manifests.write().unwrap_or_else(PoisonError::into_inner) = manifests;
    }

    pub(crate) fn add(&self, manifests: HashMap<ObjectId, Arc<Manifest>>) {
        self.schemas.add(manifests.values());
        self.manifests.write().unwrap_or_else(PoisonError::into_inner).extend(manifests);
    }

    pub(crate) fn contains(&self, id: &ObjectId) -> bool {
        self.manifests.read().unwrap_or_else(PoisonError::into_inner).contains_key(id)
    }

    /// The ClusterVersion that owns every object.
    pub(crate) fn set_owner(&self, owner: Owner) {
        *self.owner.write().unwrap_or_else(PoisonError::into_inner) = Some(owner);
    }

    pub(crate) fn set_stoppable(&self, deployment: Option<ObjectId>) {
        *self.stoppable.write().unwrap_or_else(PoisonError::into_inner) = deployment;
    }

    pub(crate) fn of(&self, manifest: &Arc<Manifest>) -> Desired {
        let depends = !Source::of(manifest).is_empty();
        let stoppable = self.stoppable.read().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(&manifest.id);
        Desired {
            manifest: manifest.clone(),
            owner: self.owner.read().unwrap_or_else(PoisonError::into_inner).clone(),
            manager: self.manager,
            configuration: if depends { self.configuration.current() } else { ClusterConfiguration::default() },
            may_be_stopped: stoppable,
            schemas: self.schemas.clone(),
        }
    }

    /// An object was read: what is desired of it, if everything that this depends on has been read too.
    pub(crate) fn on_read(&self, id: &ObjectId, live: &Value) -> Option<Desired> {
        self.configuration.on_read(id, live);
        let manifest = self.manifests.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned()?;
        self.configuration.is_read(&manifest).then(|| self.of(&manifest))
    }
}
