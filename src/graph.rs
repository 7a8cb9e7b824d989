//! Run levels and components as a graph, and the frontier of what may start (payload-and-apply §3).

pub mod build;
pub mod frontier;

use serde::{Deserialize, Serialize};

/// How a pass walks the graph (payload-and-apply §3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// No Completed entry in history: everything at once, Jobs are barriers.
    Install,
    /// Stages in sequence, components of a stage in parallel.
    Update,
    /// The wanted release is in place: everything at once.
    Reconcile,
}
