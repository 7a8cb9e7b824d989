//! What all products stand on: test clusters, merging, and who may read metrics.

mod clusters;
mod merge;
mod metrics_access;
