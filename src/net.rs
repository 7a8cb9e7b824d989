//! HTTP client, OCI registries, and signature stores.

pub(crate) mod http;
pub(crate) mod registry;
pub(crate) mod signatures;
