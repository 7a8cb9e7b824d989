//! The cluster's own settings that go into manifests (payload-and-apply §5.10), kept current by the feeds of their kinds:
//! one watch each, begun only when a release needs the object and the server serves its kind. An object that changes
//! or appears is told of at once, so that what takes it in can follow.

use super::apply::{Applier, Obstacle};
use crate::cluster::objects::Cause;
use crate::cluster::{ApiError, CachedState};
use crate::merge::inject::{Source, Surroundings};
use crate::payload::{Manifest, ObjectId};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How long an apply waits for the first reading before it says so.
const FIRST_READING: Duration = Duration::from_secs(10);

/// What is known of the three objects.
#[derive(Clone, Debug, Default)]
struct Known {
    surroundings: Surroundings,
    /// Served and not read yet: nothing may be said of what takes these in. An object whose kind is not served, or came
    /// into being only now, counts as absent.
    unread: BTreeSet<Source>,
    /// Read whole, and there, the last time.
    delivered: BTreeSet<Source>,
}

/// The three objects. Cheap to share; one for a process.
#[derive(Debug)]
pub struct Settings {
    known: watch::Sender<Known>,
    followed: Mutex<BTreeSet<Source>>,
    stop: CancellationToken,
}

impl Settings {
    pub fn new(stop: CancellationToken) -> Self {
        Settings { known: watch::channel(Known::default()).0, followed: Mutex::default(), stop }
    }

    /// What is known now.
    pub fn current(&self) -> Surroundings {
        self.known.borrow().surroundings.clone()
    }

    /// Wakes when something that goes into manifests changed.
    pub fn changed(&self) -> Changed {
        Changed { known: self.known.subscribe(), last: self.current() }
    }

    /// Everything that the manifest takes in is known.
    pub fn settled(&self, manifest: &Manifest) -> bool {
        let sources = Source::of(manifest);
        sources.is_empty() || is_settled(&self.known.borrow(), &sources)
    }

    /// Waits until it is; not for ever, so that who waits can say what for.
    pub async fn settle(&self, manifest: &Manifest) -> Result<(), Obstacle> {
        let sources = Source::of(manifest);
        if sources.is_empty() {
            return Ok(());
        }
        let mut known = self.known.subscribe();
        let settled = known.wait_for(|known| is_settled(known, &sources));
        match tokio::time::timeout(FIRST_READING, settled).await {
            Ok(_) => Ok(()),
            Err(_) => {
                let kinds: Vec<&str> = sources.iter().map(|source| source.kind()).collect();
                let attempt = format!("read {} {:?} for the first time", kinds.join(" and "), Source::NAME);
                Err(Obstacle::Api(ApiError { attempt, cause: Cause::Timeout }))
            }
        }
    }

    /// A feed has read an object whole.
    pub fn deliver(&self, id: &ObjectId, object: &Value) {
        if let Some(source) = Source::ALL.into_iter().find(|source| identity(*source) == *id) {
            self.take(source, Some(object));
        }
    }

    fn take(&self, source: Source, object: Option<&Value>) {
        self.known.send_if_modified(|known| {
            if object.is_some() {
                known.delivered.insert(source);
            } else {
                known.delivered.remove(&source);
            }
            let first = known.unread.remove(&source);
            let changed = known.surroundings.take(source, object);
            if changed {
                tracing::info!(kind = source.kind(), there = object.is_some(), "settings of the cluster taken in");
            }
            first || changed
        });
    }

    fn delivered(&self, source: Source) -> bool {
        self.known.borrow().delivered.contains(&source)
    }
}

fn is_settled(known: &Known, sources: &[Source]) -> bool {
    !sources.iter().any(|source| known.unread.contains(source))
}

/// Tells what changed since it was asked the last time.
#[derive(Debug)]
pub struct Changed {
    known: watch::Receiver<Known>,
    last: Surroundings,
}

impl Changed {
    /// The objects in whose part something changed. Cancel safe.
    pub async fn next(&mut self) -> Vec<Source> {
        loop {
            if self.known.changed().await.is_err() {
                // Nobody is left who could change anything.
                std::future::pending::<()>().await;
            }
            let now = self.known.borrow_and_update().surroundings.clone();
            let differences = now.differences(&self.last);
            if !differences.is_empty() {
                self.last = now;
                return differences;
            }
        }
    }
}

/// Begins to follow what these manifests need, unless it is followed already. To be called before any of their kinds
/// is read, so that nothing is compared with settings that are not known yet.
pub fn follow(applier: &Arc<Applier>, manifests: &[Arc<Manifest>]) {
    let needed: BTreeSet<Source> = manifests.iter().flat_map(|manifest| Source::of(manifest)).collect();
    let settings = &applier.settings;
    let mut followed = settings.followed.lock().unwrap_or_else(PoisonError::into_inner);
    for source in needed.into_iter().filter(|source| followed.insert(*source)) {
        if applier.kinds.get(Source::API_VERSION, source.kind()).is_some() {
            settings.known.send_if_modified(|known| known.unread.insert(source));
        }
        let (applier, stop) = (applier.clone(), settings.stop.clone());
        tokio::spawn(async move { stop.run_until_cancelled(keep(&applier, source)).await });
    }
}

fn identity(source: Source) -> ObjectId {
    let group = Source::API_VERSION.split_once('/').map_or("", |(group, _)| group);
    ObjectId::new(group, source.kind(), "", Source::NAME)
}

/// Keeps one object current.
async fn keep(applier: &Applier, source: Source) {
    let (id, settings) = (identity(source), &applier.settings);
    let kind = applier.kinds.served(Source::API_VERSION, source.kind()).await;
    applier.index.track([&id]);
    let mut changed = applier.index.subscribe(&id);
    let before = *changed.borrow_and_update();
    while let Err(error) = applier.feeds.ensure(&kind).await {
        tracing::warn!(kind = source.kind(), %error, "settings of the cluster not read yet");
    }
    let mut failures = 0;
    // The feed's first reading has told everything, if nothing has happened since.
    let mut told = *changed.borrow_and_update() == before + 1 && settings.delivered(source);
    loop {
        if !std::mem::take(&mut told) {
            let read = match applier.index.lookup(&id, 0) {
                CachedState::Absent => Ok(None),
                _ => applier.objects.get(&kind, "", Source::NAME).await,
            };
            match read {
                Ok(object) => settings.take(source, object.as_ref()),
                Err(error) => {
                    failures += 1;
                    tracing::warn!(kind = source.kind(), %error, "settings of the cluster not read; trying again");
                    let pause = crate::cluster::jittered(Duration::from_millis(200), failures, Duration::from_secs(30));
                    tokio::time::sleep(pause).await;
                    continue;
                }
            }
        }
        failures = 0;
        if changed.changed().await.is_err() {
            return;
        }
    }
}
