//! PackageManifests: what the packages of catalogs look like to kubectl and consoles. Nothing here is stored: each is made from
//! the index of a catalog when somebody asks for it, and what is only passed through is not decoded.
//!
//! `request` is what is asked for, `query` its selectors and page, `view` what a package has to give, `from_catalog` where that is
//! read, `head` what is read of the versions at the heads of its channels, `manifest` the object with its `metadata`, `list` which
//! packages a namespace sees and in which order, `form` how they are written, `table` rows for people, `icon` the picture. `status`
//! is the answer where there is none, `discovery` and `openapi` tell clients what there is.
//!
//! `csvs` are ClusterServiceVersions, which the API has besides where their copies are not written.

pub(crate) mod csvs;
pub(crate) mod discovery;
pub(crate) mod form;
pub(crate) mod from_catalog;
pub(crate) mod icon;
pub(crate) mod list;
pub(crate) mod manifest;
pub(crate) mod metadata;
pub(crate) mod openapi;
pub(crate) mod query;
pub(crate) mod request;
pub(crate) mod status;
pub(crate) mod view;

mod head;
mod table;

/// Group and version of the API.
pub(crate) const API_VERSION: &str = "packages.operators.coreos.com/v1";
pub(crate) const KIND: &str = "PackageManifest";

#[cfg(test)]
pub(crate) mod tests;
