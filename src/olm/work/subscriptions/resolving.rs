//! Looks for answers beside the turns of the controller, some namespaces at a time.

use super::figures::Resolutions;
use crate::olm::resolve::answer::Answer;
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use crate::olm::subscription::Inputs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::{Notify, Semaphore};
use tokio::task::{JoinError, JoinHandle};

/// Namespaces for which an answer is looked for at the same time.
const LANES: usize = 2;
/// An answer that is not found in this time makes room for others, and is looked for anew beside them: there may be many that take
/// long, and those who would be answered at once must not wait for all of them.
const SHORT: Duration = Duration::from_millis(200);
/// Namespaces whose answers take long, at the same time.
const LONG_LANES: usize = 1;

type Found = Arc<Result<Answer, String>>;

/// What is shared by all namespaces.
#[derive(Clone)]
pub(super) struct Lanes {
    places: Places,
    changed: Arc<Notify>,
    times: Arc<Resolutions>,
}

impl Lanes {
    pub(super) fn new(changed: Arc<Notify>, times: Arc<Resolutions>) -> Lanes {
        Lanes { places: Places::default(), changed, times }
    }
}

#[derive(Clone)]
struct Places {
    short: Arc<Semaphore>,
    long: Arc<Semaphore>,
}

impl Default for Places {
    fn default() -> Self {
        Places { short: Arc::new(Semaphore::new(LANES)), long: Arc::new(Semaphore::new(LONG_LANES)) }
    }
}

impl Places {
    /// What a search comes to, and how long it took; `None` once nobody wants it any more.
    async fn find<T: Send + 'static>(
        &self,
        search: impl Fn(&Limits) -> T + Send + Sync + 'static,
        wanted: &Wanted,
    ) -> Option<(Result<T, JoinError>, Duration)> {
        let search = Arc::new(search);
        let place = self.short.acquire().await;
        let (limits, begun) = (wanted.begin()?, Instant::now());
        let mut searching = begin(&search, &limits);
        if let Ok(found) = tokio::time::timeout(SHORT, &mut searching).await {
            return Some((found, begun.elapsed()));
        }
        // What it finds after this may not be all that there is.
        limits.cancelled.store(true, Ordering::Relaxed);
        drop(searching.await);
        drop(place);
        let _place = self.long.acquire().await;
        let (limits, begun) = (wanted.begin()?, Instant::now());
        Some((begin(&search, &limits).await, begun.elapsed()))
    }
}

fn begin<T: Send + 'static>(
    search: &Arc<impl Fn(&Limits) -> T + Send + Sync + 'static>,
    limits: &Limits,
) -> JoinHandle<T> {
    let (search, limits) = (search.clone(), limits.clone());
    tokio::task::spawn_blocking(move || search(&limits))
}

/// Whether somebody still wants an answer, and what ends the search for it that is under way.
#[derive(Clone, Default)]
struct Wanted(Arc<Mutex<Searching>>);

#[derive(Default)]
struct Searching {
    is_over: bool,
    under_way: Option<Arc<AtomicBool>>,
}

impl Wanted {
    /// Limits of a search that begins now; `None` once nobody wants the answer any more.
    fn begin(&self) -> Option<Limits> {
        let mut searching = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let limits = Limits::default();
        searching.under_way = Some(limits.cancelled.clone());
        (!searching.is_over).then_some(limits)
    }

    fn end(&self) {
        let mut searching = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        searching.is_over = true;
        if let Some(under_way) = &searching.under_way {
            under_way.store(true, Ordering::Relaxed);
        }
    }
}

/// The last question of a namespace, and its answer once there is one.
#[derive(Default)]
pub(super) struct Resolving(Option<Asked>);

struct Asked {
    inputs: Inputs,
    cluster: ClusterVersions,
    found: Arc<Mutex<Option<Found>>>,
    wanted: Wanted,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.wanted.end();
    }
}

impl Resolving {
    /// The answer for these inputs, if it is there; else it is looked for.
    pub(super) fn answer(&mut self, inputs: &Inputs, cluster: &ClusterVersions, lanes: &Lanes) -> Option<Found> {
        let same = self.0.as_ref().filter(|asked| asked.inputs == *inputs && asked.cluster == *cluster);
        if let Some(asked) = same {
            return asked.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        }
        let (found, wanted) = (Arc::new(Mutex::new(None)), Wanted::default());
        let asked =
            Asked { inputs: inputs.clone(), cluster: cluster.clone(), found: found.clone(), wanted: wanted.clone() };
        let (lanes, inputs, cluster) = (lanes.clone(), inputs.clone(), cluster.clone());
        tokio::spawn(async move {
            let search = move |limits: &Limits| inputs.answer(&cluster, limits);
            let Some((answer, time)) = lanes.places.find(search, &wanted).await else { return };
            let answer = answer.unwrap_or_else(|error| Err(format!("looking for an answer has ended: {error}")));
            lanes.times.add(answer.as_ref().is_ok_and(Answer::is_whole), time);
            *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(answer));
            lanes.changed.notify_one();
        });
        self.0 = Some(asked);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;

    /// Searches that end only when they are cancelled, and how many have begun.
    fn endless(begun: &Arc<AtomicU32>) -> impl Fn(&Limits) -> &'static str + Send + Sync + 'static {
        let begun = begun.clone();
        move |limits| {
            begun.fetch_add(1, Ordering::Relaxed);
            while !limits.cancelled.load(Ordering::Relaxed) {
                std::thread::yield_now();
            }
            "cut short"
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn who_takes_long_makes_room_for_others_and_is_answered_beside_them() {
        let (places, begun) = (Places::default(), Arc::new(AtomicU32::new(0)));
        let hostile: Vec<(Wanted, JoinHandle<_>)> = (0..3)
            .map(|_| {
                let (places, wanted, search) = (places.clone(), Wanted::default(), endless(&begun));
                let of = wanted.clone();
                (wanted, tokio::spawn(async move { places.find(search, &of).await.map(|(found, _)| found.unwrap()) }))
            })
            .collect();
        for _ in 0..2 {
            let (found, _) = places.find(|_| "at once", &Wanted::default()).await.unwrap();
            assert_eq!(found.unwrap(), "at once");
        }
        // All of them had to make room, and one at a time is looked for anew.
        let second = Wanted::default();
        let answers_late = {
            let tries = AtomicU32::new(0);
            move |limits: &Limits| {
                while tries.load(Ordering::Relaxed) == 0 && !limits.cancelled.load(Ordering::Relaxed) {
                    std::thread::yield_now();
                }
                tries.fetch_add(1, Ordering::Relaxed) + 1
            }
        };
        let late = places.find(answers_late, &second);
        let ended = async {
            // All before the first is waited for: any of them may be the one that is looked for anew.
            hostile.iter().for_each(|(wanted, _)| wanted.end());
            for (_, searching) in hostile {
                assert_ne!(searching.await.unwrap(), Some("at once"));
            }
        };
        let (late, ()) = tokio::join!(late, ended);
        assert_eq!(late.unwrap().0.unwrap(), 2, "the second search is not cut short");
    }

    #[tokio::test]
    async fn what_nobody_wants_any_more_is_not_looked_for() {
        let (places, wanted) = (Places::default(), Wanted::default());
        wanted.end();
        assert!(places.find(|_| (), &wanted).await.is_none());
        let begun = Arc::new(AtomicU32::new(0));
        let (wanted, search) = (Wanted::default(), endless(&begun));
        let of = wanted.clone();
        let searching = tokio::spawn(async move { places.find(search, &of).await.is_some() });
        while begun.load(Ordering::Relaxed) == 0 {
            tokio::task::yield_now().await;
        }
        wanted.end();
        searching.await.unwrap();
        assert_eq!(begun.load(Ordering::Relaxed), 1);
    }
}
