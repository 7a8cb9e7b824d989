//! Follows the objects of the cluster configuration whose content goes into manifests: one feed each, started only when a
//! release needs the object and the server serves its kind. A change is told at once, so that the manifests that depend
//! on it can be applied again.

use crate::cluster::apply::Cluster;
use crate::cluster::task;
use crate::cluster::{ApiError, CachedState, Cause, Kind, jittered};
use crate::merge::inject::{ClusterConfiguration, Source};
use crate::object::manifest::{Manifest, ObjectId};
use crate::object::read::Read;
pub(super) use crate::process::egress::ProxyState;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long an apply waits for the first read before it reports that.
const FIRST_READ: Duration = Duration::from_secs(10);

#[derive(Clone, Debug, Default)]
struct Known {
    configuration: ClusterConfiguration,
    /// Served and not read yet: manifests that depend on these cannot be compared or applied. An object whose kind was not
    /// served when it was first needed counts as absent until it is read.
    unread: BTreeSet<Source>,
    /// Why the last attempt to read one of these failed.
    failed: BTreeMap<Source, ApiError>,
    /// Existed when the feed or we read it last.
    existing: BTreeSet<Source>,
}

/// Where everything is told.
#[derive(Clone, Debug)]
struct Told {
    known: watch::Sender<Known>,
    /// The whole object, for requests that leave the cluster.
    proxy: watch::Sender<ProxyState>,
}

/// One for a process.
#[derive(Debug)]
pub(super) struct ConfigurationWatcher {
    told: Told,
    followed: Mutex<BTreeSet<Source>>,
    stop: CancellationToken,
}

impl ConfigurationWatcher {
    pub(crate) fn new(stop: CancellationToken) -> Self {
        let told = Told { known: watch::channel(Known::default()).0, proxy: watch::channel(None).0 };
        ConfigurationWatcher { told, followed: Mutex::default(), stop }
    }

    pub(crate) fn current(&self) -> ClusterConfiguration {
        self.told.known.borrow().configuration.clone()
    }

    /// Changes from now on.
    pub(crate) fn changes(&self) -> ConfigurationChanges {
        ConfigurationChanges { known: self.told.known.subscribe(), last: self.current() }
    }

    /// Whether everything that the manifest depends on has been read.
    pub(crate) fn is_read(&self, manifest: &Manifest) -> bool {
        let sources = Source::of(manifest);
        sources.is_empty() || self.told.known.borrow().has_read(&sources)
    }

    /// Waits until it has; not forever, so that the caller can report what it waits for.
    pub(crate) async fn wait_until_read(&self, manifest: &Manifest) -> Result<(), ApiError> {
        let sources = Source::of(manifest);
        if sources.is_empty() {
            return Ok(());
        }
        let mut known = self.told.known.subscribe();
        let read = known.wait_for(|known| known.has_read(&sources));
        if tokio::time::timeout(FIRST_READ, read).await.is_ok() {
            return Ok(());
        }
        let silent = || {
            let kinds: Vec<&str> = sources.iter().map(|source| source.kind()).collect();
            let attempt = format!("read {} {:?} for the first time", kinds.join(" and "), Source::NAME);
            ApiError { attempt, cause: Cause::Timeout }
        };
        let failed = sources.iter().find_map(|source| self.told.known.borrow().failed.get(source).cloned());
        Err(failed.unwrap_or_else(silent))
    }

    /// A feed has read an object, possibly one of the configuration.
    pub(crate) fn on_read(&self, id: &ObjectId, object: &Value) {
        if let Some(source) = Source::ALL.into_iter().find(|source| identity(*source) == *id) {
            self.told.update(source, Some(object));
        }
    }

    /// Starts to follow what these manifests depend on, unless that has been done. To be called before any of their kinds
    /// is read, so that nothing is compared without the configuration.
    pub(crate) fn follow(&self, cluster: &Cluster, manifests: &[Arc<Manifest>]) {
        self.follow_each(cluster, manifests.iter().flat_map(|manifest| Source::of(manifest)).collect());
    }

    /// Follows the Proxy, whatever depends on it.
    pub(crate) fn follow_proxy(&self, cluster: &Cluster) -> watch::Receiver<ProxyState> {
        self.follow_each(cluster, BTreeSet::from([Source::Proxy]));
        self.told.proxy.subscribe()
    }

    fn follow_each(&self, cluster: &Cluster, needed: BTreeSet<Source>) {
        let mut followed = self.followed.lock().unwrap_or_else(PoisonError::into_inner);
        for source in needed.into_iter().filter(|source| followed.insert(*source)) {
            if cluster.kinds.get(Source::API_VERSION, source.kind()).is_some() {
                self.told.known.send_if_modified(|known| known.unread.insert(source));
            }
            let (cluster, told) = (cluster.clone(), self.told.clone());
            task::spawn("cluster configuration", &self.stop, async move { follow_one(&cluster, &told, source).await });
        }
    }
}

impl Known {
    fn has_read(&self, sources: &[Source]) -> bool {
        !sources.iter().any(|source| self.unread.contains(source))
    }
}

impl Told {
    /// One object has been read; `None` if it does not exist.
    fn update(&self, source: Source, object: Option<&Value>) {
        if source == Source::Proxy {
            let state = Some(object.map_or(Read::Absent, |object| Read::Value(object.clone())));
            self.proxy.send_if_modified(|last| {
                let changed = *last != state;
                *last = state;
                changed
            });
        }
        self.known.send_if_modified(|known| {
            if object.is_some() {
                known.existing.insert(source);
            } else {
                known.existing.remove(&source);
            }
            known.failed.remove(&source);
            let first = known.unread.remove(&source);
            let changed = known.configuration.update(source, object);
            if changed {
                tracing::info!(kind = source.kind(), exists = object.is_some(), "cluster configuration changed");
            }
            first || changed
        });
    }

    /// An attempt to read one object has failed. What was read before stays.
    fn on_failure(&self, source: Source, error: ApiError) {
        if source == Source::Proxy {
            let state = Some(Read::Failed(error.to_string()));
            self.proxy.send_if_modified(|last| {
                let changed = !matches!(last, Some(Read::Value(_) | Read::Absent)) && *last != state;
                if changed {
                    *last = state;
                }
                changed
            });
        }
        self.known.send_if_modified(|known| {
            known.failed.insert(source, error);
            false
        });
    }
}

/// The changes since they were last asked for.
#[derive(Debug)]
pub(crate) struct ConfigurationChanges {
    known: watch::Receiver<Known>,
    last: ClusterConfiguration,
}

impl ConfigurationChanges {
    /// The objects whose part of the configuration has changed. Cancel safe.
    pub(crate) async fn next(&mut self) -> Vec<Source> {
        loop {
            if self.known.changed().await.is_err() {
                // The watcher has ended, so nothing can change any more.
                std::future::pending::<()>().await;
            }
            let now = self.known.borrow_and_update().configuration.clone();
            let differences = now.differences(&self.last);
            if !differences.is_empty() {
                self.last = now;
                return differences;
            }
        }
    }
}

fn identity(source: Source) -> ObjectId {
    let group = Source::API_VERSION.split_once('/').map_or("", |(group, _)| group);
    ObjectId::new(group, source.kind(), "", Source::NAME)
}

/// Keeps what is known of one object current.
async fn follow_one(cluster: &Cluster, told: &Told, source: Source) {
    let id = identity(source);
    if cluster.kinds.lacks(Source::API_VERSION, source.kind()) {
        told.update(source, None);
    }
    let kind = cluster.kinds.served(Source::API_VERSION, source.kind()).await;
    cluster.index.track([&id]);
    let mut changed = cluster.index.subscribe(&id);
    let before = *changed.borrow_and_update();
    while let Err(error) = cluster.feeds.wait_until_listed(&kind).await {
        tracing::warn!(kind = source.kind(), %error, "cluster configuration not read yet");
        told.on_failure(source, error);
    }
    let mut failures = 0;
    // If nothing has happened since, the list of the feed has passed the object to `on_read` already.
    let mut read = *changed.borrow_and_update() == before + 1 && told.known.borrow().existing.contains(&source);
    loop {
        if !std::mem::take(&mut read)
            && let Err(error) = read_one(cluster, told, source, &id, &kind).await
        {
            failures += 1;
            tracing::warn!(kind = source.kind(), %error, "cluster configuration not read; trying again");
            told.on_failure(source, error);
            tokio::time::sleep(jittered(Duration::from_millis(200), failures, Duration::from_secs(30))).await;
            continue;
        }
        failures = 0;
        if changed.changed().await.is_err() {
            return;
        }
    }
}

async fn read_one(cluster: &Cluster, told: &Told, source: Source, id: &ObjectId, kind: &Kind) -> Result<(), ApiError> {
    let object = match cluster.index.lookup(id, 0) {
        CachedState::Absent => None,
        _ => cluster.objects.get(kind, "", Source::NAME).await?,
    };
    told.update(source, object.as_ref());
    Ok(())
}
