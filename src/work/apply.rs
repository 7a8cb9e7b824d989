//! Applies the manifests of a release: what the index knows of an object decides which request is needed, if any.

mod admission;
mod desired;
mod error;
mod object;
mod server_keeps;

pub(crate) use error::ApplyError;
pub(crate) use object::namespace_id;

use super::cluster_configuration::{ConfigurationChanges, ConfigurationWatcher, ProxyState};
use super::feeds::{Cluster, Feeds};
use super::operators::{self, Operators};
use crate::cluster::feed::{Callbacks, Comparison};
use crate::cluster::index::View;
use crate::cluster::{ApiError, CachedState, Clients, Index, Kind, Kinds, Objects};
use crate::gate::Observed;
use crate::merge::{Manager, Owner};
use crate::payload::{DefinedKind, Manifest, ObjectId};
use crate::rollout::Applied;
use crate::status::facts::{KeptFields, Unwatched};
use crate::work::task;
use desired::DesiredObjects;
use object::ObjectApply;
use server_keeps::ServerKeeps;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Applies manifests. Shared by all nodes.
#[derive(Debug)]
pub(crate) struct Applier {
    clients: Arc<Clients>,
    cluster: Cluster,
    desired: Arc<DesiredObjects>,
    configuration: Arc<ConfigurationWatcher>,
    server_keeps: Arc<ServerKeeps>,
    /// Changes with what [`Applier::unwatched`] and [`Applier::kept`] return.
    hindrances: watch::Sender<()>,
    /// CustomResourceDefinitions that this process has created: there are no objects of their kinds yet.
    created_crds: Mutex<HashSet<ObjectId>>,
    /// The objects of a release are tracked.
    tracked: watch::Sender<bool>,
    /// Of the process.
    stop: CancellationToken,
}

impl Applier {
    /// `manager`: under whose name the objects are written, which is that of `objects`.
    pub(crate) fn new(
        clients: Arc<Clients>,
        objects: Objects,
        manager: Manager,
        kinds: Arc<Kinds>,
        stop: CancellationToken,
    ) -> Applier {
        let configuration = Arc::new(ConfigurationWatcher::new(stop.clone()));
        let hindrances = watch::channel(()).0;
        let server_keeps = Arc::new(ServerKeeps::new(hindrances.clone()));
        let desired = Arc::new(DesiredObjects::new(manager, configuration.clone(), server_keeps.clone()));
        let index = Arc::<Index>::default();
        let comparing = desired.clone();
        let compare = Arc::new(move |id: &_, live: &_| comparing.compare(id, live));
        let (keeps, asking) = (server_keeps.clone(), index.clone());
        let before_relist = Arc::new(move |kind: &Kind| {
            keeps.ask_again(&asking, |id| id.group == kind.group && id.kind == kind.kind);
        });
        let following =
            admission::follow(clients.clone(), kinds.clone(), server_keeps.clone(), index.clone(), stop.clone());
        task::spawn("admission", &stop, following);
        let operators = Arc::<Operators>::default();
        let callbacks = Callbacks { compare, before_relist, whole: operators::whole_kind(operators.clone()) };
        let feeds = Arc::new(Feeds::new(
            clients.clone(),
            objects.clone(),
            (index.clone(), kinds.clone()),
            callbacks,
            hindrances.clone(),
            stop.clone(),
        ));
        let cluster = Cluster { objects, index, kinds, feeds, operators };
        Applier {
            clients,
            cluster,
            desired,
            configuration,
            server_keeps,
            hindrances,
            created_crds: Mutex::default(),
            tracked: watch::channel(false).0,
            stop,
        }
    }

    pub(crate) fn clients(&self) -> &Clients {
        &self.clients
    }

    pub(crate) fn index(&self) -> &Index {
        &self.cluster.index
    }

    /// Changes whenever [`Applier::unwatched`] or [`Applier::kept`] does.
    pub(crate) fn hindrances(&self) -> watch::Receiver<()> {
        self.hindrances.subscribe()
    }

    /// Kinds that have had no watch for more than a minute.
    pub(crate) fn unwatched(&self) -> Vec<Unwatched> {
        self.cluster.feeds.unwatched()
    }

    /// All kinds that are followed, as `<plural>.<group>`, and whether their changes are noticed at once.
    pub(crate) fn followed_kinds(&self) -> BTreeMap<String, bool> {
        self.cluster.feeds.followed()
    }

    /// Objects with fields that the server keeps different from what was written.
    pub(crate) fn kept(&self) -> Vec<KeptFields> {
        self.server_keeps.kept()
    }

    /// All ClusterOperators of the cluster.
    pub(crate) fn operators(&self) -> &Arc<Operators> {
        &self.cluster.operators
    }

    /// Reads them also where the release contains none, as soon as the kind is served. The objects of the release come
    /// first: the list says of those that are tracked by then that they do not exist.
    pub(crate) async fn follow_operators(&self) {
        let mut tracked = self.tracked.subscribe();
        if tracked.wait_for(|tracked| *tracked).await.is_err() {
            return;
        }
        let kind = self.cluster.kinds.served(operators::API_VERSION, operators::KIND).await;
        self.cluster.feeds.start(&kind);
    }

    pub(crate) fn kinds(&self) -> &Kinds {
        &self.cluster.kinds
    }

    pub(crate) fn objects(&self) -> &Objects {
        &self.cluster.objects
    }

    /// Ends the process.
    pub(crate) fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// The manifest's kind and its identity as the cluster knows it, if the server is known to serve the kind.
    pub(crate) fn resolve(&self, manifest: &Manifest) -> Option<(Kind, ObjectId)> {
        self.cluster.kinds.resolve(manifest)
    }

    /// The ClusterVersion that owns everything.
    pub(crate) fn set_owner(&self, owner: Owner) {
        self.desired.set_owner(owner);
    }

    /// The Deployment that stays scaled to zero if another client has done that, if there is one.
    pub(crate) fn set_stoppable(&self, deployment: Option<ObjectId>) {
        self.desired.set_stoppable(deployment);
    }

    /// Tells of changes of the cluster configuration from now on.
    pub(crate) fn configuration_changes(&self) -> ConfigurationChanges {
        self.configuration.changes()
    }

    /// Follows the Proxy of the cluster.
    pub(crate) fn proxy(&self) -> watch::Receiver<ProxyState> {
        self.configuration.follow_proxy(&self.cluster)
    }

    /// Makes these manifests the desired ones, in place of those before, and starts the feeds of all kinds that are served.
    pub(crate) fn set_desired(&self, manifests: &[Arc<Manifest>]) {
        // Before any feed starts: nothing is compared without the configuration that it depends on.
        self.configuration.follow(&self.cluster, manifests);
        self.start(manifests, DesiredObjects::set);
        self.tracked.send_replace(true);
        self.server_keeps.retain(|id| self.desired.contains(id));
        self.server_keeps.ask_again(&self.cluster.index, |_| true);
    }

    /// Adds manifests whose kind is served only now.
    pub(crate) fn add_desired<'a>(&self, manifests: impl IntoIterator<Item = &'a Arc<Manifest>>) {
        self.start(manifests, DesiredObjects::add);
    }

    fn start<'a>(
        &self,
        manifests: impl IntoIterator<Item = &'a Arc<Manifest>>,
        store: impl FnOnce(&DesiredObjects, HashMap<ObjectId, Arc<Manifest>>),
    ) {
        let resolve = |m: &Arc<Manifest>| self.resolve(m).map(|(kind, id)| (kind, (id, m.clone())));
        let (kinds, objects): (Vec<Kind>, HashMap<_, _>) = manifests.into_iter().filter_map(resolve).unzip();
        self.cluster.index.track(objects.keys());
        store(&self.desired, objects);
        kinds.iter().for_each(|kind| drop(self.cluster.feeds.start(kind)));
    }

    /// The CustomResourceDefinition `id` of the release is established: its kind can be used from now on.
    pub(crate) fn crd_established(&self, id: &ObjectId, crd: &Manifest, manifests: &[Arc<Manifest>]) {
        let created = self.created_crds.lock().unwrap_or_else(PoisonError::into_inner).contains(id);
        let kinds = Kinds::of_definition(&DefinedKind::of_manifest(crd).unwrap_or_default());
        // Tracked before the kind is known: its users may start at once, and its feed must know what to look for.
        for kind in &kinds {
            let of_kind = |m: &&Arc<Manifest>| m.api_version == kind.api_version() && m.id.kind == kind.kind;
            let found: HashMap<_, _> =
                manifests.iter().filter(of_kind).map(|m| (kind.identity(m), m.clone())).collect();
            if !found.is_empty() {
                self.cluster.index.track(found.keys());
                self.desired.add(found);
                if created {
                    self.cluster.feeds.start_with_first_write(kind);
                } else {
                    self.cluster.feeds.start(kind);
                }
            }
        }
        self.cluster.kinds.add(kinds);
    }

    /// Follows an object that is not desired: whether it exists is in the index once the feed of its kind is ready.
    pub(crate) fn follow(&self, kind: &Kind, id: &ObjectId) {
        self.cluster.index.track([id]);
        self.cluster.feeds.start(kind);
    }

    /// Waits until all existing objects of the kind are in the index.
    pub(crate) async fn wait_until_listed(&self, kind: &Kind) -> Result<(), ApiError> {
        self.cluster.feeds.wait_until_listed(kind).await
    }

    /// Brings the object of one manifest to its desired state.
    pub(crate) async fn apply(&self, manifest: &Manifest) -> Result<Applied, ApplyError> {
        let delete = manifest.delete().map_err(ApplyError::Manifest)?;
        let Some((kind, id)) = self.resolve(manifest) else {
            return if delete { self.delete_of_unknown_kind(manifest).await } else { Err(ApplyError::KindNotServed) };
        };
        self.apply_known(manifest, kind, id).await
    }

    /// Discovery may be older than the kind, or have left out a group whose server was away at that moment. Only if the
    /// API server says that it does not serve the kind, there is nothing to delete.
    async fn delete_of_unknown_kind(&self, manifest: &Manifest) -> Result<Applied, ApplyError> {
        let client = self.objects().client();
        let Some(kind) = self.cluster.kinds.look_up(client, &manifest.api_version, &manifest.id.kind).await? else {
            return Ok(Applied::Unchanged);
        };
        let id = kind.identity(manifest);
        self.cluster.index.track([&id]);
        self.apply_known(manifest, kind, id).await
    }

    async fn apply_known(&self, manifest: &Manifest, kind: Kind, id: ObjectId) -> Result<Applied, ApplyError> {
        self.wait_until_listed(&kind).await?;
        self.configuration.wait_until_read(manifest).await?;
        let apply = ObjectApply {
            cluster: &self.cluster,
            server_keeps: &self.server_keeps,
            kind: &kind,
            id: &id,
            desired: self.desired.of(manifest),
        };
        let applied = apply.run().await?;
        if applied == Applied::Created && kind.kind == "CustomResourceDefinition" {
            self.created_crds.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        }
        Ok(applied)
    }

    /// Whether the workload is known to be scaled to zero.
    pub(crate) fn is_scaled_to_zero(&self, id: &ObjectId) -> bool {
        matches!(self.cluster.index.view(id), View::Fresh(view) if view.is_scaled_to_zero())
    }

    /// Whether the object is known to be in its desired state.
    pub(crate) fn is_as_desired(&self, id: &ObjectId, manifest: &Manifest) -> bool {
        self.cluster.index.lookup(id, self.desired.of(manifest).fingerprint) == CachedState::AsDesired
    }

    /// What gates read of the object; `None` if it does not exist. Reads it only if the index does not know its present
    /// state.
    pub(crate) async fn view(&self, kind: &Kind, id: &ObjectId) -> Result<Option<Arc<Observed>>, ApiError> {
        let Cluster { index, objects, .. } = &self.cluster;
        match index.view(id) {
            View::Absent => Ok(None),
            View::Fresh(view) => Ok(Some(view)),
            View::Stale => {
                let Some(live) = objects.get(kind, &id.namespace, &id.name).await? else {
                    index.record_read(id, None, None, None);
                    return Ok(None);
                };
                let Comparison { as_desired, view } = self.desired.compare(id, &live);
                index.record_read(id, Some(live), as_desired, view.clone());
                Ok(view.map(Arc::new))
            }
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
