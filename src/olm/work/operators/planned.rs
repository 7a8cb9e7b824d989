//! What copies depend on. All of it is gone through only where something of it has changed: the plan of copies may be large, and most of
//! what happens is nothing to them.

use super::known::Known;
use super::roles::is_same;
use super::views::CsvView;
use crate::olm::operator::copies::book::{Key, Plan};
use crate::olm::operator::copies::{Course, Rules, Source, Targets};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// As it was when copies were planned last.
pub(crate) struct Planned {
    csvs: BTreeMap<Key, Arc<CsvView>>,
    unread: Vec<Key>,
    namespaces: BTreeSet<String>,
    rules: Rules,
    next: Option<Timestamp>,
}

impl Planned {
    /// The plan, and what it depends on.
    pub(crate) fn of(known: &Known, rules: Rules, now: Timestamp) -> (Plan, Planned) {
        let key = |source: Source| ((source.namespace.clone(), source.name.clone()), source);
        let mut plan = Plan {
            sources: known.csvs().filter_map(|csv| Source::of(csv, now)).map(key).collect(),
            originals: known.csv_views().keys().cloned().collect(),
            namespaces: known.labels().keys().cloned().collect(),
            rules: rules.clone(),
        };
        // What cannot be read is not gone.
        for (namespace, name) in known.unread_csvs() {
            let source = Source {
                namespace: namespace.clone(),
                name: name.clone(),
                uid: String::new(),
                version: String::new(),
                course: Course::Kept,
                targets: Targets::All,
                is_passing: false,
                lasts_from: None,
            };
            plan.originals.insert((namespace.clone(), name.clone()));
            plan.sources.insert((namespace.clone(), name.clone()), source);
        }
        let planned = Planned {
            csvs: known.csv_views().clone(),
            unread: known.unread_csvs().to_vec(),
            namespaces: plan.namespaces.clone(),
            rules,
            next: plan.sources.values().filter_map(|source| source.lasts_from).min(),
        };
        (plan, planned)
    }

    /// Whether the plan would be the same.
    pub(crate) fn holds(&self, known: &Known, rules: &Rules, now: Timestamp) -> bool {
        self.rules == *rules
            && self.next.is_none_or(|next| now < next)
            && is_same(&self.csvs, known.csv_views())
            && self.unread == known.unread_csvs()
            && self.namespaces.iter().eq(known.labels().keys())
    }

    /// When it becomes another one although nothing has changed.
    pub(crate) fn next(&self) -> Option<Timestamp> {
        self.next
    }
}
