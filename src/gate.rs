//! Gates: whether an object has reached the state that the manifests after it wait for. Only ClusterOperators,
//! Deployments, DaemonSets, Jobs and CustomResourceDefinitions have one.
//!
//! A gate is a function of the live object; it keeps no state and reads no clock. The caller evaluates it again whenever the
//! object changes.

mod definition;
mod observed;
mod operator;
pub(crate) mod reported;
mod workload;

use crate::error::{CAUSE, shortened};
use crate::object::manifest::ObjectId;
use observed::Condition;
pub(crate) use observed::Observed;
use serde_json::Value;

/// The result of a gate. What becomes of it is up to whoever waits: the gate knows neither how urgent the object is nor what
/// happens meanwhile.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Ready,
    /// Not yet, and nothing is wrong.
    Waiting {
        reason: Reason,
        message: String,
    },
    /// Something is wrong. The cause is what the object itself says of it.
    Failing {
        reason: Reason,
        message: String,
        cause: Option<Cause>,
    },
}

/// Why an object is not ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// It does not exist.
    NotFound,
    Deleting,
    /// Its status is that of an older generation.
    NotObserved,
    /// Its pods are being replaced.
    RollingOut,
    /// A Job that is not complete.
    Running,
    /// A Job that has failed for good.
    JobFailed,
    /// Pods cannot be created, or there was no progress for too long.
    NotProgressing,
    NotAvailable,
    /// It does not say whether it is available.
    AvailabilityUnknown,
    /// It says that it is degraded, or does not say that it is not.
    Degraded,
    /// Its versions are not those of the manifest.
    OtherVersions,
    /// The manifest has no versions, so that nothing tells when it is ready: it never is.
    NoVersions,
    NotEstablished,
    NamesNotAccepted,
}

impl Reason {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Reason::NotFound => "NotFound",
            Reason::Deleting => "Deleting",
            Reason::NotObserved => "NotObserved",
            Reason::RollingOut => "RollingOut",
            Reason::Running => "Running",
            Reason::JobFailed => "JobFailed",
            Reason::NotProgressing => "NotProgressing",
            Reason::NotAvailable => "NotAvailable",
            Reason::AvailabilityUnknown => "AvailabilityUnknown",
            Reason::Degraded => "Degraded",
            Reason::OtherVersions => "OtherVersions",
            Reason::NoVersions => "NoVersions",
            Reason::NotEstablished => "NotEstablished",
            Reason::NamesNotAccepted => "NamesNotAccepted",
        }
    }
}

/// The condition that explains a failure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Cause {
    /// `None`: the object lacks the condition, as the message says.
    pub reason: Option<String>,
    pub message: String,
}

impl Verdict {
    fn waiting(reason: Reason, message: String) -> Verdict {
        Verdict::Waiting { reason, message }
    }

    /// Of a long message beginning and end are kept.
    fn failing(reason: Reason, message: &str, cause: Option<Cause>) -> Verdict {
        Verdict::Failing { reason, message: shortened(message, CAUSE).into_owned(), cause }
    }
}

impl From<Condition<'_>> for Cause {
    fn from(condition: Condition<'_>) -> Cause {
        Cause { reason: Some(condition.reason.to_owned()), message: condition.message.to_owned() }
    }
}

/// Evaluates the desired and the live object; the latter is `None` if it does not exist.
type Gate = fn(&Observed, Option<&Observed>) -> Verdict;

/// Describes what the gate waits for.
type Awaits = fn(&Observed) -> String;

/// The gates by group and kind, for any version of the group.
const GATES: [(&str, &str, Gate, Awaits); 5] = [
    ("config.openshift.io", "ClusterOperator", operator::judge, operator::awaits),
    ("apps", "Deployment", workload::deployment, workload::awaits_deployment),
    ("apps", "DaemonSet", workload::daemon_set, workload::awaits_daemon_set),
    ("batch", "Job", workload::job, workload::awaits_job),
    ("apiextensions.k8s.io", "CustomResourceDefinition", definition::judge, definition::awaits),
];

/// Whether objects of this kind have a gate. All others are ready once they are written.
pub(crate) fn gated(group: &str, kind: &str) -> bool {
    row(group, kind).is_some()
}

/// Whether objects of this kind are looked at by a gate or for the report of their component.
fn observed(id: &ObjectId) -> bool {
    gated(&id.group, &id.kind) || reported::is_workload(&id.group, &id.kind)
}

/// What is read of a live object; `None` if nothing looks at its kind.
pub(crate) fn observe(id: &ObjectId, live: &Value) -> Option<Observed> {
    observed(id).then(|| Observed::of(live))
}

/// Like [`observe`], for an object that is not decoded.
pub(crate) fn observe_json(id: &ObjectId, live: &str) -> Option<Observed> {
    observed(id).then(|| Observed::read(live.as_bytes()).unwrap_or_default())
}

/// Whether the Deployment of an operator is ready, which is less than for a component of a release: it is available with pods of its
/// last template. While a node is drained, some of its replicas may be missing.
pub(crate) fn judge_operator(desired: &Observed, live: Option<&Observed>) -> Verdict {
    workload::operator(desired, live)
}

/// Evaluates the gate of a manifest. `live` is the latest known state of its object.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>) -> Verdict {
    match row(desired.group(), desired.kind()) {
        Some((_, _, gate, _)) => gate(desired, live),
        None => Verdict::Ready,
    }
}

/// What the gate of this manifest waits for, to be read after the object's name: "to be established". `None` if it has no
/// gate.
pub(crate) fn awaits(desired: &Observed) -> Option<String> {
    let (.., awaits) = row(desired.group(), desired.kind())?;
    Some(awaits(desired))
}

fn row(group: &str, kind: &str) -> Option<&'static (&'static str, &'static str, Gate, Awaits)> {
    GATES.iter().find(|(g, k, ..)| (*g, *k) == (group, kind))
}

#[cfg(test)]
mod tests;
