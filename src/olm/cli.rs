//! Commands that concern operators.

pub(crate) mod bundle;
pub(crate) mod catalog;
pub(crate) mod catalogs;
pub(crate) mod cluster_output;
pub(crate) mod input;
pub(crate) mod list;
mod objects;
pub(crate) mod olm;
pub(crate) mod packages;
pub(crate) mod plan;
pub(crate) mod requests;
pub(crate) mod status;
