//! Is it there yet? Pure predicates over the live object: ClusterOperator, Deployment, DaemonSet, Job, CRD
//! (payload-and-apply §6, decided in §6.5a).
//!
//! A gate is asked again whenever its object changes; it never looks at a clock and remembers nothing. A caller parks
//! on `Waiting` and on `Failing` alike.

mod definition;
mod observed;
mod operator;
mod workload;

use crate::graph::Mode;
use crate::payload::ObjectId;
use crate::status::failure::UpdateError;
pub use observed::Observed;
use serde_json::Value;

/// What a gate says about one manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Ready,
    /// Not yet; the node is parked until the object changes. The error says how the wait is reported in conditions;
    /// none: not at all.
    Waiting {
        reason: String,
        message: String,
        report: Option<UpdateError>,
    },
    /// Failed: reported as the error's effect says. The node stays parked and is judged again when the object
    /// changes; with effect `Report` alone it goes on, but the pass is no success while the error stands (§3.7).
    Failing(UpdateError),
}

/// Judges a wanted object by the live one; `live` is `None` when there is none.
type Gate = fn(&Observed, Option<&Observed>, Mode) -> Verdict;

/// What has to be seen before the gate opens, for people; `None` where nothing is waited for in this mode.
type Awaits = fn(&Observed, Mode) -> Option<String>;

/// Who is gated, by group and kind. Any version of the group counts.
const GATES: [(&str, &str, Gate, Awaits); 5] = [
    ("config.openshift.io", "ClusterOperator", operator::judge, operator::awaits),
    ("apps", "Deployment", workload::deployment, workload::awaits_deployment),
    ("apps", "DaemonSet", workload::daemon_set, workload::awaits_daemon_set),
    ("batch", "Job", workload::job, workload::awaits_job),
    ("apiextensions.k8s.io", "CustomResourceDefinition", definition::judge, definition::awaits),
];

/// Whether objects of this kind have a gate; all others are ready once they are written (§6.6).
pub fn gated(group: &str, kind: &str) -> bool {
    gate(group, kind).is_some()
}

/// What the gate of a live object reads of it; `None` where its kind has no gate.
pub fn observe(id: &ObjectId, live: &Value) -> Option<Observed> {
    gated(&id.group, &id.kind).then(|| Observed::of(live))
}

/// As [`observe`], from JSON that is not decoded otherwise.
pub fn observe_json(id: &ObjectId, live: &str) -> Option<Observed> {
    gated(&id.group, &id.kind).then(|| Observed::read(live.as_bytes()).unwrap_or_default())
}

/// Whether the object that the manifest `want` describes is there. `live` is the freshest known state of it.
pub fn judge(want: &Observed, live: Option<&Observed>, mode: Mode) -> Verdict {
    match gate(want.group(), want.kind()) {
        Some(gate) => gate(want, live, mode),
        None => Verdict::Ready,
    }
}

/// Why the gate of the object that the manifest `want` describes can never open, whatever becomes of the object. `None`
/// where it can.
pub fn hopeless(want: &Observed) -> Option<UpdateError> {
    let operator = (want.group(), want.kind()) == ("config.openshift.io", "ClusterOperator");
    operator.then(|| operator::no_versions(want)).flatten()
}

/// What the gate of the object that the manifest `want` describes will wait for, in words that follow its name: "to be
/// established". `None` for what has no gate, or none in this mode.
pub fn awaits(want: &Observed, mode: Mode) -> Option<String> {
    let (.., awaits) = row(want.group(), want.kind())?;
    awaits(want, mode)
}

fn gate(group: &str, kind: &str) -> Option<Gate> {
    row(group, kind).map(|(_, _, gate, _)| *gate)
}

fn row(group: &str, kind: &str) -> Option<&'static (&'static str, &'static str, Gate, Awaits)> {
    GATES.iter().find(|(g, k, ..)| (*g, *k) == (group, kind))
}

#[cfg(test)]
mod tests;
