//! What an update makes of the verdict of a gate: whether its node goes on past the object, and what conditions report. The gate
//! is the same in every mode; how much of it counts is said here.

use crate::cluster_version::graph::Mode;
use crate::cluster_version::status::failure::{Effect, Reason, UpdateError};
use crate::gate::{self, Observed, Reason as Seen, Verdict};

/// An object that is not as the update wants it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Unready {
    /// What is waited for, as the progress record has it.
    pub reason: String,
    pub message: String,
    /// What conditions report.
    pub error: UpdateError,
}

impl Unready {
    /// Its node goes on nevertheless.
    pub(crate) fn lets_pass(&self) -> bool {
        self.error.effect == Effect::Report
    }

    /// Nothing is wrong, it only takes time.
    pub(crate) fn is_wait(&self) -> bool {
        self.error.effect == Effect::Wait
    }
}

/// What conditions report of an object that is not ready, and how it counts in an install, in an update and while reconciling. An
/// effect that is missing says that it does not count: the gate is open.
fn report(kind: &str, seen: Seen) -> (Reason, [Option<Effect>; 3]) {
    const NOT: Option<Effect> = None;
    const REPORT: Option<Effect> = Some(Effect::Report);
    const WAIT: Option<Effect> = Some(Effect::Wait);
    const LATER: Option<Effect> = Some(Effect::FailAfterInterval);
    const FAIL: Option<Effect> = Some(Effect::Fail);
    match (kind, seen) {
        ("ClusterOperator", Seen::NoVersions) => (Reason::OperatorNoVersions, [FAIL, FAIL, FAIL]),
        ("ClusterOperator", Seen::NotFound) => (Reason::ResourceNotFound, [LATER, LATER, LATER]),
        // An operator that has never been available is given the time that a degraded one has. In an install none has been;
        // later one that says nothing about its availability has not.
        ("ClusterOperator", Seen::AvailabilityUnknown) => (Reason::OperatorNotAvailable, [LATER, LATER, LATER]),
        ("ClusterOperator", Seen::NotAvailable) => (Reason::OperatorNotAvailable, [LATER, FAIL, FAIL]),
        ("ClusterOperator", Seen::Degraded) => (Reason::OperatorDegraded, [REPORT, LATER, LATER]),
        ("ClusterOperator", _) => (Reason::OperatorUpdating, [NOT, WAIT, WAIT]),
        ("CustomResourceDefinition", Seen::NamesNotAccepted) => (Reason::Failed, [FAIL, FAIL, FAIL]),
        // It is given some time before it is a failure.
        ("CustomResourceDefinition", _) => (Reason::DefinitionNotEstablished, [WAIT, WAIT, WAIT]),
        ("Job", Seen::JobFailed) => (Reason::Failed, [FAIL, FAIL, FAIL]),
        ("Job", _) => (Reason::WorkloadUpdating, [WAIT, WAIT, NOT]),
        // Deployment and DaemonSet.
        (_, Seen::Deleting) => (Reason::Failed, [NOT, FAIL, FAIL]),
        (_, Seen::NotAvailable) => (Reason::WorkloadNotAvailable, [NOT, FAIL, FAIL]),
        (_, Seen::NotProgressing) => (Reason::WorkloadNotProgressing, [NOT, FAIL, FAIL]),
        (_, _) => (Reason::WorkloadUpdating, [NOT, WAIT, NOT]),
    }
}

/// Evaluates the gate of a manifest. `live` is the latest known state of its object. `None`: the node goes on, and nothing is
/// reported.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>, mode: Mode) -> Option<Unready> {
    let (seen, message, cause) = match gate::judge(desired, live) {
        Verdict::Ready => return None,
        Verdict::Waiting { reason, message } => (reason, message, None),
        Verdict::Failing { reason, message, cause } => (reason, message, cause),
    };
    let (reported, [install, update, reconcile]) = report(desired.kind(), seen);
    let effect = match mode {
        Mode::Install => install,
        Mode::Update => update,
        Mode::Reconcile => reconcile,
    }?;
    let waits = effect == Effect::Wait;
    let name = if waits { UpdateError::name_of(&desired.id()) } else { desired.name().to_owned() };
    let nested =
        cause.map(|cause| UpdateError::new(cause.reason.map_or(Reason::NoCondition, Reason::Other), cause.message));
    let error = UpdateError {
        effect,
        names: vec![name],
        nested: nested.into_iter().collect(),
        ..UpdateError::new(reported, &message)
    };
    let reason = match waits && desired.kind() != "ClusterOperator" {
        true => seen.as_str().to_owned(),
        false => error.reason.to_string(),
    };
    Some(Unready { reason, message, error })
}

/// Why the gate of this manifest can never open, whatever the state of the live object; `None` if it can.
pub(crate) fn never_opens(desired: &Observed) -> Option<UpdateError> {
    let unready = judge(desired, None, Mode::Update)?;
    Some(unready.error).filter(|error| error.reason == Reason::OperatorNoVersions)
}

/// What is waited for after this manifest, to be read after the object's name: "to be established". `None` if that is nothing.
pub(crate) fn awaits(desired: &Observed, mode: Mode) -> Option<String> {
    let ready = gate::awaits(desired)?;
    match (desired.kind(), mode) {
        ("Deployment" | "DaemonSet", Mode::Install) => None,
        ("ClusterOperator", Mode::Install) => Some("to be available".to_owned()),
        ("Deployment" | "DaemonSet" | "Job", Mode::Reconcile) => Some("not to have failed".to_owned()),
        _ => Some(ready),
    }
}

#[cfg(test)]
mod tests;
