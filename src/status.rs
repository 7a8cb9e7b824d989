//! ClusterVersion.status as a function of (previous status, facts, now) (cluster-version §2, §3).

pub mod conditions;
pub mod facts;
pub mod failure;
pub mod history;
mod progress;
pub mod release;
mod summary;

#[cfg(test)]
pub(crate) mod tests;

pub use facts::Facts;

use crate::api::cluster_version::{Capabilities, ClusterVersionStatus};
use crate::api::{HistoryEntry, HistoryState};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The status to write: what stood there, changed by what is known now. Writing is worth it only when the result
/// differs from `previous`; with the same facts it does not, however often it is computed.
pub fn compute(previous: &ClusterVersionStatus, facts: &Facts, now: Timestamp) -> ClusterVersionStatus {
    let now = whole_seconds(now);
    let mut status = previous.clone();
    history::merge(&mut status, facts, &now);
    status.observed_generation = facts.generation;
    if !facts.version_hash.is_empty() {
        status.version_hash = facts.version_hash.clone();
    }
    // No known capability at all means that no release was loaded yet: that wipes nothing.
    if !facts.capabilities.known.is_empty() {
        status.capabilities = Capabilities {
            enabled_capabilities: facts.capabilities.enabled.clone(),
            known_capabilities: facts.capabilities.known.clone(),
        };
    }
    publish_advice(&mut status, facts);
    conditions::write(&mut status, facts, &now);
    status
}

/// `null` says that nothing is known, `[]` that there are none (apis §1.3). Before the first answer of this process
/// the advice of its predecessor stays (cluster-version §14 no. 5).
fn publish_advice(status: &mut ClusterVersionStatus, facts: &Facts) {
    let Some(retrieval) = &facts.retrieval else { return };
    // What was advised to the release before is no advice for this one.
    let ours = |newest: &HistoryEntry| newest.image == facts.own.image && newest.state == HistoryState::Completed;
    if !retrieval.heard && status.history.first().is_some_and(ours) {
        return;
    }
    let known = retrieval.outcome.is_ok() || !retrieval.available.is_empty();
    status.available_updates = known.then(|| retrieval.available.clone());
    status.conditional_updates = retrieval.conditional.clone();
}

/// The API server keeps whole seconds of a `metav1.Time`; anything finer would read back as a difference.
fn whole_seconds(now: Timestamp) -> Time {
    Time(Timestamp::from_second(now.as_second()).unwrap_or(now))
}
