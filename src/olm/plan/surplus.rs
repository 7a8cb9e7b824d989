//! Which InstallPlans of a namespace are deleted.

use crate::olm::api::install_plan::InstallPlanPhase;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// So many of the newest are kept.
const KEPT: usize = 5;
/// At most so many are deleted at once.
const AT_ONCE: usize = 5;

/// A plan, as far as that is concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    pub name: String,
    pub uid: String,
    pub resource_version: String,
    pub generation: i64,
    pub phase: InstallPlanPhase,
    /// uids of the Subscriptions that it was made for.
    pub owners: BTreeSet<String>,
}

/// The oldest first. The newest plans of each Subscription are kept, and as many of those that belong to none. One that has not ended
/// stays, however old it is.
pub(crate) fn surplus<'a>(plans: impl IntoIterator<Item = &'a Known>) -> Vec<&'a Known> {
    let mut plans: Vec<&Known> = plans.into_iter().collect();
    plans.sort_by_key(|plan| Reverse((plan.generation, &plan.name)));
    let mut newer: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut surplus = Vec::new();
    for plan in plans {
        let owners: Vec<Option<&str>> = match plan.owners.is_empty() {
            true => vec![None],
            false => plan.owners.iter().map(|owner| Some(owner.as_str())).collect(),
        };
        let has_enough = |owner: &Option<&str>| newer.get(owner).is_some_and(|count| *count >= KEPT);
        let is_old = owners.iter().all(has_enough);
        for owner in owners {
            *newer.entry(owner).or_default() += 1;
        }
        if is_old && matches!(plan.phase, InstallPlanPhase::Complete | InstallPlanPhase::Failed) {
            surplus.push(plan);
        }
    }
    surplus.reverse();
    surplus.truncate(AT_ONCE);
    surplus
}
