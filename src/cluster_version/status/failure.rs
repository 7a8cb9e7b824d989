//! What went wrong: the reason that conditions show, how it counts during an update, and how several failures become one.

use crate::error::{CAUSE, listed, shortened};
use crate::object::manifest::ObjectId;
use std::collections::BTreeMap;
use std::fmt;

/// Most bytes of the message of one condition.
pub(crate) const MESSAGE: usize = 4096;

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

crate::error::causes! {
    /// Why something failed. Administrators and tools read the text in conditions, so it never changes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub(crate) enum Reason {
        /// Several errors that have nothing in common; they are in `nested`.
        MultipleErrors => "Look at each of the causes that the message lists; often one of them is the reason of the others",
        ResourceNotFound => "See which manifest of the release makes what is missing (cvo payload list), and whether somebody has deleted it: it is restored as soon as its own component is applied",
        ResourceConflict => "Nothing, unless it stays: then another client writes the object without pause; metadata.managedFields names it",
        ResourceForbidden => "Give the daemon the right that the message names: cvo rbac derives the roles that a release needs",
        ResourceInvalid => "The API server, or a webhook, refuses what the release contains: see the object with cvo plan, and ask for a corrected release; a webhook that is at fault can be found with kubectl get validatingwebhookconfigurations,mutatingwebhookconfigurations",
        /// The API server does not serve the kind (yet). No HTTP status says this; discovery does.
        ResourceTypeMissing => "Find out why the kind is not served: kubectl get crd, kubectl get apiservices; if nothing in the release defines it, ask for a corrected release",
        ClusterDown => "Look at the API server: kubectl get --raw /readyz?verbose; the daemon goes on by itself",
        ClusterError => "Look at the log of the API server, and at webhooks that fail; the daemon goes on by itself",
        ClusterOverloaded => "Find out what keeps the API server busy (its metrics apiserver_flowcontrol_…); the daemon goes on by itself",
        ClusterUnauthorized => "Check the ServiceAccount of the daemon and its token: the API server does not know who it is",
        /// The contents of the release are wrong.
        Integrity => "Request another release: the contents of this one are wrong, and no retry makes them right",
        /// Anything that fits nothing else.
        Failed => "Read the message, and the log of the daemon for all of it",
        OperatorNotAvailable => "Look at the operator: kubectl describe clusteroperator NAME, then at the pods of its namespaces and their logs",
        OperatorsNotAvailable => "Look at the first of these operators: kubectl describe clusteroperator NAME, then at the pods of its namespaces and their logs",
        OperatorDegraded => "Look at the operator: kubectl describe clusteroperator NAME; its message says what it cannot do",
        OperatorsDegraded => "Look at the first of these operators: kubectl describe clusteroperator NAME; its message says what it cannot do",
        OperatorUpdating => "Wait: the operator is at work; if it takes much longer than usual, look at its Deployment and its log",
        OperatorsUpdating => "Wait: the operators are at work; if they take much longer than usual, look at their Deployments and logs",
        OperatorNoVersions => "The manifest of the ClusterOperator names no versions, so that nothing tells when it is done: ask for a corrected release",
        WorkloadNotAvailable => "Look at its pods: kubectl describe, and the logs of those that do not run",
        WorkloadNotProgressing => "Look at its pods and the events of its ReplicaSet: an image that cannot be pulled, a quota, no node with room",
        WorkloadUpdating => "Wait: its pods are being replaced; kubectl rollout status shows how far it is",
        WorkloadsUpdating => "Wait: their pods are being replaced; kubectl rollout status shows how far each is",
        DefinitionNotEstablished => "Look at its conditions: kubectl describe crd NAME; a name that is taken by another definition has to be freed",
        DefinitionsNotEstablished => "Look at the conditions of each: kubectl describe crd NAME; a name that is taken by another definition has to be freed",
        NodesUpdating => "Wait: the nodes are being drained and updated, and the pods come back; if they do not, look at kubectl get nodes and at the MachineConfigPool",
        HandOverTimedOut => "Look at the pods of the daemon's Deployment: the one of the new release does not become the leader",
        NoSuccessor => "Remove the override in spec.overrides that makes the Deployment of the daemon unmanaged; a release without that Deployment has to be corrected",
        /// A live object lacks the condition that is asked for.
        NoCondition => "The object does not report how it is: look at the operator that should",
        ;
        /// The reason that a live object's condition gives.
        Other(String) => "Look at the object that the message names: the reason is its own",
    }
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
            Reason::NodesUpdating => "NodesUpdating",
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
            Reason::WorkloadUpdating => (Reason::WorkloadsUpdating, "{names} are rolling out"),
            Reason::DefinitionNotEstablished => (Reason::DefinitionsNotEstablished, "{names} are not served yet"),
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
    /// The operators or workloads concerned; what is waited for as by [`UpdateError::name_of`].
    pub names: Vec<String>,
    /// The errors that this one sums up, or its causes.
    pub nested: Vec<UpdateError>,
}

impl UpdateError {
    /// An error that is a failure at once. Of a long message beginning and end are kept.
    pub(crate) fn new(reason: Reason, message: impl AsRef<str>) -> Self {
        let message = shortened(message.as_ref(), CAUSE).into_owned();
        UpdateError { reason, message, effect: Effect::Fail, names: Vec::new(), nested: Vec::new() }
    }

    /// How an object that is waited for is named: a ClusterOperator by its name, everything else with its kind, so that the time
    /// for which one was waited is not taken for that of another.
    pub(crate) fn name_of(id: &ObjectId) -> String {
        let operator = (id.group.as_str(), id.kind.as_str()) == ("config.openshift.io", "ClusterOperator");
        if operator { id.name.clone() } else { id.to_string() }
    }

    /// The message with the causes: what a ClusterOperator says of itself, by its name if it is one of several.
    pub(crate) fn whole(&self) -> String {
        if self.reason == Reason::MultipleErrors {
            return self.message.clone();
        }
        let name = |cause: &UpdateError| match cause.names.as_slice() {
            [name] if self.names.len() > 1 => format!("{name}: "),
            _ => String::new(),
        };
        let causes = self.nested.iter().map(|cause| name(cause) + &cause.cause());
        let causes: Vec<String> = causes.filter(|text| !text.is_empty()).collect();
        if causes.is_empty() {
            return self.message.clone();
        }
        let room = MESSAGE.saturating_sub(self.message.len() + 2);
        format!("{}: {}", self.message, listed(&causes, "; ", room, |n| format!("and {n} more")))
    }

    /// `reason: message` of a cause; of one that has causes itself, those.
    fn cause(&self) -> String {
        if let [cause] = self.nested.as_slice() {
            return cause.cause();
        }
        match (self.reason.as_str(), self.message.as_str()) {
            (_, message) if self.reason == Reason::NoCondition => message.to_owned(),
            ("", message) => message.to_owned(),
            (reason, "") => reason.to_owned(),
            (reason, message) => format!("{reason}: {message}"),
        }
    }

    /// Several errors as one, with a bullet for each distinct message that there is room for.
    pub(super) fn multiple(children: Vec<UpdateError>) -> Self {
        let mut messages: Vec<String> = children.iter().map(UpdateError::whole).collect();
        messages.sort_unstable();
        messages.dedup();
        const LEAD: &str = "Several errors prevent the release from being applied:\n* ";
        let rest = |n| format!("and {n} more; `cvo status` and the log of the daemon have all of them");
        let message = LEAD.to_owned() + &listed(&messages, "\n* ", MESSAGE - LEAD.len(), rest);
        UpdateError { message, nested: children, ..UpdateError::new(Reason::MultipleErrors, "") }
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
        message: pattern.replace("{names}", &listed(&names, ", ", CAUSE - pattern.len(), |n| format!("and {n} more"))),
        effect: group.iter().map(|e| e.effect).max()?,
        names,
        nested: group,
    })
}

#[cfg(test)]
mod tests;
