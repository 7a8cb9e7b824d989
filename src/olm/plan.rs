//! How an InstallPlan is carried out: when that begins, what each step writes, what comes of it, and which plans are kept.

pub(crate) mod definition;
pub(crate) mod group;
pub(crate) mod reference;
pub(crate) mod schema;
pub(crate) mod step;
pub(crate) mod surplus;
pub(crate) mod together;

use crate::olm::api::install_plan::{
    InstallPlan, InstallPlanCondition, InstallPlanPhase, InstallPlanStatus, Step, StepStatus, condition, reason,
};
use group::{Account, Group};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// All that counts for one plan.
pub(crate) struct Facts<'a> {
    pub plan: &'a InstallPlan,
    /// Those of its namespace.
    pub groups: &'a [Group],
    /// The account that the group names.
    pub account: Account,
    /// Whether the server has accepted a CustomResourceDefinition or refused it, by its name.
    pub is_judged: &'a dyn Fn(&str) -> bool,
}

/// What is done for a plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Decision {
    Nothing,
    /// Its status becomes this.
    Write(Box<InstallPlanStatus>),
    /// Its steps are carried out.
    CarryOut,
}

/// A plan that is not approved, that has no steps yet, or that has ended is left alone.
pub(crate) fn decide(facts: &Facts<'_>, now: Timestamp) -> Decision {
    let Some(status) = &facts.plan.status else { return Decision::Nothing };
    let is_active = matches!(status.phase, InstallPlanPhase::RequiresApproval | InstallPlanPhase::Installing);
    if !is_active || status.plan.is_empty() || !facts.plan.spec.approved || facts.account == Account::NotKnownYet {
        return Decision::Nothing;
    }
    let mut next = status.clone();
    match group::check(facts.groups, facts.account) {
        Err(refused) => {
            set_installed(&mut next, "False", reason::INSTALL_CHECK_FAILED, &refused.to_string(), now);
            next.message = refused.to_string();
        }
        Ok(()) => {
            if status.phase == InstallPlanPhase::RequiresApproval {
                next.phase = InstallPlanPhase::Installing;
                next.start_time.get_or_insert(Time(now));
            }
            let failed = |it: &InstallPlanCondition| {
                it.type_ == condition::INSTALLED && it.reason == reason::INSTALL_CHECK_FAILED
            };
            if next.conditions.iter().any(failed) {
                next.conditions.retain(|it| !failed(it));
                next.message.clear();
            }
            next.attenuated_service_account_ref = account(facts.groups);
        }
    }
    if next != *status {
        return Decision::Write(Box::new(next));
    }
    if group::check(facts.groups, facts.account).is_err() {
        return Decision::Nothing;
    }
    let is_due = |step: &Step| match step.status {
        StepStatus::WaitingForApi => (facts.is_judged)(&step.resource.name),
        _ => !is_final(&step.status),
    };
    let all_final = status.plan.iter().all(|step| is_final(&step.status));
    if all_final || status.plan.iter().any(is_due) { Decision::CarryOut } else { Decision::Nothing }
}

/// The account with whose rights the steps are carried out; `None` for those of this process.
fn account(groups: &[Group]) -> Option<ObjectReference> {
    let [Group { namespace, account, .. }] = groups else { return None };
    (!account.is_empty()).then(|| ObjectReference {
        kind: Some("ServiceAccount".to_owned()),
        api_version: Some("v1".to_owned()),
        namespace: Some(namespace.clone()),
        name: Some(account.clone()),
        ..ObjectReference::default()
    })
}

/// Whether nothing more is done for a step.
pub(crate) fn is_final(status: &StepStatus) -> bool {
    matches!(status, StepStatus::Present | StepStatus::Created | StepStatus::NotCreated)
}

/// Whether the object of a step is there, and only has to be served.
pub(crate) fn is_waiting(step: &Step) -> bool {
    let resource = &step.resource;
    step.status == StepStatus::WaitingForApi && (resource.group.as_str(), resource.kind.as_str()) == definition::KIND
}

/// What came of an attempt to carry out the steps of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Outcome {
    /// The status of steps, by their place.
    pub steps: Vec<(usize, StepStatus)>,
    /// Why the attempt has ended before all of them were done.
    pub trouble: Option<Trouble>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trouble {
    pub text: String,
    /// A right is missing. Somebody may give it at any time.
    pub is_forbidden: bool,
}

/// The status after an attempt, and whether there is to be another one although nothing changes. `retried`: how long steps that fail
/// are tried again, from the first attempt on.
pub(crate) fn after(
    status: &InstallPlanStatus,
    outcome: Outcome,
    retried: SignedDuration,
    now: Timestamp,
) -> (InstallPlanStatus, bool) {
    let mut next = status.clone();
    let begun = next.start_time.get_or_insert(Time(now)).0;
    for (place, of_step) in outcome.steps {
        if let Some(step) = next.plan.get_mut(place) {
            step.status = of_step;
        }
    }
    if let Some(Trouble { text, is_forbidden }) = outcome.trouble {
        let may_be_tried = is_forbidden || now.duration_since(begun) < retried;
        if may_be_tried {
            next.message = format!("retrying execution due to error: {text}");
        } else {
            next.phase = InstallPlanPhase::Failed;
            set_installed(&mut next, "False", reason::INSTALL_COMPONENT_FAILED, &text, now);
            next.message = text;
        }
        return (next, may_be_tried);
    }
    next.message.clear();
    if next.plan.iter().all(|step| is_final(&step.status)) {
        next.phase = InstallPlanPhase::Complete;
        set_installed(&mut next, "True", "", "", now);
    }
    (next, false)
}

fn set_installed(status: &mut InstallPlanStatus, is: &str, reason: &str, message: &str, now: Timestamp) {
    set(status, condition::INSTALLED, (is, reason, message), now);
}

/// Sets a condition, to its status, reason and message.
pub(crate) fn set(
    status: &mut InstallPlanStatus,
    type_: &str,
    (is, reason, message): (&str, &str, &str),
    now: Timestamp,
) {
    let known = status.conditions.iter().find(|it| it.type_ == type_);
    if known.is_some_and(|it| (it.status.as_str(), it.reason.as_str(), it.message.as_str()) == (is, reason, message)) {
        return;
    }
    let same = known.filter(|it| it.status == is).and_then(|it| it.last_transition_time.clone());
    let condition = InstallPlanCondition {
        type_: type_.to_owned(),
        status: is.to_owned(),
        last_update_time: Some(Time(now)),
        last_transition_time: same.or(Some(Time(now))),
        reason: reason.to_owned(),
        message: message.to_owned(),
    };
    status.conditions.retain(|it| it.type_ != type_);
    status.conditions.push(condition);
}

#[cfg(test)]
mod tests;
