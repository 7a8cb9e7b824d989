//! Commands that concern the update of the cluster.

pub(crate) mod ack;
pub(crate) mod graph;
pub(crate) mod payload;
pub(crate) mod preflight;
pub(crate) mod rbac;
pub(crate) mod render;
pub(crate) mod request;
pub(crate) mod start;
pub(crate) mod verify;
