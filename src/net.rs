//! HTTP client, OCI registries, and signature stores.

pub mod http;
pub mod registry;
pub mod signatures;
