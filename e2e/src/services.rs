//! Servers that are not part of a cluster. The daemon uses an update service with a signature store, a Prometheus and a proxy, and the
//! API server webhooks.

pub mod backend;
pub mod certificates;
pub mod monitoring;
pub mod proxy;
pub mod update_service;
pub mod webhook;
