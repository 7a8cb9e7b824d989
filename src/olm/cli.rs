//! Commands that concern operators.

pub(crate) mod bundle;
pub(crate) mod catalog;
pub(crate) mod start;
