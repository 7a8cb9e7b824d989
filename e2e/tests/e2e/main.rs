//! End-to-end tests: a folder for each product, in it a file for each theme. Each starts the cluster it needs (see `e2e::harness`) and
//! says what it skips when the machine lacks something. Products do not use each other's tests: what several need is in the
//! library `e2e`.

// Allowed in the tests themselves by clippy.toml; these are the functions that they share.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod cluster_version;
mod machine_config;
mod olm;
mod release;
mod shared;
mod tools;
