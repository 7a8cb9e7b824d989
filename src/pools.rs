//! Node configuration: what the nodes of a pool are to be like, which of them are changed next, and what a change of one
//! node consists of.

pub mod changes;
pub mod disruption;
pub mod ignition;
pub mod reconcile;
pub mod render;
