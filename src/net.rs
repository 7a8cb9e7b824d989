//! HTTP with proxy and CA, OCI registry, signature stores.

pub mod http;
pub mod registry;
pub mod signatures;
