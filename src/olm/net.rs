//! Catalogs in folders, in images, on disk, and those that other servers have.

pub(crate) mod bundle;
pub(crate) mod folder;
pub(crate) mod pull;
#[cfg_attr(not(test), expect(dead_code, reason = "the loop over CatalogSources uses it"))]
pub(crate) mod registry_client;
pub(crate) mod store;
