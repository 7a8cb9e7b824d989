#![doc = include_str!("README.md")]

// What is shared knows Kubernetes objects and no product: first its pure core, then its shell.
mod diagnosis;
mod diff;
mod error;
mod gate;
mod images;
mod merge;
mod metrics;
mod object;
mod pause;
mod promql;
mod verify;
mod version;

mod cluster;
mod heap;
mod net;
mod process;
mod serve;

// Releases, and the products.
mod cluster_version;
mod machine_config;
mod olm;
mod release;

mod cli;
pub mod testing;

pub use cli::run;

#[cfg(test)]
mod layers;
