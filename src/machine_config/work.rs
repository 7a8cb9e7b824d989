//! The controller of node configuration, and the agent of a node.

pub(crate) mod agent;
pub(crate) mod controller;
pub(crate) mod pods;
