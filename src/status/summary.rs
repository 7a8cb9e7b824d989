//! One line for `Progressing` from a reason: what kind of trouble it is, in words for administrators (payload-and-apply §4.7).

use crate::status::failure::{MULTIPLE_ERRORS, UpdateError};

/// Reasons whose summary does not depend on names.
const BY_REASON: [(&str, &str); 14] = [
    ("UpdatePayloadResourceNotFound", "some resources could not be written yet"),
    ("UpdatePayloadResourceConflict", "some resources could not be written yet"),
    ("UpdatePayloadClusterDown", "the API server is not reachable"),
    ("UpdatePayloadClusterError", "the API server reports an internal error"),
    ("UpdatePayloadClusterOverloaded", "the API server is overloaded"),
    ("UpdatePayloadClusterUnauthorized", "the API server does not accept our credentials"),
    ("UpdatePayloadRetrievalFailed", "the release could not be downloaded"),
    ("UpdatePayloadResourceForbidden", "the API server refuses changes of the release"),
    ("UpdatePayloadResourceTypeMissing", "an API extension that the release needs is not there"),
    ("UpdatePayloadResourceInvalid", "some configuration of the cluster is invalid"),
    ("UpdatePayloadIntegrity", "the contents of the release are invalid"),
    ("ImageVerificationFailed", "the image may not be safe to use"),
    ("UpgradePreconditionCheckFailed", "the update may not be safe to apply"),
    ("NoDesiredImage", "no release image is known"),
];

/// Reasons that name who is concerned: what is said of one, of several, and of nobody known.
const BY_NAME: [(&str, &str, &str, &str); 10] = [
    ("ClusterOperatorDegraded", "the cluster operator {} is degraded", "", "a cluster operator is degraded"),
    ("ClusterOperatorsDegraded", "", "the cluster operators {} are degraded", "some cluster operators are degraded"),
    (
        "ClusterOperatorNotAvailable",
        "the cluster operator {} is not available",
        "",
        "a cluster operator is not available",
    ),
    (
        "ClusterOperatorsNotAvailable",
        "",
        "the cluster operators {} are not available",
        "some cluster operators are not available",
    ),
    (
        "ClusterOperatorNoVersions",
        "the cluster operator {} declares no versions",
        "",
        "a cluster operator declares no versions",
    ),
    (
        "ClusterOperatorsNoVersions",
        "",
        "the cluster operators {} declare no versions",
        "some cluster operators declare no versions",
    ),
    ("ClusterOperatorUpdating", "the cluster operator {} is updating", "", "a cluster operator is updating"),
    ("ClusterOperatorsUpdating", "", "the cluster operators {} are updating", "some cluster operators are updating"),
    (
        "WorkloadNotAvailable",
        "the workload {} is not available",
        "the workloads {} are not available",
        "a workload is not available",
    ),
    (
        "WorkloadNotProgressing",
        "the workload {} cannot roll out",
        "the workloads {} cannot roll out",
        "a workload cannot roll out",
    ),
];

/// What happened, without lead-in and full stop.
pub(super) fn of(error: &UpdateError) -> String {
    if error.reason == MULTIPLE_ERRORS && !error.nested.is_empty() {
        return join(error.nested.iter().map(of));
    }
    if let Some((_, text)) = BY_REASON.iter().find(|(reason, _)| *reason == error.reason) {
        return (*text).to_owned();
    }
    if let Some((_, one, several, nobody)) = BY_NAME.iter().find(|(reason, ..)| *reason == error.reason) {
        let pattern = match error.names.len() {
            0 => nobody,
            1 if !one.is_empty() => one,
            _ if !several.is_empty() => several,
            _ => one,
        };
        return pattern.replace("{}", &error.names.join(", "));
    }
    match error.reason.as_str() {
        "" => "an error occurred, condition Failing has it".to_owned(),
        reason if reason.starts_with("UpdatePayload") => "the release could not be applied".to_owned(),
        reason => format!("an unknown error has occurred: {reason}"),
    }
}

/// Distinct texts in their order, so that several causes read as one sentence.
pub(super) fn join(texts: impl Iterator<Item = String>) -> String {
    let mut distinct: Vec<String> = Vec::new();
    for text in texts {
        if !distinct.contains(&text) {
            distinct.push(text);
        }
    }
    distinct.join("; ")
}
