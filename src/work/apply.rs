//! One manifest into the cluster: what the index knows decides which request is needed, if any (architecture §3 step 5).

use super::feeds::Feeds;
use crate::cluster::feed::Comparison;
use crate::cluster::glance::Glance;
use crate::cluster::index::View;
use crate::cluster::objects::FIELD_MANAGER;
use crate::cluster::{ApiError, Index, Kind, Kinds, Objects, Sight};
use crate::gate;
use crate::merge::{self, MergeError, Owner, Step};
use crate::payload::{Manifest, ObjectId};
use crate::status::failure::UpdateError;
use serde_json::{Value, json};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Read-merge-write rounds before a conflict counts as an error.
const ROUNDS: usize = 4;

/// What came of one manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Applied {
    /// Already as wanted.
    Left,
    Created,
    /// Dotted paths of what differed, and the field manager that wrote last before us, if the object names one.
    Updated {
        fields: Vec<String>,
        by: Option<String>,
    },
    Deleted,
}

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
                "UpdatePayloadResourceTypeMissing".to_owned(),
                format!("the API server does not serve {} {}", manifest.api_version, manifest.id.kind),
            ),
            Obstacle::NamespaceMissing(namespace) => {
                ("UpdatePayloadResourceNotFound".to_owned(), format!("namespace {namespace:?} is not there yet"))
            }
            Obstacle::Api(error) => (error.update_error().reason, error.to_string()),
            Obstacle::OwnerGone => (
                "UpdatePayloadResourceConflict".to_owned(),
                "the ClusterVersion that owns it is being deleted, so it is left alone".to_owned(),
            ),
            Obstacle::Manifest(problem) => ("UpdatePayloadIntegrity".to_owned(), problem.clone()),
        };
        UpdateError::new(&reason, format!("{} from {}: {cause}", manifest.id, manifest.file))
    }
}

/// The names a release owns and what it wants of them, shared with the feeds that compare while they list.
#[derive(Debug, Default)]
pub struct Wanted {
    by_id: RwLock<HashMap<ObjectId, Arc<Manifest>>>,
    owner: RwLock<Option<Owner>>,
}

impl Wanted {
    /// Replaces what is wanted. Ids are as the cluster knows them (see [`Applier::resolve`]).
    fn set(&self, manifests: HashMap<ObjectId, Arc<Manifest>>) {
        *self.by_id.write().unwrap_or_else(PoisonError::into_inner) = manifests;
    }

    fn add(&self, id: ObjectId, manifest: Arc<Manifest>) {
        self.by_id.write().unwrap_or_else(PoisonError::into_inner).insert(id, manifest);
    }

    /// The ClusterVersion that owns everything (payload-and-apply §5.5).
    pub fn set_owner(&self, owner: Owner) {
        *self.owner.write().unwrap_or_else(PoisonError::into_inner) = Some(owner);
    }

    fn owner(&self) -> Option<Owner> {
        self.owner.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Fingerprint of what a manifest wants, owner included.
    fn fingerprint(&self, manifest: &Manifest) -> u64 {
        let mut hasher = DefaultHasher::new();
        manifest.raw.hash(&mut hasher);
        self.owner().map(|o| (o.name, o.uid)).hash(&mut hasher);
        hasher.finish()
    }

    /// The object as it would be created.
    fn prepared(&self, manifest: &Manifest) -> Result<Value, Obstacle> {
        let object = manifest.object().map_err(|e| Obstacle::Manifest(e.to_string()))?;
        Ok(merge::prepare(object, self.owner().as_ref(), manifest.create_only()))
    }

    /// What a feed makes of an object it has read.
    pub fn compare(&self, id: &ObjectId, live: &Value) -> Comparison {
        let view = gate::gated(&id.group, &id.kind).then(|| gate::view(live));
        let manifest = self.by_id.read().unwrap_or_else(PoisonError::into_inner).get(id).cloned();
        let as_wanted = manifest.filter(|m| self.is_as_wanted(m, live)).map(|m| self.fingerprint(&m));
        Comparison { as_wanted, view }
    }

    fn is_as_wanted(&self, manifest: &Manifest, live: &Value) -> bool {
        let step = || merge::step(Some(live), manifest, || self.prepared(manifest));
        manifest.delete() == Ok(false) && matches!(step(), Ok(Step::Leave(_)))
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
    /// Definitions that this process has created: nothing of their kinds was there before.
    pub born: Mutex<HashSet<ObjectId>>,
}

impl Applier {
    /// The kind, and the identity as the cluster knows it: without a namespace for cluster-scoped kinds, and in
    /// `default` where a namespaced manifest names none.
    pub fn resolve(&self, manifest: &Manifest) -> Option<(Kind, ObjectId)> {
        let kind = self.kinds.get(&manifest.api_version, &manifest.id.kind)?;
        let id = identity(&kind, manifest);
        Some((kind, id))
    }

    /// Makes these manifests the wanted ones and starts the feeds of all kinds that are served.
    pub fn want(&self, manifests: &[Arc<Manifest>]) {
        let resolved: Vec<_> = manifests.iter().filter_map(|m| Some((self.resolve(m)?, m.clone()))).collect();
        self.index.own(resolved.iter().map(|((_, id), _)| id));
        self.wanted.set(resolved.iter().map(|((_, id), m)| (id.clone(), m.clone())).collect());
        for ((kind, _), _) in &resolved {
            self.feeds.start(kind);
        }
    }

    /// Takes in manifests whose kind has begun to be served.
    pub fn take_in<'a>(&self, manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) {
        let resolved: Vec<_> = manifests.into_iter().filter_map(|m| Some((self.resolve(m)?, m.clone()))).collect();
        self.index.own(resolved.iter().map(|((_, id), _)| id));
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
            let found: Vec<_> = manifests.iter().filter(of_kind).map(|m| (identity(kind, m), m.clone())).collect();
            if !found.is_empty() {
                self.index.own(found.iter().map(|(id, _)| id));
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
        let Some((kind, id)) = self.resolve(manifest) else {
            // What is to be deleted cannot be there when its kind is not.
            return if delete { Ok(Applied::Left) } else { Err(Obstacle::KindNotServed) };
        };
        self.feeds.ensure(&kind).await?;
        if delete {
            return self.delete(manifest, &kind, &id).await;
        }
        let fingerprint = self.wanted.fingerprint(manifest);
        let target = One { applier: self, kind: &kind, id: &id, manifest, fingerprint };
        target.apply().await
    }

    async fn delete(&self, manifest: &Manifest, kind: &Kind, id: &ObjectId) -> Result<Applied, Obstacle> {
        if self.index.sight(id, 0) == Sight::Absent {
            return Ok(Applied::Left);
        }
        let Some(live) = self.objects.get(kind, &id.namespace, &id.name).await? else {
            self.index.saw(id, None, None, None);
            return Ok(Applied::Left);
        };
        if merge::step(Some(&live), manifest, || self.wanted.prepared(manifest))? != Step::Delete {
            return Ok(Applied::Left);
        }
        self.objects.delete(kind, &id.namespace, &id.name, uid(&live)).await?;
        Ok(Applied::Deleted)
    }

    /// What gates may read of the object, read afresh only when the index says that it moved.
    pub async fn view(&self, kind: &Kind, id: &ObjectId) -> Result<Option<Arc<Value>>, ApiError> {
        match self.index.view(id) {
            View::Absent => Ok(None),
            View::Fresh(view) => Ok(Some(view)),
            View::Stale => {
                let Some(live) = self.objects.get(kind, &id.namespace, &id.name).await? else {
                    self.index.saw(id, None, None, None);
                    return Ok(None);
                };
                let Comparison { as_wanted, view } = self.wanted.compare(id, &live);
                self.index.saw(id, Some(live), as_wanted, view.clone());
                Ok(view.map(Arc::new))
            }
        }
    }
}

/// As the cluster knows it: see [`Applier::resolve`].
pub fn identity(kind: &Kind, manifest: &Manifest) -> ObjectId {
    let mut id = manifest.id.clone();
    match (kind.namespaced, id.namespace.is_empty()) {
        (false, _) => id.namespace.clear(),
        (true, true) => id.namespace = "default".to_owned(),
        (true, false) => {}
    }
    id
}

/// The uids of an object's owners.
fn owners(object: &Value) -> impl Iterator<Item = &str> {
    let references = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).into_iter().flatten();
    references.filter_map(|reference| reference.get("uid")?.as_str())
}

fn uid(live: &Value) -> &str {
    live.pointer("/metadata/uid").and_then(Value::as_str).unwrap_or_default()
}

/// One manifest on its way.
struct One<'a> {
    applier: &'a Applier,
    kind: &'a Kind,
    id: &'a ObjectId,
    manifest: &'a Manifest,
    fingerprint: u64,
}

impl One<'_> {
    async fn apply(&self) -> Result<Applied, Obstacle> {
        let (index, id) = (&self.applier.index, self.id);
        let mut last = None;
        for _ in 0..ROUNDS {
            let live = match index.sight(id, self.fingerprint) {
                Sight::AsWanted => return Ok(Applied::Left),
                Sight::Absent => match self.create().await? {
                    Some(applied) => return Ok(applied),
                    None => continue,
                },
                Sight::Differs(live) => live,
                Sight::Unknown => match self.applier.objects.get(self.kind, &id.namespace, &id.name).await? {
                    Some(live) => Arc::new(live),
                    None => {
                        index.saw(id, None, None, None);
                        continue;
                    }
                },
            };
            match self.update(&live).await {
                Ok(applied) => return Ok(applied),
                Err(Obstacle::Api(error)) if error.is_conflict() || error.is_not_found() => {
                    index.forget(id);
                    last = Some(error);
                }
                Err(other) => return Err(other),
            }
        }
        Err(last.map_or_else(|| Obstacle::Manifest("appears and disappears".to_owned()), Obstacle::Api))
    }

    /// POST. `None`: somebody else was faster; look again.
    async fn create(&self) -> Result<Option<Applied>, Obstacle> {
        self.namespace_is_there()?;
        let (index, id) = (&self.applier.index, self.id);
        let Some(body) = self.initial()? else { return Ok(Some(Applied::Left)) };
        index.begin_write(id);
        let created = self.applier.objects.create_raw(self.kind, &id.namespace, &id.name, body).await;
        if created.is_ok() || created.as_ref().is_err_and(ApiError::is_already_exists) {
            self.applier.feeds.wrote(self.kind);
        }
        let operator = self.kind.group == "config.openshift.io" && self.kind.kind == "ClusterOperator";
        let outcome = match created {
            Ok(object) => {
                if self.kind.kind == "CustomResourceDefinition" {
                    self.applier.born.lock().unwrap_or_else(PoisonError::into_inner).insert(id.clone());
                }
                let glance = Glance::read(&object);
                index.wrote(id, glance.mark(), self.fingerprint, glance.view(id));
                index.end_write(id);
                if operator {
                    self.announce_related(serde_json::from_str(object.get()).unwrap_or_default()).await;
                }
                return Ok(Some(Applied::Created));
            }
            Err(error) if error.is_already_exists() => {
                index.forget(id);
                Ok(None)
            }
            Err(error) if error.is_not_found() => Err(self.not_found(&error)),
            Err(error) => Err(error.into()),
        };
        index.end_write(id);
        outcome
    }

    /// The object to POST. Decoded it is many times as large, so none is kept while a request is under way.
    /// `None` if there is nothing to create.
    fn initial(&self) -> Result<Option<Vec<u8>>, Obstacle> {
        let Step::Create(object) = self.step(None)? else { return Ok(None) };
        serde_json::to_vec(&object).map(Some).map_err(|e| Obstacle::Manifest(e.to_string()))
    }

    /// A new ClusterOperator says what it is about before its operator runs, for those who gather data (§6.1 P). Its
    /// operator may be faster, and knows better.
    async fn announce_related(&self, mut fresh: Value) {
        let object = self.manifest.object().unwrap_or_default();
        let Some(related) = object.pointer("/status/relatedObjects").cloned() else { return };
        if let Some(map) = fresh.as_object_mut() {
            map.insert("status".into(), json!({ "relatedObjects": related }));
        }
        if let Err(error) = self.applier.objects.replace_status(self.kind, "", &self.id.name, &fresh).await {
            tracing::debug!(%error, "related objects not announced; the operator will");
        }
    }

    fn not_found(&self, error: &ApiError) -> Obstacle {
        if self.kind.namespaced && error.to_string().contains("namespaces") {
            Obstacle::NamespaceMissing(self.id.namespace.clone())
        } else {
            Obstacle::KindNotServed
        }
    }

    /// A namespace that the release itself brings is waited for instead of being run into.
    fn namespace_is_there(&self) -> Result<(), Obstacle> {
        let namespace = namespace_id(&self.id.namespace);
        let index = &self.applier.index;
        if self.kind.namespaced && index.is_owned(&namespace) && !index.is_present(&namespace) {
            return Err(Obstacle::NamespaceMissing(self.id.namespace.clone()));
        }
        Ok(())
    }

    fn step(&self, live: Option<&Value>) -> Result<Step, Obstacle> {
        merge::step(live, self.manifest, || self.applier.wanted.prepared(self.manifest))
    }

    async fn update(&self, live: &Value) -> Result<Applied, Obstacle> {
        let (index, id, objects) = (&self.applier.index, self.id, &self.applier.objects);
        let step = self.step(Some(live))?;
        if let Step::Change { object, .. } | Step::Replace { object, .. } = &step
            && owners(object).any(|uid| !owners(live).any(|held| held == uid))
        {
            self.owner_is_there().await?;
        }
        let (written, fields) = match step {
            Step::Change { object, fields } => {
                index.begin_write(id);
                (objects.replace(self.kind, &id.namespace, &id.name, &object).await, fields)
            }
            Step::Replace { object, fields } => {
                index.begin_write(id);
                let replaced = async {
                    objects.delete(self.kind, &id.namespace, &id.name, uid(live)).await?;
                    objects.create(self.kind, &id.namespace, &object).await
                };
                (replaced.await, fields)
            }
            Step::Leave(_) | Step::Create(_) | Step::Delete => {
                self.saw(live.clone());
                return Ok(Applied::Left);
            }
        };
        let written = written.map(|object| self.saw(object));
        index.end_write(id);
        written?;
        Ok(Applied::Updated { fields, by: last_writer(live) })
    }

    /// Who deletes the ClusterVersion and keeps the rest (`--cascade=orphan`) has the garbage collector take the owner
    /// references away. Giving them back would have it take the objects: so whoever is about to add one looks first.
    async fn owner_is_there(&self) -> Result<(), Obstacle> {
        let Some(owner) = self.applier.wanted.owner() else { return Ok(()) };
        let kind = Kind::known("config.openshift.io", "v1", "ClusterVersion", "clusterversions", false);
        let live = self.applier.objects.get(&kind, "", &owner.name).await?;
        let stays = |live: &Value| uid(live) == owner.uid && live.pointer("/metadata/deletionTimestamp").is_none();
        if live.as_ref().is_some_and(stays) { Ok(()) } else { Err(Obstacle::OwnerGone) }
    }

    fn saw(&self, live: Value) {
        let view = gate::gated(&self.id.group, &self.id.kind).then(|| gate::view(&live));
        self.applier.index.saw(self.id, Some(live), Some(self.fingerprint), view);
    }
}

/// Identity of a namespace.
pub fn namespace_id(name: &str) -> ObjectId {
    ObjectId::new("", "Namespace", "", name)
}

/// The field manager other than ours that wrote the object last, by its managedFields.
fn last_writer(live: &Value) -> Option<String> {
    let entries = live.pointer("/metadata/managedFields")?.as_array()?;
    let text = |entry: &Value, key: &str| entry.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let others = entries.iter().filter(|e| text(e, "manager") != FIELD_MANAGER && text(e, "subresource").is_empty());
    others.max_by_key(|e| text(e, "time")).map(|e| text(e, "manager"))
}
