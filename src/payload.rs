//! The release payload: decoding of YAML as Kubernetes does it, manifests and their identity, inclusion filters, image
//! references and the content hash. Works on bytes that the caller has read.

pub mod capability;
pub mod definition;
pub mod features;
pub mod filter;
pub mod hash;
pub mod load;
pub mod manifest;
pub mod metadata;
pub mod packed;
pub mod references;
pub mod select;
pub mod template;
pub mod typed;
pub mod yaml;

pub use capability::Capabilities;
pub use definition::DefinedKind;
pub use features::Features;
pub use filter::{ApplyFilter, DEFAULT_PROFILE, Filter, check_inclusion};
pub use load::{LoadError, LoadOptions, Payload, PayloadFiles, SourceFile, load};
pub use manifest::{Manifest, ObjectId, Origin};
pub use packed::Packed;
pub use select::Selection;

#[cfg(test)]
mod tests;
