//! Images as data: from where they may be read and with whose credentials, which image of an index is read, and what its layers
//! say of files.

pub(crate) mod cluster;
pub(crate) mod credentials;
pub(crate) mod mirrors;
pub(crate) mod overlay;
pub(crate) mod platform;
pub(crate) mod policy;
pub(crate) mod reference;
pub(crate) mod scope;
