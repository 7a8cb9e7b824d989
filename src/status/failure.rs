//! What went wrong, in the words of the contract: reason, effect, names (payload-and-apply §4.8, §4.9).

use serde::{Deserialize, Serialize};

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
}
