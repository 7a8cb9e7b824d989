//! Update graph, recommended and conditional updates, choosing the target (cluster-version §4, §6).

pub mod choose;
pub mod graph;
pub mod validate;

pub use choose::{Choice, Target, choose, mode};
pub use validate::{FieldError, Gates, clear, validate};
