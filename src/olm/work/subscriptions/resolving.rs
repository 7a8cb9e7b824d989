//! Looks for answers beside the turns of the controller, some namespaces at a time.

use super::figures::Resolutions;
use crate::olm::resolve::answer::Answer;
use crate::olm::resolve::rule::ClusterVersions;
use crate::olm::solve::Limits;
use crate::olm::subscription::Inputs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::{Notify, Semaphore};

/// Namespaces for which an answer is looked for at the same time.
const LANES: usize = 2;

type Found = Arc<Result<Answer, String>>;

/// What is shared by all namespaces.
pub(super) struct Lanes {
    places: Arc<Semaphore>,
    changed: Arc<Notify>,
    times: Arc<Resolutions>,
}

impl Lanes {
    pub(super) fn new(changed: Arc<Notify>, times: Arc<Resolutions>) -> Lanes {
        Lanes { places: Arc::new(Semaphore::new(LANES)), changed, times }
    }
}

/// The last question of a namespace, and its answer once there is one.
#[derive(Default)]
pub(super) struct Resolving(Option<Asked>);

struct Asked {
    inputs: Inputs,
    cluster: ClusterVersions,
    found: Arc<Mutex<Option<Found>>>,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Resolving {
    /// The answer for these inputs, if it is there; else it is looked for.
    pub(super) fn answer(&mut self, inputs: &Inputs, cluster: &ClusterVersions, lanes: &Lanes) -> Option<Found> {
        let same = self.0.as_ref().filter(|asked| asked.inputs == *inputs && asked.cluster == *cluster);
        if let Some(asked) = same {
            return asked.found.lock().unwrap_or_else(PoisonError::into_inner).clone();
        }
        let limits = Limits::default();
        let found = Arc::new(Mutex::new(None));
        let asked = Asked {
            inputs: inputs.clone(),
            cluster: cluster.clone(),
            found: found.clone(),
            cancelled: limits.cancelled.clone(),
        };
        let (places, changed, times) = (lanes.places.clone(), lanes.changed.clone(), lanes.times.clone());
        let (inputs, cluster) = (inputs.clone(), cluster.clone());
        tokio::spawn(async move {
            let _place = places.acquire().await;
            if limits.cancelled.load(Ordering::Relaxed) {
                return;
            }
            let begun = Instant::now();
            let answer = tokio::task::spawn_blocking(move || inputs.answer(&cluster, &limits)).await;
            let answer = answer.unwrap_or_else(|error| Err(format!("looking for an answer has ended: {error}")));
            let succeeded = answer.as_ref().is_ok_and(Answer::is_whole);
            times.add(succeeded, begun.elapsed());
            *found.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(answer));
            changed.notify_one();
        });
        self.0 = Some(asked);
        None
    }
}
