//! The requests of the daemon in the audit log.

use crate::harness::audit::Request;

/// The user that the daemon acts as where a release installs it: the service account of its manifests.
pub const DAEMON: &str = "system:serviceaccount:openshift-cluster-version:cluster-version-operator";

/// The statuses of this platform that open a gate, see `Options::gates`.
pub const GATES: &[(&str, &str)] = &[("config.openshift.io", "clusteroperators/status")];

/// Whether it is about what a daemon records of its own work: lease, status, progress record, events.
pub fn is_bookkeeping(request: &Request) -> bool {
    matches!(request.resource_path().as_str(), "leases" | "clusterversions/status" | "events")
        || (request.resource == "configmaps"
            && ["cluster-version-progress", "signatures-managed"].contains(&request.name.as_str()))
}

/// Writes, refused ones too, except a daemon's records of its own work.
pub fn writes(requests: &[Request]) -> Vec<&Request> {
    requests.iter().filter(|request| request.is_write() && !is_bookkeeping(request)).collect()
}
