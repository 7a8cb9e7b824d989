//! What is read of releases from disk and cluster.

pub(crate) mod features;
pub(crate) mod payload_dir;
