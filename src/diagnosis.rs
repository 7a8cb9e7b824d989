//! What is wrong in a cluster.

pub(crate) mod admission;
pub(crate) mod lease;
pub(crate) mod parts;
pub(crate) mod pods;
pub(crate) mod refusals;

use serde::{Deserialize, Serialize};

/// A cause of trouble, with the way out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Trouble {
    /// Such as `node n1`.
    pub object: String,
    pub message: String,
    pub next_step: String,
}

pub(crate) fn trouble(object: String, message: impl Into<String>, next_step: impl Into<String>) -> Trouble {
    Trouble { object, message: message.into(), next_step: next_step.into() }
}
