//! Node configuration: what the nodes of a pool are to be like, which of them are changed next, and what a change of one
//! node consists of.

pub(crate) mod agent;
pub(crate) mod api;
pub(crate) mod approval;
pub mod changes;
pub(crate) mod cli;
pub(crate) mod daemon;
pub(crate) mod decide;
pub(crate) mod derived;
pub mod disruption;
pub(crate) mod drain;
pub(crate) mod estimate;
pub(crate) mod facts;
pub(crate) mod holds;
pub(crate) mod host;
pub mod ignition;
pub(crate) mod inputs;
pub(crate) mod membership;
pub(crate) mod metrics;
pub(crate) mod node;
pub(crate) mod node_status;
pub(crate) mod operator;
pub(crate) mod phase;
pub(crate) mod plan;
pub(crate) mod quorum;
pub mod reconcile;
pub mod render;
pub(crate) mod rollout;
pub(crate) mod settings;
pub(crate) mod status;
pub(crate) mod summary;
pub(crate) mod views;
pub(crate) mod windows;
pub(crate) mod work;
pub(crate) mod writes;
