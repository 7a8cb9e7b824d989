//! A release on disk: YAML as Kubernetes reads it, manifests, identity, filters, image references, hash
//! (payload-and-apply §1, §2). Works on bytes that the shell has read; touches no file itself.

pub mod filter;
pub mod hash;
pub mod load;
pub mod manifest;
pub mod metadata;
pub mod references;
pub mod template;
pub mod yaml;

pub use load::{LoadError, LoadOptions, Payload, PayloadFiles, SourceFile};
pub use manifest::{Manifest, ObjectId, Origin};
