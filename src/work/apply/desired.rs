//! The desired state of each object of a release, shared by the feeds, which compare what they read with it, and the nodes,
//! which apply it.

use super::error::ApplyError;
use super::server_keeps::ServerKeeps;
use crate::cluster::feed::Comparison;
use crate::gate;
use crate::merge::inject::{ClusterConfiguration, Source};
use crate::merge::{self, Manager, Owner, Schema, Schemas, Step};
use crate::payload::{Manifest, ObjectId};
use crate::work::cluster_configuration::ConfigurationWatcher;
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use std::collections::HashMap;
use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, PoisonError, RwLock};

/// The objects of the release.
#[derive(Debug)]
pub(super) struct DesiredObjects {
    manifests: RwLock<HashMap<ObjectId, Arc<Manifest>>>,
    owner: RwLock<Option<Owner>>,
    /// The Deployment that may be scaled to zero by others.
    stoppable: RwLock<Option<ObjectId>>,
    configuration: Arc<ConfigurationWatcher>,
    server_keeps: Arc<ServerKeeps>,
    schemas: Schemas,
    /// Under whose name they are written.
    manager: Manager,
}

/// One manifest and everything else that its object depends on, at one moment.
#[derive(Debug)]
pub(super) struct Desired<'a> {
    pub manifest: &'a Manifest,
    pub owner: Option<Owner>,
    objects: &'a DesiredObjects,
    configuration: ClusterConfiguration,
    /// A Deployment that stays scaled to zero if it is.
    stoppable: bool,
    /// Differs if the desired content differs.
    pub fingerprint: u64,
}

impl Desired<'_> {
    /// The object as it would be created.
    fn object(&self) -> Result<Value, ApplyError> {
        merge::desired(self.manifest, self.owner.as_ref(), &self.configuration)
            .map_err(|e| ApplyError::Manifest(e.to_string()))
    }

    /// Whether it is written by server-side apply. An object that is only created is not, since it is never written again.
    pub(crate) fn is_applied(&self) -> bool {
        merge::is_applied(&self.manifest.id.group, &self.manifest.id.kind) && !self.manifest.create_only()
    }

    /// The JSON of the object to create.
    pub(crate) fn created(&self) -> Result<Vec<u8>, ApplyError> {
        let object = merge::initial(self.object()?);
        serde_json::to_vec(&object).map_err(|e| ApplyError::Manifest(e.to_string()))
    }

    /// The configuration to apply.
    pub(crate) fn configuration(&self, live: Option<&Value>) -> Result<Box<RawValue>, ApplyError> {
        let configuration = merge::configuration(live, self.object()?, self.objects.manager);
        to_raw_value(&configuration).map_err(|e| ApplyError::Manifest(e.to_string()))
    }

    /// Under whose name it is written.
    pub(crate) fn manager(&self) -> Manager {
        self.objects.manager
    }

    /// What to do, given the live object.
    pub(crate) fn step(&self, live: Option<&Value>) -> Result<Step, ApplyError> {
        let stopped = self.stoppable && live.and_then(|live| live.pointer("/spec/replicas")) == Some(&Value::from(0));
        let schema = || self.objects.schema(self.manifest);
        merge::step(live, self.manifest, self.objects.manager, &schema, || {
            let mut object = self.object()?;
            if let Some(replicas) = object.pointer_mut("/spec/replicas").filter(|_| stopped) {
                *replicas = Value::from(0);
            }
            Ok(object)
        })
    }
}

impl DesiredObjects {
    pub(crate) fn new(
        manager: Manager,
        configuration: Arc<ConfigurationWatcher>,
        server_keeps: Arc<ServerKeeps>,
    ) -> Self {
        DesiredObjects {
            manifests: RwLock::default(),
            owner: RwLock::default(),
            stoppable: RwLock::default(),
            configuration,
            server_keeps,
            schemas: Schemas::default(),
            manager,
        }
    }

    /// Replaces all. Ids are as the cluster knows them.
    pub(crate) fn set(&self, manifests: HashMap<ObjectId, Arc<Manifest>>) {
        *self.manifests.write().unwrap_or_else(PoisonError::into_inner) = manifests;
        self.schemas.forget();
    }

    pub(crate) fn add(&self, manifests: HashMap<ObjectId, Arc<Manifest>>) {
        self.manifests.write().unwrap_or_else(PoisonError::into_inner).extend(manifests);
        self.schemas.forget();
    }

    /// The defaults of the kind of a manifest, if it is known or the release defines it.
    fn schema(&self, manifest: &Manifest) -> Option<Arc<Schema>> {
        self.schemas.of(manifest, || {
            let manifests = self.manifests.read().unwrap_or_else(PoisonError::into_inner);
            manifests.values().filter(|definition| merge::may_define(definition, manifest)).cloned().collect()
        })
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

    pub(crate) fn of<'a>(&'a self, manifest: &'a Manifest) -> Desired<'a> {
        let owner = self.owner.read().unwrap_or_else(PoisonError::into_inner).clone();
        let sources = Source::of(manifest);
        let configuration =
            if sources.is_empty() { ClusterConfiguration::default() } else { self.configuration.current() };
        let stoppable = self.stoppable.read().unwrap_or_else(PoisonError::into_inner).as_ref() == Some(&manifest.id);
        let mut hasher = DefaultHasher::new();
        manifest.raw.hash(&mut hasher);
        owner.as_ref().map(|o| (&o.name, &o.uid)).hash(&mut hasher);
        sources.into_iter().for_each(|source| configuration.part(source).hash(&mut hasher));
        stoppable.hash(&mut hasher);
        Desired { manifest, owner, objects: self, configuration, stoppable, fingerprint: hasher.finish() }
    }

    /// Compares an object that a feed has read.
    pub(crate) fn compare(&self, id: &ObjectId, live: &Value) -> Comparison {
        self.configuration.on_read(id, live);
        let view = gate::observe(id, live);
        let manifest = self.manifests.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let as_desired = manifest.and_then(|manifest| self.fingerprint_if_same(id, &manifest, live));
        Comparison { as_desired, view }
    }

    /// The fingerprint of the desired content, if the object has that content.
    fn fingerprint_if_same(&self, id: &ObjectId, manifest: &Manifest, live: &Value) -> Option<u64> {
        if manifest.delete() != Ok(false) || !self.configuration.is_read(manifest) {
            return None;
        }
        let desired = self.of(manifest);
        let same = match desired.step(Some(live)) {
            Ok(Step::Skip(_)) => {
                self.server_keeps.forget(id);
                true
            }
            Ok(Step::Change { .. }) => self.server_keeps.is_known(id, desired.fingerprint, live),
            _ => false,
        };
        same.then_some(desired.fingerprint)
    }
}
