//! Which release to update to: the answer of the update service, validation of the spec, and the choice of the target.

pub(crate) mod advice;
pub(crate) mod arrival;
pub(crate) mod choose;
pub(crate) mod desired_update;
pub(crate) mod evaluations;
pub(crate) mod preconditions;
pub(crate) mod risks;
pub(crate) mod timeline;
pub(crate) mod upgradeable;
pub(crate) mod validate;

pub(crate) use choose::{Target, choose, mode};
pub(crate) use validate::{FeatureGates, clear, validate};
