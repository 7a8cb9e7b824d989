//! The controllers of operators.

pub(crate) mod bundles;
pub(crate) mod catalogs;
pub(crate) mod certificate;
pub(crate) mod follow;
pub(crate) mod operators;
pub(crate) mod packages;
mod part;
pub(crate) mod plans;
mod reviews;
mod scoped;
pub(crate) mod subscriptions;
mod version;
