//! Fetches the content of bundles that are to be installed: from the image of each, or from the catalog itself. What fails is tried
//! again, later and later.

use crate::cluster::{jittered, task};
use crate::olm::api::keys::annotation::BUNDLE_UNPACK_TIMEOUT;
use crate::olm::bundle::Bundle;
use crate::olm::resolve::answer::New;
use crate::olm::subscription::{Unpacked, Wanted};
use crate::olm::work::bundles::{Bundles, Failure, Origin, Source};
use crate::olm::work::catalogs::Known;
use jiff::SignedDuration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::AbortOnDropHandle;

/// Images that are fetched at the same time: of the catalogs of one namespace, and of all. A registry that does not answer keeps its
/// places for long, and who names it keeps only those of its own namespace.
const IMAGES: (usize, usize) = (4, 16);
/// Bundles that are read from their catalogs at the same time.
const INLINE: usize = 4;
/// The first and the longest pause before what has failed is tried again.
const PAUSES: (Duration, Duration) = (Duration::from_secs(10), Duration::from_secs(300));
/// Longer than anybody waits.
const FOREVER: Duration = Duration::from_secs(7 * 24 * 3600);

pub(super) struct Unpacker {
    bundles: Arc<Bundles>,
    changed: Arc<Notify>,
    stop: CancellationToken,
    places: Places,
    /// How long fetching one may take, unless the group of the namespace says something else; zero for as long as it takes.
    timeout: Duration,
    all: BTreeMap<Source, Entry>,
}

/// Where bundles wait until it is their turn.
struct Places {
    all: Arc<Semaphore>,
    /// By the namespace of the catalog.
    of: BTreeMap<String, Arc<Semaphore>>,
    inline: Arc<Semaphore>,
}

impl Places {
    fn new() -> Places {
        Places {
            all: Arc::new(Semaphore::new(IMAGES.1)),
            of: BTreeMap::new(),
            inline: Arc::new(Semaphore::new(INLINE)),
        }
    }

    /// What one has to have while it is fetched, in this order.
    fn of(&mut self, source: &Source) -> Vec<Arc<Semaphore>> {
        if source.image.is_empty() {
            return vec![self.inline.clone()];
        }
        let of = self.of.entry(source.catalog.0.clone()).or_insert_with(|| Arc::new(Semaphore::new(IMAGES.0)));
        vec![of.clone(), self.all.clone()]
    }

    /// Forgets those of other namespaces.
    fn keep(&mut self, wanted: &BTreeSet<Source>) {
        let namespaces: BTreeSet<&str> = wanted.iter().map(|source| source.catalog.0.as_str()).collect();
        self.of.retain(|namespace, _| namespaces.contains(namespace.as_str()));
    }
}

struct Entry {
    state: Arc<Mutex<State>>,
    from: Origin,
    /// How often it has failed.
    count: u32,
    _task: AbortOnDropHandle<()>,
}

#[derive(Clone)]
enum State {
    Pending,
    Done(Arc<Bundle>),
    Failed { failure: Failure, until: Instant },
}

fn key(new: &New) -> Source {
    Source {
        catalog: new.catalog.clone(),
        package: new.package.clone(),
        name: new.name.clone(),
        image: new.image.clone(),
    }
}

impl Unpacker {
    pub(super) fn new(
        bundles: Arc<Bundles>,
        timeout: Duration,
        changed: Arc<Notify>,
        stop: CancellationToken,
    ) -> Unpacker {
        Unpacker { bundles, changed, stop, places: Places::new(), timeout, all: BTreeMap::new() }
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
        let keys: BTreeSet<Source> = wanted.iter().map(|wanted| key(&wanted.new)).collect();
        self.all.retain(|key, _| keys.contains(key));
        self.places.keep(&keys);
        let (now, mut next) = (Instant::now(), None);
        for it in wanted {
            let key = key(&it.new);
            let from = Origin::of(&key, known);
            let count = match self.all.get(&key).map(|entry| (entry.state(), entry)) {
                // It may succeed there.
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

    fn begin(&mut self, key: Source, wanted: &Wanted, count: u32, from: Origin) {
        let Wanted { timeout, retry, .. } = wanted;
        let timeout = timeout.as_ref().map_or(self.timeout, duration);
        let timeout = if timeout.is_zero() { FOREVER } else { timeout };
        let pause = retry.as_ref().map_or_else(|| jittered(PAUSES.0, count, PAUSES.1), duration);
        let state = Arc::new(Mutex::new(State::Pending));
        let (told, changed, places, bundles) =
            (state.clone(), self.changed.clone(), self.places.of(&key), self.bundles.clone());
        let (source, origin) = (key.clone(), from.clone());
        let fetching = async move {
            let mut held = Vec::new();
            for place in &places {
                held.push(place.acquire().await);
            }
            let fetched = tokio::time::timeout(timeout, bundles.fetch(&source, origin)).await;
            let late = || {
                format!(
                    "DeadlineExceeded: it took longer than {timeout:?}: the annotation {BUNDLE_UNPACK_TIMEOUT} of the OperatorGroup allows more"
                )
            };
            let fetched = fetched.unwrap_or_else(|_| Err(Failure::passing(late())));
            let state = match fetched {
                Ok(bundle) => State::Done(bundle),
                Err(failure) => {
                    tracing::warn!(
                        bundle = source.name,
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

fn duration(time: &SignedDuration) -> Duration {
    Duration::try_from(*time).unwrap_or_default()
}

impl Entry {
    fn state(&self) -> State {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[cfg(test)]
mod tests;
