//! What a person can do about what keeps an update from going on.

use crate::cluster_version::status::conditions::{
    CONTESTED, DROPPED_OBJECTS, FAILING, FIELDS_NOT_ACCEPTED, IMPLICIT_CAPABILITIES, INVALID, KINDS_NOT_WATCHED,
    RELEASE_ACCEPTED, RETRIEVED_UPDATES, UPGRADEABLE,
};
use crate::cluster_version::status::facts::LoadStep;
use crate::cluster_version::status::failure::Reason;
use crate::error::{CAUSE, listed};
use crate::machine_config::rollout::BlockedReason;
use crate::release::update_graph;

/// Conditions that mean the same for every reason.
pub(crate) const BY_TYPE: [(&str, &str); 7] = [
    (INVALID, "Correct the fields of spec that the message names: they are ignored until then"),
    (
        CONTESTED,
        "Stop the other client from changing the fields, or let the object be its own: an entry in spec.overrides with unmanaged",
    ),
    (
        DROPPED_OBJECTS,
        "Delete the objects, or annotate those that are to stay with release.openshift.io/keep: \"true\"",
    ),
    (
        KINDS_NOT_WATCHED,
        "Find out why the API server does not list these kinds: an APIService or a conversion webhook that fails; changes are noticed late until then",
    ),
    (
        FIELDS_NOT_ACCEPTED,
        "Find the webhook or the older definition that keeps the fields as they are; updates go on in spite of it",
    ),
    (
        UPGRADEABLE,
        "Do what the message names (cvo ack for an acknowledgement) before the next minor version; updates within the minor version are not affected",
    ),
    (
        IMPLICIT_CAPABILITIES,
        "Nothing has to be done; to have the capabilities on purpose, add them to spec.capabilities.additionalEnabledCapabilities",
    ),
];

/// What the API server says in an error, and what it means whatever the daemon was doing.
pub(crate) const BY_MESSAGE: [(&str, &str); 6] = [
    (
        "is forbidden: User \"system:serviceaccount:openshift-cluster-version:",
        "Give the daemon the right that the message names: apply the roles of the release again, or those that cvo rbac prints",
    ),
    (
        "is forbidden: User",
        "Give the account that the message names the right: unless it is the daemon's, it is that of an operator, whose roles belong to its own component",
    ),
    (
        "failed calling webhook",
        "Bring the pods behind the webhook back, or delete its configuration if they are gone for good: cvo doctor names those behind which nobody answers",
    ),
    (
        "denied the request",
        "Let the webhook or the policy that the message names accept the object: whoever runs it knows why it denies",
    ),
    ("exceeded quota", "Raise the quota that the message names, or free what it counts"),
    ("no space left on device", "Free the disk that the message names"),
];

/// For what is told in the words of the API server; `None` if they say nothing special.
pub(crate) fn of_message(message: &str) -> Option<&'static str> {
    BY_MESSAGE.iter().find(|(words, _)| message.contains(words)).map(|(_, step)| *step)
}

/// For a condition of the ClusterVersion that needs attention; `None` for one of somebody else.
pub(crate) fn of_condition(type_: &str, reason: &str) -> Option<&'static str> {
    match type_ {
        FAILING => Some(of_failure(reason)),
        RELEASE_ACCEPTED => LoadStep::ALL.iter().find(|step| step.reason() == reason).map(LoadStep::next_step),
        RETRIEVED_UPDATES => {
            let known = update_graph::Reason::ALL.iter().find(|known| known.to_string() == reason);
            known.map(update_graph::Reason::next_step)
        }
        _ => BY_TYPE.iter().find(|(known, _)| *known == type_).map(|(_, step)| *step),
    }
}

fn of_failure(reason: &str) -> &'static str {
    let known = Reason::ALL.iter().find(|known| known.as_str() == reason);
    known.map_or_else(|| Reason::Other(String::new()).next_step(), Reason::next_step)
}

/// For operators that are not well, one or several.
pub(crate) fn of_operators(names: &[&str]) -> String {
    let names = listed(names, " ", CAUSE, |n| format!("# and {n} more"));
    format!(
        "kubectl describe clusteroperator {names}; then look at the pods in the namespaces of its related objects: cvo status --details"
    )
}

/// A step that is about operators, as a command that can be pasted.
pub(crate) fn with_names(step: &str, operators: &[&str]) -> String {
    const ANY: &str = "kubectl describe clusteroperator NAME";
    if operators.is_empty() || !step.contains(ANY) {
        return step.to_owned();
    }
    let names = listed(operators, " ", CAUSE, |n| format!("# and {n} more"));
    step.replace(ANY, &format!("kubectl describe clusteroperator {names}"))
}

/// A step that is about the image of a release, which the message of the condition names.
pub(crate) fn with_image(step: &str, message: &str) -> String {
    let image = message.split_once("image=\"").and_then(|(_, rest)| rest.split_once('"')).map(|(image, _)| image);
    image.filter(|image| !image.is_empty()).map_or_else(|| step.to_owned(), |image| step.replace("IMAGE", image))
}

/// For the condition `RolloutBlocked` of a pool.
pub(crate) fn of_pool(reason: &str) -> Option<&'static str> {
    BlockedReason::ALL.iter().find(|known| known.to_string() == reason).map(BlockedReason::next_step)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sentence that says what to do, and is read in one breath.
    fn is_step(step: &str) -> bool {
        step.len() > 20 && step.len() < 330 && !step.ends_with('.') && step.starts_with(char::is_uppercase)
    }

    #[test]
    fn every_reason_that_the_daemon_sets_has_a_next_step() {
        for reason in Reason::ALL {
            assert!(is_step(of_condition(FAILING, reason.as_str()).unwrap()), "{reason}");
            assert_eq!(of_condition(FAILING, reason.as_str()), Some(reason.next_step()));
        }
        for step in LoadStep::ALL {
            assert!(is_step(of_condition(RELEASE_ACCEPTED, step.reason()).unwrap()), "{step:?}");
        }
        for reason in update_graph::Reason::ALL {
            assert!(is_step(of_condition(RETRIEVED_UPDATES, &reason.to_string()).unwrap()), "{reason}");
        }
        for reason in BlockedReason::ALL {
            assert!(is_step(of_pool(&reason.to_string()).unwrap()), "{reason}");
        }
        for (words, step) in BY_MESSAGE {
            assert!(is_step(step) && of_message(&format!("cannot: {words} x")) == Some(step), "{words}");
        }
        for (type_, step) in BY_TYPE {
            assert!(is_step(step) && of_condition(type_, "Anything") == Some(step), "{type_}");
        }
        assert_eq!(Reason::ALL.len(), 29);
        let (step, message) =
            (LoadStep::RetrievePayload.next_step(), "version=\"1\" image=\"r/a@sha256:ab\": not signed");
        assert!(with_image(step, message).contains("cvo verify --from cluster r/a@sha256:ab says"));
        assert_eq!(with_image(step, "not signed"), step);
        assert_eq!((LoadStep::ALL.len(), update_graph::Reason::ALL.len(), BlockedReason::ALL.len()), (5, 13, 12));
    }

    #[test]
    fn reason_of_somebody_else_has_a_general_one_or_none() {
        assert_eq!(of_condition(FAILING, "QuotaExceeded"), Some(Reason::Other(String::new()).next_step()));
        assert_eq!(of_condition("SomethingElse", "X"), None);
        assert_eq!(of_pool("X"), None);
    }
}
