//! Is it there yet? Pure predicates over the live object: ClusterOperator, Deployment, DaemonSet, Job, CRD
//! (payload-and-apply §6, decided in §6.5a).

use crate::status::failure::UpdateError;

/// What a gate says about one manifest.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    Ready,
    /// Not yet; the node is parked until the object changes. The error says how the wait is reported in conditions.
    Waiting { reason: String, message: String, report: Option<UpdateError> },
    /// Failed: reported as the error's effect says. The node stays parked and is judged again when the object changes.
    Failing(UpdateError),
}
