//! The release payload: decoding of YAML as Kubernetes does it, manifests and their identity, inclusion filters, image
//! references and the content hash. Works on bytes that the caller has read.

pub(crate) mod api;
pub(crate) mod capability;
pub(crate) mod features;
pub(crate) mod filter;
pub(crate) mod hash;
pub(crate) mod lint;
pub(crate) mod load;
pub(crate) mod metadata;
pub(crate) mod references;
pub(crate) mod select;
pub(crate) mod template;
pub(crate) mod typed;
pub(crate) mod update_graph;
pub(crate) mod work;

pub(crate) use capability::Capabilities;
pub(crate) use features::Features;
pub(crate) use filter::{ApplyFilter, Filter, check_inclusion};
pub(crate) use load::{LoadError, LoadOptions, Payload, PayloadFiles, SourceFile, load};
pub(crate) use select::Selection;

#[cfg(test)]
mod tests;
