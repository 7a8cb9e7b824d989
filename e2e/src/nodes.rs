//! Node configuration: without a cluster, the decisions of controller, drain and agents against a model of nodes, with a
//! virtual clock and everything that may go wrong; and on a real API server, the controller with many simulated nodes.

pub mod agents;
pub mod cluster;
pub mod controller;
pub mod fleet;
pub mod machine;
pub mod objects;
pub mod prospects;
pub mod simulation;
pub mod tally;
