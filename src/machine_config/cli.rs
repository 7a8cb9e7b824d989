//! Commands that concern the configuration of nodes.

pub(crate) mod machine_config;
pub(crate) mod node;
pub(crate) mod node_agent;
