//! The simulator: a cluster whose nodes, workload controllers and operators are simulated, so that a whole release can
//! be installed and updated on an API server alone. The tests and the bench use it alike; the demo runs real pods.
//!
//! `cluster` is what tests start: the API server, the simulation and the daemon. `simulation` reports the status of
//! operators and workloads as watch events come in, `daemon` runs the daemon as the process of a pod, `releases` reads
//! what a release expects of its operators, and `sample` lays out small releases.

pub mod cluster;
pub mod daemon;
pub mod history;
mod objects;
pub mod releases;
pub mod requests;
pub mod sample;
pub mod simulation;
pub mod status;
mod waits;
mod watches;
