//! ClusterVersion.status as a function of (previous status, facts, now) (cluster-version §2, §3).

pub mod facts;
pub mod failure;

pub use facts::Facts;
