//! The phase of a ClusterServiceVersion with its reason, and how its status remembers those before.

use crate::olm::api::cluster_service_version::{
    ClusterServiceVersion, ClusterServiceVersionCondition, ClusterServiceVersionStatus, Phase,
};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// How many phases and reasons are remembered.
const REMEMBERED: usize = 20;
/// Clocks of those who write statuses differ by no more than this.
const APART: SignedDuration = SignedDuration::from_mins(1);

/// What it says of itself.
pub(super) fn phase(csv: &ClusterServiceVersion) -> Phase {
    csv.status.as_ref().map(|status| status.phase.clone()).unwrap_or_default()
}

/// The status with a time that has come: what was in its phase from then on would be waited for until a clock is there that has gone back,
/// or that somebody has made up.
pub(super) fn in_time(mut status: ClusterServiceVersionStatus, now: Timestamp) -> ClusterServiceVersionStatus {
    if status.last_transition_time.as_ref().is_some_and(|time| time.0.duration_since(now) > APART) {
        status.last_transition_time = Some(Time(now));
    }
    status
}

/// What a ClusterServiceVersion is said to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub phase: Phase,
    pub reason: &'static str,
    pub message: String,
}

impl State {
    pub(super) fn new(phase: Phase, reason: &'static str, message: impl Into<String>) -> State {
        State { phase, reason, message: message.into() }
    }

    pub(super) fn failed(reason: &'static str, message: impl Into<String>) -> State {
        State::new(Phase::Failed, reason, message)
    }

    pub(super) fn pending(reason: &'static str, message: impl Into<String>) -> State {
        State::new(Phase::Pending, reason, message)
    }

    /// Whether the status says so already.
    pub(super) fn is(&self, status: &ClusterServiceVersionStatus) -> bool {
        self.is_told(status) && self.message == status.message
    }

    /// Whether phase and reason are those of the status: then there is no event.
    pub(crate) fn is_told(&self, status: &ClusterServiceVersionStatus) -> bool {
        self.phase == status.phase && self.reason == status.reason
    }

    /// The status that says so. What it was before is remembered where the phase or the reason is another one.
    pub(super) fn told(&self, before: &ClusterServiceVersionStatus, now: Timestamp) -> ClusterServiceVersionStatus {
        let now = Time(now);
        let mut status = before.clone();
        status.last_update_time = Some(now.clone());
        if status.phase != self.phase {
            status.phase = self.phase.clone();
            status.last_transition_time = Some(now);
        }
        self.reason.clone_into(&mut status.reason);
        status.message.clone_from(&self.message);
        let last = status.conditions.last();
        if last.is_none_or(|last| (&last.phase, last.reason.as_str()) != (&self.phase, self.reason)) {
            status.conditions.push(ClusterServiceVersionCondition {
                phase: self.phase.clone(),
                reason: self.reason.to_owned(),
                message: self.message.clone(),
                last_update_time: status.last_update_time.clone(),
                last_transition_time: status.last_transition_time.clone(),
            });
        }
        let surplus = status.conditions.len().saturating_sub(REMEMBERED);
        status.conditions.drain(..surplus);
        status
    }
}
