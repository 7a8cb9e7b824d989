//! Servers that the daemon uses and that are not part of a cluster: an update service with a signature store, a Prometheus,
//! and a proxy.

pub mod certificates;
pub mod monitoring;
pub mod proxy;
pub mod update_service;
