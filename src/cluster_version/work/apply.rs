//! Applies the manifests of a release: what is desired of each, and what the rest of the daemon asks about that.

mod desired;
mod failure;

pub(crate) use failure::failure;

use super::cluster_configuration::{ConfigurationChanges, ConfigurationWatcher};
use super::operators::{self, Operators};
use crate::cluster::apply::{ApplyError, Cluster};
use crate::cluster::index::View;
use crate::cluster::{ApiError, Clients, Index, Kind, Kinds, Objects};
use crate::cluster_version::status::facts::{KeptFields, Unwatched};
use crate::gate::Observed;
use crate::merge::{Applied, Manager, Owner};
use crate::object::definition::DefinedKind;
use crate::object::manifest::{Manifest, ObjectId};
use crate::process::egress::ProxyState;
use desired::DesiredObjects;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// Applies manifests. Shared by all nodes.
#[derive(Debug)]
pub(crate) struct Applier {
    clients: Arc<Clients>,
    cluster: Cluster,
    operators: Arc<Operators>,
    desired: Arc<DesiredObjects>,
    configuration: Arc<ConfigurationWatcher>,
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
        let desired = Arc::new(DesiredObjects::new(manager, configuration.clone()));
        let read = desired.clone();
        let wanted = Arc::new(move |id: &_, live: &_| read.on_read(id, live));
        let operators = Arc::<Operators>::default();
        let whole = Some(operators::whole_kind(operators.clone()));
        Applier {
            cluster: Cluster::new(clients.clone(), objects, kinds, wanted, whole, &stop),
            clients,
            operators,
            desired,
            configuration,
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
        self.cluster.hindrances()
    }

    /// Kinds that have had no watch for more than a minute.
    pub(crate) fn unwatched(&self) -> Vec<Unwatched> {
        let followed = self.cluster.feeds.followed().into_iter();
        followed.filter_map(|it| Some(Unwatched { kind: it.resource, cause: it.unwatched?.to_string() })).collect()
    }

    /// All kinds that are followed, as `<plural>.<group>`, and whether their changes are noticed at once.
    pub(crate) fn followed_kinds(&self) -> BTreeMap<String, bool> {
        self.cluster.feeds.followed().into_iter().map(|it| (it.resource, it.watched)).collect()
    }

    /// Objects with fields that the server keeps different from what was written, by name.
    pub(crate) fn kept(&self) -> Vec<KeptFields> {
        let kept = self.cluster.kept().into_iter();
        let mut all: Vec<_> = kept.map(|(id, fields)| KeptFields { object: id.to_string(), fields }).collect();
        all.sort_by(|a, b| a.object.cmp(&b.object));
        all
    }

    /// All ClusterOperators of the cluster.
    pub(crate) fn operators(&self) -> &Arc<Operators> {
        &self.operators
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
        self.cluster.write_kept_again(|id| self.desired.contains(id));
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
        self.cluster.follow(kind, id);
    }

    /// Waits until all existing objects of the kind are in the index.
    pub(crate) async fn wait_until_listed(&self, kind: &Kind) -> Result<(), ApiError> {
        self.cluster.feeds.wait_until_listed(kind).await
    }

    /// Brings the object of one manifest to its desired state.
    pub(crate) async fn apply(&self, manifest: &Arc<Manifest>) -> Result<Applied, ApplyError> {
        let delete = manifest.delete().map_err(ApplyError::Manifest)?;
        let Some((kind, id)) = self.resolve(manifest) else {
            return if delete { self.delete_of_unknown_kind(manifest).await } else { Err(ApplyError::KindNotServed) };
        };
        self.apply_known(manifest, kind, id).await
    }

    /// Discovery may be older than the kind, or have left out a group whose server was away at that moment. Only if the
    /// API server says that it does not serve the kind, there is nothing to delete.
    async fn delete_of_unknown_kind(&self, manifest: &Arc<Manifest>) -> Result<Applied, ApplyError> {
        let client = self.objects().client();
        let Some(kind) = self.cluster.kinds.look_up(client, &manifest.api_version, &manifest.id.kind).await? else {
            return Ok(Applied::Unchanged);
        };
        let id = kind.identity(manifest);
        self.cluster.index.track([&id]);
        self.apply_known(manifest, kind, id).await
    }

    async fn apply_known(&self, manifest: &Arc<Manifest>, kind: Kind, id: ObjectId) -> Result<Applied, ApplyError> {
        self.wait_until_listed(&kind).await?;
        self.configuration.wait_until_read(manifest).await?;
        let applied = self.cluster.apply(self.objects(), &kind, &id, &self.desired.of(manifest)).await?;
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
    pub(crate) fn is_as_desired(&self, id: &ObjectId, manifest: &Arc<Manifest>) -> bool {
        self.cluster.is_as_desired(id, &self.desired.of(manifest))
    }

    /// What gates read of the object; `None` if it does not exist.
    pub(crate) async fn view(&self, kind: &Kind, id: &ObjectId) -> Result<Option<Arc<Observed>>, ApiError> {
        self.cluster.view(kind, id).await
    }
}

#[cfg(test)]
pub(super) mod tests;
