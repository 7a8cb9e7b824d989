//! Deployment, DaemonSet and StatefulSet: rolled out. Job: complete.

use super::observed::{Condition, Observed, number};
use super::{Cause, Reason, Verdict};

pub(crate) fn deployment(desired: &Observed, live: Option<&Observed>) -> Verdict {
    let rollout = |live: &Observed| {
        let desired = live.spec.replicas.as_i64().unwrap_or(1);
        let (total, updated) = (number(&live.status.replicas), number(&live.status.updated_replicas));
        let available = number(&live.status.available_replicas);
        // A Deployment without a progress deadline has no such condition; then only the numbers count.
        let progressed = live.condition("Progressing").is_none_or(|c| c.reason == "NewReplicaSetAvailable");
        let complete = updated >= desired && total <= updated && available >= desired && progressed;
        (!complete).then(|| {
            let old = total.saturating_sub(updated);
            format!("{updated} of {desired} replicas updated, {available} available, {old} old ones left")
        })
    };
    rolled_out(desired, live, deployment_failure, rollout)
}

/// A Deployment of an operator: it is available, and no pods of an older template are left. How many replicas it has does not count.
pub(crate) fn operator(desired: &Observed, live: Option<&Observed>) -> Verdict {
    let failure = |desired: &Observed, live: &Observed| {
        let stopped = live.condition("Progressing").filter(|it| it.reason == "ProgressDeadlineExceeded")?;
        let message = format!("{} made no progress within its deadline: {}", desired.id(), stopped.text());
        Some(Verdict::failing(Reason::NotProgressing, &message, Some(stopped.into())))
    };
    let rollout = |live: &Observed| {
        let (total, updated) = (number(&live.status.replicas), number(&live.status.updated_replicas));
        let available = live.condition("Available");
        match total.saturating_sub(updated) {
            old @ 1.. => Some(format!("{old} pods of the former version are left")),
            _ if Condition::is(available, "True") => None,
            _ => Some(available.map_or_else(|| "it does not say that it is available".to_owned(), |it| it.text())),
        }
    };
    rolled_out(desired, live, failure, rollout)
}

pub(crate) fn awaits_deployment(desired: &Observed) -> String {
    let replicas = desired.spec.replicas.as_i64().unwrap_or(1);
    format!("to be rolled out: {replicas} replicas updated and available, no old ones left")
}

pub(crate) fn awaits_daemon_set(_desired: &Observed) -> String {
    "to be rolled out: a pod updated and available on every node it is scheduled to".to_owned()
}

pub(crate) fn awaits_job(_desired: &Observed) -> String {
    "to be complete".to_owned()
}

/// Like a Deployment, but only its deletion is a failure, since a DaemonSet has no conditions.
pub(crate) fn daemon_set(desired: &Observed, live: Option<&Observed>) -> Verdict {
    let rollout = |live: &Observed| {
        let status = &live.status;
        let (desired, updated) = (number(&status.desired_number_scheduled), number(&status.updated_number_scheduled));
        let available = number(&status.number_available);
        // With OnDelete the controller does not replace pods, so the gate would never open.
        let on_delete = live.spec.update_strategy.get("type").is_some_and(|kind| kind == "OnDelete");
        let complete = available >= desired && (on_delete || updated >= desired);
        (!complete).then(|| format!("{updated} of {desired} pods updated, {available} available"))
    };
    rolled_out(desired, live, |_, _| None, rollout)
}

/// It has no gate, and is judged only for the report of its component.
pub(super) fn stateful_set(desired: &Observed, live: Option<&Observed>) -> Verdict {
    let rollout = |live: &Observed| {
        let (status, strategy) = (&live.status, &live.spec.update_strategy);
        let wanted = live.spec.replicas.as_i64().unwrap_or(1);
        let (updated, available) = (number(&status.updated_replicas), number(&status.available_replicas));
        // Pods below the partition, and all of them with OnDelete, stay what they are until somebody asks for more.
        let on_delete = strategy.get("type").is_some_and(|kind| kind == "OnDelete");
        let partition = strategy.pointer("/rollingUpdate/partition").map_or(0, number);
        let complete = available >= wanted && (on_delete || updated >= wanted.saturating_sub(partition));
        (!complete).then(|| format!("{updated} of {wanted} replicas updated, {available} available"))
    };
    rolled_out(desired, live, |_, _| None, rollout)
}

/// Between complete and failed for good it waits.
pub(crate) fn job(desired: &Observed, live: Option<&Observed>) -> Verdict {
    let id = desired.id();
    let Some(live) = live else { return Verdict::waiting(Reason::NotFound, format!("{id} is not there yet")) };
    let all_succeeded =
        || live.spec.completions.as_i64().is_some_and(|desired| number(&live.status.succeeded) >= desired);
    if Condition::is(live.condition("Complete"), "True") {
        return Verdict::Ready;
    }
    // Between two attempts a Job has failed pods and no active ones, so only the condition is final.
    if let Some(failed) = live.condition("Failed").filter(|condition| condition.status == "True") {
        let failed = if failed.reason.is_empty() { Condition { reason: "DeadlineExceeded", ..failed } } else { failed };
        let message = format!("{id} failed and will not be retried: {}", failed.text());
        return Verdict::failing(Reason::JobFailed, &message, Some(failed.into()));
    }
    if all_succeeded() {
        return Verdict::Ready;
    }
    if live.is_deleting() {
        return Verdict::waiting(Reason::Deleting, format!("{id} is being deleted before it was complete"));
    }
    let (active, failed) = (number(&live.status.active), number(&live.status.failed));
    Verdict::waiting(Reason::Running, format!("{id} is not complete: {active} pods active, {failed} failed so far"))
}

/// The verdict on a workload whose pods are replaced. `failure` and `rollout` only see a status that belongs to the current spec, since
/// right after a write the status still shows the previous rollout. `rollout` describes what is missing.
fn rolled_out(
    desired: &Observed,
    live: Option<&Observed>,
    failure: fn(&Observed, &Observed) -> Option<Verdict>,
    rollout: impl Fn(&Observed) -> Option<String>,
) -> Verdict {
    let id = desired.id();
    let Some(live) = live else { return Verdict::waiting(Reason::NotFound, format!("{id} is not there yet")) };
    if live.is_deleting() {
        let message = format!(
            "{id} is being deleted and will be created again; if a finalizer blocks the deletion, remove the finalizer"
        );
        return Verdict::failing(Reason::Deleting, &message, None);
    }
    if !live.is_current() {
        return Verdict::waiting(Reason::NotObserved, format!("the controller of {id} has not seen the last change"));
    }
    if let Some(verdict) = failure(desired, live) {
        return verdict;
    }
    match rollout(live) {
        Some(missing) => Verdict::waiting(Reason::RollingOut, format!("{id} is rolling out: {missing}")),
        None => Verdict::Ready,
    }
}

fn deployment_failure(desired: &Observed, live: &Observed) -> Option<Verdict> {
    let [replica_failure, available, progressing] =
        ["ReplicaFailure", "Available", "Progressing"].map(|type_| live.condition(type_));
    let id = desired.id();
    let (reason, what, cause) = if Condition::is(replica_failure, "True") {
        (Reason::NotProgressing, "cannot create its pods", replica_failure)
    } else if Condition::is(available, "False") && Condition::is(progressing, "False") {
        (Reason::NotAvailable, "is not available and has stopped progressing", available)
    } else if progressing.is_some_and(|p| p.status == "False" && p.reason == "ProgressDeadlineExceeded") {
        (Reason::NotProgressing, "made no progress within its deadline", progressing)
    } else {
        return None;
    };
    let details = cause.map(|condition| condition.text()).filter(|text| !text.is_empty());
    let message = details.map_or(format!("{id} {what}"), |details| format!("{id} {what}: {details}"));
    Some(Verdict::failing(reason, &message, cause.map(Cause::from)))
}
