//! The controller of catalogs: looks at CatalogSources and what they name, decides by [`crate::olm::source`] what is read, served and
//! written, and does that. Each replica runs it: all of them serve what the holder of the lease says is served, and that one alone
//! writes.

mod access;
mod catalog;
mod cluster_images;
mod defaults;
mod figures;
mod live;
mod nodes;
mod perform;
mod pods;
mod reading;
mod reports;
mod servers;
mod services;
mod settings;
mod shared;
mod views;
mod watched;

use crate::cluster::writer::Writer;
use crate::cluster::{Clients, Objects};
use crate::net::registry::Access;
use crate::net::registry::source::parse;
use crate::object::read::Read;
use crate::olm::catalog::served;
use crate::olm::endpoints::Id;
use crate::olm::net::store::Store;
use crate::olm::source::operators::{Lifecycle, Progress};
use crate::olm::source::spec::{Sibling, service_name};
use crate::olm::source::{ConfigMapSeen, ConfigMapState, Decision, Facts, decide};
use crate::olm::subscription::Visible;
use crate::olm::work::version::ServerVersion;
use crate::process::turns::{until, wait};
use crate::serve::health::Heartbeat;
use access::Inputs;
#[cfg(test)]
pub(crate) use access::Reach;
pub(crate) use access::Way;
use catalog::{Catalog, Ends, Workshop};
pub(crate) use figures::Figures;
use jiff::Timestamp;
use live::{Live, known};
pub(crate) use nodes::{Nodes, ToTry};
use perform::{Key, adopt, write_source};
use reading::Reader;
use reports::Outlook;
use serde_json::Value;
use servers::Server;
use services::Services;
pub(crate) use settings::{Operators, PodSettings, Settings};
use shared::FollowedShared;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Notify, watch};
use tokio_util::sync::CancellationToken;
use views::SourceView;
pub(crate) use views::{container_waits, not_scheduled};
use watched::{Name, Seen, Watched, What};

type Sources = BTreeMap<Id, Arc<SourceView>>;

/// What the process serves, kept current by the controller.
#[derive(Clone, Debug)]
pub(crate) struct Outputs {
    pub catalogs: watch::Receiver<Arc<served::Catalogs>>,
    /// Since when something is not served yet of which the holder of the lease says that it is.
    pub behind: watch::Receiver<Option<Instant>>,
    pub ports: watch::Receiver<Arc<served::Ports>>,
    /// What Subscriptions choose from.
    pub known: watch::Receiver<Arc<Known>>,
}

/// The catalogs of the cluster and its version.
#[derive(Debug, Default)]
pub(crate) struct Known {
    /// `None` before all CatalogSources are known.
    pub catalogs: Option<BTreeMap<Id, Visible>>,
    /// How images are reached for each.
    pub reach: BTreeMap<Id, Way>,
    /// How the images of bundles of each are read through nodes, where they may be.
    pub nodes: BTreeMap<Id, Nodes>,
    /// Of the API server; empty as long as it is not known.
    pub kubernetes: String,
}

pub(crate) struct CatalogController {
    settings: Settings,
    objects: Objects,
    clients: Arc<Clients>,
    /// What is known of registries, and connections to them.
    registries: Access,
    changed: Arc<Notify>,
    leading: watch::Receiver<bool>,
    lifecycle: watch::Receiver<Lifecycle>,
    live: Live,
    watched: Watched,
    shared: FollowedShared,
    version: ServerVersion,
    writer: Arc<Writer<Key>>,
    workshop: Workshop,
    catalogs: BTreeMap<Id, Catalog>,
    services: Services,
    served: watch::Sender<Arc<served::Catalogs>>,
    behind: watch::Sender<Option<Instant>>,
    known: watch::Sender<Arc<Known>>,
    figures: Arc<Figures>,
    /// It has been said which kinds are not there.
    missing_said: bool,
}

impl CatalogController {
    /// `objects` writes while the lease is held. `leading` says whether it is.
    pub(crate) fn new(
        settings: Settings,
        clients: &Arc<Clients>,
        objects: Objects,
        leading: watch::Receiver<bool>,
        store: Arc<Store>,
        figures: Arc<Figures>,
        stop: &CancellationToken,
    ) -> (CatalogController, Outputs) {
        let changed = Arc::new(Notify::new());
        let live = Live::start(&settings, clients, &changed, stop);
        figures.show(live.clone());
        let (served, catalogs) = watch::channel(Arc::default());
        let (late, behind) = watch::channel(None);
        let (told, ports) = watch::channel(Arc::default());
        let (choice, known) = watch::channel(Arc::default());
        let objects_to_read = Objects::reader(clients.call.clone());
        let reader = Arc::new(Reader::new(store, objects_to_read, &settings.global_namespace));
        let controller = CatalogController {
            lifecycle: figures.lifecycle(),
            watched: Watched::new(clients.clone(), changed.clone(), stop.clone()),
            shared: FollowedShared::start(clients, &changed, stop),
            version: ServerVersion::new(clients, changed.clone(), stop.clone()),
            writer: Writer::new(changed.clone()),
            workshop: Workshop { reader, ends: Ends::new(changed.clone()), stop: stop.clone() },
            catalogs: BTreeMap::new(),
            services: Services::new(told),
            settings,
            objects,
            clients: clients.clone(),
            registries: Access::default(),
            changed,
            leading,
            live,
            served,
            behind: late,
            known: choice,
            figures,
            missing_said: false,
        };
        (controller, Outputs { catalogs, behind, ports, known })
    }

    /// Runs until `stop`, and answers whoever asks whether it does.
    pub(crate) async fn run(mut self, heartbeat: Arc<Heartbeat>, stop: CancellationToken) {
        while !stop.is_cancelled() {
            let leading = *self.leading.borrow_and_update();
            let deadline = self.turn(leading, Timestamp::now());
            tokio::select! {
                () = wait(&self.changed, deadline, &heartbeat, &stop) => {}
                Ok(()) = self.leading.changed() => {}
                Ok(()) = self.lifecycle.changed() => {}
            }
        }
        self.writer.end().await;
    }

    /// Does what is due, and returns when something is although nothing has changed.
    fn turn(&mut self, leading: bool, now: Timestamp) -> Option<Instant> {
        let at = Instant::now();
        for ended in self.workshop.ends.take() {
            if let Some(catalog) = self.catalogs.get_mut(&ended.id) {
                let (namespace, name) = &ended.id;
                let place = tracing::info_span!("catalog", namespace, name);
                place.in_scope(|| catalog.on_end(ended.number, ended.done, now));
            }
        }
        self.version.on_round(self.live.sources.rounds());
        self.say_what_is_missing();
        // A server that does not know the kind has not loaded its definitions yet. To act as if there were no CatalogSources would make
        // the process ready without catalogs.
        let sources = known(&self.live.sources)?;
        let next = self.look_after(&sources, leading, (now, at));
        self.publish(&sources, at);
        self.tell(&sources);
        self.services.tell(&sources, &self.settings, &self.live);
        let judged = if leading { self.bring(&sources, (now, at)) } else { None };
        let next = next.into_iter().chain(judged).min().map(|next| until(next, now));
        next.into_iter().chain(self.writer.next()).min()
    }

    /// Once: a cluster need not be one of the platform.
    fn say_what_is_missing(&mut self) {
        let Some(missing) = self.live.missing().filter(|_| !self.missing_said) else { return };
        self.missing_said = true;
        if !missing.is_empty() {
            let kinds = missing.into_iter().collect::<Vec<_>>().join(", ");
            tracing::info!(
                kinds,
                "the cluster does not have these kinds, and does without: without OperatorHub all default catalogs of a release are \
                 wanted, and without ClusterOperator nothing is reported"
            );
        }
    }

    /// Decides for each CatalogSource, and begins what was decided. Returns when one is to be looked at again.
    fn look_after(&mut self, sources: &Sources, leading: bool, (now, at): (Timestamp, Instant)) -> Option<Timestamp> {
        self.catalogs.retain(|id, catalog| sources.get(id).is_some_and(|source| catalog.is_of(&source.0)));
        let names: BTreeSet<Name> = {
            let look = |name: &Name| self.watched.get(name);
            let names = sources.values().flat_map(|source| access::names(&source.0, &look));
            names.chain(self.shared.names()).collect()
        };
        self.watched.want(names);
        let (shared, version) = (self.shared.known(&self.watched), self.version.known());
        let failing = self.writer.failures();
        let pods = pods::Known::of(&self.live, failing.clone());
        let (mut next, sharing): (Option<Timestamp>, _) = (None, sharing(sources));
        for (id, source) in sources {
            let inputs = Inputs::of(&source.0, &|name| self.watched.get(name), shared.clone());
            let catalog = self.catalogs.entry(id.clone()).or_insert_with(|| Catalog::of(&source.0));
            catalog.on_inputs(inputs, &self.registries);
            let siblings = sharing.get(&service(id)).map(Vec::as_slice).unwrap_or_default();
            let (config_map, channel) = (config_map(source, &self.watched), catalog.channel());
            let pods = pods.as_ref().map(|pods| pods.pods(&source.0, &self.settings.pods));
            let facts = Facts {
                object: &source.0,
                siblings,
                version: version.as_ref(),
                leading,
                held: &catalog.held,
                config_map: config_map.as_ref(),
                channel: channel.as_ref(),
                pods: pods.as_ref(),
                service: failing.get(&Key::Service(service(id)).to_string()).map(String::as_str),
            };
            let check = |image: &str| parse(image).map(drop).map_err(|error| error.to_string());
            let decision = decide(&facts, &check, now);
            next = next.into_iter().chain(decision.next).min();
            self.perform(id, source, decision, leading, at);
        }
        next
    }

    fn perform(&mut self, id: &Id, source: &Arc<SourceView>, decision: Decision, leading: bool, at: Instant) {
        let Decision { image, status, adopt: adopts, work, pod, pod_writes, serve, dial, next: _ } = decision;
        if let Some(catalog) = self.catalogs.get_mut(id) {
            catalog.serve = serve;
            let proxies = &self.settings.proxies;
            let start =
                |address: &str| Server::start(address, proxies, &self.clients, &self.changed, &self.workshop.stop);
            catalog.dial(dial.as_deref(), start);
            if leading {
                pods::begin(id, pod.as_ref(), pod_writes, (&self.objects, &self.live), &self.writer, at);
            }
            catalog.pod = pod;
            catalog.begin(&source.0, id, work, leading, &self.workshop);
        }
        if !leading {
            return;
        }
        if image.is_some() || status.is_some() {
            let write = write_source(self.objects.clone(), self.live.clone(), source.0.clone(), image, status);
            self.writer.begin(Key::Source(id.clone()), at, Duration::ZERO, write);
        }
        if adopts {
            let key = Key::ConfigMap((id.0.clone(), source.0.spec.config_map.clone()));
            self.writer.begin(key, at, Duration::ZERO, adopt(self.objects.clone(), source.0.clone()));
        }
    }

    /// What is served from now on.
    fn publish(&self, sources: &Sources, at: Instant) {
        let mut missing = Vec::new();
        let (mut served, mut snapshots) = (served::Catalogs::new(), BTreeMap::new());
        for (id, source) in sources {
            let Some(catalog) = self.catalogs.get(id) else { continue };
            served.extend(catalog.served(&source.0).map(|it| (id.clone(), it)));
            snapshots.insert(id.clone(), catalog.snapshots);
            if !catalog.has_tried(&source.0) {
                missing.push(id.clone());
            }
        }
        self.figures.count(snapshots);
        self.served.send_if_modified(|known| {
            let differs = !is_same(known, &served);
            if differs {
                *known = Arc::new(served);
            }
            differs
        });
        self.behind.send_if_modified(|since| {
            let differs = since.is_some() == missing.is_empty();
            if differs {
                *since = (!missing.is_empty()).then_some(at);
            }
            differs
        });
        self.figures.wait_for(missing, at);
    }

    /// What Subscriptions choose from, from now on.
    fn tell(&self, sources: &Sources) {
        let catalogs = sources.iter().map(|(id, source)| {
            let visible = self.catalogs.get(id).map(|catalog| catalog.visible(&source.0));
            (id.clone(), visible.unwrap_or_default())
        });
        let reach = self.catalogs.iter().filter_map(|(id, catalog)| Some((id.clone(), catalog.reach.clone()?)));
        let kubernetes = self.version.known().and_then(Result::ok).map(|version| version.to_string());
        let known = Known {
            catalogs: Some(catalogs.collect()),
            reach: reach.collect(),
            nodes: self.nodes(sources),
            kubernetes: kubernetes.unwrap_or_default(),
        };
        self.known.send_if_modified(|before| {
            let differs = !before.is_same(&known);
            if differs {
                *before = Arc::new(known);
            }
            differs
        });
    }

    fn nodes(&self, sources: &Sources) -> BTreeMap<Id, Nodes> {
        let settings = &self.settings.pods;
        let Some(namespaces) = live::all(&self.live.namespaces) else { return BTreeMap::new() };
        let nodes = sources.iter().filter_map(|(id, source)| {
            let namespace = namespaces.get(&(String::new(), id.0.clone()))?;
            Some((id.clone(), Nodes::of(&source.0, namespace, settings)?))
        });
        nodes.collect()
    }

    /// What the holder of the lease writes besides what is said at CatalogSources.
    fn bring(&mut self, sources: &Sources, (now, at): (Timestamp, Instant)) -> Option<Timestamp> {
        let (parts, settings) = ((&self.objects, &self.live), &self.settings);
        // Whether a pod serves a catalog is told by pods.
        let known = pods::Known::of(&self.live, BTreeMap::new()).is_some();
        let made = self.catalogs.iter().filter_map(|(id, catalog)| Some((id, catalog.pod.as_ref()?)));
        let of_pods: BTreeMap<Id, Value> = made.clone().map(|(id, made)| (id.clone(), made.service.clone())).collect();
        if known {
            let absent = |id: &Id| {
                let account = self.watched.get(&Name::new(What::Account, &id.0, &id.1));
                account.is_some_and(|(state, _)| matches!(*state, Read::Absent))
            };
            pods::bring(made.map(|(_, made)| made), absent, parts, &self.writer, at);
            self.services.bring((sources, &of_pods), settings, parts, &self.writer, at);
        }
        let defaults = defaults::bring(sources, settings, parts, &self.writer, at);
        let failing = self.writer.failures();
        let catalogs = Progress { done: is_done(&self.writer.busy().1, &failing), errors: failures(&failing) };
        let defaults = defaults.map(|(errors, done)| Progress { done, errors });
        let outlook = Outlook { catalogs, defaults, lifecycle: self.lifecycle.borrow_and_update().clone() };
        reports::bring(&outlook, settings, parts, &self.writer, (at, now))
    }
}

impl Known {
    /// Whether whoever knows the other one learns nothing.
    fn is_same(&self, other: &Known) -> bool {
        let (Some(one), Some(another)) = (&self.catalogs, &other.catalogs) else { return false };
        self.kubernetes == other.kubernetes
            && self.reach.len() == other.reach.len()
            && self.reach.iter().zip(&other.reach).all(|((id, a), (other, b))| id == other && Arc::ptr_eq(a, b))
            && self.nodes == other.nodes
            && one.len() == another.len()
            && one.iter().zip(another).all(|((one, a), (other, b))| one == other && a.is_same(b))
    }
}

/// What keeps failing of what is written of CatalogSources.
fn failures(failing: &BTreeMap<String, String>) -> Vec<String> {
    let of = failing.iter().filter(|(key, _)| key.starts_with("CatalogSource "));
    of.map(|(key, error)| format!("{key}: {error}")).collect()
}

/// Whether everything is written of CatalogSources that can be. What keeps failing is told, and waiting for it would let one object
/// hold up a whole update.
fn is_done(busy: &BTreeSet<Key>, failing: &BTreeMap<String, String>) -> bool {
    !busy.iter().any(|key| matches!(key, Key::Source(_)) && !failing.contains_key(&key.to_string()))
}

/// Namespace and name of the Service of a CatalogSource.
fn service((namespace, name): &Id) -> Id {
    (namespace.clone(), service_name(name))
}

/// The CatalogSources that would have the same Service, by that.
fn sharing(sources: &Sources) -> BTreeMap<Id, Vec<Sibling>> {
    let mut sharing: BTreeMap<Id, Vec<Sibling>> = BTreeMap::new();
    for (id, source) in sources {
        let created = source.0.metadata.creation_timestamp.as_ref().map(|time| time.0);
        sharing.entry(service(id)).or_default().push(Sibling { name: id.1.clone(), created });
    }
    sharing
}

/// The ConfigMap that a CatalogSource names, as far as it is known.
fn config_map(source: &SourceView, watched: &Watched) -> Option<ConfigMapState> {
    let metadata = &source.0.metadata;
    let (namespace, uid) = (metadata.namespace.as_deref()?, metadata.uid.as_deref().unwrap_or_default());
    let (state, since) = watched.get(&Name::new(What::ConfigMap, namespace, &source.0.spec.config_map))?;
    let read = match &*state {
        Read::Value(Seen::ConfigMap(view)) => Read::Value(ConfigMapSeen {
            uid: view.uid.clone(),
            resource_version: view.resource_version.clone(),
            digest: view.digest.clone(),
            adopted: view.labelled && view.owners.contains(uid),
        }),
        Read::Value(_) | Read::Absent => Read::Absent,
        Read::Failed(cause) => Read::Failed(cause.clone()),
    };
    Some(ConfigMapState { read, since })
}

fn is_same(known: &served::Catalogs, served: &served::Catalogs) -> bool {
    let same = |(one, other): (&served::Served, &served::Served)| {
        Arc::ptr_eq(&one.content, &other.content) && one.about == other.about
    };
    known.keys().eq(served.keys()) && known.values().zip(served.values()).all(same)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::olm::api::catalog_source::{CatalogSource, CatalogSourceSpec};

    #[test]
    fn catalogs_share_a_service_in_their_namespace_only() {
        let ids = [("one", "a.b"), ("one", "a-b"), ("one", "c"), ("two", "a-b")];
        let view = |name: &str| Arc::new(SourceView(Arc::new(CatalogSource::new(name, CatalogSourceSpec::default()))));
        let sources = ids.map(|(namespace, name)| ((namespace.to_owned(), name.to_owned()), view(name)));
        let sharing = sharing(&sources.into());
        let names = |namespace: &str, name: &str| {
            let same = &sharing[&service(&(namespace.to_owned(), name.to_owned()))];
            same.iter().map(|sibling| sibling.name.clone()).collect::<Vec<_>>().join(" ")
        };
        let found = ids.map(|(namespace, name)| names(namespace, name));
        assert_eq!(found, ["a-b a.b", "a-b a.b", "c", "a-b"]);
    }

    #[test]
    fn one_object_that_cannot_be_written_does_not_hold_up_an_update() {
        let key = |name: &str| Key::Source(("shop".to_owned(), name.to_owned()));
        let failing = BTreeMap::from([("CatalogSource shop/a".to_owned(), "it is invalid".to_owned())]);
        assert!(!is_done(&[key("a")].into(), &BTreeMap::new()));
        assert!(is_done(&[key("a"), Key::Hub].into(), &failing));
        assert!(!is_done(&[key("a"), key("b")].into(), &failing));
        assert_eq!(failures(&failing), ["CatalogSource shop/a: it is invalid"]);
    }

    #[test]
    fn another_way_to_registries_is_news_for_those_who_fetch_bundles() {
        let id = || ("shop".to_owned(), "main".to_owned());
        let known = |ways: &[&Way]| Known {
            catalogs: Some(BTreeMap::from([(id(), Visible::default())])),
            reach: ways.iter().map(|way| (id(), (*way).clone())).collect(),
            nodes: BTreeMap::new(),
            kubernetes: "1.34.0".to_owned(),
        };
        let way = || -> Way { Arc::new(Err("no proxy is known".to_owned())) };
        let (one, another) = (way(), way());
        assert!(known(&[&one]).is_same(&known(&[&one])));
        assert!(!known(&[&one]).is_same(&known(&[&another])));
        assert!(!known(&[]).is_same(&known(&[&one])));
    }
}
