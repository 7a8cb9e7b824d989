//! HTTP client, connections through proxies, OCI registries, and signature stores.

pub(crate) mod http;
pub(crate) mod proxy;
pub(crate) mod registry;
pub(crate) mod signatures;
pub(crate) mod tunnel;
