//! HTTP client, OCI registries, and signature stores.

pub(crate) mod http;
pub(crate) mod proxy;
pub(crate) mod registry;
pub(crate) mod signatures;
