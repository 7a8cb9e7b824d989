//! The API by which other programs read catalogs (gRPC service `api.Registry`): its messages, and what each method answers. What
//! is sent is made from the index when somebody asks for it, a part at a time.
//!
//! `messages` are those of the wire, `descriptors` describe them to clients, `query` says what each method answers, `bundle` what
//! is told of a bundle, `csv` makes a ClusterServiceVersion of what a catalog says for people, `authority` tells which catalog a
//! client means that names it, and `blobs` makes a file-based catalog of what another server tells.

pub(crate) mod authority;
pub(crate) mod blobs;
pub(crate) mod descriptors;
pub(crate) mod messages;
pub(crate) mod query;

mod bundle;
mod csv;

/// The package of the services and messages.
pub(crate) const PACKAGE: &str = "api";
/// A header without which the experimental service answers nothing.
pub(crate) const ACKNOWLEDGE: &str = "x-acknowledge-experimental";

#[cfg(test)]
pub(crate) mod tests;
