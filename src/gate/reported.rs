//! What a ClusterOperator without an operator reports: the health of the Deployments, DaemonSets and StatefulSets of its component.

use super::observed::{Observed, number};
use super::{Verdict, workload};
use crate::object::cluster_operator::{OperandVersion, OperatorReport};
use crate::object::condition::ConditionStatus;
use crate::object::condition::{Condition, find};
use crate::object::manifest::ObjectId;
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

/// The annotation of such a ClusterOperator, with the value `true`.
pub(crate) const ANNOTATION: &str = "release.openshift.io/report-workloads";

/// Whether the health of a component is that of its objects of this kind.
pub(crate) fn is_workload(group: &str, kind: &str) -> bool {
    group == "apps" && matches!(kind, "Deployment" | "DaemonSet" | "StatefulSet")
}

/// Whether a workload is rolled out.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>) -> Verdict {
    match desired.kind() {
        "StatefulSet" => workload::stateful_set(desired, live),
        _ => super::judge(desired, live),
    }
}

/// A workload, and whether it is rolled out.
#[derive(Clone, Debug)]
pub(crate) struct Workload {
    pub id: ObjectId,
    /// `None`: it does not exist.
    pub live: Option<Observed>,
    /// As the release wants it: otherwise what is rolled out may be another release.
    pub as_desired: bool,
    pub verdict: Verdict,
}

impl Workload {
    fn has_no_pod(&self) -> bool {
        let Some(live) = &self.live else { return true };
        let available = number(&live.status.available_replicas).max(number(&live.status.number_available));
        let scheduled = live.kind() == "DaemonSet" && number(&live.status.desired_number_scheduled) == 0;
        available == 0 && !live.is_scaled_to_zero() && !scheduled
    }

    fn is_rolled_out(&self) -> bool {
        self.as_desired && self.verdict == Verdict::Ready
    }
}

/// The report of a component. `desired`: its ClusterOperator in the release, whose versions the gate compares as text. `before`: what it
/// reports now; its versions stay until everything is rolled out.
pub(crate) fn report(
    before: &OperatorReport,
    workloads: &[Workload],
    desired: &Observed,
    now: Timestamp,
) -> OperatorReport {
    // As the API has them.
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    let list = |lines: Vec<String>| lines.join("; ");
    let absent = list(
        workloads
            .iter()
            .filter(|it| it.has_no_pod())
            .map(|it| format!("{} has no pod that is available", it.id))
            .collect(),
    );
    let moving = workloads.iter().filter_map(|it| match &it.verdict {
        Verdict::Waiting { message, .. } => Some(message.clone()),
        Verdict::Ready if !it.as_desired => Some(format!("{} is not yet as the release wants it", it.id)),
        _ => None,
    });
    let moving = list(moving.collect());
    let failing = workloads.iter().filter_map(|it| match &it.verdict {
        Verdict::Failing { message, .. } => Some(message.clone()),
        _ => None,
    });
    let failing = list(failing.collect());
    let condition = |type_: &str, holds: bool, reason: &str, message: &str| {
        let status = if holds { ConditionStatus::True } else { ConditionStatus::False };
        let known = find(&before.conditions, type_).filter(|condition| condition.status == status);
        Condition {
            type_: type_.to_owned(),
            status,
            reason: reason.to_owned(),
            message: message.to_owned(),
            last_transition_time: known.map_or(Time(now), |condition| condition.last_transition_time.clone()),
        }
    };
    let or = |text: &str, reason: &'static str| if text.is_empty() { "AsExpected" } else { reason };
    let conditions = vec![
        condition("Available", absent.is_empty(), or(&absent, "WorkloadsUnavailable"), &absent),
        condition("Progressing", !moving.is_empty(), or(&moving, "RollingOut"), &moving),
        condition("Degraded", !failing.is_empty(), or(&failing, "WorkloadsFailing"), &failing),
        condition("Upgradeable", true, "AsExpected", ""),
    ];
    let versions = if workloads.iter().all(Workload::is_rolled_out) {
        let desired = desired.versions().into_iter();
        desired.map(|(name, version)| OperandVersion { name: name.to_owned(), version: version.to_owned() }).collect()
    } else {
        before.versions.clone()
    };
    OperatorReport { generation: before.generation, conditions, versions }
}

#[cfg(test)]
mod tests;
