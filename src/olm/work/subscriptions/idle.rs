//! Namespaces in which there was nothing to do: they are not judged again as long as all that they are judged by is the same. Most turns are
//! about one of many.

use crate::olm::api::subscription::Subscription;
use crate::olm::subscription::Facts;
use crate::olm::subscription::installed::Csv;
use crate::olm::subscription::plan::{Group, Plan};
use crate::olm::work::catalogs::Known;
use std::sync::Arc;

/// What a namespace was judged by.
pub(super) struct Judged {
    subscriptions: Vec<Arc<Subscription>>,
    csvs: Vec<Arc<Csv>>,
    groups: Vec<Arc<Group>>,
    plans: Vec<Arc<Plan>>,
    known: Arc<Known>,
    refused: Option<String>,
}

impl Judged {
    /// `known`: all catalogs, and the versions of the cluster.
    pub(super) fn by(facts: &Facts<'_>, known: &Arc<Known>) -> Judged {
        Judged {
            subscriptions: facts.subscriptions.to_vec(),
            csvs: facts.csvs.to_vec(),
            groups: facts.groups.to_vec(),
            plans: facts.plans.to_vec(),
            known: known.clone(),
            refused: facts.refused.map(str::to_owned),
        }
    }

    /// Whether that is what there is now.
    pub(super) fn holds(&self, facts: &Facts<'_>, known: &Arc<Known>) -> bool {
        Arc::ptr_eq(&self.known, known)
            && self.refused.as_deref() == facts.refused
            && same(&self.subscriptions, facts.subscriptions)
            && same(&self.csvs, facts.csvs)
            && same(&self.groups, facts.groups)
            && same(&self.plans, facts.plans)
    }
}

/// Objects that have changed are others.
fn same<T>(before: &[Arc<T>], now: &[Arc<T>]) -> bool {
    before.len() == now.len() && before.iter().zip(now).all(|(before, now)| Arc::ptr_eq(before, now))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    #[test]
    fn namespace_is_judged_again_when_anything_that_it_is_judged_by_has_changed() {
        let subscription = || Arc::new(Subscription::new("widgets", Default::default()));
        let (subscriptions, csv) = ([subscription()], Arc::new(Csv::default()));
        let (group, plan) = (Arc::new(Group::default()), Arc::new(Plan::default()));
        let (known, catalogs) = (Arc::new(Known::default()), BTreeMap::new());
        let facts = Facts {
            namespace: "shop",
            subscriptions: &subscriptions,
            csvs: &[csv],
            groups: &[group],
            plans: &[plan],
            catalogs: &catalogs,
            global: "global",
            refused: None,
        };
        let judged = Judged::by(&facts, &known);
        assert!(judged.holds(&facts, &known));
        assert!(!judged.holds(&facts, &Arc::new(Known::default())), "another catalog");
        for other in [
            Facts { subscriptions: &[subscription()], ..facts.clone() },
            Facts { subscriptions: &[], ..facts.clone() },
            Facts { csvs: &[Arc::new(Csv::default())], ..facts.clone() },
            Facts { groups: &[Arc::new(Group::default())], ..facts.clone() },
            Facts { plans: &[Arc::new(Plan::default())], ..facts.clone() },
            Facts { refused: Some("no"), ..facts.clone() },
        ] {
            assert!(!judged.holds(&other, &known), "{other:?}");
        }
    }
}
