//! What metrics and probes are told.

use super::live::{Live, known};
use crate::cluster::requests::RequestCounts;
use crate::olm::endpoints::Id;
use crate::olm::metrics::{CatalogFigures, OperatorsSnapshot, text};
use crate::olm::source::health::health;
use crate::olm::source::operators::Lifecycle;
use crate::olm::work::follow::id;
use crate::olm::work::operators::OperatorFigures;
use crate::olm::work::subscriptions::SubscriptionFigures;
use crate::serve::process;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// A process is ready after that long whatever its catalogs do: a registry that sends one bit by bit would keep the replicas of the
/// next release from taking the place of these.
const PATIENCE: Duration = Duration::from_secs(180);

/// Is asked at each scrape and by probes.
pub(crate) struct Figures {
    requests: RequestCounts,
    live: OnceLock<Live>,
    snapshots: Mutex<BTreeMap<Id, u64>>,
    plan_warnings: AtomicU64,
    /// What was served before the process began that is not served yet; `None` before that is known, or once it is served.
    missing: Mutex<Missing>,
    subscriptions: Arc<SubscriptionFigures>,
    operators: Arc<OperatorFigures>,
}

#[derive(Clone, Debug, Default)]
enum Missing {
    /// The CatalogSources are not known.
    #[default]
    All,
    /// Some of them, and since when they are waited for.
    Some(Vec<Id>, Instant),
    /// It has answered for all of them once.
    Nothing,
}

impl Figures {
    /// What the loop that keeps operators tells of itself.
    pub(super) fn lifecycle(&self) -> watch::Receiver<Lifecycle> {
        self.operators.lifecycle()
    }

    pub(crate) fn new(
        requests: RequestCounts,
        (subscriptions, operators): (Arc<SubscriptionFigures>, Arc<OperatorFigures>),
    ) -> Figures {
        Figures {
            requests,
            live: OnceLock::new(),
            snapshots: Mutex::default(),
            plan_warnings: AtomicU64::default(),
            missing: Mutex::default(),
            subscriptions,
            operators,
        }
    }

    pub(super) fn show(&self, live: Live) {
        let _first = self.live.set(live);
    }

    /// The API server has warned of what a plan writes.
    pub(crate) fn count_plan_warning(&self) {
        self.plan_warnings.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn count(&self, snapshots: BTreeMap<Id, u64>) {
        *self.snapshots.lock().unwrap_or_else(PoisonError::into_inner) = snapshots;
    }

    /// Catalogs that were served before and are not yet. Once there are none, the process is ready, whatever comes.
    pub(super) fn wait_for(&self, catalogs: Vec<Id>, now: Instant) {
        let mut missing = self.missing.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match &*missing {
            Missing::Nothing => return,
            Missing::Some(_, since) => *since,
            Missing::All => now,
        };
        *missing = if catalogs.is_empty() { Missing::Nothing } else { Missing::Some(catalogs, since) };
    }

    /// Whether the process answers for what it answered for before it began anew, or what is missing.
    pub(crate) fn ready(&self) -> Result<(), String> {
        self.ready_at(Instant::now())
    }

    fn ready_at(&self, now: Instant) -> Result<(), String> {
        match &*self.missing.lock().unwrap_or_else(PoisonError::into_inner) {
            Missing::Nothing => Ok(()),
            Missing::All => Err("the CatalogSources are not known yet".to_owned()),
            Missing::Some(_, since) if now.duration_since(*since) >= PATIENCE => Ok(()),
            Missing::Some(all, _) => {
                let names: Vec<String> = all.iter().map(|(namespace, name)| format!("{namespace}/{name}")).collect();
                Err(format!("these catalogs were served before and are being read: {}", names.join(", ")))
            }
        }
    }

    /// The metrics as text.
    pub(crate) fn text(&self) -> String {
        let mut snapshot =
            OperatorsSnapshot { requests: self.requests.current(), process: process::read(), ..Default::default() };
        let sources = self.live.get().and_then(|live| known(&live.sources));
        let counts = self.snapshots.lock().unwrap_or_else(PoisonError::into_inner);
        snapshot.catalogs = sources.map(|sources| {
            let figures = sources.iter().map(|(id, source)| CatalogFigures {
                namespace: id.0.clone(),
                name: id.1.clone(),
                ready: health(&source.0).is_ok(),
                snapshots: counts.get(id).copied().unwrap_or_default(),
            });
            figures.collect()
        });
        snapshot.plan_warnings = self.plan_warnings.load(Ordering::Relaxed);
        snapshot.undecodable = self.live.get().map(undecodable).unwrap_or_default();
        let others = self.operators.undecodable().into_iter().chain(self.subscriptions.undecodable());
        let others = others.map(|(kind, name)| {
            let (namespace, name) = id(&name);
            (kind, namespace, name)
        });
        snapshot.undecodable.extend(others);
        snapshot.planned = self.subscriptions.counts();
        (snapshot.syncs, snapshot.resolutions) = (self.subscriptions.syncs(), self.subscriptions.durations());
        (snapshot.csvs, snapshot.upgrades) = (self.operators.csvs(), self.operators.upgrades());
        text(&snapshot)
    }
}

/// Kind, namespace and name.
fn undecodable(live: &Live) -> Vec<(&'static str, String, String)> {
    let sources = live.sources.undecodable().into_keys().map(|name| ("CatalogSource", name));
    let maps = live.defaults.undecodable().into_keys().map(|name| ("ConfigMap", name));
    let all = sources.chain(maps).map(|(kind, name)| (kind, id(&name)));
    all.map(|(kind, (namespace, name))| (kind, namespace, name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_is_ready_once_it_answers_for_what_was_served_before_and_stays_so() {
        let figures = Figures::new(RequestCounts::default(), (Arc::default(), Arc::default()));
        let id = |name: &str| ("olm".to_owned(), name.to_owned());
        assert!(figures.ready().unwrap_err().contains("not known yet"));
        let begun = Instant::now();
        figures.wait_for(vec![id("a"), id("b")], begun);
        let missing = figures.ready().unwrap_err();
        assert!(missing.contains("olm/a, olm/b"), "{missing}");
        figures.wait_for(Vec::new(), begun);
        assert_eq!(figures.ready(), Ok(()));
        // A catalog of which another content is read.
        figures.wait_for(vec![id("a")], begun);
        assert_eq!(figures.ready(), Ok(()));
    }

    #[test]
    fn process_does_not_wait_for_ever_for_a_catalog_that_does_not_come() {
        let figures = Figures::new(RequestCounts::default(), (Arc::default(), Arc::default()));
        let (id, begun) = (("shop".to_owned(), "slow".to_owned()), Instant::now());
        assert!(figures.ready_at(begun + PATIENCE).is_err(), "it does not know what there is");
        figures.wait_for(vec![id.clone()], begun);
        let late = begun + PATIENCE - Duration::from_secs(1);
        figures.wait_for(vec![id], late);
        assert!(figures.ready_at(late).is_err());
        assert_eq!(figures.ready_at(begun + PATIENCE), Ok(()));
    }
}
