//! The controllers of operators.

pub(crate) mod catalogs;
pub(crate) mod certificate;
mod definition;
pub(crate) mod operators;
pub(crate) mod packages;
pub(crate) mod plans;
pub(crate) mod subscriptions;
mod version;
