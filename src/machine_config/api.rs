//! The objects of node configuration as serde types.

pub(crate) mod machine_config;
pub(crate) mod machine_config_node;
pub(crate) mod node_config;
