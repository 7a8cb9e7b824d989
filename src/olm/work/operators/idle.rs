//! Namespaces in which there was nothing to do: they are not looked at again as long as nothing has changed that they depend on. Most
//! of what happens is about one of many operators.

use super::known::Known;
use super::served::Kinds;
use crate::olm::api::cluster_service_version::ClusterServiceVersion;
use crate::olm::operator::copies::book::Copies;
use crate::olm::operator::tenancy::Verdict;
use crate::olm::operator::turn::Namespace;
use crate::olm::operator::{Group, Tenant};
use jiff::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// All of them are looked at again after this time, if something happens: whatever nothing tells of is found then.
const ALL_AFTER: Duration = Duration::from_secs(60);

/// What was known when they were looked at, and in which there was nothing to do.
#[derive(Default)]
pub(super) struct Idle {
    before: Option<Before>,
    namespaces: BTreeMap<String, Found>,
}

struct Before {
    known: Known,
    served: Kinds,
    refused: BTreeMap<String, String>,
    /// When all were looked at.
    all: Instant,
}

/// What the group of a namespace means for its ClusterServiceVersions, by their names.
pub(super) type Verdicts = Arc<BTreeMap<String, Verdict>>;

/// The copies of a ClusterServiceVersion of a namespace in these others.
type CopiesOf<'a> = dyn Fn(&str, &[String]) -> Copies + 'a;

/// What else a namespace depends on.
struct Found {
    others: Others,
    /// When there is something to do although nothing has changed.
    next: Option<Timestamp>,
    reach: Reach,
}

/// What groups and copies mean for the ClusterServiceVersions of a namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Others {
    verdicts: Verdicts,
    /// The namespaces that its group selects.
    targets: Vec<String>,
    /// Those in them, by the names of their originals.
    copies: Vec<(String, Copies)>,
}

impl Others {
    /// `tenants`: of its ClusterServiceVersions, in their order.
    pub(super) fn of(namespace: &Namespace<'_>, verdicts: Verdicts, tenants: Vec<Tenant<'_>>) -> Others {
        let copies = namespace.csvs.keys().zip(tenants).map(|(name, tenant)| ((*name).to_owned(), tenant.copies));
        Others { verdicts, copies: copies.collect(), targets: namespace.targets().to_vec() }
    }

    /// Whether they are that still.
    fn are(&self, verdicts: &Verdicts, copies: &CopiesOf<'_>) -> bool {
        let has_same = |(name, known): &(String, Copies)| copies(name, &self.targets) == *known;
        (Arc::ptr_eq(&self.verdicts, verdicts) || self.verdicts == *verdicts)
            && (self.targets.is_empty() || self.copies.iter().all(has_same))
    }
}

/// Whose accounts, rights and objects a namespace depends on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reach {
    /// Its own, and those of the namespaces that its operators work for.
    Of(BTreeSet<String>),
    All,
}

impl Reach {
    /// Objects of the whole cluster may have names that operators of different namespaces want, and so may objects in the namespaces
    /// that both work for.
    pub(super) fn of(namespace: &Namespace<'_>) -> Reach {
        let serves = |csv: &&ClusterServiceVersion| {
            !csv.spec.webhook_definitions.is_empty() || !csv.spec.api_service_definitions.owned.is_empty()
        };
        let is_of_all = namespace.groups.iter().any(Group::is_global) || namespace.csvs.values().any(serves);
        if is_of_all {
            return Reach::All;
        }
        let targets = namespace.groups.iter().flat_map(|group| group.targets.iter().cloned());
        Reach::Of(targets.chain([namespace.name.to_owned()]).collect())
    }

    fn has(&self, touched: &BTreeSet<String>) -> bool {
        match self {
            Reach::All => !touched.is_empty(),
            Reach::Of(namespaces) => !namespaces.is_disjoint(touched),
        }
    }
}

/// What all namespaces depend on.
#[derive(Clone, Copy)]
pub(super) struct Around<'a> {
    pub known: &'a Known,
    pub served: &'a Kinds,
    pub refused: &'a BTreeMap<String, String>,
}

impl Idle {
    /// Begins a turn: where something has changed that all depend on, nothing is known of any of them.
    pub(super) fn begin(&mut self, around: Around<'_>, at: Instant) {
        let differing =
            |before: &Before| Some((before.known.touched(around.known)?, before.known.changed(around.known)));
        let differing = self.before.as_ref().and_then(differing);
        let is_same = |before: &Before| {
            at.saturating_duration_since(before.all) < ALL_AFTER
                && before.known.is_same_around(around.known)
                && before.served == *around.served
                && before.refused == *around.refused
        };
        match differing.filter(|_| self.before.as_ref().is_some_and(is_same)) {
            Some((touched, changed)) => {
                self.namespaces.retain(|name, found| !changed.contains(name) && !found.reach.has(&touched));
            }
            None => *self = Idle::default(),
        }
    }

    /// Whether all is the same since the last turn that is decided on for all groups together. After [`Idle::begin`].
    pub(super) fn has_same_groups(&self, known: &Known) -> bool {
        self.before.as_ref().is_some_and(|before| before.known.has_same_groups(known))
    }

    /// Whether there is nothing to do in a namespace either, and when there will be. After [`Idle::begin`].
    pub(super) fn is_idle(
        &self,
        namespace: &str,
        (verdicts, copies): (&Verdicts, &CopiesOf<'_>),
        now: Timestamp,
    ) -> Option<Option<Timestamp>> {
        let found = self.namespaces.get(namespace)?;
        let holds = found.next.is_none_or(|next| now < next) && found.others.are(verdicts, copies);
        holds.then_some(found.next)
    }

    /// There was nothing to do in a namespace, and will be then.
    pub(super) fn keep(&mut self, (namespace, reach): (&str, Reach), others: Others, next: Option<Timestamp>) {
        self.namespaces.insert(namespace.to_owned(), Found { others, next, reach });
    }

    pub(super) fn forget(&mut self, namespace: &str) {
        self.namespaces.remove(namespace);
    }

    /// Whether there has been a turn.
    pub(super) fn has_begun(&self) -> bool {
        self.before.is_some()
    }

    /// Ends a turn, in which all were looked at that are not idle.
    pub(super) fn end(&mut self, known: Known, served: Kinds, refused: BTreeMap<String, String>, at: Instant) {
        let all = self.before.as_ref().map_or(at, |before| before.all);
        self.before = Some(Before { known, served, refused, all });
    }
}

#[cfg(test)]
mod tests;
