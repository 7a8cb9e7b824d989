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

use crate::graph::Mode;
use crate::payload::ObjectId;
use crate::status::failure::UpdateError;
pub(crate) use observed::Observed;
use serde_json::Value;

/// The result of a gate.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Verdict {
    Ready,
    /// Not yet; the node is parked until the object changes. The error is what conditions report about the wait; without one
    /// they do not report it.
    Waiting {
        reason: String,
        message: String,
        report: Option<UpdateError>,
    },
    /// Failed; the error's effect says how conditions report it. The node is parked until the object changes, except that
    /// with effect `Report` it goes on.
    Failing(UpdateError),
}

/// Evaluates the desired and the live object; the latter is `None` if it does not exist.
type Gate = fn(&Observed, Option<&Observed>, Mode) -> Verdict;

/// Describes what the gate waits for; `None` if it waits for nothing in this mode.
type Awaits = fn(&Observed, Mode) -> Option<String>;

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

/// Evaluates the gate of a manifest. `live` is the latest known state of its object.
pub(crate) fn judge(desired: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    match row(desired.group(), desired.kind()) {
        Some((_, _, gate, _)) => gate(desired, live, mode),
        None => Verdict::Ready,
    }
}

/// Why the gate of this manifest can never open, whatever the state of the live object; `None` if it can.
pub(crate) fn never_opens(desired: &Observed) -> Option<UpdateError> {
    let operator = (desired.group(), desired.kind()) == ("config.openshift.io", "ClusterOperator");
    operator.then(|| operator::no_versions(desired)).flatten()
}

/// What the gate of this manifest waits for, to be read after the object's name: "to be established". `None` if it has no
/// gate, or none in this mode.
pub(crate) fn awaits(desired: &Observed, mode: Mode) -> Option<String> {
    let (.., awaits) = row(desired.group(), desired.kind())?;
    awaits(desired, mode)
}

fn row(group: &str, kind: &str) -> Option<&'static (&'static str, &'static str, Gate, Awaits)> {
    GATES.iter().find(|(g, k, ..)| (*g, *k) == (group, kind))
}

#[cfg(test)]
mod tests;
