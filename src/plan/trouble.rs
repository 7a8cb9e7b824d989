//! What is wrong in a cluster.

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
