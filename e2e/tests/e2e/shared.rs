//! What all products stand on: test clusters, merging, who may read metrics, and clusters of the version before.

mod clusters;
mod merge;
mod metrics_access;
mod version_before;
