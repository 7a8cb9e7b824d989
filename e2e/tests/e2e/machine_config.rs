//! The configuration of nodes: pools, the controller, and the agents.

mod configured_node;
mod control_plane;
mod drains;
mod gates;
mod kubelet_config;
mod node_agent;
mod node_plan;
mod pools;
