//! Test clusters and what runs on them: shared by the end-to-end tests, the micro benchmarks and the program `lab`.

// kube's Client has no Debug.
#![allow(missing_debug_implementations)]

// What asserts for a test, or makes its inputs, ends the test when something is missing.
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
pub mod administrator;
#[allow(clippy::indexing_slicing)]
pub mod browser;
pub mod catalogs;
pub mod chaos;
pub mod conditions;
#[allow(clippy::string_slice, clippy::indexing_slicing)]
pub mod docs;
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
pub mod faults;
pub mod harness;
#[allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
pub mod manifests;
pub mod nodes;
#[allow(clippy::unwrap_used)]
pub mod objects;
pub mod olm;
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub mod operator_simulation;
pub mod operators;
pub mod platform;
#[allow(clippy::unwrap_used)]
pub mod processes;
pub mod products;
#[allow(clippy::unwrap_used, clippy::indexing_slicing)]
pub mod random;
pub mod real_payload;
#[allow(clippy::indexing_slicing)]
pub mod services;
pub mod signing;
pub mod simulator;
pub mod until;
pub mod workspace;

/// The examples of the README are compiled.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
