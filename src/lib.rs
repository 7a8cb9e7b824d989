#![doc = include_str!("README.md")]

mod api;
mod error;
mod read;

// The pure core.
mod diagnosis;
mod gate;
mod graph;
mod merge;
mod metrics;
mod pause;
mod payload;
mod plan;
mod pools;
mod promql;
mod rbac;
mod rollout;
mod status;
mod updates;
mod verify;
mod version;

// The shell.
mod cli;
mod cluster;
mod daemon;
mod heap;
mod host;
mod net;
mod serve;
mod work;

pub mod testing;

pub use cli::run;

#[cfg(test)]
mod layers;
