//! Deployment, DaemonSet and Job: rolled out, or failed (payload-and-apply §6.2-§6.4, decided in §6.5a).

use super::Verdict;
use super::observed::{Observed, Seen, number};
use crate::graph::Mode;
use crate::status::failure::{Effect, Reason, UpdateError};

/// No gate in an install; in an update the rollout must be complete; in reconciling only failures count.
pub fn deployment(want: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    let rollout = |live: &Observed| {
        let wanted = live.spec.replicas.as_i64().unwrap_or(1);
        let (total, updated) = (number(&live.status.replicas), number(&live.status.updated_replicas));
        let available = number(&live.status.available_replicas);
        // A Deployment without a progress deadline has no such condition; then the numbers decide alone.
        let told = live.condition("Progressing").is_none_or(|seen| seen.reason == "NewReplicaSetAvailable");
        let complete = updated >= wanted && total <= updated && available >= wanted && told;
        (!complete).then(|| {
            let old = total.saturating_sub(updated);
            format!("{updated} of {wanted} replicas updated, {available} available, {old} old ones left")
        })
    };
    rolled_out(want, live, mode, deployment_failure, rollout)
}

/// What a Deployment's rollout is waited for with.
pub fn awaits_deployment(want: &Observed, mode: Mode) -> Option<String> {
    let replicas = want.spec.replicas.as_i64().unwrap_or(1);
    awaits_rollout(mode, || format!("to be rolled out: {replicas} replicas updated and available, no old ones left"))
}

/// The same of a DaemonSet.
pub fn awaits_daemon_set(_want: &Observed, mode: Mode) -> Option<String> {
    awaits_rollout(mode, || "to be rolled out: a pod updated and available on every node it is for".to_owned())
}

fn awaits_rollout(mode: Mode, rollout: impl FnOnce() -> String) -> Option<String> {
    match mode {
        Mode::Install => None,
        Mode::Update => Some(rollout()),
        Mode::Reconcile => Some("not to have failed".to_owned()),
    }
}

/// The same of a Job.
pub fn awaits_job(_want: &Observed, mode: Mode) -> Option<String> {
    let awaited = if mode == Mode::Reconcile { "not to have failed" } else { "to be complete" };
    Some(awaited.to_owned())
}

/// As a Deployment, but only deletion is a failure (§6.3).
pub fn daemon_set(want: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    let rollout = |live: &Observed| {
        let status = &live.status;
        let (wanted, updated) = (number(&status.desired_number_scheduled), number(&status.updated_number_scheduled));
        let available = number(&status.number_available);
        // With OnDelete somebody else decides when a pod is replaced.
        let by_hand = live.spec.update_strategy.get("type").is_some_and(|kind| kind == "OnDelete");
        let complete = available >= wanted && (by_hand || updated >= wanted);
        (!complete).then(|| format!("{updated} of {wanted} pods updated, {available} available"))
    };
    rolled_out(want, live, mode, |_, _| None, rollout)
}

/// Complete in installs and updates; in reconciling only a failure for good counts.
pub fn job(want: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    let id = want.id();
    let waits = |reason: &str, message: String| match mode {
        Mode::Reconcile => Verdict::Ready,
        _ => waiting(want, reason, message),
    };
    let Some(live) = live else { return waits("NotFound", format!("{id} is not there yet")) };
    let all_succeeded =
        || live.spec.completions.as_i64().is_some_and(|wanted| number(&live.status.succeeded) >= wanted);
    if Seen::is(live.condition("Complete"), "True") {
        return Verdict::Ready;
    }
    // Between two attempts a Job has failed pods and no active ones: only the condition is final.
    if let Some(failed) = live.condition("Failed").filter(|seen| seen.status == "True") {
        let failed = if failed.reason.is_empty() { Seen { reason: "DeadlineExceeded", ..failed } } else { failed };
        let message = format!("{id} failed and will not be tried again: {}", failed.told());
        return Verdict::Failing(broken(want, Reason::Failed, message, Some(failed)));
    }
    if all_succeeded() {
        return Verdict::Ready;
    }
    if live.is_deleting() {
        return waits("Deleting", format!("{id} is being deleted before it was complete"));
    }
    let (active, failed) = (number(&live.status.active), number(&live.status.failed));
    waits("Running", format!("{id} is not complete: {active} pods active, {failed} failed so far"))
}

/// The common course of §6.5a. `failure` sees only a status that answers the present spec: right after a write the
/// old rollout's failure is still there. `rollout` tells what is missing.
fn rolled_out(
    want: &Observed,
    live: Option<&Observed>,
    mode: Mode,
    failure: fn(&Observed, &Observed) -> Option<UpdateError>,
    rollout: impl Fn(&Observed) -> Option<String>,
) -> Verdict {
    if mode == Mode::Install {
        return Verdict::Ready;
    }
    let id = want.id();
    let waits = |reason: &str, message: String| match mode {
        Mode::Update => waiting(want, reason, message),
        _ => Verdict::Ready,
    };
    let Some(live) = live else { return waits("NotFound", format!("{id} is not there yet")) };
    if live.is_deleting() {
        let message =
            format!("{id} is being deleted; it is written again once it is gone, if a finalizer holds it remove that");
        return Verdict::Failing(broken(want, Reason::Failed, message, None));
    }
    if !live.is_current() {
        return waits("NotObserved", format!("the controller of {id} has not seen the last change"));
    }
    if let Some(error) = failure(want, live) {
        return Verdict::Failing(error);
    }
    match rollout(live) {
        Some(missing) => waits("RollingOut", format!("{id} is rolling out: {missing}")),
        None => Verdict::Ready,
    }
}

/// §6.2, in its order.
fn deployment_failure(want: &Observed, live: &Observed) -> Option<UpdateError> {
    let [replica_failure, available, progressing] =
        ["ReplicaFailure", "Available", "Progressing"].map(|type_| live.condition(type_));
    let id = want.id();
    let (reason, what, cause) = if Seen::is(replica_failure, "True") {
        (Reason::WorkloadNotProgressing, "cannot create its pods", replica_failure)
    } else if Seen::is(available, "False") && Seen::is(progressing, "False") {
        (Reason::WorkloadNotAvailable, "is not available and has stopped progressing", available)
    } else if progressing.is_some_and(|p| p.status == "False" && p.reason == "ProgressDeadlineExceeded") {
        (Reason::WorkloadNotProgressing, "made no progress within its deadline", progressing)
    } else {
        return None;
    };
    let told = cause.map(|seen| seen.told()).filter(|told| !told.is_empty());
    let message = told.map_or(format!("{id} {what}"), |told| format!("{id} {what}: {told}"));
    Some(broken(want, reason, message, cause))
}

/// A failure at once.
fn broken(want: &Observed, reason: Reason, message: String, cause: Option<Seen<'_>>) -> UpdateError {
    let nested =
        cause.map(|seen| UpdateError::new(Reason::Other(seen.reason.to_owned()), seen.message)).into_iter().collect();
    UpdateError { names: vec![want.name().to_owned()], nested, ..UpdateError::new(reason, message) }
}

/// A wait that conditions report as no failure.
fn waiting(want: &Observed, reason: &str, message: String) -> Verdict {
    let report = UpdateError {
        effect: Effect::Wait,
        names: vec![want.name().to_owned()],
        ..UpdateError::new(Reason::WorkloadUpdating, message.clone())
    };
    Verdict::Waiting { reason: reason.to_owned(), message, report: Some(report) }
}
