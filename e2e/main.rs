//! End-to-end tests: each starts the cluster it needs. See `harness`.

mod harness;

/// One file a theme, in e2e/main/.
mod main {
    mod clusters;
}
