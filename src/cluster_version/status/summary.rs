//! The line of `Progressing` for an error: what kind of problem it is, in words for administrators.

use crate::cluster_version::status::failure::{Reason, UpdateError};

/// What happened, as a clause without lead-in and full stop.
pub(super) fn of(error: &UpdateError) -> String {
    let text = match &error.reason {
        Reason::MultipleErrors if !error.nested.is_empty() => return join(error.nested.iter().map(of)),
        Reason::ResourceNotFound | Reason::ResourceConflict => "some resources could not be written yet",
        Reason::ResourceForbidden => "the API server refuses changes of the release",
        Reason::ResourceInvalid => "some configuration of the cluster is invalid",
        Reason::ResourceTypeMissing => "an API extension that the release needs is missing",
        Reason::ClusterDown => "the API server is not reachable",
        Reason::ClusterError => "the API server reports an internal error",
        Reason::ClusterOverloaded => "the API server is overloaded",
        Reason::ClusterUnauthorized => "the API server does not accept our credentials",
        Reason::Integrity => "the contents of the release are invalid",
        Reason::Failed => "the release could not be applied",
        Reason::OperatorNotAvailable | Reason::OperatorsNotAvailable => {
            return named(error, "cluster operator", ["is not available", "are not available"]);
        }
        Reason::OperatorDegraded | Reason::OperatorsDegraded => {
            return named(error, "cluster operator", ["is degraded", "are degraded"]);
        }
        Reason::OperatorUpdating | Reason::OperatorsUpdating => {
            return named(error, "cluster operator", ["is updating", "are updating"]);
        }
        Reason::OperatorNoVersions => {
            return named(error, "cluster operator", ["declares no versions", "declare no versions"]);
        }
        Reason::NodesUpdating
        | Reason::WorkloadUpdating
        | Reason::WorkloadsUpdating
        | Reason::DefinitionNotEstablished
        | Reason::DefinitionsNotEstablished => return error.message.clone(),
        Reason::WorkloadNotAvailable => return named(error, "workload", ["is not available", "are not available"]),
        Reason::WorkloadNotProgressing => return named(error, "workload", ["cannot roll out", "cannot roll out"]),
        Reason::Other(reason) if reason.is_empty() => "an error occurred, condition Failing has it",
        reason => return format!("an unknown error has occurred: {reason}"),
    };
    text.to_owned()
}

/// "the workloads a, b are not available", or "a workload is not available" if the error has no names.
fn named(error: &UpdateError, noun: &str, [one, several]: [&str; 2]) -> String {
    match error.names.as_slice() {
        [] => format!("a {noun} {one}"),
        [name] => format!("the {noun} {name} {one}"),
        names => format!("the {noun}s {} {several}", names.join(", ")),
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
