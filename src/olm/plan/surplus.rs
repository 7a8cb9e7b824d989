//! Which InstallPlans of a namespace are deleted.

use crate::olm::api::install_plan::InstallPlanPhase;

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
}

/// The oldest first. One that has not ended stays, however old it is.
pub(crate) fn surplus<'a>(plans: impl IntoIterator<Item = &'a Known>) -> Vec<&'a Known> {
    let mut plans: Vec<&Known> = plans.into_iter().collect();
    plans.sort_by_key(|plan| (plan.generation, &plan.name));
    let older = plans.len().saturating_sub(KEPT);
    plans.truncate(older);
    plans.retain(|plan| matches!(plan.phase, InstallPlanPhase::Complete | InstallPlanPhase::Failed));
    plans.truncate(AT_ONCE);
    plans
}
