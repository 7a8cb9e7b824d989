//! Everything that talks to the API server: clients, the kinds it serves, reads and writes, the object index, the lease.

pub mod access;
pub mod backoff;
pub mod client;
pub mod error;
pub mod feed;
pub mod index;
pub mod kinds;
pub mod lease;
pub mod list;
pub mod objects;
pub mod partial_object;
pub mod revision;

pub use backoff::{WatchBackoff, jittered, with_jitter};
pub use client::{ClientError, Clients};
pub use error::{ApiError, Cause};
pub use index::{CachedState, Index};
pub use kinds::{Kind, Kinds};
pub use objects::Objects;
