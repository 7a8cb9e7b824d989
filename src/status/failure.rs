//! What went wrong, in the words of the contract: reason, effect, names (payload-and-apply §4.8, §4.9).

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Reason of several errors that have nothing in common; its children are in `nested`.
pub const MULTIPLE_ERRORS: &str = "MultipleErrors";
/// Reason for a kind that the API server does not know (yet): not an HTTP status, found out by discovery.
pub const RESOURCE_TYPE_MISSING: &str = "UpdatePayloadResourceTypeMissing";
/// Reason for whatever fits nothing else.
pub const FAILED: &str = "UpdatePayloadFailed";

/// How an error is reported while an update is under way. The order is that of strength (§4.9).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Effect {
    /// Report it and go on.
    Report,
    /// Keep waiting, no failure.
    None,
    /// A failure only after 40 minutes.
    FailAfterInterval,
    Fail,
}

/// An error with the reason that administrators and tools see. Effect `None` of the Option means "unset": fails at once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, thiserror::Error)]
#[error("{message}")]
pub struct UpdateError {
    /// `ClusterOperatorDegraded`, `UpdatePayloadResourceForbidden`, ...
    pub reason: String,
    /// Reason when several of one kind are joined, if there is one.
    pub plural_reason: Option<String>,
    pub message: String,
    /// For joined errors: `"Cluster operators {names} are not available"`, `{names}` to be filled.
    pub plural_message: Option<String>,
    pub effect: Option<Effect>,
    /// Names of the operators or workloads concerned.
    pub names: Vec<String>,
    /// Children of `MultipleErrors`, and causes for the record.
    pub nested: Vec<UpdateError>,
}

impl UpdateError {
    /// An error of one thing, effect unset.
    pub fn new(reason: &str, message: impl Into<String>) -> Self {
        UpdateError {
            reason: reason.into(),
            plural_reason: None,
            message: message.into(),
            plural_message: None,
            effect: None,
            names: Vec::new(),
            nested: Vec::new(),
        }
    }

    /// An error of one manifest: `manifest_text` is what `ObjectId` displays (or a file name), the `i`-th of `n` in its
    /// node counted from 1, and `hint` says what was answered and what can be done (§4.8).
    pub fn of_manifest(reason: &str, manifest_text: &str, i: usize, n: usize, hint: &str) -> Self {
        let colon = if hint.is_empty() { "" } else { ": " };
        UpdateError::new(reason, format!("Could not update {manifest_text} ({i} of {n}){colon}{hint}"))
    }

    /// Several errors as one, with a bullet for each distinct message (§4.9).
    pub(super) fn multiple(children: Vec<UpdateError>) -> Self {
        let mut messages: Vec<&str> = children.iter().map(|e| e.message.as_str()).collect();
        messages.sort_unstable();
        messages.dedup();
        let text = format!("Several things hold the release back:\n* {}", messages.join("\n* "));
        UpdateError { nested: children, ..UpdateError::new(MULTIPLE_ERRORS, text) }
    }
}

/// The reason for an answer of the API server: `code` is the HTTP status, `reason` that of the `Status` object, empty
/// when the body was none. The reason decides; the code only where there is no telling reason (§4.8).
pub fn classify(code: u16, reason: &str) -> &'static str {
    match (reason, code) {
        ("NotFound" | "AlreadyExists", _) => "UpdatePayloadResourceNotFound",
        ("Conflict", _) => "UpdatePayloadResourceConflict",
        ("Timeout" | "ServiceUnavailable", _) => "UpdatePayloadClusterDown",
        ("InternalError", _) => "UpdatePayloadClusterError",
        ("Invalid", _) => "UpdatePayloadResourceInvalid",
        ("Unauthorized", _) => "UpdatePayloadClusterUnauthorized",
        ("Forbidden", _) => "UpdatePayloadResourceForbidden",
        ("ServerTimeout" | "TooManyRequests", _) => "UpdatePayloadClusterOverloaded",
        (_, 404) => "UpdatePayloadResourceNotFound",
        (_, 409) => "UpdatePayloadResourceConflict",
        (_, 401) => "UpdatePayloadClusterUnauthorized",
        (_, 403) => "UpdatePayloadResourceForbidden",
        (_, 422) => "UpdatePayloadResourceInvalid",
        (_, 429) => "UpdatePayloadClusterOverloaded",
        // Something before the API server answered in its place.
        (_, 500..=599) => "UpdatePayloadClusterDown",
        _ => FAILED,
    }
}

/// All errors of a pass as the one that is reported (§4.9). Those of one reason that has a plural become one error
/// with all names; they stand after the others, sorted by reason. `None` for no errors.
pub fn aggregate(errors: Vec<UpdateError>) -> Option<UpdateError> {
    let mut joined: Vec<UpdateError> = Vec::new();
    let mut groups: BTreeMap<String, Vec<UpdateError>> = BTreeMap::new();
    for error in errors {
        if error.plural_reason.is_some() {
            groups.entry(error.reason.clone()).or_default().push(error);
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
    // Unset fails at once, so it is as strong as `Fail`.
    let effect = group.iter().map(|e| e.effect.unwrap_or(Effect::Fail)).max();
    let first = group.first()?;
    let reason = first.plural_reason.clone()?;
    let message = match &first.plural_message {
        Some(pattern) => pattern.replace("{names}", &names.join(", ")),
        None => group.iter().map(|e| e.message.as_str()).collect::<Vec<_>>().join("; "),
    };
    Some(UpdateError {
        plural_reason: Some(reason.clone()),
        plural_message: first.plural_message.clone(),
        effect,
        names,
        nested: group,
        ..UpdateError::new(&reason, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_the_server_get_the_reason_of_the_table() {
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
            assert_eq!(classify(code, reason), want, "{code} {reason}");
        }
    }

    #[test]
    fn an_error_of_a_manifest_names_it_its_place_and_the_way_out() {
        let text = "configmap \"ns/a\"";
        let error =
            UpdateError::of_manifest("UpdatePayloadResourceForbidden", text, 3, 7, "grant the daemon the right");
        assert_eq!(error.to_string(), "Could not update configmap \"ns/a\" (3 of 7): grant the daemon the right");
        assert_eq!((error.reason.as_str(), error.effect), ("UpdatePayloadResourceForbidden", None));
    }

    fn operator(reason: &str, name: &str, effect: Effect) -> UpdateError {
        UpdateError {
            plural_reason: Some(reason.replace("Operator", "Operators")),
            plural_message: Some("Cluster operators {names} are not well".into()),
            effect: Some(effect),
            names: vec![name.into()],
            ..UpdateError::new(reason, format!("{name} is not well"))
        }
    }

    /// §10.20: one, and several of one reason.
    #[test]
    fn errors_of_one_kind_become_one_and_the_strongest_effect_counts() {
        assert_eq!(aggregate(Vec::new()), None);
        let one = operator("ClusterOperatorDegraded", "a", Effect::Report);
        assert_eq!(aggregate(vec![one.clone()]), Some(one.clone()));
        let both = aggregate(vec![operator("ClusterOperatorDegraded", "b", Effect::FailAfterInterval), one]).unwrap();
        assert_eq!(both.reason, "ClusterOperatorsDegraded");
        assert_eq!(both.message, "Cluster operators a, b are not well");
        assert_eq!((both.names.join(","), both.effect), ("a,b".into(), Some(Effect::FailAfterInterval)));
    }

    /// §10.20: mixed effects; one that is unset fails at once and is as strong as any.
    #[test]
    fn the_strongest_effect_of_a_group_is_that_of_the_group() {
        use Effect::{Fail, FailAfterInterval, None as Wait, Report};
        let order = [Some(Report), Some(Wait), Some(FailAfterInterval), Some(Fail), None];
        for (i, weak) in order.iter().enumerate() {
            for strong in &order[i..] {
                for pair in [[weak, strong], [strong, weak]] {
                    let errors = pair.iter().zip(["b", "a"]);
                    let errors = errors
                        .map(|(effect, name)| UpdateError { effect: **effect, ..operator("OperatorX", name, Fail) });
                    let joined = aggregate(errors.collect()).unwrap();
                    assert_eq!(joined.effect, Some(strong.unwrap_or(Fail)), "{pair:?}");
                    assert_eq!((joined.names.join(","), joined.nested.len()), ("a,b".into(), 2));
                }
            }
        }
        // Beside an error of no operator the effect of the whole is unset, those of its children stay.
        let all = aggregate(vec![
            operator("OperatorX", "a", Report),
            UpdateError::new("Y", "y"),
            operator("OperatorX", "b", Wait),
        ]);
        let all = all.unwrap();
        let effects: Vec<_> = all.nested.iter().map(|e| (e.reason.as_str(), e.effect)).collect();
        assert_eq!((all.effect, effects), (None, vec![("Y", None), ("OperatorsX", Some(Wait))]));
    }

    /// §10.20: several reasons, operators and others.
    #[test]
    fn errors_of_several_kinds_are_listed_others_before_operators() {
        let errors = vec![
            operator("ClusterOperatorUpdating", "z", Effect::None),
            operator("ClusterOperatorDegraded", "y", Effect::Fail),
            UpdateError::new("X", "x is broken"),
        ];
        let all = aggregate(errors).unwrap();
        assert_eq!((all.reason.as_str(), all.effect), (MULTIPLE_ERRORS, None));
        let reasons: Vec<&str> = all.nested.iter().map(|e| e.reason.as_str()).collect();
        assert_eq!(reasons, ["X", "ClusterOperatorDegraded", "ClusterOperatorUpdating"]);
        assert!(all.message.ends_with(":\n* x is broken\n* y is not well\n* z is not well"), "{}", all.message);
    }
}
