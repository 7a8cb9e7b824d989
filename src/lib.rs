//! The cluster version orchestrator: carries a Kubernetes cluster from one release to the next.
//!
//! The crate has two halves. The **pure core** says what an update *means*: functions of their arguments, without a
//! runtime, a client, a file, an environment variable or a clock. The **shell** talks to the cluster, the network and
//! the disk, and decides as little as it can. Dependencies between the modules go down only:
//!
//! ```text
//! main -> cli -> daemon -> work -> { cluster, net, serve }
//!                          work -> core
//! ```
//!
//! `api` may be used by all. The tests in `layers` read the sources and fail on a dependency that goes up, on IO in the
//! core and on a cycle of files.

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
