//! End-to-end tests: each starts the cluster it needs (see `harness`) and says what it skips when the machine lacks
//! something.

#[cfg(test)]
mod fire;
mod harness;
#[cfg(test)]
mod manifests;
mod platform;
mod real_payload;
#[cfg(test)]
mod theatre;

/// One file a theme.
#[cfg(test)]
mod scenarios {
    mod clusters;
    mod faults;
    mod fire;
    mod merge;
    mod plan;
    mod real_payload;
    mod updates;
}
