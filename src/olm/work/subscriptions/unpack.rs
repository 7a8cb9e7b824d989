//! Fetches the content of bundles that are to be installed: from the image of each, or from the catalog itself. What fails is tried
//! again, later and later.

use crate::cluster::{jittered, task};
use crate::error::chain;
use crate::net::registry::source;
use crate::olm::api::keys::annotation::BUNDLE_UNPACK_TIMEOUT;
use crate::olm::bundle::{Bundle, read};
use crate::olm::catalog::objects::manifests;
use crate::olm::catalog::served::Content;
use crate::olm::net::bundle;
use crate::olm::net::pull::open;
use crate::olm::net::store::Store;
use crate::olm::resolve::answer::{Id, New};
use crate::olm::subscription::{Unpacked, Wanted};
use crate::olm::work::catalogs::{Known, Reach, Way};
use jiff::SignedDuration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Images that are fetched at the same time.
const IMAGES: usize = 4;
/// The first and the longest pause before what has failed is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// Longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);

/// A bundle: its catalog, its package, its name and its image.
type Key = (Id, String, String, String);

pub(super) struct Unpacker {
    store: Arc<Store>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    places: Arc<Semaphore>,
    /// How long fetching one may take, unless the group of the namespace says something else; zero for as long as it takes.
    timeout: Duration,
    all: BTreeMap<Key, Entry>,
}

struct Entry {
    state: Arc<Mutex<State>>,
    from: Origin,
    /// How often it has failed.
    count: u32,
    _task: AbortOnDropHandle<()>,
}

/// Where the content comes from. What has failed may succeed where that is something else than before.
#[derive(Clone, Default)]
struct Origin {
    /// For bundles whose manifests are in the catalog.
    content: Option<Arc<Content>>,
    /// For those with an image.
    way: Option<Way>,
}

impl Origin {
    fn of(new: &New, known: &Known) -> Origin {
        if new.image.is_empty() {
            let visible = known.catalogs.as_ref().and_then(|all| all.get(&new.catalog));
            return Origin { content: visible.and_then(|visible| visible.content.clone()), way: None };
        }
        Origin { content: None, way: known.reach.get(&new.catalog).cloned() }
    }

    fn is_same(&self, other: &Origin) -> bool {
        fn same<T>(one: Option<&Arc<T>>, other: Option<&Arc<T>>) -> bool {
            one.map(Arc::as_ptr) == other.map(Arc::as_ptr)
        }
        same(self.content.as_ref(), other.content.as_ref()) && same(self.way.as_ref(), other.way.as_ref())
    }
}

#[derive(Clone)]
enum State {
    Pending,
    Done(Arc<Bundle>),
    Failed { failure: Failure, until: Instant },
}

/// Why the content is not there.
#[derive(Clone)]
struct Failure {
    cause: String,
    of_content: bool,
}

fn key(new: &New) -> Key {
    (new.catalog.clone(), new.package.clone(), new.name.clone(), new.image.clone())
}

fn passing(cause: String) -> Failure {
    Failure { cause, of_content: false }
}

fn of_content(cause: String) -> Failure {
    Failure { cause, of_content: true }
}

impl Unpacker {
    pub(super) fn new(store: Arc<Store>, timeout: Duration, changed: Arc<Notify>, stop: CancellationToken) -> Unpacker {
        let places = Arc::new(Semaphore::new(IMAGES));
        Unpacker { store, changed, stop, places, timeout, all: BTreeMap::new() }
    }

    pub(super) fn look(&self, new: &New) -> Unpacked {
        let state = self.all.get(&key(new)).map(Entry::state);
        let subject = if new.image.is_empty() { &new.name } else { &new.image };
        match state {
            Some(State::Done(bundle)) => Unpacked::Done(bundle),
            Some(State::Failed { failure: Failure { cause, of_content }, .. }) => {
                Unpacked::Failed { cause: format!("bundle {} ({subject}): {cause}", new.name), of_content }
            }
            Some(State::Pending) | None => Unpacked::Pending(format!("bundle {} is fetched from {subject}", new.name)),
        }
    }

    /// From now on these are fetched and kept, and no others. Returns when one that has failed is tried again.
    pub(super) fn want(&mut self, wanted: &[Wanted], known: &Known) -> Option<Instant> {
        let keys: BTreeSet<Key> = wanted.iter().map(|wanted| key(&wanted.new)).collect();
        self.all.retain(|key, _| keys.contains(key));
        let (now, mut next) = (Instant::now(), None);
        for it in wanted {
            let (key, from) = (key(&it.new), Origin::of(&it.new, known));
            let count = match self.all.get(&key).map(|entry| (entry.state(), entry)) {
                Some((State::Failed { .. }, entry)) if !entry.from.is_same(&from) => 0,
                Some((State::Failed { until, .. }, _)) if until > now => {
                    next = Some(next.map_or(until, |next: Instant| next.min(until)));
                    continue;
                }
                Some((State::Failed { .. }, entry)) => entry.count + 1,
                Some(_) => continue,
                None => 0,
            };
            self.begin(key, it, count, from);
        }
        next
    }

    fn begin(&mut self, key: Key, wanted: &Wanted, count: u32, from: Origin) {
        let Wanted { new, timeout, retry } = wanted.clone();
        let timeout = timeout.map_or(self.timeout, duration);
        let timeout = if timeout.is_zero() { FOREVER } else { timeout };
        let pause = retry.map_or_else(|| jittered(PAUSES.0, count, PAUSES.1), duration);
        let source = from.clone();
        let state = Arc::new(Mutex::new(State::Pending));
        let (told, changed, places, store) =
            (state.clone(), self.changed.clone(), self.places.clone(), self.store.clone());
        let fetching = async move {
            let _place = places.acquire().await;
            let fetched = tokio::time::timeout(timeout, fetch(&store, &new, source)).await;
            let late = || {
                format!(
                    "it took longer than {timeout:?}: the annotation {BUNDLE_UNPACK_TIMEOUT} of the OperatorGroup allows more"
                )
            };
            let fetched = fetched.unwrap_or_else(|_| Err(passing(late())));
            let state = match fetched {
                Ok(bundle) => State::Done(Arc::new(bundle)),
                Err(failure) => {
                    tracing::warn!(
                        bundle = new.name,
                        cause = failure.cause,
                        "a bundle cannot be fetched; trying again"
                    );
                    State::Failed { failure, until: Instant::now() + pause }
                }
            };
            *told.lock().unwrap_or_else(PoisonError::into_inner) = state;
            changed.notify_one();
        };
        let task = tokio::spawn(task::guarded("a bundle", &self.stop, fetching));
        self.all.insert(key, Entry { state, from, count, _task: AbortOnDropHandle::new(task) });
    }
}

fn duration(time: SignedDuration) -> Duration {
    Duration::try_from(time).unwrap_or_default()
}

impl Entry {
    fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

async fn fetch(store: &Arc<Store>, new: &New, from: Origin) -> Result<Bundle, Failure> {
    let found = match new.image.is_empty() {
        true => of_catalog(new, from.content).await?,
        false => of_image(store, new, from.way.as_deref()).await?,
    };
    found.expect_name(&new.name).map_err(|error| of_content(error.to_string()))?;
    Ok(found)
}

/// The bundle whose manifests are in the catalog.
async fn of_catalog(new: &New, content: Option<Arc<Content>>) -> Result<Bundle, Failure> {
    let missing = || passing("the catalog does not have it any more".to_owned());
    let content = content.ok_or_else(missing)?;
    let (package, name) = (new.package.clone(), new.name.clone());
    let read = tokio::task::spawn_blocking(move || {
        let bundle = content.index.package(&package).and_then(|package| package.bundle(&name)).ok_or_else(missing)?;
        let manifests = manifests(&content, bundle).map_err(|error| passing(chain(&error)))?;
        read::manifests(&name, &manifests).map_err(|error| of_content(error.to_string()))
    });
    read.await.unwrap_or_else(|error| Err(passing(error.to_string())))
}

async fn of_image(store: &Arc<Store>, new: &New, way: Option<&Result<Reach, String>>) -> Result<Bundle, Failure> {
    let way = way.ok_or_else(|| passing("it is not known yet how images are reached".to_owned()))?;
    let reach = way.as_ref().map_err(|cause| passing(cause.clone()))?;
    let failed = |error: &crate::net::registry::RegistryError| passing(reach.explained(error));
    let image = source::parse(&new.image).map_err(|error| of_content(error.to_string()))?;
    let opened = open(&reach.sources, &image, None).await.map_err(|error| failed(&error))?;
    let aside = store.aside().map_err(|error| passing(error.to_string()))?;
    let contents = match bundle::image(&opened, &aside.files()).await {
        Ok(contents) => contents,
        Err(bundle::BundleFilesError::Registry(error)) => return Err(failed(&error)),
        Err(error) => return Err(of_content(chain(&error))),
    };
    contents.bundle().map_err(|error| of_content(error.to_string()))
}

#[cfg(test)]
mod tests;
