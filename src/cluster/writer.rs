//! Writes side by side, one at a time for each object. One that failed is tried again after a pause, whatever the reason.

use crate::cluster::{ApiError, jittered};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use tokio_util::task::TaskTracker;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);
/// A write that has failed so often is told of.
const LASTING: u32 = 5;

/// A key says what is written, such as `Node a`.
pub(crate) trait Key: Ord + Clone + Display + Send + Sync + 'static {}

impl<K: Ord + Clone + Display + Send + Sync + 'static> Key for K {}

pub(crate) struct Writer<K> {
    changed: Arc<Notify>,
    slots: Mutex<BTreeMap<K, Slot>>,
    /// When the first write may be tried that had to wait since somebody has last asked.
    waits: Mutex<Option<Instant>>,
    tasks: TaskTracker,
}

enum Slot {
    UnderWay {
        /// How often it has failed before, and why the last time.
        failed: Option<(u32, Failure)>,
    },
    Failed {
        count: u32,
        until: Instant,
        error: Failure,
    },
    /// Written; nothing is written again before this.
    Pausing {
        until: Instant,
    },
    Written {
        at: Instant,
    },
}

/// Why a write has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Failure {
    text: String,
    /// The server has understood it and turns it down. Otherwise it may be taken as it is.
    rejected: bool,
}

impl<K: Key> Writer<K> {
    pub(crate) fn new(changed: Arc<Notify>) -> Arc<Self> {
        Arc::new(Writer { changed, slots: Mutex::default(), waits: Mutex::default(), tasks: TaskTracker::new() })
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<K, Slot>> {
        self.slots.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a write unless one of the same key is under way or has to wait: then the caller comes back when it is notified
    /// or at [`Writer::next`]. `seen`: when the object was looked at; if it has been written since, what was decided is
    /// outdated. `pause`: how long the key rests after a success.
    pub(crate) fn begin(
        self: &Arc<Self>,
        key: K,
        seen: Instant,
        pause: Duration,
        write: impl Future<Output = Result<(), ApiError>> + Send + 'static,
    ) {
        let count = {
            let mut slots = self.lock();
            let failed = match slots.get(&key) {
                Some(Slot::UnderWay { .. }) => return,
                Some(Slot::Failed { until, .. } | Slot::Pausing { until }) if *until > Instant::now() => {
                    return self.wait(*until);
                }
                Some(Slot::Written { at }) if *at >= seen => return,
                Some(Slot::Failed { count, error, .. }) => Some((*count, error.clone())),
                Some(Slot::Pausing { .. } | Slot::Written { .. }) | None => None,
            };
            let count = failed.as_ref().map_or(0, |(count, _)| *count);
            slots.insert(key.clone(), Slot::UnderWay { failed });
            count
        };
        let writer = self.clone();
        self.tasks.spawn(async move {
            let outcome = write.await;
            writer.on_end(key, count, pause, outcome);
        });
    }

    fn on_end(&self, key: K, count: u32, pause: Duration, outcome: Result<(), ApiError>) {
        {
            let mut slots = self.lock();
            match outcome {
                Ok(()) if pause.is_zero() => {
                    slots.insert(key, Slot::Written { at: Instant::now() });
                }
                Ok(()) => {
                    slots.insert(key, Slot::Pausing { until: Instant::now() + pause });
                }
                Err(error) => {
                    let wait = jittered(FIRST_PAUSE, count, LONGEST_PAUSE);
                    // Somebody else was faster, which happens all the time.
                    match error.is_conflict() {
                        true => tracing::debug!(object = %key, %error, "not written yet; trying again"),
                        false => tracing::warn!(object = %key, %error, "cannot write; trying again"),
                    }
                    let until = Instant::now() + wait;
                    let error = Failure { rejected: error.is_rejected(), text: error.to_string() };
                    slots.insert(key, Slot::Failed { count: count.saturating_add(1), until, error });
                }
            }
        }
        self.changed.notify_one();
    }

    /// How many writes are under way, and what is being written or would have to wait.
    pub(crate) fn busy(&self) -> (usize, BTreeSet<K>) {
        let (slots, now) = (self.lock(), Instant::now());
        let under_way = slots.values().filter(|slot| matches!(slot, Slot::UnderWay { .. })).count();
        let is_busy = |slot: &Slot| match slot {
            Slot::UnderWay { .. } => true,
            Slot::Failed { until, .. } | Slot::Pausing { until } => *until > now,
            Slot::Written { .. } => false,
        };
        (under_way, slots.iter().filter(|(_, slot)| is_busy(slot)).map(|(key, _)| key.clone()).collect())
    }

    /// A write has to wait until then.
    fn wait(&self, until: Instant) {
        let mut waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner);
        *waits = waits.iter().copied().chain([until]).min();
    }

    /// When the next write may be tried that had to wait. That may be in the past, where the time has come since it was turned away.
    pub(crate) fn next(&self) -> Option<Instant> {
        let waits = self.waits.lock().unwrap_or_else(PoisonError::into_inner).take();
        let mut slots = self.lock();
        let now = Instant::now();
        // What failed and is not tried again at once is not to be written any more.
        slots.retain(|_, slot| match slot {
            Slot::UnderWay { .. } => true,
            Slot::Pausing { until } => *until > now,
            Slot::Written { at } => *at + LONGEST_PAUSE > now,
            Slot::Failed { until, .. } => *until + LONGEST_PAUSE > now,
        });
        let times = slots.values().filter_map(|slot| match slot {
            Slot::UnderWay { .. } | Slot::Written { .. } => None,
            // What is not wanted any more is not told any more.
            Slot::Failed { until, count, .. } if *until <= now && *count >= LASTING => Some(*until + LONGEST_PAUSE),
            Slot::Failed { until, .. } | Slot::Pausing { until } => Some(*until),
        });
        times.filter(|until| *until > now).chain(waits).min()
    }

    /// What keeps failing, by key, also while it is tried again.
    pub(crate) fn failures(&self) -> BTreeMap<String, String> {
        self.lasting(|_| true)
    }

    /// What the server keeps turning down. That it cannot be reached, or that it or somebody whom it asks is too busy, says nothing of
    /// what is to be written.
    pub(crate) fn rejections(&self) -> BTreeMap<String, String> {
        self.lasting(|error| error.rejected)
    }

    fn lasting(&self, counts: impl Fn(&Failure) -> bool) -> BTreeMap<String, String> {
        let (slots, now) = (self.lock(), Instant::now());
        let lasting = slots.iter().filter_map(|(key, slot)| {
            let error = match slot {
                Slot::Failed { count, error, until } if *count >= LASTING && *until + LONGEST_PAUSE > now => error,
                Slot::UnderWay { failed: Some((count, error)) } if *count >= LASTING => error,
                _ => return None,
            };
            counts(error).then(|| (key.to_string(), error.text.clone()))
        });
        lasting.collect()
    }

    /// Until all writes that have begun have ended.
    pub(crate) async fn end(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

#[cfg(test)]
mod tests;
