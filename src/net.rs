//! HTTP with proxy and CA, OCI registry, signature stores.
