//! Catalogs in folders, in images, on disk, and those that other servers have.

pub(crate) mod bundle;
pub(crate) mod folder;
pub(crate) mod pull;
pub(crate) mod registry_client;
pub(crate) mod server;
pub(crate) mod store;
