//! A process that keeps operators, without what it is connected to: it is told of objects as a watch tells of them, and its requests go
//! to whatever stands for the API server. What it decides is decided by what the daemon decides by.

mod certificates;
mod copied;
mod requests;
mod told;

use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::api::operator_group::OperatorGroup;
use crate::olm::operator::copies::book::{Book, Key};
use crate::olm::operator::copies::{self, Rules};
use crate::olm::operator::serving::certificate;
use crate::olm::work::operators::known::Known;
use crate::olm::work::operators::live::Live;
use crate::olm::work::operators::memory::Memory;
use crate::olm::work::operators::planned::Planned;
use crate::olm::work::operators::seen::Seen;
use crate::olm::work::operators::turns::{Beside, Turns};
use certificates::Certificates;
pub use copied::CopyJob;
use jiff::Timestamp;
pub use requests::{Api, Failure, Part, Write};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};
pub use told::Told;

/// One process. Times are counted from when it began.
pub struct OperatorProcess {
    live: Live,
    memory: Arc<Memory>,
    turns: Turns,
    book: Book,
    planned: Option<Planned>,
    certificates: Certificates,
    slots: BTreeMap<String, Slot>,
    began: Instant,
}

/// What becomes of the writes of one object.
enum Slot {
    UnderWay { failed: u32, rejected: Option<String> },
    Failed { count: u32, until: Duration, rejected: Option<String> },
    Rests { until: Duration },
}

/// Each time that a write fails it is tried again later, up to this.
const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));
/// Failures that last are told of.
const LASTING: u32 = 5;
const KUBERNETES: semver::Version = semver::Version::new(1, 33, 2);

/// What one turn comes to.
#[derive(Debug, Default)]
pub struct Turn {
    pub writes: Vec<Write>,
    /// A certificate is on, which nothing else tells of.
    pub goes_on: bool,
    /// When there is something to do although nothing has changed.
    pub next: Option<Timestamp>,
    /// When a write may be tried again.
    pub again: Option<Duration>,
}

impl OperatorProcess {
    /// `number` tells processes apart.
    pub fn new(number: u64) -> Self {
        OperatorProcess {
            live: Live::detached(),
            memory: Arc::default(),
            turns: Turns::default(),
            book: Book::default(),
            planned: None,
            certificates: Certificates::of(number),
            slots: BTreeMap::new(),
            began: Instant::now(),
        }
    }

    /// Looks at everything, and begins what is to be written, each object once at a time. Nothing before everything is known.
    pub fn turn(&mut self, now: Timestamp, elapsed: Duration) -> Turn {
        let Some(seen) = Seen::of(&self.live) else { return Turn::default() };
        let at = self.began + elapsed;
        let known = Known::of(seen, &self.memory, Ok(KUBERNETES));
        let (served, refused) = (BTreeSet::new(), self.rejections(elapsed));
        self.certificates.want(known.secrets(), &self.live);
        let (live, book, certificates) = (&self.live, &self.book, &self.certificates);
        let beside = Beside {
            served: &served,
            refused: &refused,
            certificates: &|namespace| certificates.known(namespace, live),
            copies: &|original, namespaces| book.of(original, namespaces.iter()),
        };
        let mut turns = std::mem::take(&mut self.turns);
        let (mut writes, mut steps) = (Vec::new(), Vec::<(String, certificate::Step)>::new());
        let next = turns.turn(&known, beside, (now, at), &mut |action| requests::of(action, &mut writes, &mut steps));
        let mut goes_on = false;
        for (namespace, step) in steps {
            let write = self.certificates.step(&namespace, step, now);
            goes_on |= write.is_none();
            writes.extend(write);
        }
        let copied = self.plan_copies(&known, now, &mut writes);
        turns.end(known, served, refused, at);
        self.turns = turns;
        writes.retain_mut(|write| self.begins(write, elapsed));
        let next = next.into_iter().chain(copied).min();
        Turn { writes, goes_on, next, again: self.again(elapsed) }
    }

    /// What is copied, and what OLMConfig says of it.
    fn plan_copies(&mut self, known: &Known, now: Timestamp, writes: &mut Vec<Write>) -> Option<Timestamp> {
        let disabled = known.has_no_copies();
        let rules = Rules { disabled, ..Rules::default() };
        let next = match &self.planned {
            Some(planned) if planned.holds(known, &rules, now) => planned.next(),
            _ => {
                let (plan, planned) = Planned::of(known, rules, now);
                self.book.set(plan);
                self.planned.insert(planned).next()
            }
        };
        let Some((config, outstanding)) = known.config().zip(self.book.outstanding()) else { return next };
        let before = config.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
        if let Some(conditions) = copies::conditions(before, (disabled, outstanding), now) {
            let patch = json!({"metadata": {"resourceVersion": config.metadata.resource_version},
                "status": {"conditions": conditions}});
            writes.push(Write::of_config(patch));
        }
        next
    }

    /// Whether it may begin now: one at a time for each object, and what has failed or rests waits.
    fn begins(&mut self, write: &mut Write, elapsed: Duration) -> bool {
        let (failed, rejected) = match self.slots.get(&write.key) {
            Some(Slot::UnderWay { .. }) => return false,
            Some(Slot::Failed { until, .. } | Slot::Rests { until }) if *until > elapsed => return false,
            Some(Slot::Failed { count, rejected, .. }) => (*count, rejected.clone()),
            Some(Slot::Rests { .. }) | None => (0, None),
        };
        if let Some(to) = &write.to {
            write.rest = self.memory.rest(&write.key, to, self.began + elapsed);
        }
        self.slots.insert(write.key.clone(), Slot::UnderWay { failed, rejected });
        true
    }

    fn ended(&mut self, key: &str, rest: Duration, outcome: &Result<(), Failure>, elapsed: Duration) {
        let before = self.slots.remove(key);
        match outcome {
            Ok(()) if rest.is_zero() => {}
            Ok(()) => drop(self.slots.insert(key.to_owned(), Slot::Rests { until: elapsed + rest })),
            Err(failure) => {
                let failed = if let Some(Slot::UnderWay { failed, .. }) = before { failed } else { 0 };
                let until = elapsed + PAUSES.0.saturating_mul(1 << failed.min(10)).min(PAUSES.1);
                let rejected = if let Failure::Rejected(text) = failure { Some(text.clone()) } else { None };
                self.slots.insert(key.to_owned(), Slot::Failed { count: failed.saturating_add(1), until, rejected });
            }
        }
    }

    fn rejections(&self, elapsed: Duration) -> BTreeMap<String, String> {
        let lasting = self.slots.iter().filter_map(|(key, slot)| match slot {
            Slot::Failed { count, until, rejected: Some(text) } if *count >= LASTING && *until + PAUSES.1 > elapsed => {
                Some((key.clone(), text.clone()))
            }
            Slot::UnderWay { failed, rejected: Some(text) } if *failed >= LASTING => Some((key.clone(), text.clone())),
            _ => None,
        });
        lasting.collect()
    }

    /// What is not wanted any more is forgotten.
    fn again(&mut self, elapsed: Duration) -> Option<Duration> {
        self.slots.retain(|_, slot| match slot {
            Slot::UnderWay { .. } => true,
            Slot::Rests { until } => *until > elapsed,
            Slot::Failed { until, .. } => *until + PAUSES.1 > elapsed,
        });
        let times = self.slots.values().filter_map(|slot| match slot {
            Slot::UnderWay { .. } => None,
            Slot::Failed { until, count, .. } if *until <= elapsed && *count >= LASTING => Some(*until + PAUSES.1),
            Slot::Failed { until, .. } | Slot::Rests { until } => Some(*until),
        });
        times.filter(|until| *until > elapsed).min()
    }

    /// ClusterServiceVersions as it knows them; copies are none.
    pub fn csvs(&self) -> Vec<ClusterServiceVersion> {
        let all = self.live.csvs.all().unwrap_or_default();
        all.values().filter(|view| !view.0.is_copy()).map(|view| (*view.0).clone()).collect()
    }

    /// OperatorGroups as it knows them.
    pub fn groups(&self) -> Vec<OperatorGroup> {
        self.live.groups.all().unwrap_or_default().values().map(|view| (*view.0).clone()).collect()
    }

    /// Labels of the namespaces that it knows and that are not being deleted.
    pub fn namespaces(&self) -> BTreeMap<String, BTreeMap<String, String>> {
        let all = self.live.namespaces.all().unwrap_or_default();
        let active = all.iter().filter(|(_, view)| view.is_active);
        active.map(|(name, view)| (name.clone(), view.labels.clone())).collect()
    }

    /// A Deployment as it knows it.
    pub fn deployment(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.live.deployments.get(&format!("{namespace}/{name}")).map(|view| view.object.clone())
    }
}

impl std::fmt::Debug for OperatorProcess {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OperatorProcess").finish_non_exhaustive()
    }
}

/// Namespace and name.
fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}
