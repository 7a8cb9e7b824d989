//! HTTP with proxy and CA, OCI registry, signature stores.

pub mod registry;
