//! What went wrong: the reason that conditions show, how it counts during an update, and how several failures become one.

use std::collections::BTreeMap;
use std::fmt;

/// How an error is reported while an update is under way, weakest first: of several errors the strongest effect counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Effect {
    /// Reported, but the node goes on.
    Report,
    /// Waited for without being a failure.
    Wait,
    /// A failure only after 40 minutes.
    FailAfterInterval,
    /// A failure at once.
    Fail,
}

/// Why something failed. Administrators and tools read the text in conditions, so it never changes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// Several errors that have nothing in common; they are in `nested`.
    MultipleErrors,
    ResourceNotFound,
    ResourceConflict,
    ResourceForbidden,
    ResourceInvalid,
    /// The API server does not serve the kind (yet). No HTTP status says this; discovery does.
    ResourceTypeMissing,
    ClusterDown,
    ClusterError,
    ClusterOverloaded,
    ClusterUnauthorized,
    /// The contents of the release are wrong.
    Integrity,
    /// Anything that fits nothing else.
    Failed,
    OperatorNotAvailable,
    OperatorsNotAvailable,
    OperatorDegraded,
    OperatorsDegraded,
    OperatorUpdating,
    OperatorsUpdating,
    OperatorNoVersions,
    WorkloadNotAvailable,
    WorkloadNotProgressing,
    WorkloadUpdating,
    WorkloadsUpdating,
    DefinitionNotEstablished,
    DefinitionsNotEstablished,
    HandOverTimedOut,
    NoSuccessor,
    /// A live object lacks the condition that is asked for.
    NoCondition,
    /// The reason that a live object's condition gives.
    Other(String),
}

impl Reason {
    pub(crate) fn as_str(&self) -> &str {
        match self {
            Reason::MultipleErrors => "MultipleErrors",
            Reason::ResourceNotFound => "UpdatePayloadResourceNotFound",
            Reason::ResourceConflict => "UpdatePayloadResourceConflict",
            Reason::ResourceForbidden => "UpdatePayloadResourceForbidden",
            Reason::ResourceInvalid => "UpdatePayloadResourceInvalid",
            Reason::ResourceTypeMissing => "UpdatePayloadResourceTypeMissing",
            Reason::ClusterDown => "UpdatePayloadClusterDown",
            Reason::ClusterError => "UpdatePayloadClusterError",
            Reason::ClusterOverloaded => "UpdatePayloadClusterOverloaded",
            Reason::ClusterUnauthorized => "UpdatePayloadClusterUnauthorized",
            Reason::Integrity => "UpdatePayloadIntegrity",
            Reason::Failed => "UpdatePayloadFailed",
            Reason::OperatorNotAvailable => "ClusterOperatorNotAvailable",
            Reason::OperatorsNotAvailable => "ClusterOperatorsNotAvailable",
            Reason::OperatorDegraded => "ClusterOperatorDegraded",
            Reason::OperatorsDegraded => "ClusterOperatorsDegraded",
            Reason::OperatorUpdating => "ClusterOperatorUpdating",
            Reason::OperatorsUpdating => "ClusterOperatorsUpdating",
            Reason::OperatorNoVersions => "ClusterOperatorNoVersions",
            Reason::WorkloadNotAvailable => "WorkloadNotAvailable",
            Reason::WorkloadNotProgressing => "WorkloadNotProgressing",
            Reason::WorkloadUpdating => "WorkloadUpdating",
            Reason::WorkloadsUpdating => "WorkloadsUpdating",
            Reason::DefinitionNotEstablished => "CustomResourceDefinitionNotEstablished",
            Reason::DefinitionsNotEstablished => "CustomResourceDefinitionsNotEstablished",
            Reason::HandOverTimedOut => "HandOverTimedOut",
            Reason::NoSuccessor => "NoSuccessor",
            Reason::NoCondition => "NoCondition",
            Reason::Other(text) => text,
        }
    }

    /// The reason and message of several errors of this reason; `{names}` stands for the names of all of them. `None`
    /// for reasons whose errors are always listed one by one.
    pub(crate) fn plural(&self) -> Option<(Reason, &'static str)> {
        Some(match self {
            Reason::OperatorNotAvailable => {
                (Reason::OperatorsNotAvailable, "Cluster operators {names} are not available")
            }
            Reason::OperatorDegraded => (Reason::OperatorsDegraded, "Cluster operators {names} are degraded"),
            Reason::OperatorUpdating => {
                (Reason::OperatorsUpdating, "Cluster operators {names} are not yet at the release's versions")
            }
            Reason::WorkloadUpdating => (Reason::WorkloadsUpdating, "Workloads {names} are rolling out"),
            Reason::DefinitionNotEstablished => {
                (Reason::DefinitionsNotEstablished, "Custom resource definitions {names} are not served yet")
            }
            _ => return None,
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// An error with the reason that administrators and tools see.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub(crate) struct UpdateError {
    pub reason: Reason,
    pub message: String,
    pub effect: Effect,
    /// Names of the operators or workloads concerned.
    pub names: Vec<String>,
    /// The errors that this one sums up, or its causes.
    pub nested: Vec<UpdateError>,
}

impl UpdateError {
    /// An error that is a failure at once.
    pub(crate) fn new(reason: Reason, message: impl Into<String>) -> Self {
        UpdateError { reason, message: message.into(), effect: Effect::Fail, names: Vec::new(), nested: Vec::new() }
    }

    /// Several errors as one, with a bullet for each distinct message.
    pub(super) fn multiple(children: Vec<UpdateError>) -> Self {
        let mut messages: Vec<&str> = children.iter().map(|e| e.message.as_str()).collect();
        messages.sort_unstable();
        messages.dedup();
        let text = format!("Several errors prevent the release from being applied:\n* {}", messages.join("\n* "));
        UpdateError { nested: children, ..UpdateError::new(Reason::MultipleErrors, text) }
    }
}

/// The reason for an error response of the API server: `code` is the HTTP status, `reason` that of the `Status` object,
/// empty if the body was none. The code counts only where the reason says nothing.
pub(crate) fn classify(code: u16, reason: &str) -> Reason {
    match (reason, code) {
        ("NotFound" | "AlreadyExists", _) => Reason::ResourceNotFound,
        ("Conflict", _) => Reason::ResourceConflict,
        ("Timeout" | "ServiceUnavailable", _) => Reason::ClusterDown,
        ("InternalError", _) => Reason::ClusterError,
        ("Invalid", _) => Reason::ResourceInvalid,
        ("Unauthorized", _) => Reason::ClusterUnauthorized,
        ("Forbidden", _) => Reason::ResourceForbidden,
        ("ServerTimeout" | "TooManyRequests", _) => Reason::ClusterOverloaded,
        (_, 404) => Reason::ResourceNotFound,
        (_, 409) => Reason::ResourceConflict,
        (_, 401) => Reason::ClusterUnauthorized,
        (_, 403) => Reason::ResourceForbidden,
        (_, 422) => Reason::ResourceInvalid,
        (_, 429) => Reason::ClusterOverloaded,
        // A proxy or load balancer answered in place of the API server.
        (_, 500..=599) => Reason::ClusterDown,
        _ => Reason::Failed,
    }
}

/// All errors of a rollout as the one that is reported; `None` if there are none. Errors of one reason that has a plural
/// become one error with all names. They stand after the others, sorted by reason.
pub(crate) fn aggregate(errors: Vec<UpdateError>) -> Option<UpdateError> {
    let mut joined: Vec<UpdateError> = Vec::new();
    let mut groups: BTreeMap<String, Vec<UpdateError>> = BTreeMap::new();
    for error in errors {
        if error.reason.plural().is_some() {
            groups.entry(error.reason.to_string()).or_default().push(error);
        } else {
            joined.push(error);
        }
    }
    joined.extend(groups.into_values().filter_map(join_group));
    if joined.len() > 1 { Some(UpdateError::multiple(joined)) } else { joined.pop() }
}

fn join_group(mut group: Vec<UpdateError>) -> Option<UpdateError> {
    if group.len() < 2 {
        return group.pop();
    }
    let mut names: Vec<String> = group.iter().flat_map(|e| e.names.iter().cloned()).collect();
    names.sort();
    names.dedup();
    let (reason, pattern) = group.first()?.reason.plural()?;
    Some(UpdateError {
        reason,
        message: pattern.replace("{names}", &names.join(", ")),
        effect: group.iter().map(|e| e.effect).max()?,
        names,
        nested: group,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn api_server_errors_map_to_reasons() {
        let table = [
            (404, "NotFound", "UpdatePayloadResourceNotFound"),
            (409, "AlreadyExists", "UpdatePayloadResourceNotFound"),
            (409, "Conflict", "UpdatePayloadResourceConflict"),
            (409, "", "UpdatePayloadResourceConflict"),
            (504, "Timeout", "UpdatePayloadClusterDown"),
            (503, "ServiceUnavailable", "UpdatePayloadClusterDown"),
            (502, "", "UpdatePayloadClusterDown"),
            (500, "", "UpdatePayloadClusterDown"),
            (500, "InternalError", "UpdatePayloadClusterError"),
            (422, "Invalid", "UpdatePayloadResourceInvalid"),
            (401, "Unauthorized", "UpdatePayloadClusterUnauthorized"),
            (403, "Forbidden", "UpdatePayloadResourceForbidden"),
            (504, "ServerTimeout", "UpdatePayloadClusterOverloaded"),
            (429, "TooManyRequests", "UpdatePayloadClusterOverloaded"),
            (429, "", "UpdatePayloadClusterOverloaded"),
            (400, "BadRequest", "UpdatePayloadFailed"),
            (0, "", "UpdatePayloadFailed"),
        ];
        for (code, reason, want) in table {
            assert_eq!(classify(code, reason).as_str(), want, "{code} {reason}");
        }
    }

    fn operator(reason: Reason, name: &str, effect: Effect) -> UpdateError {
        UpdateError { effect, names: vec![name.into()], ..UpdateError::new(reason, format!("{name} is not well")) }
    }

    #[test]
    fn errors_of_one_reason_become_one_with_the_strongest_effect() {
        assert_eq!(aggregate(Vec::new()), None);
        let one = operator(Reason::OperatorDegraded, "a", Effect::Report);
        assert_eq!(aggregate(vec![one.clone()]), Some(one.clone()));
        let both = aggregate(vec![operator(Reason::OperatorDegraded, "b", Effect::FailAfterInterval), one]).unwrap();
        assert_eq!(both.reason.as_str(), "ClusterOperatorsDegraded");
        assert_eq!(both.message, "Cluster operators a, b are degraded");
        assert_eq!((both.names.join(","), both.effect), ("a,b".into(), Effect::FailAfterInterval));
    }

    #[test]
    fn strongest_effect_wins_in_any_order() {
        use Effect::{Fail, FailAfterInterval, Report, Wait};
        let order = [Report, Wait, FailAfterInterval, Fail];
        for (i, weak) in order.into_iter().enumerate() {
            for strong in order.into_iter().skip(i) {
                for pair in [[weak, strong], [strong, weak]] {
                    let errors = pair.into_iter().zip(["b", "a"]);
                    let errors = errors.map(|(effect, name)| operator(Reason::OperatorUpdating, name, effect));
                    let joined = aggregate(errors.collect()).unwrap();
                    assert_eq!(joined.effect, strong, "{pair:?}");
                    assert_eq!((joined.names.join(","), joined.nested.len()), ("a,b".into(), 2));
                }
            }
        }
        // Beside an error of another kind the whole is a failure, and its children keep their effects.
        let all = aggregate(vec![
            operator(Reason::OperatorUpdating, "a", Report),
            UpdateError::new(Reason::Other("Y".into()), "y"),
            operator(Reason::OperatorUpdating, "b", Wait),
        ]);
        let all = all.unwrap();
        let effects: Vec<_> = all.nested.iter().map(|e| (e.reason.as_str(), e.effect)).collect();
        assert_eq!((all.effect, effects), (Fail, vec![("Y", Fail), ("ClusterOperatorsUpdating", Wait)]));
    }

    #[test]
    fn errors_of_several_reasons_are_listed_with_operators_last() {
        let errors = vec![
            operator(Reason::OperatorUpdating, "z", Effect::Wait),
            operator(Reason::OperatorDegraded, "y", Effect::Fail),
            UpdateError::new(Reason::Other("X".into()), "x is broken"),
        ];
        let all = aggregate(errors).unwrap();
        assert_eq!((&all.reason, all.effect), (&Reason::MultipleErrors, Effect::Fail));
        let reasons: Vec<&str> = all.nested.iter().map(|e| e.reason.as_str()).collect();
        assert_eq!(reasons, ["X", "ClusterOperatorDegraded", "ClusterOperatorUpdating"]);
        assert!(all.message.ends_with(":\n* x is broken\n* y is not well\n* z is not well"), "{}", all.message);
    }
}
