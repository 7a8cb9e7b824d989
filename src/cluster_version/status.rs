//! ClusterVersion.status as a function of the previous status, the facts and the time.

pub(crate) mod conditions;
pub(crate) mod drained;
pub(crate) mod facts;
pub(crate) mod failure;
pub(crate) mod history;
pub(crate) mod release;
mod summary;
pub(crate) mod upgradeable;

pub(crate) use facts::Facts;
pub(crate) use upgradeable::Risk;

use crate::cluster_version::api::{Capabilities, ClusterVersionStatus};
use crate::cluster_version::api::{HistoryEntry, HistoryState};
use crate::release::api::ConditionalUpdateRisk;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition as MetaCondition, Time};

/// The status to write: `previous`, changed by what is known now. The same facts give the same status however often it is
/// computed, so it need only be written when it differs from `previous`.
pub(crate) fn compute(previous: &ClusterVersionStatus, facts: &Facts, now: Timestamp) -> ClusterVersionStatus {
    let now = whole_seconds(now);
    let mut status = previous.clone();
    history::merge(&mut status, facts, &now);
    status.observed_generation = facts.generation;
    if let Some(rollout) = &facts.rollout {
        status.version_hash.clone_from(&rollout.version_hash);
    }
    // No known capability at all means that no release was loaded yet: what is recorded stays.
    if !facts.capabilities.known.is_empty() {
        status.capabilities = Capabilities {
            enabled_capabilities: facts.capabilities.enabled.clone(),
            known_capabilities: facts.capabilities.known.clone(),
        };
    }
    publish_updates(&mut status, facts);
    conditions::write(&mut status, facts, &now);
    status
}

/// `null` says that nothing is known, `[]` that there are no updates. Until the update service has answered this process,
/// the updates that its predecessor published stay.
fn publish_updates(status: &mut ClusterVersionStatus, facts: &Facts) {
    let Some(retrieval) = &facts.retrieval else { return };
    // Updates that were published for the previous release do not apply to this one.
    let of_own_release =
        |newest: &HistoryEntry| newest.image == facts.own.image && newest.state == HistoryState::Completed;
    if !retrieval.answered && status.history.first().is_some_and(of_own_release) {
        return;
    }
    status.available_updates = retrieval.known.then(|| retrieval.available.clone());
    let before = std::mem::replace(&mut status.conditional_updates, retrieval.conditional.clone());
    for update in &mut status.conditional_updates {
        let Some(before) = before.iter().find(|before| before.release.image == update.release.image) else { continue };
        keep_times(&before.conditions, &mut update.conditions);
        keep_times_of_risks(&before.risks, &mut update.risks);
    }
    let before = std::mem::replace(&mut status.conditional_update_risks, retrieval.risks.clone());
    keep_times_of_risks(&before, &mut status.conditional_update_risks);
}

fn keep_times_of_risks(before: &[ConditionalUpdateRisk], now: &mut [ConditionalUpdateRisk]) {
    for risk in now {
        let known = before.iter().find(|known| known.name == risk.name);
        keep_times(known.map_or(&[], |known| &known.conditions), &mut risk.conditions);
    }
}

/// A condition whose status is the same as before has been so since before, whichever process evaluated it.
fn keep_times(before: &[MetaCondition], now: &mut [MetaCondition]) {
    for condition in now {
        let same = |known: &&MetaCondition| (&known.type_, &known.status) == (&condition.type_, &condition.status);
        if let Some(known) = before.iter().find(same) {
            condition.last_transition_time = known.last_transition_time.clone();
        }
    }
}

/// The API server stores a `metav1.Time` in whole seconds: a fraction would be read back as a difference.
pub(crate) fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}

#[cfg(test)]
pub(crate) mod tests;
