//! End-to-end tests: each starts the cluster it needs (see `harness`) and says what it skips when the machine lacks
//! something.

// Everything in this crate is test code; clippy only knows functions marked #[test] as such.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]

mod harness;

/// One file a theme.
#[cfg(test)]
mod scenarios {
    mod clusters;
}
