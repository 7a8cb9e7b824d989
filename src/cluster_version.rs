//! The update of the cluster: what a ClusterVersion asks for, which release is applied and how, and what is said of it.

pub(crate) mod api;
pub(crate) mod cli;
pub(crate) mod daemon;
pub(crate) mod forecast;
pub(crate) mod graph;
pub(crate) mod health;
pub(crate) mod metrics;
pub(crate) mod progress;
pub(crate) mod rbac;
pub(crate) mod rollout;
pub(crate) mod status;
pub(crate) mod updates;
pub(crate) mod work;
