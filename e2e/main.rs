//! End-to-end tests: each starts the cluster it needs. See `harness`.

// Everything in this crate is test code; clippy only knows functions marked #[test] as such.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod harness;
mod real_payload;

/// One file a theme, in e2e/main/.
mod main {
    mod clusters;
    mod real_payload;
}
