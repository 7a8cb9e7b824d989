//! Node configuration without a cluster: the decisions of controller, drain and agents against a model of nodes, with a
//! virtual clock and everything that may go wrong.

pub mod machine;
pub mod simulation;
