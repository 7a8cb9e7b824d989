//! Everything that talks to the API server: clients, the kinds it serves, reads and writes, the object index, the lease.

pub mod access;
pub mod backoff;
pub mod client;
pub mod feed;
pub mod index;
pub mod kinds;
pub mod lease;
pub mod list;
pub mod objects;
pub mod partial_object;

pub use backoff::WatchBackoff;
pub use client::{ClientError, Clients};
pub use index::{CachedState, Index};
pub use kinds::{Kind, Kinds};
pub use objects::{ApiError, Objects};

use std::time::Duration;

/// `base` doubled for each failure after the first, at most `cap`, plus up to a quarter of jitter.
pub fn jittered(base: Duration, failures: u32, cap: Duration) -> Duration {
    with_jitter(crate::rollout::doubled(base, failures, cap))
}

/// `pause` plus up to a quarter of it, so that not all clients come back at one moment.
pub fn with_jitter(pause: Duration) -> Duration {
    // A random UUID is the randomness already in the tree.
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    let share = (random % 1000) as f64 / 4000.0;
    pause.mul_f64(1.0 + share)
}

/// Somewhere in the last nine tenths of `period`, evenly: what begins together does not end together.
pub fn spread(period: Duration) -> Duration {
    let (random, _) = uuid::Uuid::new_v4().as_u64_pair();
    period.mul_f64(0.1 + (random % 1000) as f64 / 1111.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// §10.19: the sequence. Each node and each object counts failures of its own.
    #[test]
    fn a_pause_doubles_up_to_its_cap_with_a_quarter_of_jitter() {
        let (base, cap) = (Duration::from_millis(500), Duration::from_secs(30));
        for (failures, seconds) in
            [(0, 0.5), (1, 0.5), (2, 1.0), (3, 2.0), (6, 16.0), (7, 30.0), (8, 30.0), (u32::MAX, 30.0)]
        {
            let drawn: Vec<f64> = (0..200).map(|_| jittered(base, failures, cap).as_secs_f64()).collect();
            assert!(drawn.iter().all(|pause| (seconds..seconds * 1.25).contains(pause)), "{failures}: {drawn:?}");
            let first = drawn[0];
            assert!(drawn.iter().any(|pause| *pause != first), "not all clients come back at one moment");
        }
    }
}
