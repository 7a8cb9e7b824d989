#![doc = include_str!("README.md")]

pub mod api;
pub mod error;

// The pure core.
pub mod gate;
pub mod graph;
pub mod merge;
pub mod payload;
pub mod plan;
pub mod rollout;
pub mod status;
pub mod updates;
pub mod verify;
pub mod version;

// The shell.
pub mod cli;
pub mod cluster;
pub mod daemon;
pub mod net;
pub mod serve;
pub mod work;

#[cfg(test)]
mod layers;
