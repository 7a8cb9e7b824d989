//! Which release to update to: the answer of the update service, validation of the spec, and the choice of the target.

pub mod choose;
pub mod graph;
pub mod validate;

pub use choose::{Target, choose, mode};
pub use validate::{FeatureGates, FieldError, clear, validate};
