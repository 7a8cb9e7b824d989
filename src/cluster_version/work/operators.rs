//! All ClusterOperators of the cluster, also those that the release does not contain. The feed of their kind fills the store,
//! so reading it costs no request.

use crate::cluster::feed::{ObjectEvent, WholeKind};
use crate::error::shortened;
use crate::object::cluster_operator::{OperandVersion, OperatorReport};
use crate::object::condition::Condition;
use crate::object::{condition, metadata};
use serde::de::DeserializeOwned;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

const GROUP: &str = "config.openshift.io";
pub(crate) const API_VERSION: &str = "config.openshift.io/v1";
pub(crate) const KIND: &str = "ClusterOperator";

/// Most operators that are kept, and most conditions and versions of each, whoever creates them.
const MAX_OPERATORS: usize = 2000;
const MAX_ENTRIES: usize = 64;
/// Most bytes of each of their texts. The longest that operators write are a few hundred.
const MAX_TEXT: usize = 4096;

/// By name.
pub(crate) type Reports = BTreeMap<String, Arc<OperatorReport>>;
/// How often the status of a condition changed, by operator and condition type.
pub(crate) type Transitions = BTreeMap<(String, String), u64>;

/// See the top of this file.
#[derive(Debug)]
pub(crate) struct Operators {
    /// `None` before all have been read once.
    reports: watch::Sender<Option<Arc<Reports>>>,
    reading: Mutex<Reading>,
}

#[derive(Debug, Default)]
struct Reading {
    /// What has come since everything began to be read again.
    listed: Option<Reports>,
    transitions: Transitions,
    /// It was said that there are too many.
    told: bool,
}

impl Default for Operators {
    fn default() -> Self {
        Operators { reports: watch::channel(None).0, reading: Mutex::default() }
    }
}

/// The kind that is to be followed to fill the store.
pub(crate) fn whole_kind(operators: Arc<Operators>) -> WholeKind {
    WholeKind { group: GROUP, kind: KIND, tell: Arc::new(move |event| operators.on_event(event)) }
}

impl Operators {
    /// What each operator reports now. Empty before all have been read, see [`Operators::are_known`].
    pub(crate) fn current(&self) -> Arc<Reports> {
        self.reports.borrow().clone().unwrap_or_default()
    }

    /// Whether all that exist have been read once.
    pub(crate) fn are_known(&self) -> bool {
        self.reports.borrow().is_some()
    }

    /// Changes with [`Operators::current`] and [`Operators::are_known`], and not when an operator writes what it said before.
    pub(crate) fn changes(&self) -> watch::Receiver<Option<Arc<Reports>>> {
        self.reports.subscribe()
    }

    /// How often conditions of operators changed while this process watched them.
    pub(crate) fn transitions(&self) -> Transitions {
        self.lock().transitions.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Reading> {
        self.reading.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on_event(&self, event: ObjectEvent<'_>) {
        let mut reading = self.lock();
        match event {
            ObjectEvent::Begin => reading.listed = Some(Reports::new()),
            ObjectEvent::Applied(object) => self.apply(&mut reading, object),
            ObjectEvent::Deleted(name) => {
                reading.listed.as_mut().map(|listed| listed.remove(name));
                self.reports.send_if_modified(|known| {
                    known
                        .as_mut()
                        .is_some_and(|known| known.contains_key(name) && Arc::make_mut(known).remove(name).is_some())
                });
            }
            ObjectEvent::Complete => {
                let Some(listed) = reading.listed.take() else { return };
                self.reports.send_if_modified(|known| {
                    let changed = known.as_deref() != Some(&listed);
                    *known = Some(Arc::new(listed));
                    changed
                });
            }
        }
    }

    fn apply(&self, reading: &mut Reading, object: &Value) {
        let name = metadata::name(object);
        let new = Arc::new(report(object));
        if let Some(listed) = &mut reading.listed {
            if listed.len() < MAX_OPERATORS || listed.contains_key(name) {
                listed.insert(name.to_owned(), new.clone());
            } else if !std::mem::replace(&mut reading.told, true) {
                tracing::warn!(operator = %name, most = MAX_OPERATORS, "too many ClusterOperators: this one and others are ignored");
            }
        }
        self.reports.send_if_modified(|known| {
            let Some(known) = known else { return false };
            match known.get(name) {
                Some(old) if *old == new => return false,
                Some(old) => reading.count(name, old, &new),
                None if known.len() >= MAX_OPERATORS => return false,
                None => {}
            }
            Arc::make_mut(known).insert(name.to_owned(), new);
            true
        });
    }
}

impl Reading {
    /// Counts conditions whose status changed, that came or went.
    fn count(&mut self, name: &str, old: &OperatorReport, new: &OperatorReport) {
        let types = |report: &OperatorReport| report.conditions.iter().map(|c| c.type_.clone()).collect::<Vec<_>>();
        let mut all = [types(old), types(new)].concat();
        all.sort();
        all.dedup();
        for type_ in all {
            let status = |report: &OperatorReport| condition::find(&report.conditions, &type_).map(|c| c.status);
            let key = (name.to_owned(), type_.clone());
            let room = self.transitions.len() < MAX_OPERATORS * 4 || self.transitions.contains_key(&key);
            if status(old) != status(new) && room {
                *self.transitions.entry(key).or_default() += 1;
            }
        }
    }
}

/// What cannot be read counts as absent, because any client may have written it.
fn report(object: &Value) -> OperatorReport {
    let mut conditions: Vec<Condition> = entries(object, "/status/conditions");
    for condition in &mut conditions {
        for text in [&mut condition.type_, &mut condition.reason, &mut condition.message] {
            bound(text);
        }
    }
    let mut versions: Vec<OperandVersion> = entries(object, "/status/versions");
    for version in &mut versions {
        bound(&mut version.name);
        bound(&mut version.version);
    }
    let generation = object.pointer("/metadata/generation").and_then(Value::as_i64).unwrap_or(0);
    OperatorReport { generation, conditions, versions }
}

fn entries<T: DeserializeOwned>(object: &Value, place: &str) -> Vec<T> {
    let list = object.pointer(place).and_then(Value::as_array).into_iter().flatten();
    list.filter_map(|entry| T::deserialize(entry).ok()).take(MAX_ENTRIES).collect()
}

fn bound(text: &mut String) {
    if text.len() > MAX_TEXT {
        *text = shortened(text, MAX_TEXT).into_owned();
    }
}

#[cfg(test)]
mod tests;
